"""Quote: how many calls are to be sent, what they will cost, and how long they take at the lanes' rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil

from judgerun.errors import EXPERIMENT, Problem, invariant
from judgerun.ledger.entry import Amount
from judgerun.ledger.prices import SERVICES, Price
from judgerun.model.experiment import Embed, Experiment, Model
from judgerun.model.kept import Cell
from judgerun.model.lane import LaneSpec, passed
from judgerun.model.money import Nanos
from judgerun.model.profile import Profile
from judgerun.model.reply import Usage
from judgerun.plan.counts import Counts
from judgerun.plan.flow import Flow
from judgerun.plan.graph import needs, ordered
from judgerun.plan.outlook import Outlook
from judgerun.plan.tally import Tally

Prices = Callable[[Model], Price | None]

EXPECTED_BYTES_PER_TOKEN = 4
"""What a token is taken to cover where no reply has told better."""

WORST_BYTES_PER_TOKEN = 2
"""The same in the worst case short of the bound: mathematics and most scripts stay above it."""

SECONDS_PER_CALL = 1.0
TOKENS_PER_SECOND = 50
"""How long a call is taken to last: this long, and its output at this pace. Only guesses of a duration use them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The quote of one condition. cells = cached + shared + to_send + failed, and what `only` or `limit` leaves out.

    `expected`, `worst` and `bound` are nanos for what is to be sent: at observed or expected lengths; at the token caps and
    the longest rows; and the same with inputs bounded by their bytes, as reservations are.
    """

    condition: str
    stage: str
    model: str
    cells: int
    cached: int  # a reply is there
    shared: int  # on another cell's call
    to_send: int
    failed: int
    unknown: int  # those of `to_send` whose rows do not exist yet, at their bound
    expected: Nanos
    worst: Nanos
    bound: Nanos
    seconds: float  # alone, at the lanes' rates; 0 in the batch lane
    days: int  # the most that its jobs may take; 0 where it has none to send
    longest: int  # the largest input bound of a call, in tokens
    tokens: int  # in and out, in that worst case


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The quote of a flow. `problems` are reasons to refuse: a price or a bound that is not known."""

    lines: tuple[Line, ...]
    counts: tuple[Counts, ...]
    seconds: float  # of calls
    days: int = 0  # the most that jobs may take, those of dependent stages one after the other
    problems: tuple[Problem, ...] = ()
    digest: str = ""  # of the plan, as far as it is known

    def sum(self, name: str) -> int:
        """The sum of a column of whole numbers."""
        return sum(int(getattr(line, name)) for line in self.lines)

    @property
    def to_send(self) -> int:
        """Calls."""
        return self.sum("to_send")

    @property
    def expected(self) -> Nanos:
        """Expected price."""
        return self.sum("expected")

    @property
    def worst(self) -> Nanos:
        """Worst case."""
        return self.sum("worst")

    @property
    def bound(self) -> Nanos:
        """Bound."""
        return self.sum("bound")


def output_bound(cap: int | None, ceiling: int | None, profile: Profile) -> int | None:
    """The most output tokens that a call can be billed for; None where nothing bounds them.

    Where the provider's cap covers hidden reasoning, it is the bound, and a ceiling stands in where no cap is sent. Where it
    does not, only a ceiling bounds them.
    """
    if profile.reasoning in ("none", "inside"):
        return ceiling if cap is None else cap
    return None if ceiling is None else max(ceiling, cap or 0)


def need(cell: Cell, model: Model, price: Price, ceiling: int | None, profile: Profile) -> Amount:
    """The worst case of one call, as it must be reserved."""
    output = 0 if cell.request.kind == "embed" else output_bound(cell.output_cap, ceiling, profile)
    invariant(output is not None, f"nothing bounds the output of {model.name}")
    tokens = cell.input_bound + (output or 0)
    return Amount(nanos=price.bound(cell.input_bound, output or 0), calls=1, tokens=tokens)


