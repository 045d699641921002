"""Where: which rows a stage takes, by a strict expression over what is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Row


def kept(row: Row, where: Expression | None, scope: Mapping[str, Any]) -> Row | None:
    """The row, or None where `where` drops it. A row that failed or is pending stays where the expression needs what it
    lacks; a live row for which the expression cannot be told fails, with the reason.
    """
    if where is None:
        return row
    try:
        return row if where.evaluate(scope) else None
    except ExpressionError as error:
        return row if row.state != "live" else replace(row, state="failed", reason=f"where: {error}")
