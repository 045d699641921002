"""Certificate: what the first items of a run say of the rest, against caps and gates; from observed costs and a quote, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from judgerun.analysis.columns import Floats
from judgerun.analysis.forecast import COUNTS, SUMS, Group, Sums, beyond, forecast, later, middle
from judgerun.analysis.intervals import wilson
from judgerun.ledger.budget import Cap, Leaf
from judgerun.model.experiment import Embed, Experiment, Gate
from judgerun.model.lane import LaneSpec
from judgerun.model.money import Nanos, format_usd
from judgerun.plan.counts import Counts
from judgerun.plan.quote import Line, lanes_of

UNITS = ("nanos", "calls", "tokens", "seconds")
"""What a cell takes, by place in the arrays; seconds are those of a slot."""
LEVELS = (0.05, 0.5, 0.95, 0.99)
NAMES = ("q05", "q50", "q95", "q99")
LEVEL = 0.90
"""Of the predicted intervals of counts: what lies between the outer two of the first three `LEVELS`, for costs."""
RISK = 0.05
"""The probability, for each cap, above which the rest is not begun."""
LIKELY = 0.5
"""The probability, for each limit of a gate, above which the rest is not begun."""
SHARES = ("truncated", "empty", "unparsed")
TIME = "Bayesian bootstrap/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the items of a pilot took in one condition; see `analysis.forecast.Group`. Cells that nothing reached weigh too."""

    weights: Floats
    amounts: Floats  # (items, UNITS)
    replies: int

    @property
    def flowing(self) -> float:
        """The share of cells that were asked and answered."""
        cells = float(self.weights.sum())
        return self.replies / cells if cells else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """A cap that covers some of these conditions, and what it leaves."""

    cap: Cap
    leaves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A mean, and quantiles at `LEVELS`."""

    mean: float
    quantiles: tuple[float, ...]

    def dollars(self) -> dict[str, str]:
        """In JSON, of nanos: rounded up, as decimal strings of dollars."""
        return {f"{name}_usd": format_usd(ceil(value)) for name, value in self._named().items()}

    def seconds(self) -> dict[str, float]:
        """In JSON, of seconds."""
        return {name: round(value, 1) for name, value in self._named().items()}

    def _named(self) -> dict[str, float]:
        return {"mean": self.mean, **dict(zip(NAMES, self.quantiles, strict=True))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Bad replies of one kind: `bad` of `n` with Wilson's interval, and how many more are predicted among `more` replies."""

    name: str
    bad: int
    n: int
    low: float
    high: float
    more: int
    later: tuple[int, int]
    limit: float | None = None  # of a gate
    passes: float | None = None  # the probability that the share of all replies passes it in the end

    def document(self) -> dict[str, Any]:
        """In JSON."""
        told = {name: getattr(self, name) for name in ("name", "bad", "n", "low", "high", "more", "limit", "passes")}
        return {**told, "later_low": self.later[0], "later_high": self.later[1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The certificate of one condition."""

    condition: str
    items: int
    replies: int
    left: int
    pending: int
    quoted: Nanos
    cost: Spread
    shares: tuple[Share, ...]
    gate: str | None  # why it has fired

    def document(self) -> dict[str, Any]:
        """In JSON."""
        names = ("condition", "items", "replies", "left", "pending", "gate")
        return {
            **{name: getattr(self, name) for name in names},
            "cost": self.cost.dollars(),
            "quoted_usd": format_usd(self.quoted),
            "shares": [share.document() for share in self.shares],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """One cap against what the rest takes of it."""

    headroom: Headroom
    passes: float  # the probability that the rest takes more than it leaves

    def document(self) -> dict[str, Any]:
        """In JSON; amounts of dollars as decimal strings."""
        cap, leaves = self.headroom.cap, self.headroom.leaves
        told = format_usd(leaves) if cap.unit == "nanos" else leaves
        return {"cap": str(cap), "unit": cap.unit, "leaves": told, "passes": round(self.passes, 6)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a pilot says of the rest of its run."""

    experiment: str
    budget: str
    blocks: int
    seed: int
    risk: float
    attempt: int  # the last of the cache: what is bought later has a higher number
    parts: tuple[Part, ...]
    cost: Spread
    seconds: Spread
    caps: tuple[Against, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not allow the rest; empty where it does."""
        found = [
            f"P(the rest takes more than {headroom.cap} leaves) = {one.passes:.3f} > {self.risk:g}"
            for one in self.caps
            if (headroom := one.headroom) and one.passes > self.risk
        ]
        for part in self.parts:
            if part.gate is not None:
                found.append(f"the gate of {part.condition} has fired: {part.gate}")
            found += [
                f"P({share.name} of {part.condition} ends above its gate of {share.limit:.1%}) = {share.passes:.3f} > {LIKELY:g}"
                for share in part.shares
                if share.limit is not None and share.passes is not None and share.passes > LIKELY
            ]
        return tuple(found)

    def document(self) -> dict[str, Any]:
        """The detail of a `pilot` event."""
        return {
            "experiment": self.experiment,
            "budget": self.budget,
            "blocks": self.blocks,
            "seed": self.seed,
            "risk": self.risk,
            "likely": LIKELY,
            "attempt": self.attempt,
            "allows": not self.reasons,
            "reasons": list(self.reasons),
            "methods": {"cost": SUMS, "rate": "wilson", "count": COUNTS, "time": TIME, "level": LEVEL},
            "cost": self.cost.dollars(),
            "seconds": self.seconds.seconds(),
            "caps": [one.document() for one in self.caps],
            "conditions": [part.document() for part in self.parts],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a certificate is drawn from: the pilot's items, the quote of the rest, the counts, what stands against them."""

    experiment: Experiment
    budget: str
    blocks: int
    attempt: int
    seen: Mapping[str, Seen]
    lines: Sequence[Line]
    counts: Mapping[str, Counts]
    headrooms: Sequence[Headroom]
    lanes: Mapping[str, LaneSpec]
    gates: Mapping[str, Gate] = field(default_factory=dict)
    fired: Mapping[str, str] = field(default_factory=dict)


def certify(found: Found, *, rng: np.random.Generator, risk: float = RISK) -> Certificate:
    """Draw the certificate. The same pilot and the same state of `rng` give the same certificate.

    A cell of which no reply tells is taken at the worst case of its quote, and an unseen item at that of all its cells.
    """
    lines = [line for line in found.lines if line.to_send]
    groups = [_group(found, line) for line in lines]
    sums = dict(zip((line.condition for line in lines), forecast(groups, rng=rng), strict=True))
    return Certificate(
        experiment=found.experiment.name,
        budget=found.budget,
        blocks=found.blocks,
        seed=found.experiment.seed,
        risk=risk,
        attempt=found.attempt,
        parts=tuple(_part(found, line, group, sums[line.condition]) for line, group in zip(lines, groups, strict=True)),
        cost=_spread(sum(group.means[0] for group in groups), sums.values()),
        seconds=_time(found, lines, sums),
        caps=tuple(_against(found, headroom, lines, sums) for headroom in found.headrooms),
    )


def _group(found: Found, line: Line) -> Group:
    seen = found.seen[line.condition]
    embeds = isinstance(found.experiment.stage(line.stage), Embed)
    calls = 1 / _lanes(found, line)[0].batch_size if embeds else 1.0
    # the longest time that was seen stands for the longest possible: a timeout is no law of a call
    longest = float((seen.amounts[:, 3] / np.maximum(seen.weights, 1)).max(initial=0.0))
    most = np.array([line.worst / line.to_send, calls, line.tokens / line.to_send, longest])
    return Group(weights=seen.weights, amounts=seen.amounts, most=most, left=float(line.to_send))


def _lanes(found: Found, line: Line) -> tuple[LaneSpec, ...]:
    model = next(model for model in found.experiment.models if model.name == line.model)
    return lanes_of(model, found.lanes)


def _spread(mean: float, sums: Any) -> Spread:
    """Of dollars: quantiles below a half with the unseen at nothing, above with it at its most, the median without it."""
    held = list(sums)
    low, plain, high = (
        np.sum([getattr(one, name)[:, 0] for one in held], axis=0) if held else np.zeros(1)
        for name in ("low", "plain", "high")
    )
    quantiles = [float(np.quantile(low, LEVELS[0])), float(np.quantile(plain, LEVELS[1]))]
    return Spread(mean=mean, quantiles=(*quantiles, *map(float, np.quantile(high, LEVELS[2:]))))


def _part(found: Found, line: Line, group: Group, sums: Sums) -> Part:
    seen, counts = found.seen[line.condition], found.counts[line.condition]
    gate = found.gates.get(line.condition)
    more = round(line.to_send * seen.flowing)
    limits = {} if gate is None else gate.limits
    names = dict.fromkeys((*SHARES, *(name for name in ("refused", "failed") if name in limits)))
    return Part(
        condition=line.condition,
        items=int(np.count_nonzero(seen.weights)),
        replies=seen.replies,
        left=line.to_send,
        pending=counts.pending,
        quoted=line.expected,
        cost=_spread(float(group.means[0]), [sums]),
        shares=tuple(_share(name, counts, more, limits.get(name)) for name in names),
        gate=found.fired.get(line.condition),
    )


def _share(name: str, counts: Counts, more: int, limit: float | None) -> Share:
    bad, n = int(getattr(counts, name)), counts.done
    if name == "failed":
        bad, n = bad - counts.starved, counts.tried
    chances = later(bad, n, more=more)
    low, high = wilson(bad, n, level=LEVEL)
    return Share(
        name=name,
        bad=bad,
        n=n,
        low=round(low, 6),
        high=round(high, 6),
        more=more,
        later=middle(chances, level=LEVEL),
        limit=limit,
        passes=None if limit is None else round(beyond(chances, limit * (n + more) - bad), 6),
    )


def _against(found: Found, headroom: Headroom, lines: Sequence[Line], sums: Mapping[str, Sums]) -> Against:
    """A day's cap is asked as if the whole rest fell on this day."""
    place = UNITS.index(headroom.cap.unit)
    models = {model.name: model.provider.name for model in found.experiment.models}
    taken = [
        sums[line.condition].high[:, place]
        for line in lines
        if headroom.cap.covers(
            Leaf(found.budget, found.experiment.name, line.stage, line.condition, models[line.model], ""), ""
        )
    ]
    passes = float(np.mean(np.sum(taken, axis=0) > headroom.leaves)) if taken else 0.0
    return Against(headroom=headroom, passes=passes)


def _time(found: Found, lines: Sequence[Line], sums: Mapping[str, Sums]) -> Spread:
    """Wall time where the tightest lane sets the pace, from what calls took in the pilot; jobs of the batch lane are left out."""
    models = {model.name: model for model in found.experiment.models}
    taken: dict[str, Floats] = {}
    specs: dict[str, LaneSpec] = {}
    for line in lines:
        if models[line.model].lane != "batch":
            for lane in _lanes(found, line):
                specs[lane.name] = lane
                taken[lane.name] = taken.get(lane.name, 0.0) + sums[line.condition].plain
    times = [_pace(specs[name], held) for name, held in taken.items()]
    slowest = np.max(times, axis=0) if times else np.zeros(1)
    return Spread(mean=float(slowest.mean()), quantiles=tuple(map(float, np.quantile(slowest, LEVELS))))


def _pace(lane: LaneSpec, taken: Floats) -> Floats:
    """Seconds that so many calls, tokens and slot-seconds take in a lane, by draw."""
    _, calls, tokens, seconds = taken.T
    found = seconds / lane.concurrency
    for rate, amount in ((lane.requests_per_minute, calls), (lane.tokens_per_minute, tokens)):
        if rate:
            found = np.maximum(found, 60 * amount / rate)
    if lane.requests_per_day:
        found = np.maximum(found, 86_400 * (np.ceil(calls / lane.requests_per_day) - 1))
    return np.asarray(found, dtype=np.float64)
