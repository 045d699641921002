"""Seal: a digest over the plan, the replies and the ledger of an experiment, and the check that it still holds.

What may live here: what a seal covers, in which order, and how a difference is named. A seal covers

    plan     the keys of the plan, in plan order
    replies  for each key of the plan that had a reply: the canonical request, the reply, its body and its vector; in key order
    ledger   the experiment's attempts and their entries, up to the last entry at the time of sealing; in order of entry
    stated   what was told to it: plan digest, prices version, code version, time of the lanes, last escalation
    files    the digest of each file that it was made from, in order of name
    GROUP    what else the numbers rest on, a part for each group: environment, prices, registration, waivers, exclusions

Each row is hashed by its parts, each preceded by its length; each part is the hash of its rows; the seal is the hash of its
parts. Beside the digest the seal keeps eight bytes of each row's hash, so that `verify` can name the rows that differ.
Replies and entries that came later (adjusts, a resumed run) are not covered, do not break the seal, and are counted.
Seals of earlier versions have the files among what is stated, and no groups.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from judgerun.errors import Problem, Refused
from judgerun.model.request import RequestKey, digest
from judgerun.store import rows
from judgerun.store.queries import SQL
from judgerun.store.snapshot import Sealed, Snapshot

FILES = "files"
ORDER = ("plan", "replies", "ledger", "stated", FILES)
MARK = 8  # bytes of a row's hash that are kept

LATER = ("cache_write_1h", "reported_tokens", "thoughts")
"""Columns of a reply that version 1 did not have. They are hashed by name, and only where they say something: so a seal of
version 1 still holds after its cache was migrated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a seal is told and cannot read from the cache."""

    plan: str  # the plan's own digest
    prices: str  # version of the price sheet
    files: Mapping[str, str] = field(default_factory=dict)  # prompts, data, experiment file -> digest
    code: str = ""  # version of judgerun
    lanes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # slot-seconds by lane and cause, until now
    escalation: int = 0  # the event of the last escalation that it covers; 0: of none
    rests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # group -> name -> value: see api/resting


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as it was sealed. `row` is a key (hex), `entry N`, a file's name, or "" for a whole part."""

    part: str
    row: str
    what: str

    def __str__(self) -> str:
        return f"{self.part}{f' {self.row}' if self.row else ''}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The outcome of `verify`: whole when nothing differs. Later entries and replies are told, not judged."""

    seal: Sealed
    differences: tuple[Difference, ...]
    later_entries: int  # of the experiment, after the seal
    later_replies: int  # to keys of its plan that had none when it was sealed

    @property
    def whole(self) -> bool:
        """Whether the cache is what was sealed."""
        return not self.differences


@dataclass(slots=True)
class _Part:
    """A part while its rows are read: the rows' names and marks, and the running hash. A million rows are 40 MB."""

    ids: bytearray = field(default_factory=bytearray)  # each preceded by its length in two bytes
    marks: bytearray = field(default_factory=bytearray)
    count: int = 0
    sha: Any = field(default_factory=hashlib.sha256)

    def add(self, name: bytes, row: bytes) -> None:
        self.ids += len(name).to_bytes(2, "big") + name
        self.marks += row[:MARK]
        self.count += 1
        self.sha.update(row)

    @property
    def stated(self) -> dict[str, Any]:
        return {"digest": self.sha.hexdigest(), "count": self.count}


def make(
    connection: sqlite3.Connection, experiment: str, keys: Sequence[RequestKey], *, stated: Stated, now: float,
    reason: str | None = None,
) -> str:  # fmt: skip
    """Write a seal over an experiment, inside the caller's transaction; its digest.

    `keys` are those of the whole plan, in plan order, pending ones included. `reason` says why an unfinished experiment is
    sealed. Refused while an attempt of the experiment is open.
    """
    (running,) = connection.execute(SQL["open_of"], (experiment,)).fetchone()
    if running:
        raise Refused(
            Problem("cache.db", experiment, f"{running} attempts are open", "let the run end, or rerun it to recover")
        )
    entry, attempt = connection.execute(SQL["last_entry"], (experiment,)).fetchone()
    told: dict[str, Any] = {
        "plan": stated.plan,
        "prices": stated.prices,
        "files": dict(stated.files),
        "code": stated.code,
    }
    if stated.escalation:  # a seal without one is as seals were before there were any
        told["escalation"] = stated.escalation
    if stated.rests:  # seals of earlier versions were not told
        told["rests"] = {group: dict(values) for group, values in stated.rests.items()}
    if stated.lanes:  # an experiment that took no time of a lane is sealed as it was by earlier versions
        told["lanes"] = {lane: dict(spent) for lane, spent in stated.lanes.items()}
    parts = {
        "plan": _plan(keys),
        "replies": _replies(connection, keys),
        "ledger": _ledger(connection, experiment, entry),
        **{name: read() for name, read in _told(told).items()},
    }
    summary = {name: part.stated for name, part in parts.items()}
    whole = _whole(experiment, entry, summary, reason)
    number = connection.execute(
        SQL["new_seal"],
        (experiment, now, entry, attempt, whole, json.dumps(summary, sort_keys=True), json.dumps(told, sort_keys=True), reason),
    ).lastrowid  # fmt: skip
    for name, part in parts.items():
        connection.execute(SQL["new_sealed"], (number, name, rows.pack(bytes(part.ids)), bytes(part.marks)))
    return whole


