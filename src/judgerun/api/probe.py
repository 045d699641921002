"""Probe: one priced call for each model and prompt of an experiment, and what it tells before money is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from judgerun.api.project import Project, snapshot
from judgerun.api.quoting import quote
from judgerun.api.running import refuse_above, run
from judgerun.api.state import Result
from judgerun.dispatch.room import Flow as Dispatched
from judgerun.errors import Exit
from judgerun.files.windows import context_window
from judgerun.ledger.budget import Budget
from judgerun.model.condition import canary_of
from judgerun.model.experiment import Arm, Chat, Embed, Experiment, Model
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.money import Nanos, format_usd
from judgerun.plan.counts import Counts
from judgerun.plan.flow import Flow
from judgerun.plan.quote import Line
from judgerun.plan.tally import Tally
from judgerun.table.answers import answered
from judgerun.table.row import Outcome

BLOCKS_MAX = 50
"""So many blocks are looked into for a first call of each arm; an arm whose upstream gives nothing in them is not reached."""

Place = tuple[str, str, str]  # stage, model, prompt ("" for embeddings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What one call told. `problems` keep the arm from being run as it is; `notes` are worth knowing."""

    stage: str
    model: str
    prompt: str
    outcome: str  # "replied", "rejected", "failed", "not reached"
    reply: Kept | None = None
    read: Outcome | None = None
    cell: Cell | None = None
    to_send: int = 0
    expected: Nanos = 0
    rate: Nanos | None = None  # what such a call costs in the lane of the run; None where that is not known
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def at_this_rate(self) -> Nanos | None:
        """What all calls of the arm cost if each costs as this one; None where that is not known."""
        if not self.to_send:
            return 0
        return None if self.rate is None else self.rate * self.to_send

    def document(self) -> dict[str, Any]:
        """The arm's object in `probe --json`."""
        usage = self.reply.reply.usage if self.reply else None
        verdict = self.read.verdict if self.read else None
        rate = self.at_this_rate
        return {
            "stage": self.stage,
            "model": self.model,
            "prompt": self.prompt or None,
            "outcome": self.outcome,
            "finish": self.reply.reply.finish.value if self.reply else None,
            "parsed": verdict.parsed if verdict else None,
            "why": verdict.why or None if verdict else None,
            "input_tokens": usage.input if usage else None,
            "input_bound": self.cell.input_bound if self.cell else None,
            "input_bound_by": self.cell.input_bound_by if self.cell else None,
            "output_tokens": usage.output if usage else None,
            "reasoning_tokens": usage.reasoning if usage else None,
            "cost_usd": format_usd(self.reply.cost) if self.reply and self.reply.cost is not None else None,
            "to_send": self.to_send,
            "expected_usd": format_usd(self.expected),
            "at_this_rate_usd": None if rate is None else format_usd(rate),
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What all calls of a probe told."""

    code: Exit
    reason: str | None
    arms: tuple[Probed, ...]

    def document(self) -> dict[str, Any]:
        """The object of `probe --json`."""
        rates = [arm.at_this_rate for arm in self.arms]
        known = [rate for rate in rates if rate is not None]
        return {
            "exit": int(self.code),
            "reason": self.reason,
            "arms": [arm.document() for arm in self.arms],
            "expected_usd": format_usd(sum(arm.expected for arm in self.arms)),
            "at_this_rate_usd": format_usd(sum(known)) if len(known) == len(rates) else None,
        }


@dataclass(slots=True)
class Sample:
    """A flow of which only the first cell of each arm is sent; the others are left pending. Mutable: it remembers these cells."""

    flow: Flow
    wanted: frozenset[Place]
    cells: dict[Place, Cell] = field(default_factory=dict)
    lost: dict[Place, str] = field(default_factory=dict)

    def take(self, *, blocks: int | None = None) -> Cell | None:
        """The next cell of an arm that has none yet."""
        while not self._whole and (cell := self.flow.take(blocks=blocks)) is not None:
            place = place_of(cell)
            if place not in self.known and not canary_of(cell.condition):
                self.cells[place] = cell
                return cell
            self.flow.abandon(cell)
        return None

    @property
    def _whole(self) -> bool:
        return self.wanted <= self.known

    @property
    def _real(self) -> list[Tally]:
        return [tally for name, tally in self.flow.tallies.items() if not canary_of(name)]

    @property
    def known(self) -> frozenset[Place]:
        """The arms of which a call was made, now or earlier."""
        told = {_condition_place(tally.condition) for tally in self._real if tally.done}
        return frozenset(self.cells.keys() | told)

    @property
    def drained(self) -> bool:
        """Nothing more will be taken, but for what open cells bring."""
        return self._whole or self.flow.drained

    def resolve(self, cell: Cell, outcome: Kept | Lost) -> None:
        """What became of a probed cell."""
        if isinstance(outcome, Lost):
            self.lost[place_of(cell)] = outcome.reason
        self.flow.resolve(cell, outcome)

    def forgo(self, cell: Cell) -> None:
        """Leave a cell pending, and those that share its call."""
        self.flow.abandon(cell)

    def divert(self, cell: Cell) -> Cell | None:
        """A probe asks the model that it names, and no other."""
        return None

    def counts(self) -> tuple[Counts, ...]:
        """How the cells stand."""
        return self.flow.counts()


def place_of(cell: Cell) -> Place:
    """The arm to which a cell belongs."""
    return _condition_place(cell.condition)


def _condition_place(condition: str) -> Place:
    """The arm of a condition: its own segment begins with stage, model and (of a chat) prompt."""
    stage, model, *rest = condition.split("@", 1)[0].split("/")
    return stage, model, rest[0] if rest else ""


async def probe(
    project: Project, budget: Budget, *, yes: bool = False, log: Callable[[str], None] = lambda _: None
) -> Probe:
    """Make the first call of each model x prompt, in plan order, under a budget: ordinary requests, which a later run finds in
    the cache. Models of the batch lane are asked by single calls, at their full price. Arms whose replies are all there
    already are told from the cache and cost nothing.

    Raises Refused as `run` does; `confirm_above` is compared with the worst case of the probe alone.
    """
    single = without_lanes(project)
    quoted = quote(single, budget)
    whole = quoted if single.experiment == project.experiment else quote(project, budget)
    arms = _arms(project.experiment)
    refuse_above(min(_at_risk(quoted.quote.lines), quoted.headroom), budget, yes=yes)
    samples: list[Sample] = []

    def narrow(flow: Flow) -> Dispatched:
        samples.append(Sample(flow, frozenset(arms)))
        return samples[-1]

    result = await run(single, budget=budget, yes=True, limit=BLOCKS_MAX, log=log, narrow=narrow)
    found = tuple(_probed(project, samples[0], place, model, whole.quote.lines) for place, model in arms.items())
    found = tuple(_explained(project, arm, found, whole.quote.lines, result) for arm in found)
    bad = any(arm.problems for arm in found)
    code = Exit.FINDINGS if bad and result.code is Exit.DONE else result.code
    return Probe(code=code, reason=result.reason, arms=found)


def without_lanes(project: Project) -> Project:
    """The project with every model of the batch lane in the lane of single calls."""

    def plain(model: Model) -> Model:
        return replace(model, lane=None)

    return project.remodelled(plain)


def _arms(experiment: Experiment) -> dict[Place, Model]:
    """Every model x prompt, with the model as that arm uses it, in file order."""
    found: dict[Place, Model] = {}
    for stage in experiment.stages:
        if isinstance(stage, Embed):
            found |= {(stage.name, model.name, ""): model for model in stage.models}
        if isinstance(stage, Chat):
            found |= {_place(stage, arm): arm.model for arm in stage.arms}
    return found


def _place(stage: Chat, arm: Arm) -> Place:
    return stage.name, arm.model.name, arm.prompt.name


def _at_risk(lines: Iterable[Line]) -> Nanos:
    """The worst case of one call for each arm: that of its dearest condition, where calls differ their mean, rounded up."""
    dearest: dict[Place, Nanos] = {}
    for line in lines:
        if line.to_send:
            place = _condition_place(line.condition)
            dearest[place] = max(dearest.get(place, 0), -(-line.worst // line.to_send))
    return sum(dearest.values())


def _probed(project: Project, sample: Sample, place: Place, model: Model, lines: Sequence[Line]) -> Probed:
    """What is known of one arm now."""
    own = [line for line in lines if _condition_place(line.condition) == place]
    cell = sample.cells.get(place)
    told = Probed(
        stage=place[0],
        model=place[1],
        prompt=place[2],
        outcome="not reached",
        cell=cell,
        to_send=sum(line.to_send for line in own),
        expected=sum(line.expected for line in own),
    )
    if place in sample.lost:
        return _refused(told, model, sample.lost[place])
    kept = read = None
    if cell is not None:
        with snapshot(project.workspace.cache) as view:
            found = None if view is None else view.lookup(cell.request.key)
        kept = _answered(project, model, found) if isinstance(found, Kept) else None
    for row in sample.flow.rows(place[0]):
        outcome = row.stages.get(place[0])
        if outcome is None or outcome.kept is None or (outcome.model, outcome.prompt or "") != place[1:]:
            continue
        if cell is None or outcome.key == cell.request.key:
            kept, read = outcome.kept, outcome
            break
    if kept is None:
        return told
    told = replace(told, outcome="replied", reply=kept, read=read, rate=_rate(project, model, kept))
    longest = _longest(told, [sample.flow.tallies[line.condition] for line in own], own)
    return replace(told, problems=tuple(_problems(told, model, longest)), notes=tuple(_notes(told, model)))


def _longest(told: Probed, tallies: Sequence[Tally], lines: Sequence[Line]) -> int:
    """Tokens of the longest prompt to send, counted as the call was; where that was an earlier one, as the arm's replies were."""
    bound = max((line.longest for line in lines), default=0)
    if told.cell is not None and told.reply is not None:
        return bound * (told.reply.reply.usage.input or 0) // max(told.cell.input_bound, 1)
    given, size = sum(tally.input_tokens for tally in tallies), sum(tally.input_bytes for tally in tallies)
    return bound * given // max(size, 1)


def _rate(project: Project, model: Model, kept: Kept) -> Nanos | None:
    """What a call as this one costs in the model's own lane."""
    if model.lane is None:
        return kept.cost
    now = datetime.now(UTC)
    price = project.price(model, now.date())
    return None if price is None else price.cost(kept.reply.usage, at=now)


def _explained(project: Project, arm: Probed, arms: Sequence[Probed], lines: Sequence[Line], result: Result) -> Probed:
    """An arm of which no call was made, with why; any other as it is."""
    if arm.outcome != "not reached":
        return arm
    if not arm.to_send:
        return replace(arm, notes=("nothing is left to send",))
    if result.code is not Exit.DONE:
        return replace(arm, problems=("no call was made: the probe ended before it",))
    own = [line.condition for line in lines if _condition_place(line.condition) == (arm.stage, arm.model, arm.prompt)]
    names = {segment.partition("/")[0] for condition in own for segment in condition.split("@")[1:]}
    above = [one for one in arms if one.stage in names]
    why = "no call was made: the first calls upstream gave it no row"
    if above and not any(one.problems for one in above):
        stage = above[-1].stage
        why += f", which takes more of {stage}: judgerun run {project.name} --only {stage}, and probe again"
    return replace(arm, problems=(why,))


def _answered(project: Project, model: Model, kept: Kept) -> Kept:
    """The reply with its answer as its text, as the run reads it."""
    return answered(kept, project.profiles[model.name].answer)[0]


def _refused(told: Probed, model: Model, reason: str) -> Probed:
    """An arm whose call gave no reply: which parameter the provider's own words name."""
    words = reason.lower()
    named = [name for name in _sent(model) if name.lower() in words]
    rejected = reason.startswith(("rejected", "too long"))
    blame = f" (it names {', '.join(named)})" if named else ""
    return replace(told, outcome="rejected" if rejected else "failed", problems=(f"{reason}{blame}",))


def _sent(model: Model) -> list[str]:
    """The words by which a provider may name what was sent."""
    words = [name for name in ("temperature", "dimensions", "input_type") if getattr(model, name) is not None]
    if model.max_output_tokens is not None:
        words += ["max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"]
    if model.thinking is not None:
        words += ["thinking", "effort", "reasoning"]
    return [*words, *model.extra]


def _problems(told: Probed, model: Model, longest: int) -> Iterable[str]:
    """What keeps the arm from being run as it is."""
    kept, read, cell = told.reply, told.read, told.cell
    if kept is None:
        return
    reply, usage = kept.reply, kept.reply.usage
    if reply.finish.value != "stop":
        yield f"it finished with {reply.finish.value} ({reply.finish_raw}), at {usage.output} output tokens"
    if read is not None and read.verdict is not None and not read.verdict.parsed:
        yield f"the answer does not parse: {read.verdict.why}"
    if usage.input is None or usage.output is None:
        yield "it tells no usage: every reply would cost its whole hold"
    if model.thinking == "off" and usage.reasoning:
        yield f"it thinks although thinking is off: {usage.reasoning} reasoning tokens"
    if cell is not None and usage.input is not None and usage.input > cell.input_bound:
        yield f"{usage.input} input tokens were billed, above the bound of {cell.input_bound} ({cell.input_bound_by})"
    window = context_window(model)
    if window is not None and longest + (model.max_output_tokens or 0) > window:
        yield f"the longest prompt, about {longest} tokens, and the output cap do not fit its window of {window}"


def _notes(told: Probed, model: Model) -> Iterable[str]:
    """What is worth knowing."""
    kept, cell = told.reply, told.cell
    if kept is None:
        return
    reply, usage = kept.reply, kept.reply.usage
    if model.thinking is None and usage.reasoning:
        yield f"hidden thinking: {usage.reasoning} reasoning tokens, which nobody asked for"
    sent = [name for name in ("temperature", "thinking", "max_output_tokens") if getattr(model, name) is not None]
    if sent or model.extra:
        yield f"accepted: {', '.join([*sent, *model.extra])}"
    if reply.served_model is not None and reply.served_model != model.model:
        yield f"served by {reply.served_model}"
    if cell is not None and usage.input is not None:
        yield f"{usage.input} input tokens on a bound of {cell.input_bound} by {cell.input_bound_by}"
    if told.read is not None and told.cell is None:
        yield "told by a reply that was in the cache"
