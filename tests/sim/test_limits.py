"""Runs against a provider that states its limits: they are kept to, per model, and what is used up is waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from fakes.provider import FakeProvider
from fakes.world import Knobs, World
from judgerun.errors import Exit
from judgerun.model.lane import LaneSpec
from judgerun.simulate import virtual


class Stating(FakeProvider):
    """Allows each model so many requests a minute, filling up evenly; refuses what is above, and states in every answer how
    it stands. Where `told` is false, it states what is left and when all is back, but not over what time it counts.
    """

    def __init__(self, per_minute: int, *, told: bool = True) -> None:
        super().__init__(latency=(0.2, 1.0))
        self.per_minute = per_minute
        self.left: dict[str, tuple[float, float]] = {}  # model -> requests that are left, and when that was so
        self.spent: list[tuple[float, str, float]] = []  # when nothing was left, of which model, until when
        self.refused = 0
        self.suffix = "-minute" if told else ""

    async def _serve(
        self, request: web.Request, body: dict[str, Any], reply: dict[str, Any], tokens_in: int, tokens_out: int
    ) -> web.StreamResponse:
        model, now = body["model"], asyncio.get_running_loop().time()
        left, since = self.left.get(model, (float(self.per_minute), now))
        left = min(float(self.per_minute), left + (now - since) * self.per_minute / 60)
        if left < 1:
            self.refused += 1
            response: web.StreamResponse = web.json_response({"error": {"message": "slow down"}}, status=429)
        else:
            left -= 1
            self.left[model] = left, now
            response = await super()._serve(request, body, reply, tokens_in, tokens_out)
        now = asyncio.get_running_loop().time()
        reset = (self.per_minute - int(left)) * 60 / self.per_minute
        if int(left) == 0:
            self.spent.append((now, model, now + reset))
        for name, value in (("limit", self.per_minute), ("remaining", int(left)), ("reset", f"{reset:.3f}s")):
            response.headers[f"X-RateLimit-{name}-requests{self.suffix}"] = str(value)
        return response


def test_a_stated_limit_is_kept_to_and_told_once(tmp_path: Path) -> None:
    """Nothing was written in lanes.toml: after the first answers the pace is the provider's, and hardly anything is refused."""

    async def life() -> None:
        world = World(tmp_path, 1, Knobs(rows=60, concurrency=8))
        server = world.server = Stating(30)
        async with world:
            outcome = await world.run()
        assert outcome.ending is not None
        assert outcome.ending.code is Exit.DONE
        assert outcome.complete
        assert sorted(outcome.progress.news) == [
            f"lab/{model}: the provider states 30 requests a minute; no more are sent" for model in ("a", "b", "g")
        ]
        assert server.refused <= 8
        for model in ("id-a", "id-b", "id-g"):
            assert server.bill.worst_window(60.0, model) <= 30 + 8  # those that left before the first answer came

    virtual.run(life())


def test_what_is_used_up_is_waited_for_by_its_model_alone(tmp_path: Path) -> None:
    """Once an answer said that nothing is left, no request of the model leaves before the reset; and nothing is refused then."""

    async def life() -> None:
        world = World(tmp_path, 2, Knobs(rows=30, concurrency=3))
        server = world.server = Stating(10, told=False)
        async with world:
            outcome = await world.run()
        assert outcome.ending is not None
        assert outcome.ending.code is Exit.DONE
        assert outcome.complete
        assert outcome.progress.news == []  # over what it counts is not known: no pace is made of it
        assert server.spent
        for said, model, until in server.spent:
            early = [hit.at for hit in server.bill.hits if hit.model == model and said + 0.01 < hit.at < until - 0.01]
            assert early == []
        assert outcome.progress.idle["rate"] > 0

    virtual.run(life())


def test_what_is_written_is_not_raised_by_what_is_stated(tmp_path: Path) -> None:
    """A person wrote 12 a minute; the provider would allow 600."""

    async def life() -> None:
        world = World(tmp_path, 3, Knobs(rows=10, concurrency=8))
        server = world.server = Stating(600)
        async with world:
            lanes = {"lab": LaneSpec(name="lab", concurrency=8, requests_per_minute=12)}
            outcome = await world.run(lanes=lanes)
        assert outcome.complete
        assert outcome.progress.news == []
        assert server.bill.worst_window(60.0) <= 12

    virtual.run(life())
