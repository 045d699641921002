"""Chat: the node of a judge, solve, grade, rewrite or generate stage; a call per row, arm, variant, order and draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from judgerun.errors import InvariantBroken, Problem
from judgerun.model.experiment import Chat, Retrieve
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.making import maker
from judgerun.model.profile import Profile
from judgerun.model.reply import Finish
from judgerun.plan.desk import Ask, Desk
from judgerun.plan.joins import Joins
from judgerun.plan.ladder import Escalation, above
from judgerun.plan.node import Common, Stageful
from judgerun.plan.picking import Picking
from judgerun.plan.prompts import RenderError, render
from judgerun.plan.requests import Count, Form
from judgerun.plan.score import Scorer, promoted
from judgerun.plan.tally import Tally
from judgerun.plan.ways import Branch, Slot, Way, gauge, ways
from judgerun.table.admission import admitted
from judgerun.table.agree import same
from judgerun.table.answers import answered
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.order import SWAPPED, given, permutation
from judgerun.table.parse import parse
from judgerun.table.row import Outcome, Row, Verdict
from judgerun.table.scope import Ranking
from judgerun.table.where import kept

_ROW, _OUTCOME = maker(Row), maker(Outcome)


class ChatNode(Stageful):
    """Rows in, cells out; a row with its reply goes on."""

    def __init__(
        self,
        common: Common,
        stage: Chat,
        desk: Desk,
        profiles: Mapping[str, Profile],
        count: Count | None,
        plans: Sequence[Escalation] = (),
        *,
        canaries: Sequence[str] = ("",),
    ) -> None:
        name = canaries_of(stage.name) if any(canaries) else stage.name
        super().__init__(common, name, stage.feeds, (name for name in joined(stage) if name in common.stages))
        self.stage = stage
        self.desk = desk
        self.count = count
        feeds = [condition for feed in self.feeds for condition in feed.conditions]
        models = {model.name: model for model in common.experiment.models}
        self.ways = ways(stage, feeds, profiles, models=models, plans=plans, canaries=canaries)
        slots = self.slots()
        self.conditions = tuple(slot.condition for slot in slots)
        self.tallies = {slot.condition.name: slot.tally for slot in slots}
        if not any(canaries):
            gauge(slots)
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
        return self.joins.problems(self.stage.all_joins, f"stage.{self.stage.name}")

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
                self.joins.bind(row, branch.joins, way.settings.admit, partial(self._cells, branch=branch))
            else:
                self._cells(row, branch)

    def _cells(self, row: Row, branch: Branch) -> None:
        """The cells of a row in one variant: asked for where it is live, counted where it is a mark."""
        for slot in branch.slots:
            if row.state == "live":
                self._ask(row, slot, branch)
            else:
                self._stand(row, slot)

    def _stand(self, row: Row, slot: Slot) -> None:
        """Count the cells for which a mark stands."""
        for draw in range(1, slot.way.settings.draws + 1):
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
                    draws=((self.stage.name, draw), *row.draws),
                    request=way.form.chat(messages, draw),
                    place=(self.place, slot.place, draw),
                    tally=slot.tally,
                    form=way.form,
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
        model = ask.form.model
        bound, by = ask.form.bound(ask.request, self.count)
        cap = model.max_output_tokens
        return Cell(
            stage=self.stage.name,
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
            output_cap=cap,
            output_expected=None if ask.below else slot.way.settings.output_tokens_expected,
            further=tuple([rung.cap for rung in slot.ladder if rung.cap > (cap or 0)]) if slot.ladder else (),
            climbing=bool(ask.below),
        )

    def spare(self, ask: Ask) -> Ask | None:
        """The wish as the failover of its model would be asked; None where none is named."""
        slot: Slot = ask.slot
        form = slot.way.forms.spare(ask.form)
        return None if form is None else self._again(ask, form)

    def _again(self, ask: Ask, form: Form) -> Ask:
        """The same messages in another form."""
        return replace(ask, form=form, request=form.chat(ask.request.payload["messages"], ask.draws[0][1]))

    # -- from a reply to the row that goes on

    def settle(self, ask: Ask, found: Kept | Lost, *, shared: bool) -> None:
        """Read the reply, count it, and send the row on."""
        slot: Slot = ask.slot
        if isinstance(found, Lost):
            if ask.below:
                self._stay(ask, "lapsed")
                return
            slot.tally.fail(found.reason)
            if slot.tally.gauge is not None:
                slot.tally.gauge.fail(ask.row.id)
            self._lose(ask, slot, found.reason)
            return
        found, rule = answered(found, ask.form.answer)  # from here on its text is the answer
        verdict = self._verdict(ask, slot, found)
        if slot.ladder and self._climb(ask, found, verdict, rule, shared=shared):
            return
        self._count_reply(ask, found, parsed=verdict.parsed, rule=rule, shared=shared)
        if ask.form is not slot.way.form:
            slot.tally.stood(escalated=bool(ask.below), diverted=self._server(ask) is not None)
        if not self.silent:
            self._out(ask.row, slot, ask.draws, self._outcome(ask, slot, found, verdict, rule))

    def _climb(self, ask: Ask, found: Kept, verdict: Verdict, rule: str, *, shared: bool) -> bool:
        """Ask again under the next higher cap where a plan in force says so; whether it does."""
        slot: Slot = ask.slot
        rung = above(slot.ladder, ask.form.model.max_output_tokens, found.reply, parsed=verdict.parsed)
        if rung is None:
            return False
        if not ask.below:
            slot.tally.climbing += 1
        below = (*ask.below, replace(self._outcome(ask, slot, found, verdict, rule), below=()))
        again = self._again(ask, slot.way.forms.at(rung.cap))
        again.below, again.was_shared = below, shared
        self.desk.seek(again)
        return True

    def _stay(self, ask: Ask, left: Literal["owed", "lapsed"]) -> None:
        """What was answered under the last lower cap stands."""
        slot: Slot = ask.slot
        *below, last = ask.below
        kept, parsed = last.kept, last.verdict is not None and last.verdict.parsed
        if kept is None:
            raise InvariantBroken(f"{slot.condition} {ask.row.id} is asked again without a reply")
        self._count_reply(ask, kept, parsed=parsed, rule=last.found or "", shared=ask.was_shared)
        slot.tally.stood(escalated=last.rung is not None, diverted=last.server is not None, left=left)
        if not self.silent:
            self._out(ask.row, slot, ask.draws, replace(last, below=tuple(below), left=left))

    def _count_reply(self, ask: Ask, found: Kept, *, parsed: bool, rule: str, shared: bool) -> None:
        tally: Tally = ask.tally
        if ask.below:
            tally.climbing -= 1
        tally.reply(
            found, parsed=parsed, cached=found.experiment != self.common.experiment.name, shared=shared, rule=rule
        )
        if tally.gauge is not None:  # what a rung costs was quoted by itself: a gate compares calls under the own cap
            free = shared or bool(ask.below)
            tally.gauge.reply(ask.row.id, ask.draws, found, parsed=parsed, shared=free)
        if not shared:
            tally.lengths(found, len(ask.request.canonical))

    def pend(self, ask: Ask) -> None:
        """It stays without a reply; one that is to be asked again keeps what it has, where nothing buys the rest."""
        if ask.below and self.desk.buys == "own":
            self._stay(ask, "owed")
        else:
            self._mark(ask.row, ask.slot, ask.draws[0][1], "pending", "")

    @staticmethod
    def _server(ask: Ask) -> str | None:
        """The model that stands in for the condition's own."""
        name, own = ask.form.model.name, ask.tally.model.name
        return None if name == own else name

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
        return _OUTCOME(
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
            rung=ask.form.model.max_output_tokens if ask.below else None,
            server=self._server(ask),
            below=ask.below,
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
            _ROW(
                id=row.id,
                condition=slot.condition,
                block=row.block,
                draws=draws,
                fields=row.fields,
                stages={**row.stages, self.stage.name: outcome},
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
        row = replace(ask.row, stages={**ask.row.stages, self.stage.name: asked})
        self._mark(row, slot, draw, "failed", reason)

    def _mark(self, row: Row, slot: Slot, draw: int, state: Literal["live", "failed", "pending"], reason: str) -> None:
        if self.silent:
            return
        draws = ((self.stage.name, draw), *row.draws)
        self.emit(replace(row, condition=slot.condition, draws=draws, state=state, reason=reason))


def canaries_of(stage: str) -> str:
    """The name of the node that gives a stage's canaries."""
    return f"{stage} (canaries)"


def joined(stage: Chat) -> tuple[str, ...]:
    """The tables that a chat stage joins."""
    return tuple(dict.fromkeys(join.table for join in stage.all_joins if join.table is not None and join.gold is None))
