"""judgerun run --rehearse: the whole experiment on simulated answers, in virtual time and a cache of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web

from fakes.place import Place, at_home, lines, stated
from fakes.simulator import Simulator, simulator
from judgerun.cli import rehearsal
from judgerun.dispatch.clock import WallClock
from judgerun.files.budgets import find_budget
from judgerun.simulate.server import Simulator as Simulated
from judgerun.store.inline import Inline

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

ROWS = lines(*({"id": f"r{n}", "text": f"text {n}"} for n in range(12)))
PROMPT = "{{ id }} {{ text }}\n" + stated(v=1)
ESSAY = "Solve this problem and explain every step: {{ text }}"
JUDGE = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "vectors"
kind = "embed"
models = ["vec"]
queries = ["t.text"]
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one", "two"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
"""
KEYED = """
seed = 3
[models.gpt]
provider = "openai"
model = "gpt-4o-mini"
temperature = 0
max_output_tokens = 2000
"""
SOLVE = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "s"
kind = "solve"
from = "t"
models = ["gpt"]
prompts = ["essay"]
parse = { kind = "text" }
output_tokens_expected = 1500
"""
FILES = {"t.jsonl": ROWS, "p.md": PROMPT, "essay.md": ESSAY}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty workspace, whose provider's address leads nowhere."""
    at_home("http://127.0.0.1:9/v1")
    return Place(tmp_path)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Simulator]:
    """A simulated provider for the run after the rehearsal."""
    with simulator(tmp_path / "bill.jsonl", seed=1) as running:
        yield running


def keys(path: Path) -> set[bytes]:
    """The keys of the requests in a cache."""
    with sqlite3.connect(path) as connection:
        return {key for (key,) in connection.execute("select key from request")}


def test_a_rehearsal_answers_everything_and_touches_no_cache(place: Place) -> None:
    """Every cell is done in rehearsal.db; cache.db is not made, nobody is called at the real address, and money has its price."""
    place.write(JUDGE, FILES)
    told = place.do("run", "--rehearse").json
    assert (told["state"], told["exit"]) == ("complete", 0)
    assert told["cells"]["done"] == told["cells"]["planned"] == 36
    assert float(told["spend"]["settled_usd"]) > 0
    assert told["rehearsal"]["seconds"] > 0
    assert (place.root / "rehearsal.db").exists()
    assert not (place.root / "cache.db").exists()


def test_the_requests_of_a_rehearsal_are_those_of_the_run(place: Place, provider: Simulator) -> None:
    """The keys in rehearsal.db are the keys in cache.db after the run, and a rehearsal makes no reply for the run."""
    place.write(JUDGE, FILES)
    place.do("run", "--rehearse")
    at_home(provider.url)
    told = place.do("run").json
    assert told["cells"]["cached"] == 0
    assert keys(place.root / "rehearsal.db") == keys(place.root / "cache.db")