def verify(
    snapshot: Snapshot, experiment: str, *, today: Stated | None = None, seal: Sealed | None = None
) -> Verification | None:
    """Recompute a seal (the newest, if none is given) from the cache and compare; None when there is no seal.

    `today` is what is true today of files, prices and code: what differs from what was sealed is named. An empty
    field of it is not compared.
    """
    if seal is None:
        seals = snapshot.seals(experiment)
        if not seals:
            return None
        seal = seals[-1]
    return snapshot.read(partial(_verify, seal=seal, today=today))


def _verify(connection: sqlite3.Connection, *, seal: Sealed, today: Stated | None) -> Verification:
    kept = {
        part: (_split(rows.unpack(ids)), marks)
        for part, ids, marks in connection.execute(SQL["sealed"], (seal.id,)).fetchall()
    }
    keys = kept["plan"][0] if "plan" in kept else []
    covered = kept["replies"][0] if "replies" in kept else []
    readers: dict[str, Callable[[], _Part]] = {
        "plan": partial(_plan, keys),
        "replies": partial(_replies, connection, covered),
        "ledger": partial(_ledger, connection, seal.experiment, seal.entry),
        **(_told(seal.stated) if FILES in seal.parts else {"stated": partial(_stated, seal.stated, files=True)}),
    }
    differences: list[Difference] = []
    for name in sorted({*readers, *seal.parts}, key=_order):
        part = readers[name]() if name in readers else _Part()  # a part that was taken away has no rows
        if part.stated != dict(seal.parts.get(name, {})):
            differences += _differing(name, part, *kept.get(name, ([], b"")))
    if _whole(seal.experiment, seal.entry, seal.parts, seal.reason) != seal.digest:
        differences.append(Difference(part="seal", row="", what="its parts do not give its digest"))
    differences += _changed(seal.stated, today)
    (entries,) = connection.execute(SQL["later_entries"], (seal.experiment, seal.entry)).fetchone()
    pending = set(keys).difference(covered)
    replied = sum(connection.execute(SQL["has_reply"], (key,)).fetchone() is not None for key in pending)
    return Verification(seal=seal, differences=tuple(differences), later_entries=entries, later_replies=replied)


def _differing(name: str, part: _Part, ids: Sequence[bytes], marks: bytes) -> list[Difference]:
    """The rows of a part that differ from what the seal kept of it, in its order; those that it did not have come last."""
    sealed = {id: marks[place * MARK : (place + 1) * MARK] for place, id in enumerate(ids)}
    now = _split(part.ids)
    found = {id: bytes(part.marks[place * MARK : (place + 1) * MARK]) for place, id in enumerate(now)}
    told = [
        (id, "differs from what was sealed" if id in found else "is gone")
        for id in sealed
        if found.get(id) != sealed[id]
    ]
    told += [(id, "was not there when it was sealed") for id in found if id not in sealed]
    whole = Difference(part=name, row="", what="its rows do not give its digest, or stand in another order")
    return [Difference(part=name, row=_named(name, id), what=what) for id, what in told] or [whole]


def _named(part: str, id: bytes) -> str:
    if part == "ledger":
        return f"entry {int.from_bytes(id, 'big')}"
    return id.hex() if part in ("plan", "replies") else id.decode("utf-8")


