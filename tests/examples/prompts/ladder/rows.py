"""From an accepted variant to a training row: pure, called by the stage `training` for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def triple(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row: the source problem, the variant, and whether the two ask for the same."""
    variant = row["variants"]
    return [
        {
            "id": row["id"],
            "anchor": row["problem"],
            "text": variant["problem"],
            "label": 1 if variant["role"] == "positive" else 0,
        }
    ]
