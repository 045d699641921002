"""Canaries: the node that gives a grader known answers in the place of real ones; it feeds nothing."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from judgerun.errors import InvariantBroken, Problem
from judgerun.model.condition import Segment
from judgerun.model.experiment import Chat
from judgerun.model.profile import Profile
from judgerun.model.reply import Finish
from judgerun.plan.chat import ChatNode
from judgerun.plan.desk import Desk
from judgerun.plan.feed import Source, rank
from judgerun.plan.ladder import Escalation
from judgerun.plan.node import Common, Node, Stageful
from judgerun.plan.requests import Count
from judgerun.plan.ways import Branch, Slot, Way
from judgerun.table.canary import EMPTY, NAME, REFERENCE, SHUFFLED, WRONG, alike, kinds_of, reference_of, shuffled
from judgerun.table.expression import Expression
from judgerun.table.row import Outcome, Row

RANKS = 1 << 64
OTHERS = 8
"""So many other rows are looked at for a wrong answer."""
LOOKED_AT = 100
"""In so many rows of a table a field is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planting:
    """A row in one variant: `row` is live with its joins bound, or the mark of a row of which too little is known; `origin` is what
    came in.
    """

    row: Row
    origin: Row
    branch: Branch


@dataclass(slots=True, kw_only=True)
class Lowest:
    """What stands in where no row of a condition is picked: its row of the lowest rank."""

    rank: int
    held: list[Planting] = field(default_factory=list)


class CanaryNode(ChatNode):
    """Rows of a grader's feeds in, cells of its canaries out. Rows are picked by the rank of their id: more rows leave those that
    are picked as they are, a higher rate adds to them. Whether a row's own answer came matters only to what is made from it.
    """

    def __init__(
        self,
        common: Common,
        stage: Chat,
        desk: Desk,
        profiles: Mapping[str, Profile],
        count: Count | None,
        plans: Sequence[Escalation] = (),
    ) -> None:
        if stage.canaries is None:
            raise InvariantBroken(f"{stage.name} has no canaries")
        self._sources = _sources(common, stage)
        text = stage.canaries.reference
        has = text is not None or any(join.name == NAME for join in stage.joins) or _field(self._sources)
        kinds = kinds_of(reference=has)
        super().__init__(common, stage, desk, profiles, count, plans, canaries=kinds)
        self._expression = None if text is None else Expression(text)
        self._below = int(stage.canaries.rate / len(kinds) * RANKS)
        tables = common.inputs.tables
        self._known = has and all(join.gold is not None or join.table in tables for join in stage.all_joins)
        self._lineages = {model.name: model.lineage for model in common.experiment.models}
        self._picked: set[tuple[str, int]] = set()
        self._lowest: dict[tuple[str, int], Lowest] = {}
        self._late: list[tuple[Planting, Slot]] = []
        self._others: dict[str, list[tuple[int, str, str]]] = {}  # by condition: rank, id and answer, lowest first
        self._open: set[str] = set()  # conditions of which rows are pending
        self._rings: dict[Segment, list[tuple[int, int]]] = {}
        self.wait_for(self.name, by_root=False, done=self._done)

    def problems(self) -> list[Problem]:
        """Those of its stage are told by the node of the real cells."""
        return []

    def _branch(self, row: Row, way: Way) -> None:
        if row.anonymous:
            return
        place = self._rank(row.id)
        if not self._known:
            self._offer(row, place)
        key = (row.condition.name, way.number)
        if place < self._below:
            self._picked.add(key)
            self._bind(row, way, self._plant)
        elif key not in self._picked:
            lowest = self._lowest.get(key)
            if lowest is None or place < lowest.rank:
                lowest = self._lowest[key] = Lowest(rank=place)
            if place == lowest.rank:
                self._bind(row, way, lowest.held.append)

    def _bind(self, row: Row, way: Way, then: Callable[[Planting], None]) -> None:
        """Bind the joins of a row whatever became of its answer; one that did not come as far as the answer stays a mark."""
        passed = [segment.table for segment in row.condition.segments[1:-1] if segment.table in self.common.stages]
        live = row if row.state == "live" else replace(row, state="live", reason="")
        for branch in way.branches:
            if live is not row and not all(stage in row.stages for stage in passed):
                then(Planting(row=row, origin=row, branch=branch))
                continue

            def bound(ready: Row, branch: Branch = branch) -> None:
                then(Planting(row=ready, origin=row, branch=branch))

            self.joins.bind(live, branch.joins, way.settings.admit, bound)

    def _plant(self, planting: Planting) -> None:
        """Ask for all canaries of a row that can be made now."""
        for slot in planting.branch.slots:
            if planting.row.state != "live":
                self._stand(planting.row, slot)
            elif slot.canary == WRONG and not self._known:
                self._late.append((planting, slot))
            else:
                self._give(planting, slot, self._text(planting, slot.canary))

    def _give(self, planting: Planting, slot: Slot, text: str | None) -> None:
        """Ask for one; without a text it waits for the row's answer, and where that is there, there is no such canary."""
        if text is not None:
            self._ask(_answered(planting.row, text, self._lineages), slot, planting.branch)
        elif planting.origin.state != "live" and slot.canary != REFERENCE:
            self._stand(planting.origin, slot)

    def _text(self, planting: Planting, kind: str) -> str | None:
        """The known answer of a kind; None where there is none, or not yet."""
        if kind == EMPTY:
            return ""
        if kind == REFERENCE:
            return self._reference(planting.row)
        right = self._right(planting)
        if kind == SHUFFLED:
            seed = self.common.experiment.seed
            return None if right is None else shuffled(right, seed=seed, id=planting.row.id)
        return self._another(planting, right) if self._known else self._answer(planting, right)

    def _reference(self, row: Row) -> str | None:
        return reference_of(self._expression, self.common.scopes.of(row))

    def _right(self, planting: Planting) -> str | None:
        """What is taken for a right answer: the reference, else the row's own answer."""
        return self._reference(planting.row) or (_said(planting.origin) if planting.origin.state == "live" else None)

    def _another(self, planting: Planting, right: str | None) -> str | None:
        """The reference of the next row of the data table by rank that is not the same."""
        row = planting.row
        source = self._sources[row.condition.segments[-1].table]
        ring = self._ring(source, row.condition.segments[-1])
        start = bisect_right(ring, (self._rank(row.root), len(source.table)))
        for step in range(min(len(ring), OTHERS)):
            other = source.row(ring[(start + step) % len(ring)][1])
            if other.id == row.root:
                continue
            found: list[Row] = []
            self.joins.bind(replace(other, condition=row.condition), planting.branch.joins, (), found.append)
            text = self._reference(found[0])
            if text is not None and not alike(text, right or ""):
                return text
        return None

    def _rank(self, id: str) -> int:
        return rank(self.common.experiment.seed, f"canary {id}")

    def _ring(self, source: Source, of: Segment) -> list[tuple[int, int]]:
        """Ranks and numbers of the rows of one condition of a data table, in order."""
        if of not in self._rings:
            value, table = dict(of.coordinates).get("condition"), source.table
            self._rings[of] = sorted(
                (self._rank(id), n) for n, id in enumerate(table.ids) if table.condition(n) == value
            )
        return self._rings[of]

    def _offer(self, row: Row, place: int) -> None:
        """Remember the answer of a row, where it is among the first by rank."""
        name = row.condition.name
        if row.state == "pending":
            self._open.add(name)
        elif row.state == "live" and (text := _said(row)):
            held = self._others.setdefault(name, [])
            insort(held, (place, row.id, text))
            del held[OTHERS:]

    def _answer(self, planting: Planting, right: str | None) -> str | None:
        """The first answer by rank that another row of the condition was given, and that is not the same."""
        others = self._others.get(planting.row.condition.name, ())
        return next((text for _, id, text in others if id != planting.row.id and not alike(text, right or "")), None)

    def _done(self, _: str) -> None:
        """No more rows can come: ask for what had to wait for all of them."""
        lowest, self._lowest = self._lowest, {}
        for key, found in lowest.items():
            if key not in self._picked:
                self._picked.add(key)
                for planting in found.held:
                    self._plant(planting)
        late, self._late = self._late, []
        for planting, slot in late:
            if planting.row.condition.name in self._open:
                self._stand(replace(planting.row, state="pending"), slot)
            else:
                self._give(planting, slot, self._text(planting, WRONG))


