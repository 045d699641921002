"""Chat: the node of a judge, solve, grade, rewrite or generate stage; a call per row, arm, variant, order and draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from judgerun.errors import Problem
from judgerun.model.experiment import Chat, Retrieve
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.profile import Profile
from judgerun.model.reply import Finish
from judgerun.plan.desk import Ask, Desk
from judgerun.plan.joins import Joins
from judgerun.plan.node import Common, Stageful
from judgerun.plan.picking import Picking
from judgerun.plan.prompts import RenderError, render
from judgerun.plan.requests import Count
from judgerun.plan.score import Scorer, promoted
from judgerun.plan.ways import Branch, Slot, Way, ways
from judgerun.table.admission import admitted
from judgerun.table.agree import same
from judgerun.table.answers import answered
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.order import SWAPPED, given, permutation
from judgerun.table.parse import parse
from judgerun.table.row import Outcome, Row, Verdict
from judgerun.table.scope import Ranking
from judgerun.table.where import kept


class ChatNode(Stageful):
    """Rows in, cells out; a row with its reply goes on."""

    def __init__(
        self, common: Common, stage: Chat, desk: Desk, profiles: Mapping[str, Profile], count: Count | None
    ) -> None:
        super().__init__(common, stage.name, stage.feeds, (name for name in joined(stage) if name in common.stages))
        self.stage = stage
        self.desk = desk
        self.count = count
        feeds = [condition for feed in self.feeds for condition in feed.conditions]
        self.ways = ways(stage, feeds, profiles)
        slots = self.slots()
        self.conditions = tuple(slot.condition for slot in slots)
        self.tallies = {slot.condition.name: slot.tally for slot in slots}
        self.joins = Joins(self, stage.all_joins)
        self._pickings = self._samples()
        self._scorers = [self._scorer(arm.settings.gold) for arm in stage.arms]
        self._seen: tuple[Row | None, dict[str, Any]] = (None, {})
        for feed in self.feeds:
            feed.readers.append(self.read)

    def _samples(self) -> dict[int, Picking]:
        found: dict[int, Picking] = {}
        for number, arm in enumerate(self.stage.arms):
            if arm.settings.sample is not None:
                where = None if arm.settings.where is None else Expression(arm.settings.where)
                found[number] = Picking(self, arm.settings.sample, where, self._branch)
        return found

    def _scorer(self, golds: Sequence[str]) -> Scorer | None:
        """Scores by the metrics of the nearest ranking upstream."""
        stages = [segment.table for condition in self.conditions for segment in condition.segments]
        known = {stage.name: stage for stage in self.common.experiment.stages if isinstance(stage, Retrieve)}
        nearest = next((known[name] for name in stages if name in known and known[name].metrics), None)
        if not golds or nearest is None:
            return None
        return Scorer([self.common.inputs.golds[gold] for gold in golds], nearest.metrics)

    def slots(self) -> list[Slot]:
        """All conditions with what makes them."""
        return [slot for held in self.ways.values() for way in held for branch in way.branches for slot in branch.slots]

    def problems(self) -> list[Problem]:
        """What only the whole plan shows to be wrong."""
        return self.joins.problems(self.stage.all_joins, f"stage.{self.name}")

    # -- from a row to its cells

    def read(self, row: Row) -> None:
        """A row comes in."""
        for way in self.ways[row.condition.name]:
            settings = way.settings
            entered: Row | None = admitted(row, stage=way.feed, admit=settings.admit, missing=settings.missing)
            if way.where is not None and entered is not None:
                entered = kept(entered, way.where, self._scope(entered))
            if entered is None:
                continue
            if way.number in self._pickings:
                self._pickings[way.number].offer(entered, way)
            else:
                self._branch(entered, way)

    def _branch(self, row: Row, way: Way) -> None:
        for branch in way.branches:
            if row.state == "live" and branch.joins:
                self.joins.bind(row, branch.joins, way.settings.admit, partial(self._cells, way=way, branch=branch))
            else:
                self._cells(row, way, branch)

    def _cells(self, row: Row, way: Way, branch: Branch) -> None:
        """The cells of a row in one variant: asked for where it is live, counted where it is a mark."""
        for slot in branch.slots:
            if row.state == "live":
                self._ask(row, slot, branch)
                continue
            for draw in range(1, way.settings.draws + 1):
                slot.tally.planned += row.weight
                if row.state == "failed":
                    slot.tally.fail(row.reason, row.weight)
                else:
                    slot.tally.unknown += row.weight
                self._mark(row, slot, draw, row.state, row.reason)

    def _scope(self, row: Row) -> dict[str, Any]:
        """The row's scope; the last one is remembered, since several arms ask for it."""
        if self._seen[0] is not row:
            self._seen = (row, self.common.scopes.of(row))
        return self._seen[1]

    def _shown(self, row: Row, slot: Slot, branch: Branch) -> dict[str, Any]:
        """What the prompt sees: the scope, with candidates or pair in the slot's order."""
        scope: dict[str, Any] = {**branch.absent, **self._scope(row), "vars": slot.way.settings.vars}
        places = self._places(row, slot)
        if places is not None and isinstance(ranking := scope.get("candidates"), Ranking):
            scope["candidates"] = ranking.permuted(places)
        if slot.order == SWAPPED:
            scope["a"], scope["b"] = scope["b"], scope["a"]
        return scope

    def _places(self, row: Row, slot: Slot) -> Sequence[int] | None:
        if slot.order is None or row.ranking is None:
            return None
        return permutation(slot.order, len(row.ranking[1]), seed=self.common.experiment.seed, id=row.id)

    def _ask(self, row: Row, slot: Slot, branch: Branch) -> None:
        way = slot.way
        try:
            messages = render(way.arm.prompt, self._shown(row, slot, branch))
        except RenderError as error:
            self._unasked(row, slot, f"prompt: {error}")
            return
        for draw in range(1, way.settings.draws + 1):
            self.desk.ask(
                Ask(
                    node=self,
                    slot=slot,
                    row=row,
                    draws=((self.name, draw), *row.draws),
                    request=way.form.chat(messages, draw),
                    place=(self.place, slot.place, draw),
                    tally=slot.tally,
                )
            )

    def _unasked(self, row: Row, slot: Slot, reason: str) -> None:
        for draw in range(1, slot.way.settings.draws + 1):
            slot.tally.planned += 1
            slot.tally.fail(reason)
            self._mark(row, slot, draw, "failed", reason)

    def cell(self, ask: Ask) -> Cell:
        """The cell to be sent."""
        slot: Slot = ask.slot
        way, model = slot.way, slot.way.arm.model
        bound, by = way.form.bound(ask.request, self.count)
        return Cell(
            stage=self.name,
            condition=slot.condition.name,
            id=ask.row.id,
            draws=ask.draws,
            block=ask.row.block,
            provider=model.provider.name,
            model=model.name,
            request=ask.request,
            rank=self.desk.rank(ask),
            input_bound=bound,
            input_bound_by=by,
            output_cap=model.max_output_tokens,
            output_expected=way.settings.output_tokens_expected,
        )

    # -- from a reply to the row that goes on

    def settle(self, ask: Ask, found: Kept | Lost, *, shared: bool) -> None:
        """Read the reply, count it, and send the row on."""
        slot: Slot = ask.slot
        if isinstance(found, Lost):
            slot.tally.fail(found.reason)
            self._lose(ask, slot, found.reason)
            return
        found, rule = answered(found, slot.way.form.answer)  # from here on its text is the answer
        verdict = self._verdict(ask, slot, found)
        cached = found.experiment != self.common.experiment.name
        slot.tally.reply(found, parsed=verdict.parsed, cached=cached, shared=shared, rule=rule)
        if not shared:
            slot.tally.lengths(found, len(ask.request.canonical))
        if self.silent:
            return
        outcome = self._outcome(ask, slot, found, verdict, rule)
        self._out(ask.row, slot, ask.draws, outcome)

    def pend(self, ask: Ask) -> None:
        """It stays without a reply."""
        self._mark(ask.row, ask.slot, ask.draws[0][1], "pending", "")

    def _verdict(self, ask: Ask, slot: Slot, found: Kept) -> Verdict:
        row, rule = ask.row, slot.way.settings.parse
        ranking = row.ranking
        messages = ask.request.payload["messages"]
        prompt = messages[0]["content"] if len(messages) == 1 else "\n\n".join(m["content"] for m in messages)
        count = None if ranking is None else len(ranking[1])
        verdict = parse(rule, found.reply.text, prompt=prompt, candidates=count)
        return given(verdict, rule, order=slot.order, places=self._places(row, slot))

    def _outcome(self, ask: Ask, slot: Slot, found: Kept, verdict: Verdict, rule: str) -> Outcome:
        arm, reply = slot.way.arm, found.reply
        concluded = reply.finish is Finish.STOP and not reply.empty and verdict.parsed
        return Outcome(
            value=verdict.value,
            reply=reply.text,
            finish=reply.finish.value,
            concluded=concluded,
            verdict=verdict,
            kept=found,
            found=rule,
            key=ask.request.key,
            model=arm.model.name,
            prompt=arm.prompt.name,
            variant=slot.variant,
            lineage=arm.model.lineage,
            draw=ask.draws[0][1],
            order=slot.order,
            agrees=self._agrees(ask.row, slot.way, verdict),
            scores=self._scores(ask.row, slot.way, verdict, concluded),
        )

    def _agrees(self, row: Row, way: Way, verdict: Verdict) -> bool | None:
        """Whether the value is what `expect` says; False for an unparsed reply, None where nothing is expected."""
        if way.expect is None:
            return None
        try:
            expected = way.expect.evaluate(self._scope(row))
        except ExpressionError:
            return None
        if expected is None or expected == "":
            return None
        return verdict.parsed and same(verdict.value, expected)

    def _scores(self, row: Row, way: Way, verdict: Verdict, concluded: bool) -> Mapping[str, float | None]:
        """The ranking with the chosen candidate put first, scored again; None where the reply did not conclude."""
        scorer, ranking = self._scorers[way.number], row.ranking
        if scorer is None or ranking is None:
            return {}
        ids = [candidate.id for candidate in ranking[1]]
        return scorer.scores(row.id, promoted(ids, verdict.value) if concluded else None)

    def _out(self, row: Row, slot: Slot, draws: tuple[tuple[str, int], ...], outcome: Outcome) -> None:
        self.emit(
            Row(
                id=row.id,
                condition=slot.condition,
                block=row.block,
                draws=draws,
                fields=row.fields,
                stages={**row.stages, self.name: outcome},
                joined=row.joined,
                root=row.root,
                origins=row.origins,
            )
        )

    def _lose(self, ask: Ask, slot: Slot, reason: str) -> None:
        """A mark that keeps what was asked of whom: its attempts can be looked up."""
        arm, draw = slot.way.arm, ask.draws[0][1]
        asked = Outcome(
            key=ask.request.key,
            model=arm.model.name,
            prompt=arm.prompt.name,
            variant=slot.variant,
            lineage=arm.model.lineage,
            draw=draw,
            order=slot.order,
        )
        row = replace(ask.row, stages={**ask.row.stages, self.name: asked})
        self._mark(row, slot, draw, "failed", reason)

    def _mark(self, row: Row, slot: Slot, draw: int, state: Literal["live", "failed", "pending"], reason: str) -> None:
        if self.silent:
            return
        draws = ((self.name, draw), *row.draws)
        self.emit(replace(row, condition=slot.condition, draws=draws, state=state, reason=reason))


def joined(stage: Chat) -> tuple[str, ...]:
    """The tables that a chat stage joins."""
    return tuple(dict.fromkeys(join.table for join in stage.all_joins if join.table is not None and join.gold is None))
