"""Experiments made by hand: small tables in memory, models, prompts, and replies that are a function of the request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from judgerun.model.experiment import Arm, Chat, Deployment, Experiment, Model, ParseRule, Prompt, Settings, Stage
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.profile import Profile
from judgerun.model.reply import Finish, Reply, Usage
from judgerun.model.request import Request, RequestKey
from judgerun.model.rows import Gold, Inputs
from judgerun.plan.counts import Counts
from judgerun.plan.flow import Flow

LAB = Deployment(name="lab", dialect="openai", identity="lab")
PROFILE = Profile(dialect="openai", adapter="openai/1", embed=True)
TEXT = ParseRule(kind="text")


@dataclass
class Rows:
    """A data table in memory."""

    name: str
    items: Sequence[Mapping[str, Any]]
    condition_field: str | None = None
    block_field: str | None = None
    ids: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = [str(item["id"]) for item in self.items]

    def __len__(self) -> int:
        return len(self.items)

    def fields(self, row: int) -> Mapping[str, Any]:
        """The fields without the id."""
        return {name: value for name, value in self.items[row].items() if name != "id"}

    def block(self, row: int) -> str:
        """The block field, else the id."""
        return str(self.items[row][self.block_field]) if self.block_field else self.ids[row]

    def condition(self, row: int) -> str | None:
        """The condition field."""
        return str(self.items[row][self.condition_field]) if self.condition_field else None

    def conditions(self) -> Sequence[str]:
        """Its values in order of appearance."""
        found = [self.condition(n) for n in range(len(self))]
        return [value for value in dict.fromkeys(found) if value is not None]

    def find(self, field_name: str, value: str) -> Sequence[int]:
        """Rows whose field is that text."""
        return [n for n, item in enumerate(self.items) if str(item.get(field_name)) == value]


def numbered(name: str, count: int, **fields: Callable[[int], Any]) -> Rows:
    """A table of rows p0, p1, ... with a text and further fields."""
    made = [
        {"id": f"p{n}", "text": f"text {n}", **{key: make(n) for key, make in fields.items()}} for n in range(count)
    ]
    return Rows(name, made)


def model(name: str, **given: Any) -> Model:
    """A model of the lab."""
    return Model(**{"name": name, "provider": LAB, "model": f"id-{name}", "max_output_tokens": 16, **given})


def prompt(name: str, text: str) -> Prompt:
    """A prompt of one user message."""
    return Prompt(
        name=name, file=f"{name}.md", messages=(("user", text),), digest=hashlib.sha256(text.encode()).hexdigest()
    )


def arm(
    model_name: str, prompt_name: str, text: str, *, parse: ParseRule = TEXT, given: Any = None, **settings: Any
) -> Arm:
    """A model with a prompt."""
    return Arm(
        model=model(model_name, **(given or {})),
        prompt=prompt(prompt_name, text),
        settings=Settings(parse=parse, **settings),
    )


def chat(name: str, feed: str | tuple[str, ...], *arms: Arm, **given: Any) -> Chat:
    """A chat stage."""
    return Chat(name=name, kind="judge", feeds=(feed,) if isinstance(feed, str) else feed, arms=arms, **given)


def reply(text: str, *, finish: Finish = Finish.STOP, vector: bytes | None = None) -> Reply:
    """A reply with usage."""
    return Reply(
        finish=finish,
        text=text,
        vector=vector,
        usage=Usage(input_fresh=max(1, len(text)), output_visible=len(text) // 4 + 1),
    )


def kept(text: str, *, finish: Finish = Finish.STOP, experiment: str = "made", vector: bytes | None = None) -> Kept:
    """A reply as the cache has it."""
    return Kept(reply=reply(text, finish=finish, vector=vector), attempt=1, experiment=experiment)


Answer = Callable[[Request], Kept | Lost]


@dataclass
class Lab:
    """Runs flows of one hand-made experiment over a cache in memory; `answer` is what the provider would say."""

    stages: Sequence[Stage]
    tables: Sequence[Rows]
    answer: Answer = field(default=lambda request: kept("ok"))
    golds: Sequence[Gold] = ()
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    seed: int = 7
    cache: dict[RequestKey, Kept | Lost] = field(default_factory=dict)
    sent: list[Cell] = field(default_factory=list)

    def experiment(self) -> Experiment:
        """The experiment."""
        return Experiment(name="made", folder="prompts/made", seed=self.seed, stages=tuple(self.stages))

    def together(self, keys: Sequence[RequestKey]) -> dict[RequestKey, Kept | Lost]:
        """What the cache has of several requests."""
        return {key: self.cache[key] for key in keys if key in self.cache}

    def flow(self, **given: Any) -> Flow:
        """A fresh flow over the cache as it is."""
        return Flow(
            self.experiment(),
            Inputs(
                tables={table.name: table for table in self.tables},
                golds={gold.name: gold for gold in self.golds},
                functions=self.functions,
            ),
            **{
                "profiles": _Everything(self.profiles),
                "lookup": self.cache.get,
                "matrix": self.matrix,
                "keep": True,
                **given,
            },
        )

    def matrix(self, keys: Sequence[RequestKey]) -> np.ndarray:
        """Vectors from the cache."""
        found = []
        for key in keys:
            held = self.cache[key]
            assert isinstance(held, Kept)
            assert held.reply.vector is not None
            found.append(np.frombuffer(held.reply.vector, dtype="<f4"))
        return np.array(found, dtype=np.float32)

    def run(
        self,
        flow: Flow | None = None,
        *,
        pick: Callable[[int], int] = lambda n: 0,
        most: int | None = None,
        **given: Any,
    ) -> Flow:
        """Take and resolve until nothing is left, or `most` cells were answered. `pick` says which open cell comes next."""
        flow = flow or self.flow(**given)
        open_cells: list[Cell] = []
        answered = 0
        while most is None or answered < most:
            while (cell := flow.take()) is not None:
                open_cells.append(cell)
            if not open_cells:
                break
            cell = open_cells.pop(pick(len(open_cells)) % len(open_cells))
            self.sent.append(cell)
            outcome = self.answer(cell.request)
            self.cache[cell.request.key] = outcome
            flow.resolve(cell, outcome)
            answered += 1
            balanced(flow.counts())
        return flow

    def whole(self, **given: Any) -> Flow:
        """A run to the end, finished."""
        flow = self.run(**given)
        flow.finish()
        balanced(flow.counts())
        return flow

    def survey(self, **given: Any) -> Flow:
        """A survey of the cache as it is."""
        flow = self.flow(**given)
        for _ in flow.survey():
            pass
        balanced(flow.counts())
        return flow


class _Everything(dict[str, Profile]):
    """Profiles, the lab's own where none is given."""

    def __missing__(self, name: str) -> Profile:
        return PROFILE


def balanced(counts: Sequence[Counts]) -> None:
    """planned = done + failed + pending in every condition, and nothing is below zero."""
    for held in counts:
        assert held.planned == held.done + held.failed + held.pending, held
        assert min(held.planned, held.done, held.failed, held.pending, held.cached, held.shared) >= 0, held
        assert sum(held.finish.values()) == held.done, held
        assert sum(held.reasons.values()) == held.failed, held


def counts(flow: Flow) -> dict[str, tuple[int, int, int, int]]:
    """planned, done, failed, pending by condition."""
    return {held.condition: (held.planned, held.done, held.failed, held.pending) for held in flow.counts()}


def text_of(request: Request) -> str:
    """What a request asks."""
    if request.kind == "embed":
        return str(request.payload["text"])
    return "\n".join(message["content"] for message in request.payload["messages"])