def _changed(sealed: Mapping[str, Any], today: Stated | None) -> Iterator[Difference]:
    """What is stated today and differs from what was stated to the seal."""
    if today is None:
        return
    for name, value in (("plan", today.plan), ("prices", today.prices), ("code", today.code)):
        if value and value != sealed[name]:
            yield Difference(part="stated", row=name, what=f"is {value} now and was {sealed[name]} when it was sealed")
    for file in sorted({*today.files, *sealed["files"]} if today.files else ()):
        if today.files.get(file) != sealed["files"].get(file):
            yield Difference(part=FILES, row=file, what="differs from what was sealed")


# -- parts


def _plan(keys: Iterable[RequestKey]) -> _Part:
    part = _Part()
    for key in keys:
        part.add(key, hashlib.sha256(key).digest())
    return part


def _replies(connection: sqlite3.Connection, keys: Iterable[RequestKey]) -> _Part:
    part = _Part()
    for key in sorted(set(keys)):
        row = connection.execute(SQL["seal_reply"], (key,)).fetchone()
        if row is not None:
            part.add(key, _reply_hash(key, row))
    return part


def _reply_hash(key: RequestKey, row: Sequence[Any]) -> bytes:
    """Over the request, every column of the reply, its body and its vector; a blob that cannot be read hashes as it is."""
    first, later = row[: -len(LATER)], row[-len(LATER) :]
    body, *columns, raw, vector = first
    told = [part for name, value in zip(LATER, later, strict=True) if value is not None for part in (name, value)]
    return _hash([key, _body(body), *columns, _body(raw), vector, *told])


def _body(blob: bytes) -> bytes:
    try:
        return zlib.decompress(blob)
    except zlib.error:
        return b"unreadable " + bytes(blob)


def _ledger(connection: sqlite3.Connection, experiment: str, entry: int) -> _Part:
    part = _Part()
    for row in connection.execute(SQL["seal_entries"], (experiment, entry)):
        part.add(int(row[0]).to_bytes(8, "big"), _hash(row))
    return part


def _order(part: str) -> tuple[int, str]:
    """Where a part stands among the parts: what was bought first, then what was told."""
    return (ORDER.index(part) if part in ORDER else len(ORDER), part)


def _told(told: Mapping[str, Any]) -> dict[str, Callable[[], _Part]]:
    """The parts of what a seal was told, by name: what is stated, the files, and each group on which numbers rest."""
    groups = {name: partial(_named_values, values) for name, values in sorted(told.get("rests", {}).items())}
    return {
        "stated": partial(_stated, told, files=False),
        FILES: partial(_named_values, told.get("files", {})),
        **groups,
    }


def _named_values(values: Mapping[str, str]) -> _Part:
    part = _Part()
    for name, value in sorted(values.items()):
        part.add(name.encode(), _hash([value]))
    return part


def _stated(told: Mapping[str, Any], *, files: bool) -> _Part:
    """What is stated; with the `files`, as earlier versions sealed it."""
    part = _Part()
    for name in ("plan", "prices", "code"):
        part.add(name.encode(), _hash([told.get(name)]))
    if "escalation" in told:
        part.add(b"escalation", _hash([told["escalation"]]))
    for lane, spent in sorted(told.get("lanes", {}).items()):
        part.add(f"lane {lane}".encode(), _hash([piece for pair in sorted(spent.items()) for piece in pair]))
    for file, value in sorted(told.get("files", {}).items()) if files else ():
        part.add(f"file {file}".encode(), _hash([value]))
    return part


def _whole(experiment: str, entry: int, parts: Mapping[str, Mapping[str, Any]], reason: str | None) -> str:
    pieces = [experiment, str(entry), reason or ""]
    for name in sorted(parts):
        pieces += [name, str(parts[name]["digest"]), str(parts[name]["count"])]
    return digest([piece.encode() for piece in pieces])


def _hash(values: Iterable[Any]) -> bytes:
    """sha256 over values, each preceded by its type and length, so that no two rows share a text."""
    sha = hashlib.sha256()
    for value in values:
        if isinstance(value, bytes):
            kind, text = b"b", value
        elif isinstance(value, str):
            kind, text = b"s", value.encode("utf-8")
        else:  # int, float (repr is exact and unique), None
            kind, text = b"n", repr(value).encode()
        sha.update(kind + len(text).to_bytes(8, "big"))
        sha.update(text)
    return sha.digest()


def _split(text: bytes | bytearray) -> list[bytes]:
    ids, at = [], 0
    while at < len(text):
        size = int.from_bytes(text[at : at + 2], "big")
        ids.append(bytes(text[at + 2 : at + 2 + size]))
        at += 2 + size
    return ids