@dataclass(slots=True)
class Climbing:
    """Of these, the cells that are asked again under a higher cap. Each is expected to reach it: what was cut off says nothing of
    how long it would have been.
    """

    sent: int = 0
    inputs: int = 0
    outputs: int = 0
    expected: Nanos = 0


@dataclass(slots=True)
class Sum:
    """What is to be sent in one condition, added up."""

    sent: int = 0
    bounds: int = 0  # input bounds in tokens
    longest: int = 0
    by_bytes: bool = True
    worst: Nanos = 0
    bound: Nanos = 0
    inputs: int = 0  # expected input tokens of those under their own cap
    climbing: Climbing = field(default_factory=Climbing)
    tokens: int = 0  # in the worst case


def quote(
    flow: Flow,
    *,
    prices: Prices,
    lanes: Mapping[str, LaneSpec],
    ceilings: Mapping[str, int],
    budget: str = "",
) -> Quote:
    """Survey a fresh flow and price what is to be sent. Its look-up should not tell of failed cells: a run tries them anew."""
    sums: dict[str, Sum] = {}
    terms = {name: Terms.of(tally, prices, ceilings, flow) for name, tally in flow.tallies.items()}
    for cell in flow.survey():
        _add(sums.setdefault(cell.condition, Sum()), cell, flow.tallies[cell.condition], terms[cell.condition])
    outlook = Outlook(flow.common, flow.tallies)
    lines = tuple(
        _line(tally, sums.get(name, Sum()), terms[name], lanes, outlook, flow.share(name))
        for name, tally in flow.tallies.items()
    )
    problems = [problem for line in lines if line.to_send for problem in terms[line.condition].problems(budget)]
    return Quote(
        lines=lines,
        counts=flow.counts(),
        seconds=_seconds(lines, terms),
        days=_days(lines, flow.experiment),
        problems=tuple(dict.fromkeys(problems)),
        digest=flow.digest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The price of a condition's model, as its arm uses it, and what bounds its output."""

    model: Model
    price: Price | None
    ceiling: int | None
    profile: Profile
    embeds: bool
    caps: tuple[int, ...] = ()  # of the rungs above its own
    spare: Terms | None = None  # of its failover

    @classmethod
    def of(cls, tally: Tally, prices: Prices, ceilings: Mapping[str, int], flow: Flow) -> Terms:
        """The terms of the model of a condition."""
        models = {model.name: model for model in flow.experiment.models}

        def terms(model: Model) -> Terms:
            return cls(
                model=model,
                price=prices(model),
                ceiling=ceilings.get(f"{model.provider.name}/{model.model}"),
                profile=flow.profiles[model.name],
                embeds=isinstance(flow.experiment.stage(tally.stage), Embed),
                caps=tally.caps,
                spare=None if model.failover is None else terms(models[model.failover]),
            )

        return terms(tally.model)

    @property
    def output(self) -> int | None:
        """The most output tokens of a call."""
        return self.bound(self.model.max_output_tokens)

    def bound(self, cap: int | None) -> int | None:
        """The same under a cap."""
        return output_bound(cap, self.ceiling, self.profile)

    def most(self, inputs: int, cap: int | None) -> Nanos:
        """The most that a cell can cost: under its cap, then on each rung above it; all at the dearest model that may serve it."""
        if self.price is None:
            return 0
        own = self._once(self.price, inputs, cap)
        for rung in self.caps:
            if rung > (cap or 0):
                own += self._once(self.price, inputs, rung)
        if self.spare is None:
            return own
        climbs = cap != self.model.max_output_tokens
        return max(own, self.spare.most(inputs, cap if climbs else self.spare.model.max_output_tokens))

    def _once(self, price: Price, inputs: int, cap: int | None) -> Nanos:
        return price.bound(inputs, 0 if self.embeds else (self.bound(cap) or 0))

    def problems(self, budget: str) -> list[Problem]:
        """Why nothing may be sent to the model, or to its failover, under a dollar cap."""
        place = f"{self.model.provider.name}/{self.model.model}"
        found = []
        if self.price is None:
            right = "a row in budgets/prices.toml, or `price` or `price_as` on its provider"
            wrong = f"no price of {self.model.priced_as} is known"
            for service in self.model.extra.keys() & set(SERVICES):
                wrong += f" with extra.{service}"
            if self.model.lane == "batch":
                wrong += " in the batch lane"
                right += ", with batch_factor"
            found.append(Problem(EXPERIMENT, f"models.{self.model.name}", wrong, right))
        if not self.embeds and self.output is None:
            file = f"budgets/{budget}.toml" if budget else "the budget"
            hidden = self.profile.reasoning in ("outside", "unknown")
            wrong = "its token cap does not bound hidden reasoning" if hidden else "nothing bounds its output"
            right = f'"{place}" = output tokens to reserve' + ("" if hidden else ", or max_output_tokens on the model")
            found.append(Problem(file, f'ceiling."{place}"', wrong, right))
        return found if self.spare is None else found + self.spare.problems(budget)


def _add(total: Sum, cell: Cell, tally: Tally, terms: Terms) -> None:
    by_bytes, size = cell.input_bound_by == "bytes", len(cell.request.canonical)
    total.sent += 1
    total.bounds += cell.input_bound
    total.longest = max(total.longest, cell.input_bound)
    total.by_bytes = by_bytes
    inputs = _input(cell.input_bound, size, by_bytes, tally)
    worst = _worst_input(cell.input_bound, inputs, by_bytes)
    output = 0 if terms.embeds else (terms.bound(cell.output_cap) or 0)
    total.tokens += worst + output
    total.worst += terms.most(worst, cell.output_cap)
    total.bound += terms.most(cell.input_bound, cell.output_cap)
    if not cell.climbing:
        total.inputs += inputs
        return
    climbing = total.climbing
    climbing.sent += 1
    climbing.inputs += inputs
    climbing.outputs += output
    if terms.price is not None:
        climbing.expected += terms.price.cost(Usage(input_fresh=inputs, output_visible=output)) or 0


def _ratio(tally: Tally) -> float | None:
    """Tokens per byte of the requests whose replies told."""
    return tally.input_tokens / tally.input_bytes if tally.input_bytes else None


def _input(bound: int, size: int, by_bytes: bool, tally: Tally) -> int:
    """Expected tokens of the input of a request of `size` bytes: by those, as the ratio of the replies that told was taken."""
    if not by_bytes:
        return bound
    ratio = _ratio(tally)
    return min(bound, ceil(bound / EXPECTED_BYTES_PER_TOKEN if ratio is None else size * ratio))


def _worst_input(bound: int, expected: int, by_bytes: bool) -> int:
    return bound if not by_bytes else min(bound, max(ceil(bound / WORST_BYTES_PER_TOKEN), expected))


def _output(tally: Tally, terms: Terms) -> int:
    """Expected output tokens: as replies so far, else as the experiment says, else the most."""
    most = terms.output or 0
    if tally.told:
        return min(ceil(tally.output_tokens / tally.told), most)
    return min(tally.output_expected, most) if tally.output_expected is not None else most


def _line(
    tally: Tally, total: Sum, terms: Terms, lanes: Mapping[str, LaneSpec], outlook: Outlook, share: float
) -> Line:
    unknown = ceil(tally.unknown * share)
    embed = terms.embeds
    output, most = (0, 0) if embed else (_output(tally, terms), terms.output or 0)
    mean, longest = 0, total.longest
    if unknown:
        size = outlook.size(tally.condition)
        mean = ceil(total.bounds / total.sent) if total.sent else ceil(size.mean)
        longest = max(total.longest, size.longest)
    usual = ceil(tally.input_tokens / tally.told) if tally.told else _input(mean, mean, total.by_bytes, tally)
    inputs = total.inputs + unknown * usual
    longest_worst = _worst_input(longest, _input(longest, longest, total.by_bytes, tally), total.by_bytes)
    sent, cap = total.sent + unknown, terms.model.max_output_tokens
    climbing = total.climbing
    outputs = (sent - climbing.sent) * output + climbing.outputs
    expected = worst = bound = 0
    if terms.price is not None:
        worst = total.worst + unknown * terms.most(longest_worst, cap)
        bound = total.bound + unknown * terms.most(longest, cap)
        expected = min(worst, climbing.expected + _expected(terms.price, sent - climbing.sent, inputs, output))
    counts = tally.counts()
    own, jobs = lanes_of(terms.model, lanes), terms.model.lane == "batch"
    return Line(
        condition=tally.condition,
        stage=tally.stage,
        model=tally.model.name,
        cells=counts.planned,
        cached=counts.done - counts.shared,
        shared=counts.shared + tally.twins,
        to_send=sent,
        failed=counts.failed,
        unknown=unknown,
        expected=expected,
        worst=worst,
        bound=bound,
        seconds=0.0
        if jobs
        else _time(sent, inputs + climbing.inputs + outputs, outputs // sent if sent else 0, own, embed),
        days=_rounds(inputs + climbing.inputs, own) if jobs and sent else 0,
        longest=longest,
        tokens=total.tokens + unknown * (longest_worst + most),
    )


def _expected(price: Price, calls: int, inputs: int, output: int) -> Nanos:
    """What so many calls of the mean length cost, each in the tier of its own length, at the dearest hour."""
    if not calls:
        return 0
    return calls * (price.cost(Usage(input_fresh=ceil(inputs / calls), output_visible=output)) or 0)


def lanes_of(model: Model, lanes: Mapping[str, LaneSpec]) -> tuple[LaneSpec, ...]:
    """The lanes that a call of the model passes."""
    names = passed(model.provider.name, model.name, lanes)
    return tuple(lanes.get(name, LaneSpec(name=name)) for name in names)


def _time(calls: int, tokens: int, output: int, lanes: tuple[LaneSpec, ...], embed: bool) -> float:
    """Seconds that so many calls take where the tightest lane sets the pace."""
    slowest = 0.0
    for lane in lanes:
        sends = ceil(calls / lane.batch_size) if embed else calls
        slowest = max(slowest, sends * (SECONDS_PER_CALL + output / TOKENS_PER_SECOND) / lane.concurrency)
        if lane.requests_per_minute:
            slowest = max(slowest, 60 * sends / lane.requests_per_minute)
        if lane.tokens_per_minute:
            slowest = max(slowest, 60 * tokens / lane.tokens_per_minute)
        if lane.requests_per_day:
            slowest = max(slowest, 86_400 * (ceil(sends / lane.requests_per_day) - 1))
    return slowest


def _rounds(inputs: int, lanes: tuple[LaneSpec, ...]) -> int:
    """How many jobs follow each other where so many tokens may be enqueued at once; each may take a day."""
    return max((ceil(inputs / lane.enqueued_tokens) for lane in lanes if lane.enqueued_tokens), default=1)


def _days(lines: tuple[Line, ...], experiment: Experiment) -> int:
    """Stages that depend on each other follow each other, at the pace of the slowest of their conditions."""
    own: dict[str, int] = {}
    for line in lines:
        own[line.stage] = max(own.get(line.stage, 0), line.days)
    whole: dict[str, int] = {}
    for stage in ordered(experiment):
        before = max((whole.get(name, 0) for name in needs(stage)), default=0)
        whole[stage.name] = own.get(stage.name, 0) + before
    return max(whole.values(), default=0)


def _seconds(lines: tuple[Line, ...], terms: Mapping[str, Terms]) -> float:
    """Providers work side by side; the conditions of one are taken to follow each other."""
    by_provider: dict[str, float] = {}
    for line in lines:
        provider = terms[line.condition].model.provider.name
        by_provider[provider] = by_provider.get(provider, 0.0) + line.seconds
    return max(by_provider.values(), default=0.0)
