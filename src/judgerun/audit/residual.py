"""Residual: what a cell's bill has more than the ledger, taken apart into named parts that add up to it; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from judgerun.audit.gap import Gap, Tokens, summed
from judgerun.audit.matching import Booked, Cell, State
from judgerun.ledger.outcome import apportion
from judgerun.ledger.prices import Price
from judgerun.ledger.statement import Charge, Line
from judgerun.model.money import Nanos
from judgerun.model.reply import Usage


class Name(StrEnum):
    """What a part of a residual is, in the order in which they are told."""

    MISSING = "missing attempts"
    BILLED = "forfeits billed"
    UNBILLED = "forfeits not billed"
    HELD = "open holds billed"
    VOIDS = "voids billed"
    ABSENT = "not on the statement"
    TOKENS = "other tokens"
    PRICE = "price error"
    CACHE = "cache discount"
    BATCH = "batch discount"
    FOREIGN = "foreign traffic"
    OTHER = "other charges"
    ZONE = "time zone"
    SCOPE = "outside the scope"
    ROUNDING = "rounding"
    UNCLEAR = "cannot be told apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolve:
    """What a forfeit really cost, by lines of the statement (no line: it is on none). `tokens` None: not told."""

    booked: Booked
    nanos: Nanos
    tokens: int | None
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a cell's residual, with what it rests on, and the forfeits that it resolves without doubt."""

    name: Name
    amount: Nanos
    evidence: str
    resolves: tuple[Resolve, ...] = ()


