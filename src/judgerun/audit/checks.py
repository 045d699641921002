"""The list of all checks, with what each proves; and `audit`, which runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from judgerun.audit import (
    agreement,
    canaries,
    certificate,
    completion,
    copies,
    difference,
    downstream,
    endings,
    gates,
    judges,
    ladder,
    ledger,
    lengths,
    parity,
    position,
    registered,
    sources,
    spend,
    split,
    statements,
    tokens,
)
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Audit, Finding, Table
from judgerun.audit.tally import completions, sliced
from judgerun.audit.waivers import waive


@dataclass(frozen=True, slots=True)
class Check:
    """One function from Evidence to Findings. `emits` are the names under which its findings stand (and are waived)."""

    run: Callable[[Evidence], Iterator[Finding]]
    emits: tuple[str, ...]

    @property
    def proves(self) -> str:
        """What the check is for: the docstring of its function."""
        return " ".join((self.run.__doc__ or "").split())


CHECKS: tuple[Check, ...] = (
    Check(completion.check_limits, ("truncated", "empty", "unparsed", "refused", "length")),
    Check(completion.check_failed, ("failed", "starved")),
    Check(completion.check_pending, ("pending",)),
    Check(completion.check_planned, ("nothing asked",)),
    Check(completion.check_finish, ("finish",)),
    Check(difference.check_differences, ("difference",)),
    Check(difference.check_registered, ("unequal",)),
    Check(split.check_order, ("split",)),
    Check(lengths.check_pileup, ("pile-up",)),
    Check(lengths.check_texts, ("cut text",)),
    Check(lengths.check_recounts, ("recount",)),
    Check(completion.check_inputs, ("input cut",)),
    Check(completion.check_answers, ("answer",)),
    Check(registered.check_registered, ("registered", "post hoc")),
    Check(registered.check_excluded, ("excluded",)),
    Check(gates.check_gates, ("gate", "reopened")),
    Check(certificate.check_certificate, ("certificate",)),
    Check(ladder.check_escalated, ("escalated",)),
    Check(ladder.check_unfinished, ("unfinished",)),
    Check(ladder.check_diverted, ("diverted",)),
    Check(sources.check_served, ("served", "fingerprint")),
    Check(parity.check_parity, tuple(f"parity {name}" for name in parity.FIELDS)),
    Check(downstream.check_empty, ("empty handed on",)),
    Check(downstream.check_truncated, ("truncated handed on",)),
    Check(downstream.check_accepted, ("empty marked correct",)),
    Check(canaries.check_canaries, ("canary",)),
    Check(canaries.check_untold, ("canary untold",)),
    Check(agreement.check_agreement, ("agreement",)),
    Check(position.check_position, ("position",)),
    Check(judges.check_length, ("length bias",)),
    Check(judges.check_longer, ("longer wins",)),
    Check(judges.check_family, ("self-preference",)),
    Check(judges.check_repeats, ("repeats",)),
    Check(judges.check_constant, ("constant",)),
    Check(copies.check_duplicates, ("near-duplicates",)),
    Check(copies.check_echo, ("echo",)),
    Check(sources.check_shared, ("shared",)),
    Check(sources.check_fallbacks, ("fallback",)),
    Check(sources.check_folds, ("incomplete",)),
    Check(sources.check_made, ("unmade",)),
    Check(ledger.check_amended, ("amended",)),
    Check(ledger.check_closings, ("closings",)),
    Check(ledger.check_account, ("account",)),
    Check(ledger.check_attempts, ("attempts",)),
    Check(ledger.check_replies, ("replies", "duplicates", "shares")),
    Check(ledger.check_overruns, ("overrun",)),
    Check(ledger.check_doubles, ("bought twice",)),
    Check(ledger.check_forfeits, ("forfeits",)),
    Check(ledger.check_prices, ("free tokens", "price", "reported cost")),
    Check(statements.check_statements, ("statement",)),
    Check(spend.check_waste, ("spend on truncated",)),
    Check(spend.check_estimates, ("estimate",)),
    Check(spend.check_gaps, ("gaps",)),
    Check(tokens.check_usage, ("usage", "usage unknown", "cost without tokens")),
    Check(tokens.check_thinking, ("thinking",)),
    Check(tokens.check_bounds, ("input bound", "bound tightness")),
)
"""Every check; none reads another's findings, so their order means nothing."""


TABLES: tuple[Callable[[Evidence], Iterator[Table]], ...] = (
    endings.tables,
    difference.differences,
    split.tables,
    lengths.tables,
    parity.tables,
    downstream.tables,
    canaries.tables,
    agreement.tables,
    position.tables,
    judges.tables,
    spend.tables,
    statements.tables,
    registered.tables,
)
"""What is laid open beside the findings, in the order in which it is printed."""


def audit(evidence: Evidence) -> Audit:
    """All findings of all checks, waived where a waiver covers them, in one fixed order. The same evidence, in whatever order
    its rows come, gives the same Audit.
    """
    found = (finding for check in CHECKS for finding in check.run(evidence))
    return Audit(
        experiment=evidence.experiment.name,
        findings=waive(found, evidence.waivers, experiment=evidence.experiment.name, today=evidence.today),
        conditions=completions(evidence),
        slices=sliced(evidence),
        tables=tuple(table for tables in TABLES for table in tables(evidence)),
        seal=evidence.seal,
    )
