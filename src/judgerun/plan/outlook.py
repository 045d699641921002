"""Outlook: how long the input of a cell will be whose row does not exist yet; for quotes only, never for reservations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from judgerun.model.condition import canary_of
from judgerun.model.experiment import Join
from judgerun.model.rows import Table
from judgerun.plan.chat import ChatNode, canaries_of
from judgerun.plan.embed import EmbedNode
from judgerun.plan.feed import Source
from judgerun.plan.node import Common, Node
from judgerun.plan.prompts import names
from judgerun.plan.ranking import RankNode
from judgerun.plan.requests import MESSAGE_TOKENS, TEXT_TOKENS
from judgerun.plan.tally import Tally
from judgerun.plan.ways import Branch, Slot

ROWS_READ = 2_000
"""Rows of a table that are measured; of a longer table every n-th."""

BYTES_PER_TOKEN = 4
"""How many bytes a token of a reply is taken to become in the prompt of the next stage."""


class Size(NamedTuple):
    """Bytes: of a middling row, and of the longest."""

    mean: float = 0.0
    longest: int = 0

    def and_(self, other: Size) -> Size:
        """Both together."""
        return Size(self.mean + other.mean, self.longest + other.longest)

    def times(self, n: int) -> Size:
        """So many of it."""
        return Size(self.mean * n, self.longest * n)


class Outlook:
    """Sizes by condition. Each table is measured once."""

    def __init__(self, common: Common, tallies: Mapping[str, Tally]) -> None:
        self._common = common
        self._tallies = tallies
        self._fields: dict[str, dict[str, Size]] = {}

    def size(self, condition: str) -> Size:
        """The input of a cell of this condition."""
        stage = self._tallies[condition].stage
        node = self._common.nodes[canaries_of(stage) if canary_of(condition) else stage]
        if isinstance(node, ChatNode):
            found = next((slot, branch) for slot, branch in _slots(node) if slot.condition.name == condition)
            return self._prompt(node, *found)
        if isinstance(node, EmbedNode):
            return self._text(condition)
        return Size()

    def _prompt(self, node: ChatNode, slot: Slot, branch: Branch) -> Size:
        prompt = slot.way.arm.prompt
        frame = sum(len(text.encode()) + MESSAGE_TOKENS for _, text in prompt.messages)
        total = Size(frame, frame)
        joins = {join.name: join for join in branch.joins}
        sources = self._sources(node)
        for name in names(prompt):
            total = total.and_(self._named(name, slot, joins, sources))
        return total

    def _named(self, name: str, slot: Slot, joins: Mapping[str, Join], sources: list[Table]) -> Size:
        """What a name of a prompt stands for."""
        stages = [segment.table for segment in slot.condition.segments[1:]]
        if name in joins:
            return self._joined(joins[name])
        if name == "candidates":
            ranking = next(
                (node for stage in stages if isinstance(node := self._common.nodes.get(stage), RankNode)), None
            )
            return Size() if ranking is None else self._documents(ranking).times(ranking.stage.k)
        if name in ("reply", "value", "a", "b") or name in stages:
            reply = self._reply(slot, stages, name)
            return reply if name not in ("a", "b") else reply.and_(self._whole(sources))
        return max((self._row(table).get(name, Size()) for table in sources), default=Size())

    def _reply(self, slot: Slot, stages: list[str], name: str) -> Size:
        """A reply upstream: of the stage of that name, or of the chat stage that it goes back to."""
        start = stages.index(name) if name in stages else 0
        at = slot.condition.feed
        for place, stage in enumerate(stages):
            if at is None:
                break
            if place >= start and isinstance(self._common.nodes.get(stage), ChatNode):
                found = next((t for c, t in self._tallies.items() if c == at.name or _unfolded(c, at.name)), None)
                return Size() if found is None else _said(found)
            at = at.feed
        return Size()

    def _joined(self, join: Join) -> Size:
        table = self._common.inputs.tables.get(join.table or "")
        if table is not None:
            return self._whole([table])
        node = self._common.nodes.get(join.table or "")
        if isinstance(node, RankNode):
            return self._documents(node)
        if isinstance(node, ChatNode):
            return max((_said(tally) for tally in node.tallies.values()), default=Size())
        return Size()

    def _documents(self, ranking: RankNode) -> Size:
        """A document of the corpus of a ranking."""
        node: Node = ranking
        while isinstance(node, RankNode):
            feed = node.feeds[0]
            corpus = feed.stage.corpus if isinstance(feed, EmbedNode) else node.stage.corpus
            if corpus is not None:
                table = self._common.inputs.tables.get(corpus.table)
                return Size() if table is None else self._whole([table])
            node = feed
        return Size()

    def _text(self, condition: str) -> Size:
        """A text to embed that does not exist yet: a reply of the chat stage to which it goes back."""
        allowance = Size(TEXT_TOKENS, TEXT_TOKENS)
        at = condition.partition("@")[2]
        while at:
            if (tally := self._tallies.get(at)) is not None:
                return _said(tally).and_(allowance)
            at = at.partition("@")[2]
        return allowance

    def _sources(self, node: Node) -> list[Table]:
        found: list[Table] = []
        if isinstance(node, ChatNode):
            for name in node.items(*(feed.name for feed in node.feeds)):
                source = self._common.nodes[name]
                if isinstance(source, Source):
                    found.append(source.table)
        return found

    def _whole(self, tables: list[Table]) -> Size:
        """All fields of a row together."""
        sizes = [Size()]
        for table in tables:
            total = Size()
            for size in self._row(table).values():
                total = total.and_(size)
            sizes.append(total)
        return max(sizes)

    def _row(self, table: Table) -> dict[str, Size]:
        """Sizes by field."""
        if table.name not in self._fields:
            step = max(1, -(-len(table) // ROWS_READ))
            read = [table.fields(number) for number in range(0, len(table), step)]
            lengths: dict[str, list[int]] = {}
            for fields in read:
                for name, value in fields.items():
                    lengths.setdefault(name, []).append(0 if value is None else len(str(value).encode()))
            self._fields[table.name] = {
                name: Size(sum(found) / len(read), max(found)) for name, found in lengths.items()
            }
        return self._fields[table.name]


def _slots(node: ChatNode) -> list[tuple[Slot, Branch]]:
    return [
        (slot, branch)
        for ways in node.ways.values()
        for way in ways
        for branch in way.branches
        for slot in branch.slots
    ]


def _said(tally: Tally) -> Size:
    """The reply of a chat condition: as long as those that are there, or as the experiment expects; at most its cap."""
    cap = max((tally.model.max_output_tokens or 0, *tally.caps))
    expected = tally.output_tokens / tally.told if tally.told else float(tally.output_expected or cap)
    return Size(expected * BYTES_PER_TOKEN, max(cap, round(expected)) * BYTES_PER_TOKEN)


def _unfolded(condition: str, folded: str) -> bool:
    """Whether a condition is one of those that a folded name stands for."""
    one, other = condition.replace("@", "/").split("/"), folded.replace("@", "/").split("/")
    return len(one) == len(other) and all(b in ("-", a) for a, b in zip(one, other, strict=True))