class Taken:
    """One cell, taken apart. Not frozen: it holds what is left of the residual while parts are taken from it."""

    def __init__(self, cell: Cell, money: Callable[[Line], Nanos], slack: Nanos) -> None:
        self.cell = cell
        self.settled = [one for one in cell.booked if one.state is State.SETTLED]
        self.forfeits = [one for one in cell.booked if one.state is State.FORFEITED]
        self.open = [one for one in cell.booked if one.state is State.OPEN]
        self.billed = sum(map(money, cell.lines))
        self.left = self.billed - sum(one.settled for one in self.settled)
        self.bound = slack + len(self.settled) + 1
        self.gap = self._gap()

    def _gap(self) -> Gap:
        counts = [line.requests for line in self.cell.lines if line.requests is not None]
        told = bool(counts) or not self.cell.lines
        requests = sum(counts) - len(self.settled) if told else 0 if self.cell.certain else None
        theirs = summed(line.usage for line in self.cell.lines)
        if theirs is None or any(one.usage is None for one in self.settled):
            return Gap(requests)
        ours = summed(one.usage for one in self.settled if one.usage is not None)
        if ours is None and self.settled:
            return Gap(requests)
        ours = ours or Tokens(0, 0)
        caches = [None if told is None else told - (held or 0) for told, held in zip(theirs[2:], ours[2:], strict=True)]
        return Gap(requests, theirs.input - ours.input, theirs.output - ours.output, *(value or 0 for value in caches))

    # -- the parts

    def parts(self) -> Iterator[Part]:
        """The parts, which add up to the residual."""
        if not self.cell.lines:
            yield from self._unmentioned()
        elif self.cell.foreign:
            yield self._take(Name.FOREIGN, self.left, "the ledger has no attempt of it")
        elif all(line.kind is Charge.OTHER for line in self.cell.lines):
            yield self._take(Name.OTHER, self.left, "the statement says that these are no tokens")
        elif self.cell.certain and not self.settled:
            yield self._unsettled()
        else:
            yield from self._compared()

    def _take(self, name: Name, amount: Nanos, why: str, resolves: tuple[Resolve, ...] = ()) -> Part:
        self.left -= amount
        return Part(name=name, amount=amount, evidence=f"{self.cell.label}: {why}", resolves=resolves)

    def _unmentioned(self) -> Iterator[Part]:
        """Attempts of which the statement, that covers their time, has nothing."""
        if self.settled:
            numbers = _numbers(self.settled)
            yield self._take(Name.ABSENT, self.left, f"settled here, and on no line: {numbers}")
        yield from self._unbilled("no line is of them")

    def _unsettled(self) -> Part:
        """A line of one call that is not settled here, or that the ledger has not."""
        if not self.cell.booked:
            return self._take(Name.MISSING, self.left, "no attempt is this call")
        (one,) = self.cell.booked
        why = f"it is {one.state} here"
        if one.state is State.FORFEITED:
            return self._take(Name.BILLED, self.left, why, (self._resolve(one, self.billed),))
        return self._take(Name.HELD if one.state is State.OPEN else Name.VOIDS, self.left, why)

    def _resolve(self, one: Booked, nanos: Nanos, *, whole: bool = True) -> Resolve:
        told = summed(line.usage for line in self.cell.lines)
        tokens = None if told is None or not whole else told.input + told.output
        return Resolve(booked=one, nanos=max(nanos, 0), tokens=tokens, lines=self.cell.lines)

    def _unbilled(self, why: str) -> Iterator[Part]:
        if self.forfeits:
            resolves = tuple(Resolve(booked=one, nanos=0, tokens=0, lines=self.cell.lines) for one in self.forfeits)
            yield self._take(Name.UNBILLED, 0, f"{why}: {_numbers(self.forfeits)}", resolves)

    def _compared(self) -> Iterator[Part]:
        """Lines against settled attempts: first what other requests and tokens explain, then what other prices do."""
        gap = self.gap
        if not gap.volume:
            yield from self._priced()
            return
        cost = self._cost()
        if cost is None:
            yield from self._counted()
            return
        fresh, caches = (sum(cost), 0) if gap.own_caches else cost
        if (
            abs(self.left - fresh - caches) <= self.bound and fresh
        ):  # the rest is rounding: it goes with the calls that it is of
            fresh = self.left - caches
        if caches:
            yield self._take(Name.CACHE, caches, f"{gap.read + gap.write + gap.write_1h:+d} cached tokens")
        exact = abs(self.left - fresh) <= self.bound and not caches
        yield from self._volume(fresh, exact=exact)
        yield from self._rest(same=True)

    def _cost(self) -> tuple[Nanos, Nanos] | None:
        """What the gap in tokens costs by the ledger's prices; None where these do not say."""
        if not self.gap.told:
            return None
        if len(self.settled) == 1 and self.cell.certain:
            return self._own_cost(self.settled[0])
        prices = {one.price for one in (self.settled or self.forfeits or self.open or self.cell.booked)}
        price = next(iter(prices)) if len(prices) == 1 else None
        found = None if price is None else self.gap.cost(price)
        return None if found is None else (round(found[0]), round(found[1]))

    def _own_cost(self, one: Booked) -> tuple[Nanos, Nanos] | None:
        """The same for one call, at its own hour and length."""
        gap, usage, price = self.gap, one.usage, one.price
        if usage is None or price is None:
            return None
        fresh = (gap.input or 0) - gap.read - gap.write - gap.write_1h
        other = replace(
            usage,
            input_fresh=(usage.input_fresh or 0) + fresh,
            cache_read=(usage.cache_read or 0) + gap.read,
            cache_write=(usage.cache_write or 0) + gap.write,
            cache_write_1h=(usage.cache_write_1h or 0) + gap.write_1h,
            output_visible=(usage.output_visible or 0) + (gap.output or 0),
        )
        ours, theirs = price.cost(usage, at=one.answered), price.cost(other, at=one.answered)
        if ours is None or theirs is None:
            return None
        if not self.gap.input and not self.gap.output:
            return 0, theirs - ours
        return theirs - ours, 0

    def _volume(self, amount: Nanos, *, exact: bool) -> Iterator[Part]:
        """What requests and tokens that the ledger has not cost. `exact`: nothing else is in the residual."""
        gap, doubtful = self.gap, [*self.forfeits, *self.open]
        more, count = (
            f"{_signed(gap.requests)} requests, {_signed(gap.input)} input, {_signed(gap.output)} output tokens",
            len(doubtful),
        )
        if gap.requests == 0 and (gap.input or gap.output):
            yield self._take(Name.TOKENS, amount, more)
            yield from self._unbilled("as many requests as settled attempts")
        elif (gap.requests or 0) < 0 or (gap.requests is None and amount < 0):
            yield self._take(Name.ABSENT, amount, more)
            yield from self._unbilled("fewer requests than settled attempts") if gap.requests is not None else ()
        elif not gap.input and not gap.output:
            return  # refused requests are counted, too, and cost nothing
        elif not doubtful:
            yield self._take(Name.MISSING, amount, more)
        elif not 0 <= amount <= _most(doubtful, gap.requests) + self.bound or (gap.requests or 0) > count:
            why = f"{more}: missing attempts, or forfeits billed ({_numbers(doubtful)})"
            yield self._take(Name.UNCLEAR, amount, why)
        else:
            yield self._doubtful(amount, f"{more}: {_numbers(doubtful)}", exact=exact and gap.requests == count)

    def _doubtful(self, amount: Nanos, why: str, *, exact: bool) -> Part:
        """Forfeits that were billed. Which of them, and each one's money, is known where all were, and nothing else is."""
        if not self.forfeits:
            return self._take(Name.HELD, amount, why)
        if not exact or self.open:
            return self._take(Name.BILLED, amount, f"{why} (which of them, or how much each, is not told)")
        shares = apportion(amount, [one.doubt for one in self.forfeits])
        resolves = tuple(
            replace(self._resolve(one, share), tokens=None) for one, share in zip(self.forfeits, shares, strict=True)
        )
        return self._take(Name.BILLED, amount, why, resolves)

    def _counted(self) -> Iterator[Part]:
        """Requests are other than the ledger's, and nobody tells what they would cost."""
        gap, doubtful = self.gap, [*self.forfeits, *self.open]
        more = f"{_signed(gap.requests)} requests, no tokens to compare"
        extra = gap.requests or 0
        if abs(self.left) <= self.bound:
            yield from self._rest(same=False)
        elif extra < 0 and self.left < 0:
            yield self._take(Name.ABSENT, self.left, more)
        elif extra > 0 and self.left > 0 and not doubtful:
            yield self._take(Name.MISSING, self.left, more)
        elif 0 < extra <= len(doubtful) and 0 < self.left <= _most(doubtful, extra) + self.bound:
            yield self._doubtful(self.left, f"{more}: {_numbers(doubtful)}", exact=False)
        else:
            yield self._take(Name.UNCLEAR, self.left, f"{more}: missing attempts, forfeits billed, or other prices")

    def _priced(self) -> Iterator[Part]:
        """As many requests and tokens as the ledger has, as far as either is told: what is left is a matter of price."""
        same = self.gap.told or self.cell.certain
        if self.gap.cached:
            cost = self._cost()
            if cost is None:
                why = "other tokens came from a cache, and no price says what that changes"
                yield self._take(Name.UNCLEAR, self.left, why)
            else:
                written = self.gap.write + self.gap.write_1h
                yield self._take(
                    Name.CACHE, cost[1], f"{self.gap.read:+d} tokens read from a cache, {written:+d} written"
                )
        known = same or self.gap.requests == 0
        if known or abs(self.left) <= self.bound:
            yield from self._unbilled("the statement has as much as was settled, and no more")
        yield from self._rest(same=same)

    def _rest(self, *, same: bool) -> Iterator[Part]:
        """What is left: rounding, a discount that fits, another price; `same`: the tokens are known to be the same."""
        if abs(self.left) <= self.bound:
            if self.left:
                yield self._take(Name.ROUNDING, self.left, f"within {self.bound} nanos")
            return
        found = [
            (name, amount, why) for name, amount, why in self._discounts() if abs(self.left - amount) <= self.bound
        ]
        fits = {name: (amount, why) for name, amount, why in found}
        if len(fits) == 1:
            ((name, (amount, why)),) = fits.items()
            yield self._take(name, amount, why)
            if self.left:
                yield self._take(Name.ROUNDING, self.left, f"within {self.bound} nanos")
        elif fits:
            yield self._take(Name.UNCLEAR, self.left, f"{' or '.join(fits)}: each fits")
        elif same and self.settled:
            yield self._take(Name.PRICE, self.left, f"the same tokens, other money: {_numbers(self.settled)}")
        else:
            yield self._take(Name.UNCLEAR, self.left, self._candidates())

    def _candidates(self) -> str:
        found = ["a price error", "other tokens", "a cache discount"]
        if self.gap.requests is None:
            found += ["missing attempts" if self.left > 0 else "attempts that are not on the statement"]
            found += ["forfeits billed"] if self.forfeits and self.left > 0 else []
        told = "no tokens are told" if self.gap.requests is not None else "neither requests nor tokens are told"
        return f"{told}: {', '.join(found[:-1])} or {found[-1]}"

    def _discounts(self) -> Iterator[tuple[Name, Nanos, str]]:
        """What the residual would be if a discount had been given that the ledger did not book, or the other way round."""
        jobs = [one for one in self.settled if one.job]
        cheap = self.settled if any(line.kind is Charge.BATCH for line in self.cell.lines) else jobs
        if (change := _change(jobs, lambda one: one.usual, _same)) is not None:
            yield Name.BATCH, change, "booked at the price of the batch lane, billed at the usual one"
        if (change := _change(cheap, lambda one: one.batch, _same)) is not None:
            yield Name.BATCH, change, "booked at the usual price, billed at that of the batch lane"
        cached = [one for one in self.settled if one.usage is not None and one.usage.cache_read]
        if (change := _change(cached, lambda one: one.price, _uncached)) is not None:
            yield Name.CACHE, change, "booked with a discount for cached tokens, billed without"


