"""The named queries of queries.sql, loaded at import; no other module of this room holds SQL that is run on every call."""

from __future__ import annotations

import re
from importlib import resources

_HEAD = re.compile(r"^-- (\w+): (.+)$", re.MULTILINE)


def load(text: str) -> dict[str, str]:
    """Queries by name. A query begins at a line `-- name: what it does` and ends before the next.

    Raises ValueError when a name stands twice or a query is empty.
    """
    heads = list(_HEAD.finditer(text))
    queries: dict[str, str] = {}
    for place, head in enumerate(heads):
        end = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        name, body = head.group(1), text[head.end() : end].strip().rstrip(";")
        if name in queries or not body:
            raise ValueError(f"query {name!r} is empty or stands twice")
        queries[name] = " ".join(body.split())
    return queries


def read(name: str) -> str:
    """The text of an SQL file of this room."""
    return resources.files("judgerun.store").joinpath(name).read_text(encoding="utf-8")


SQL = load(read("queries.sql"))
"""Every query by its name."""