def test_a_rehearsal_needs_no_key_and_tells_the_real_price(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A built-in provider's model is rehearsed without its key, at the sheet's price, and outputs above the cap are truncated."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    place.write(SOLVE, FILES, head=KEYED)
    told = place.do("run", "--rehearse").json
    assert told["cells"]["done"] == 12
    (condition,) = told["conditions"]
    assert 0 < condition["truncated"] < 12
    # 0.60 USD a million output tokens: a dozen outputs of about 1,500 tokens cost about a cent
    assert 0.004 < float(told["spend"]["settled_usd"]) < 0.02


def test_the_time_of_a_rehearsal_is_that_of_the_lanes(place: Place) -> None:
    """Virtual seconds: the same twice, and about eight times as many with one slot as with eight."""
    place.write(SOLVE, FILES, head=KEYED)
    eight = place.do("run", "--rehearse").json["rehearsal"]
    again = place.do("run", "--rehearse").json["rehearsal"]
    assert again["seconds"] == eight["seconds"]
    place.budget("[openai]\nconcurrency = 1\n", "lanes.toml")
    one = place.do("run", "--rehearse").json["rehearsal"]
    assert one["seconds"] > 3 * eight["seconds"]
    assert not one["resumed"]


def test_an_interrupted_rehearsal_goes_on_and_a_changed_one_starts_anew(place: Place) -> None:
    """A rehearsal that its cap stopped goes on when the cap is raised; when a prompt changed it begins again."""
    place.write(SOLVE, FILES, head=KEYED)
    place.budget('total = "0.0065"\n')
    stopped = place.do("run", "--rehearse", fine=(3,)).json
    assert 0 < stopped["cells"]["done"] < 12
    place.budget('total = "1"\n')
    whole = place.do("run", "--rehearse").json
    assert whole["rehearsal"]["resumed"]
    assert whole["attempts"] == 12
    place.budget('total = "0.0065"\n')
    place.write(SOLVE, {**FILES, "essay.md": "Other: " + ESSAY}, head=KEYED)
    place.do("run", "--rehearse", fine=(3,))
    place.write(SOLVE, {**FILES, "essay.md": "Third: " + ESSAY}, head=KEYED)
    assert not place.do("run", "--rehearse", fine=(3,)).json["rehearsal"]["resumed"]


class Interrupting(Simulated):
    """A simulated provider that asks its process to stop at its fourth call."""

    def app(self) -> web.Application:
        """As usual, with the signals."""
        calls = count(1)

        @web.middleware
        async def interrupt(request: web.Request, handler: Handler) -> web.StreamResponse:
            if next(calls) == 4:
                os.kill(os.getpid(), signal.SIGINT)
            return await handler(request)

        made = super().app()
        made.middlewares.append(interrupt)
        return made


def test_ctrl_c_drains_a_rehearsal_which_then_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first Ctrl-C ends a rehearsal with 130 and what it knows so far; the same command makes the rest."""
    place.write(SOLVE, FILES, head=KEYED)
    place.budget("[openai]\nconcurrency = 2\n", "lanes.toml")
    with monkeypatch.context() as patch:
        patch.setattr(rehearsal, "Simulator", Interrupting)
        told = place.do("run", "--rehearse", fine=(130,)).json
    assert 4 <= told["cells"]["done"] < 12
    whole = place.do("run", "--rehearse").json
    assert whole["rehearsal"]["resumed"]
    assert whole["attempts"] == 12
    assert whole["spend"]["forfeited_usd"] == "0.00"


def test_what_the_budget_has_spent_is_told_before_a_rehearsal_that_leaves_it_out(
    place: Place, provider: Simulator
) -> None:
    """A rehearsal is of the whole experiment under the whole budget; a warning says what the real cache has spent of it."""
    place.write(JUDGE, FILES)
    assert "has spent" not in place.do("run", "--rehearse").err
    at_home(provider.url)
    spent = place.do("run").json["budget"]["high_usd"]
    assert f"has spent {spent} USD" in place.do("run", "--rehearse").err


def test_a_part_of_an_experiment_is_not_rehearsed(place: Place) -> None:
    """`--only` and `--limit` are refused with `--rehearse`."""
    place.write(JUDGE, FILES)
    for words in (("--limit", "1"), ("--only", "j")):
        assert "whole experiment" in place.do("run", "--rehearse", *words, fine=(2,)).problems[0]


def test_two_rehearsals_in_one_workspace_are_refused(place: Place) -> None:
    """While a process lives on rehearsal.db, another rehearsal does not take it away."""
    place.write(JUDGE, FILES)
    place.do("run", "--rehearse")
    cache = place.root / "rehearsal.db"
    store = Inline.open(cache, clock=WallClock())
    asyncio.run(store.enter(experiment="x", budget=find_budget(place.root, "main")))
    said = place.do("run", "--rehearse", fine=(2,))
    assert "a rehearsal of x runs" in said.problems[0]
    asyncio.run(store.leave({}, {}))
    asyncio.run(store.aclose())
    place.do("run", "--rehearse")


TWICE = """
[data.t]
path = "many.jsonl"
[[stage]]
name = "s"
kind = "solve"
from = "t"
models = ["gpt"]
prompts = ["essay"]
parse = { kind = "text" }
output_tokens_expected = 1500
[[stage]]
name = "g"
kind = "grade"
from = "s"
models = ["marker"]
prompts = ["mark"]
parse = { kind = "label", values = ["YES", "NO"] }
output_tokens_expected = 120
"""
THINKER = """
seed = 3
[models.gpt]
provider = "openai"
model = "gpt-5.4"
max_output_tokens = 30000
thinking = "{thinking}"
[models.marker]
provider = "openai"
model = "gpt-5.4"
max_output_tokens = 2500
thinking = "{thinking}"
"""
MARK = "Is it right?\n{{ s.reply }}\nGo through it step by step. At the end, answer with YES or NO: YES, NO\n"


@pytest.mark.parametrize("thinking", ["off", "low", "high"])
def test_outputs_are_as_long_as_each_stage_expects_with_and_without_thinking(place: Place, thinking: str) -> None:
    """The mean output of a stage, hidden reasoning included, is near what it expects, also where one model serves two stages;
    next to nothing is truncated under caps that are far above.
    """
    many = lines(*({"id": f"r{n}", "text": f"text {n}"} for n in range(150)))
    place.write(TWICE, {"many.jsonl": many, "essay.md": ESSAY, "mark.md": MARK}, head=THINKER.format(thinking=thinking))
    told = place.do("run", "--rehearse").json
    with sqlite3.connect(place.root / "rehearsal.db") as connection:
        means = dict(
            connection.execute(
                "select c.stage, avg(r.output_visible + coalesce(r.reasoning, 0)) from reply r join attempt a on a.id = r.attempt "
                "join account c on c.id = a.account group by c.stage"
            ).fetchall()
        )
    assert means["s"] == pytest.approx(1500, rel=0.25)
    assert means["g"] == pytest.approx(120, rel=0.25)
    assert sum(one["truncated"] for one in told["conditions"]) <= 4
