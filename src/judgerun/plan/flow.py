"""Flow: the pure engine between an experiment and its replies; rows are pushed through the stages as replies arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from judgerun.model.experiment import Experiment
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.profile import Profile
from judgerun.model.rows import Fields, Inputs
from judgerun.plan.canaries import CanaryNode
from judgerun.plan.counts import Counts
from judgerun.plan.desk import Buys, Desk, Lookup, Lookups
from judgerun.plan.feed import Feed
from judgerun.plan.graph import Given, Graph, build
from judgerun.plan.ladder import Escalation
from judgerun.plan.node import Common, Matrix
from judgerun.plan.requests import Count
from judgerun.plan.tally import Tally
from judgerun.table.row import Row


class Flow:
    """Cells of an experiment in plan order, each as soon as what it needs is there.

    A survey takes every cell and resolves none: `for cell in flow.survey(): ...`. A run takes cells, buys replies and
    resolves them; what it leaves open stays pending. `finish` ends both: afterwards `counts` is complete.

    Raises Refused where the experiment cannot be planned: an ambiguous join, an explode without a bound.
    """

    def __init__(
        self,
        experiment: Experiment,
        inputs: Inputs,
        *,
        profiles: Mapping[str, Profile],
        lookup: Lookup,
        matrix: Matrix,
        many: Lookups | None = None,
        count: Count | None = None,
        keep: bool = False,
        only: str | None = None,
        limit: int | None = None,
        plans: Sequence[Escalation] = (),
        buys: Buys = "all",
    ) -> None:
        """`plans` are the escalations in force, oldest first; `buys` says which cells are given out, see `desk.Buys`. With `many`,
        which must tell what `lookup` tells, blocks are opened ahead and their cells looked up together, in no order that means
        anything.
        """
        self.experiment = experiment
        self.profiles = profiles
        self._desk = Desk(seed=experiment.seed, lookup=lookup, many=many, only=only, buys=buys)
        given = Given(desk=self._desk, profiles=profiles, matrix=matrix, count=count, plans=plans)
        self._graph: Graph = build(experiment, inputs, given, keep=keep)
        self._feed = Feed(self._graph.sources, seed=experiment.seed, limit=limit)
        self._feed.attach(self._graph.common.barriers)
        self._share = self._feed.share

    def take(self, *, blocks: int | None = None) -> Cell | None:
        """The next ready cell in plan order, None when none is ready now. Blocks are opened as needed, at most `blocks` of
        them in this call where that is given (None then means only that so many had nothing to send: look at `drained`).
        """
        opened = 0
        while not self._desk.ready:
            if self._rank(full_only=True):
                continue
            if blocks is not None and opened >= blocks:
                return None
            ahead = self._open(None if blocks is None else blocks - opened)
            if not ahead and not self._rank(full_only=False):
                return None
            opened += ahead
        return self._desk.take()

    def _open(self, most: int | None) -> int:
        """Open the next block, and with `many` as many as fill a look-up; how many."""
        opened = 0
        while opened != most and self._feed.open():
            opened += 1
            if self._desk.many is None or self._desk.full or self._feed.turns:
                break
        self._desk.answer()
        return opened

    def _rank(self, *, full_only: bool) -> bool:
        """Let rankings work off the queries that wait for them; whether any did."""
        worked = any(ranking.flush(full_only=full_only) for ranking in self._graph.rankings)
        self._desk.answer()
        return worked

    def resolve(self, cell: Cell, outcome: Kept | Lost) -> None:
        """What became of a taken cell; pushes downstream, whereby new cells become ready."""
        self._desk.resolve(cell, outcome)
        self._desk.answer()

    def divert(self, cell: Cell) -> Cell | None:
        """A taken cell anew, as its model's `failover` asks it: the same condition, row and place, to be resolved or abandoned in
        the place of the first. None where no failover is named, or where it failed on the same request before.
        """
        other = self._desk.divert(cell)
        self._desk.answer()
        return other

    def abandon(self, cell: Cell) -> None:
        """Leave a taken cell pending for good and free what is kept for it; all downstream of it becomes pending."""
        self._desk.abandon(cell.request.key)
        self._desk.answer()

    def forgo(self, cell: Cell) -> None:
        """Leave a taken cell pending; a cell of another condition that shares its call becomes ready in its place."""
        self._desk.forgo(cell.request.key)
        self._desk.answer()

    def survey(self) -> Iterator[Cell]:
        """Every cell that is to be sent and can be known now, in plan order; then the flow is finished. Nothing is kept of
        a cell once the next is asked for.
        """
        while (cell := self.take()) is not None:
            yield cell
            self.abandon(cell)
        self.finish()

    @property
    def drained(self) -> bool:
        """No ready cell and no unopened block. Open cells may still bring new ones."""
        return not self._desk.ready and self._feed.exhausted and not any(r.waiting for r in self._graph.rankings)

    def finish(self) -> None:
        """Let everything that is open, unopened or beyond the limit be counted as pending. Nothing can be taken or resolved
        afterwards.
        """
        self._desk.close()
        self._feed.unlimit()
        while self._open(None) or self._rank(full_only=False):
            pass

    def counts(self) -> tuple[Counts, ...]:
        """How the cells of each condition stand, in file order. Before `finish` it covers the cells that are known so far."""
        return tuple(tally.counts() for tally in self._graph.tallies.values())

    @property
    def tallies(self) -> Mapping[str, Tally]:
        """The running counts by condition, with what only quotes ask."""
        return self._graph.tallies

    def document(self, stage: str, id: str) -> Fields:
        """The fields of a document that a ranking stage ranks."""
        return self._graph.common.nodes[stage].document(id)

    @property
    def common(self) -> Common:
        """The nodes, for those in this room who look at the plan as a whole."""
        return self._graph.common

    def share(self, condition: str) -> float:
        """Which share of a condition's cells `only` and `limit` let be sent, as far as it is not known cell by cell."""
        return self._share if self._desk.buys != "rungs" and self._desk.wanted(condition) else 0.0

    def rows(self, stage: str) -> Sequence[Row]:
        """The table of a stage, in block order whatever the order of replies; needs `keep`. Failed and pending rows are in it."""
        known = self._graph.common.nodes
        nodes = [known[name] for name in (stage, f"{stage} (corpus)") if name in known]
        conditions = [condition for node in nodes for condition in node.conditions]
        places = {condition.name: place for place, condition in enumerate(conditions)}
        rows = [row for node in nodes for row in node.rows]
        return self._sorted(rows, places)

    def canaries(self) -> Sequence[Row]:
        """The canaries of all stages, in the same order; needs `keep`."""
        nodes = [node for node in self._graph.common.nodes.values() if isinstance(node, CanaryNode)]
        conditions = [condition for node in nodes for condition in node.conditions]
        places = {condition.name: place for place, condition in enumerate(conditions)}
        return self._sorted([row for node in nodes for row in node.rows], places)

    def _sorted(self, rows: Sequence[Row], places: Mapping[str, int]) -> Sequence[Row]:
        return sorted(
            rows, key=lambda row: (self._desk.block(row.block), places[row.condition.name], row.id, row.draws)
        )

    @property
    def digest(self) -> str:
        """Hex digest over all cells known so far and their request keys; it does not depend on the order of replies."""
        return f"{self._desk.total:064x}"
