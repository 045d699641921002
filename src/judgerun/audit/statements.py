"""What the ledger of this cache was when it was last held against the statements of providers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Table
from judgerun.audit.words import few
from judgerun.model.money import format_usd

KIND = "reconcile"
RECONCILED = "reconciled"


def held(evidence: Evidence) -> Mapping[str, Mapping[str, Any]]:
    """The last word on each statement, by its name."""
    events = (event for event in evidence.books.events if event.kind == KIND)
    return {event.subject: json.loads(event.detail) for event in events}


def check_statements(evidence: Evidence) -> Iterator[Finding]:
    """Statements of providers against which the ledger was held: those that it explains are a note, those of which something is
    left unexplained a warning, with the parts of the residual.
    """
    for name, told in sorted(held(evidence).items()):
        explained = told["verdict"] == RECONCILED
        parts = (f"{part}: {format_usd(nanos)} USD" for part, nanos in sorted(told["components"].items()))
        yield Finding(
            check="statement",
            severity="note" if explained else "warning",
            message=f"against the statement {name} the ledger is {told['verdict']}: a residual of "
            f"{format_usd(told['residual_nanos'])} USD",
            value=format_usd(told["residual_nanos"]),
            evidence=few(parts),
        )


def tables(evidence: Evidence) -> Iterator[Table]:
    """The residual of each statement, part by part."""
    rows: list[tuple[Cell, ...]] = []
    for name, told in sorted(held(evidence).items()):
        rows += [(name, part, format_usd(nanos)) for part, nanos in sorted(told["components"].items()) if nanos]
        rows.append((name, "residual", format_usd(told["residual_nanos"])))
    if rows:
        yield Table(
            name="statements",
            title="The ledger against statements",
            columns=("statement", "part", "USD"),
            rows=tuple(rows),
            note="What statements charge beyond what is settled, over the whole cache, as judgerun reconcile last found it.",
        )
