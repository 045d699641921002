"""A ledger of many attempts, and the statement that an honest provider would write of it: tests plant faults in either."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from judgerun.audit.matching import Booked, State
from judgerun.audit.reconcile import Reconciliation, reconcile
from judgerun.ledger.prices import Price
from judgerun.ledger.statement import NANO, Charge, File, Line, Statement
from judgerun.model.experiment import PriceSpec
from judgerun.model.reply import BUCKETS, Usage

RATES = PriceSpec(input=1_000_000_000, output=4_000_000_000, cache_read=250_000_000)
PRICE = Price(rates=RATES, source="test")
HALF = PRICE.batched("0.5")
DAY = 86_400.0
START = 1_796_083_200.0  # a midnight UTC
HOLD = 3_000_000
GRAINS = ("call", "hour", "day", "period")


def moment(seconds: float) -> datetime:
    """A Unix time as a statement has it."""
    return datetime.fromtimestamp(seconds, UTC)


def attempt(number: int, *, state: State = State.SETTLED, job: bool = False, days: int = 2, seed: int = 0) -> Booked:
    """One attempt of a model, somewhere in the first days, priced as the ledger prices it."""
    rng = random.Random(f"{seed} {number}")
    usage = Usage(
        input_fresh=rng.randrange(50, 900), cache_read=rng.choice((0, 0, 128)), output_visible=rng.randrange(1, 300)
    )
    cost = (HALF if job else PRICE).cost(usage) if state is State.SETTLED else 0  # type: ignore[union-attr]
    assert cost is not None
    return Booked(
        attempt=number,
        providers=frozenset({"lab"}),
        models=frozenset({f"model-{'ab'[number % 2]}"}),
        at=START + rng.randrange(int(days * DAY)) + 0.5,
        state=state,
        settled=cost,
        doubt=HOLD if state in (State.FORFEITED, State.OPEN) else 0,
        usage=usage if state is State.SETTLED else None,
        ids=frozenset({f"req-{number}"} if state is State.SETTLED else ()),
        job=job,
        usual=PRICE,
        batch=HALF,
        experiment="exp",
        budget="main",
    )


def ledger(count: int = 60, *, forfeits: int = 0, jobs: int = 0, seed: int = 0, days: int = 2) -> list[Booked]:
    """Settled attempts, the first `jobs` of them of the batch lane, and forfeits behind them."""
    settled = [attempt(number, job=number < jobs, seed=seed, days=days) for number in range(count)]
    lost = [attempt(count + number, state=State.FORFEITED, seed=seed, days=days) for number in range(forfeits)]
    return settled + lost


def calls(booked: Iterable[Booked], *, numbered: bool = True) -> list[Line]:
    """A line for each settled attempt, as its provider has it."""
    return [line(one, numbered=numbered) for one in booked if one.state is State.SETTLED]


def line(
    one: Booked, *, usage: Usage | None = None, nanos: int | None = None, numbered: bool = True, **changes: Any
) -> Line:
    """The line of one call; of a forfeit what it really was."""
    told = usage or one.usage or Usage(input_fresh=400, cache_read=0, output_visible=100)
    cost = nanos if nanos is not None else one.settled or PRICE.cost(told)
    assert cost is not None
    values: dict[str, Any] = {
        "file": "bill.csv",
        "where": f"line {one.attempt + 2}",
        "provider": "lab",
        "model": min(one.models),
        "start": moment(one.at),
        "end": moment(one.at),
        "amount": Decimal(cost).scaleb(-9),
        "usage": told,
        "requests": 1,
        "attempt": one.attempt if numbered else None,
        "call": f"req-{one.attempt}",
        "kind": Charge.BATCH if one.job else Charge.TOKENS,
    }
    return Line(**(values | changes))


def gathered(lines: Sequence[Line], grain: str, *, zone_s: float = 0.0) -> list[Line]:
    """The lines as a statement of that grain has them: sums by model, lane and interval. Its days begin `zone_s` after UTC's."""
    if grain == "call":
        return list(lines)
    length = {"minute": 60.0, "hour": 3600.0, "day": DAY, "period": 1000 * DAY}[grain]
    origin = START + zone_s if grain != "period" else START
    groups: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for one in lines:
        groups[one.model, one.kind, one.key, (one.start.timestamp() - origin) // length].append(one)
    return [_sum(held, origin + key[-1] * length, length, n) for n, (key, held) in enumerate(groups.items(), start=2)]


def _sum(held: Sequence[Line], start: float, length: float, number: int) -> Line:
    usage = Usage(**{name: _added(getattr(one.usage, name) for one in held) for name in BUCKETS})
    return replace(
        held[0],
        where=f"line {number}",
        start=moment(start),
        end=moment(start + length),
        amount=sum((one.amount or Decimal(0) for one in held), Decimal(0)),
        usage=usage,
        requests=_added(one.requests for one in held),
        attempt=None,
        call=None,
    )


def _added(values: Iterable[int | None]) -> int | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def told(lines: Sequence[Line], booked: Sequence[Booked], *, unit: Decimal = NANO, **options: Any) -> Reconciliation:
    """What a statement of these lines and a ledger make of each other."""
    file = File(name="bill.csv", digest="d" * 64, format="test", zone="UTC", unit=unit)
    return reconcile(Statement(files=(file,), lines=tuple(lines)), booked, **options)


def names(found: Reconciliation) -> dict[str, int]:
    """The components, but for rounding, with their amounts."""
    return {str(one.name): one.amount for one in found.components if one.name != "rounding"}


def blurred(lines: Sequence[Line], **changes: Any) -> list[Line]:
    """The lines of a provider that tells less."""
    return [replace(one, **changes) for one in lines]
