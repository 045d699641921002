"""The judge: the ledger and the cache of a world against the provider's own bill."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any

from fakes.provider import Bill, text_for


def rows_of(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of the cache, read as anybody could."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def judge_books(path: Path, bill: Bill) -> list[str]:
    """Properties 2-5: the ledger against the provider's bill, once every process has left or was recovered."""
    found = []
    entries = rows_of(path, "select attempt, kind, nanos from entry order by id")
    reserves = {attempt for attempt, kind, _ in entries if kind == "reserve"}
    if strangers := {hit.attempt for hit in bill.hits} - reserves:
        found.append(f"sent without a reserve: {strangers}")
    booked: dict[int, int] = {}
    ends: dict[int, list[str]] = {attempt: [] for attempt in reserves}
    for attempt, kind, nanos in entries:
        if kind in ("settle", "forfeit"):
            booked[attempt] = booked.get(attempt, 0) + nanos
        if kind != "reserve":
            ends[attempt].append(kind)
    if wrong := {attempt: kinds for attempt, kinds in ends.items() if len(kinds) != 1}:
        found.append(f"not exactly one end: {wrong}")
    doubtful = {attempt for attempt, kinds in ends.items() if "forfeit" in kinds}
    for attempt, charged in bill.charged.items():
        if attempt in doubtful and attempt in bill.overruns:
            continue  # charged above its bound, and nobody ever told: no ledger can know
        if charged > booked.get(attempt or 0, 0):
            found.append(f"attempt {attempt} was billed {charged}, booked {booked.get(attempt or 0, 0)}")
    for attempt, amount in booked.items():
        if attempt not in doubtful and amount != bill.charged.get(attempt, 0):
            found.append(f"attempt {attempt} was settled at {amount}, billed {bill.charged.get(attempt, 0)}")
    hits: dict[int | None, int] = {}
    for hit in bill.hits:
        hits[hit.attempt] = hits.get(hit.attempt, 0) + 1
    if twice := {attempt for attempt, n in hits.items() if n > 1}:
        found.append(f"one attempt, several requests: {twice}")
    doubled = rows_of(path, "select request from reply group by request having count(*) > 1")
    if doubled:
        found.append(f"several replies to one request: {doubled}")
    return found


def judge_replies(path: Path) -> list[str]:
    """Property 7: what stands in the cache is what the provider says to that request, whenever and beside whatever it came."""
    found = []
    query = "select q.body, p.text from reply p join request q on q.id = p.request where q.kind = 'chat'"
    for body, text in rows_of(path, query):
        payload = json.loads(zlib.decompress(body))["payload"]
        if text != text_for(payload):
            found.append(f"{payload['messages']}: {text!r}")
    return found


def trace(path: Path, bill: Bill) -> str:
    """A digest of all that reached the provider, and when, and of all that the ledger holds."""
    hits = [(round(hit.at, 6), hit.attempt, hit.digest) for hit in bill.hits]
    entries = rows_of(path, "select attempt, kind, nanos, calls, tokens, at from entry order by id")
    return hashlib.sha256(repr((hits, entries)).encode()).hexdigest()[:16]