def _said(row: Row) -> str | None:
    """The answer upstream, None where there is no text."""
    outcome = row.outcome
    return None if outcome is None or not (outcome.reply or "").strip() else outcome.reply


def _answered(row: Row, text: str, lineages: Mapping[str, str | None]) -> Row:
    """The row as if its upstream had said this. Who was asked comes from its condition, so that it is the same whether or not its
    own answer is there.
    """
    feed = row.condition.segments[0]
    own = dict(feed.coordinates)
    outcome = Outcome(
        value=text,
        reply=text,
        finish=Finish.STOP.value,
        concluded=bool(text),
        model=own.get("model"),
        prompt=own.get("prompt"),
        variant=own.get("variant"),
        order=own.get("order"),
        lineage=lineages.get(own.get("model", "")),
        draw=dict(row.draws).get(feed.table),
    )
    return replace(row, stages={**row.stages, feed.table: outcome})


def _sources(common: Common, stage: Chat) -> dict[str, Source]:
    """The data tables whose rows reach a stage."""
    names = {name for feed in stage.feeds for name in _items(common.nodes[feed])}
    found = (common.nodes[name] for name in sorted(names))
    return {source.table.name: source for source in found if isinstance(source, Source)}


def _items(node: Node) -> frozenset[str]:
    return node.items(node.name) if isinstance(node, Stageful) else frozenset({node.name})


def _field(sources: Mapping[str, Source]) -> bool:
    """Whether rows have a field with their reference."""
    return any(
        NAME in source.table.fields(number)
        for source in sources.values()
        for number in range(min(len(source.table), LOOKED_AT))
    )