def _change(
    held: Sequence[Booked], price: Callable[[Booked], Price | None], usage: Callable[[Usage], Usage]
) -> Nanos | None:
    """By how much attempts would cost more at another price, or with other usage; None where nothing, or nothing known."""
    total = 0
    for one in held:
        found = price(one)
        cost = None if found is None or one.usage is None else found.cost(usage(one.usage), at=one.answered)
        if cost is None:
            return None
        total += cost - one.settled
    return total or None


def _same(usage: Usage) -> Usage:
    return usage


def _uncached(usage: Usage) -> Usage:
    return replace(usage, input_fresh=(usage.input_fresh or 0) + (usage.cache_read or 0), cache_read=0)


def _most(doubtful: Sequence[Booked], count: int | None) -> Nanos:
    """The most that so many of the forfeits may have cost: no provider bills beyond a hold unseen."""
    return sum(sorted((one.doubt for one in doubtful), reverse=True)[:count])


def _signed(value: int | None) -> str:
    return "?" if value is None else f"{value:+d}"


def _numbers(booked: Sequence[Booked]) -> str:
    """`attempt 7`, `attempts 7, 9 and 3 more`."""
    names = [str(one.attempt) for one in booked[:5]]
    more = f" and {len(booked) - 5} more" if len(booked) > 5 else ""
    return f"attempt{'s' if len(booked) != 1 else ''} {', '.join(names)}{more}"
