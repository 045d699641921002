"""A pilot and its certificate over the whole program: in virtual time, judged by the provider's bill; and as a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakes.place import Place, at_home, lines, stated
from fakes.simulator import Simulator as Running
from judgerun.api.pilot import Piloted, draw, pilot
from judgerun.api.project import Project, Workspace, snapshot
from judgerun.api.quoting import quote
from judgerun.api.running import World
from judgerun.errors import Exit, Refused
from judgerun.files.budgets import find_budget
from judgerun.plan.certificate import Certificate
from judgerun.simulate import virtual
from judgerun.simulate.law import Law
from judgerun.simulate.server import Simulator
from judgerun.simulate.serving import serving

START = 1_800_000_000.0
ROWS = lines(*({"id": f"r{n}", "text": f"text {n}"} for n in range(60)))
PROMPT = "Rate {{ text }}. Think step by step. At the end, answer with YES or NO: YES, NO\n"
STAGES = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "s"
kind = "judge"
from = "t"
models = ["one", "two"]
prompts = ["p"]
parse = { kind = "label", values = ["YES", "NO"] }
gate = { truncated = 0.3, after = 40 }
[[stage]]
name = "g"
kind = "grade"
from = "s"
models = ["one"]
prompts = ["q"]
parse = { kind = "label", values = ["YES", "NO"] }
"""
FILES = {"t.jsonl": ROWS, "p.md": PROMPT, "q.md": "Was it right? {{ s.reply }}\n" + PROMPT.replace("{{ text }}", "it")}
SHORT, LONG = Law(deliberation=60.0, first_s=2.0, token_s=0.02), Law(deliberation=260.0, spread=0.4)


@dataclass
class Scene:
    """A workspace, a provider that lives as long as it does, and what was told."""

    place: Place
    told: list[Certificate]
    provider: Simulator

    def project(self) -> Project:
        return Workspace(root=self.place.root).open("x")

    def go(self, *, blocks: int = 15, yes: bool = False) -> Piloted:
        """A pilot in virtual time."""

        async def whole() -> Piloted:
            async with serving(self.provider.app()) as urls:
                at_home(urls["openai"])
                return await pilot(
                    self.project(),
                    budget=find_budget(self.place.root, None),
                    blocks=blocks,
                    yes=yes,
                    world=World(clock=virtual.LoopClock(START), inline=True),
                    tell=self.told.append,
                )

        return virtual.run(whole())

    def kept(self) -> list[dict[str, Any]]:
        """The certificates in the cache."""
        with snapshot(self.place.root / "cache.db") as view:
            assert view is not None
            return [json.loads(event.detail) for event in view.events(0) if event.kind == "pilot"]

    def calls(self) -> int:
        """What came to the provider."""
        return len(self.provider.bill.rows)


@pytest.fixture
def scene(tmp_path: Path) -> Callable[[Law], Scene]:
    """Two judges and a grader behind them, on a provider whose second model has the given law."""

    def made(law: Law) -> Scene:
        place = Place(tmp_path)
        place.write(STAGES, FILES)
        return Scene(place, [], Simulator(seed=4, models={"sim-one": SHORT, "sim-two": law}))

    return made


def test_a_pilot_that_its_certificate_allows_goes_on(scene: Callable[[Law], Scene]) -> None:
    """All cells are done in one process, each bought once; the certificate is kept as it was told, and the whole rest fell within it."""
    held = scene(SHORT)
    ended = held.go()
    print(json.dumps(ended.document()["pilot"], indent=1))
    assert (ended.code, ended.state.state) == (Exit.DONE, "complete")
