"""Between values and columns: how a request, a reply and a leaf stand in a row. No SQL and no connection may live here."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import orjson

from judgerun.errors import StoreError
from judgerun.ledger.account import Balance
from judgerun.ledger.budget import UNITS, Leaf
from judgerun.ledger.entry import Amount
from judgerun.model.kept import Kept
from judgerun.model.making import maker
from judgerun.model.money import Nanos
from judgerun.model.reply import Finish, Reply, Usage
from judgerun.model.request import Request, RequestKey

LEVEL = 1  # of zlib: three times faster than the default, for a tenth more space

Row = tuple[Any, ...]

_KEPT, _REPLY, _USAGE = maker(Kept), maker(Reply), maker(Usage)


def pack(body: bytes) -> bytes:
    """Compressed, for a blob column."""
    return zlib.compress(body, LEVEL)


def unpack(blob: bytes) -> bytes:
    """What `pack` packed. StoreError when the blob is damaged."""
    try:
        return zlib.decompress(blob)
    except zlib.error as error:
        raise StoreError(f"a compressed body cannot be read: {error}") from error


def plain(text: str) -> str:
    """Text that a TEXT column can hold: a lone surrogate, which is no character, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def request_row(request: Request) -> Row:
    """Columns of `request` after its id."""
    return request.key, request.kind, request.deployment, request.adapter, request.draw, pack(request.canonical)


def request_of(key: RequestKey, body: bytes) -> Request:
    """The request of a key from its packed canonical JSON."""
    canonical = unpack(body)
    told = orjson.loads(canonical)
    return Request(told["kind"], told["payload"], told["deployment"], told["adapter"], told["draw"], key, canonical)


def reply_row(number: int, attempt: int, now: float, reply: Reply, cost: Nanos | None) -> Row:
    """Columns of `reply`, in the order of the table."""
    usage = reply.usage
    return (
        number,
        attempt,
        now,
        reply.finish.value,
        None if reply.finish_raw is None else plain(reply.finish_raw),
        usage.input_fresh,
        usage.cache_read,
        usage.cache_write,
        usage.output_visible,
        usage.reasoning,
        cost,
        reply.reported_cost,
        reply.input_cut,
        reply.served_model,
        reply.fingerprint,
        reply.raw_digest,
        plain(reply.text),
        pack(reply.raw),
        usage.cache_write_1h,
        reply.reported_tokens,
        plain(reply.thoughts) or None,
    )


FINISHES = {finish.value: finish for finish in Finish}


def kept(row: Sequence[Any], experiment: str, *, raw: bytes = b"", vector: bytes | None = None) -> Kept:
    """A Kept of the columns that the query `kept` gives, and of the experiment whose account stands first in them.

    The vector of an embedding that was not read stands as empty bytes, so that it is not taken for an empty answer.
    """
    (_, attempt, kind, finish, finish_raw, fresh, read, write, visible, reasoning, cost, reported, cut, model,
     fingerprint, digest, text, write_1h, total, thoughts) = row  # fmt: skip
    if vector is None and kind == "embed":
        vector = b""
    reply = _REPLY(
        finish=FINISHES[finish],
        finish_raw=finish_raw,
        text=text,
        thoughts=thoughts or "",
        vector=vector,
        usage=_USAGE(
            input_fresh=fresh,
            cache_read=read,
            cache_write=write,
            cache_write_1h=write_1h,
            output_visible=visible,
            reasoning=reasoning,
        ),
        reported_tokens=total,
        served_model=model,
        fingerprint=fingerprint,
        reported_cost=reported,
        raw=raw,
        raw_digest=digest,
        input_cut=None if cut is None else bool(cut),
    )
    return _KEPT(reply=reply, attempt=attempt, experiment=experiment, cost=cost)


def account_of(row: Sequence[Any]) -> tuple[int, Leaf, Balance]:
    """id, leaf and balance of the columns that the query `accounts` gives."""
    number, *rest = row
    leaf = Leaf(*rest[:6])
    return number, leaf, Balance(Amount(*rest[6:10]), Amount(*rest[10:14]), Amount(*rest[14:18]))


def amounts(balance: Balance) -> tuple[int, ...]:
    """A balance as twelve columns: settled, forfeited, held, each in nanos, calls, tokens, GPU milliseconds."""
    return tuple(getattr(part, unit) for part in (balance.settled, balance.forfeited, balance.held) for unit in UNITS)
