"""The list of all checks of foreign runs, with what each proves; and `audit`, which runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from judgerun.audit.finding import Audit, Completion, Finding, Table
from judgerun.audit.foreign import answers, boards, copies, money, strays, verdicts
from judgerun.audit.waivers import waive
from judgerun.model.foreign import Run
from judgerun.model.waiver import Waiver


@dataclass(frozen=True, slots=True)
class Check:
    """One function from a Run to Findings. `emits` are the names under which its findings stand (and are waived)."""

    run: Callable[[Run], Iterator[Finding]]
    emits: tuple[str, ...]

    @property
    def proves(self) -> str:
        """What the check is for: the docstring of its function."""
        return " ".join((self.run.__doc__ or "").split())


CHECKS: tuple[Check, ...] = (
    Check(answers.check_cut, ("truncated",)),
    Check(answers.check_handed, ("empty handed on",)),
    Check(answers.check_accepted, ("empty marked correct",)),
    Check(answers.check_unparsed, ("unparsed",)),
    Check(copies.check_copies, ("counted twice",)),
    Check(money.check_twice, ("paid twice",)),
    Check(money.check_lost, ("lost rows",)),
    Check(strays.check_strays, ("stray",)),
    Check(money.check_estimates, ("estimate",)),
    Check(money.check_booked, ("booked twice",)),
    Check(money.check_totals, ("totals",)),
    Check(money.check_waste, ("spend on truncated",)),
    Check(boards.check_identical, ("identical scores",)),
    Check(verdicts.check_rates, ("rates",)),
    Check(verdicts.check_threshold, ("at the threshold", "undecided")),
    Check(verdicts.check_errors, ("errors as verdicts",)),
    Check(verdicts.check_crossed, ("judges differ",)),
    Check(verdicts.check_fallbacks, ("fallback", "fallbacks lost")),
)
TABLES: tuple[Callable[[Run], Iterator[Table]], ...] = (answers.tables, money.tables, boards.tables, verdicts.tables)


def audit(run: Run, waivers: Sequence[Waiver] = (), *, today: date | None = None) -> Audit:
    """All findings of all checks on a run, waived where a waiver covers them; an Audit like that of an experiment."""
    found = (finding for check in CHECKS for finding in check.run(run))
    return Audit(
        experiment=run.name,
        findings=waive(found, waivers, experiment=run.name, today=today),
        conditions=tuple(_completions(run)),
        tables=tuple(table for tables in TABLES for table in tables(run)),
    )


def _completions(run: Run) -> Iterator[Completion]:
    """How the answers of each role and condition ended, as far as the source tells it."""
    cuts = {(role, condition): cut for role, condition, _, cut, _, _ in answers.cuts(run)}
    for (role, condition), calls in answers.groups(run).items():
        finish = Counter(call.finish or "unknown" for call in calls)
        blank = sum(call.text is not None and not call.text.strip() for call in calls)
        unread = 0 if role == answers.SOLVER else sum(call.text is not None and call.value is None for call in calls)
        yield Completion(
            condition=f"{role}/{condition}",
            stage=role,
            n=len(calls),
            finish=finish,
            marks={"truncated": cuts[role, condition], "empty": blank, "unparsed": unread, "refused": 0},
        )
