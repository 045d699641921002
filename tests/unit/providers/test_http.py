"""The ramp of new connections, deadlines, and URLs."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from judgerun.model.reply import Failure
from judgerun.providers.http import Deadlines, Http, Ramp
from judgerun.providers.secrets import Scrub
from judgerun.providers.wire import WireCall, WireReply
from judgerun.simulate import virtual


@pytest.mark.parametrize(("n", "connects"), [(1, 3), (3, 3), (4, 3), (20, 3)])
def test_no_window_holds_more_connects_than_allowed(n: int, connects: int) -> None:
    """In any window of the ramp's length at most so many turns are given, and none is delayed without need."""

    async def main() -> list[float]:
        ramp = Ramp(connects, 0.1)
        loop = asyncio.get_running_loop()
        times: list[float] = []

        async def one() -> None:
            await ramp.turn()
            times.append(round(loop.time(), 6))

        await asyncio.gather(*(one() for _ in range(n)))
        return times

    times = virtual.run(main())
    assert times == sorted(times)
    assert times == [pytest.approx(0.1 * (k // connects)) for k in range(n)]


@pytest.mark.parametrize("spans", [[5.0], [5.0, 3.0, 9.0, 3.0], [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [7.0] * 20])
def test_each_block_ends_at_its_own_deadline(spans: list[float]) -> None:
    """One timer serves all: every block is ended after its own seconds, in whatever order they began, and in time nobody is."""

    async def main() -> tuple[list[float], bool]:
        deadlines = Deadlines()
        loop = asyncio.get_running_loop()

        async def block(number: int, seconds: float, work: float) -> float:
            await asyncio.sleep(number / 10)
            began = loop.time()
            deadline = asyncio.timeout(None)
            try:
                async with deadline:
                    deadlines.add(deadline, seconds)
                    await asyncio.sleep(work)
            except TimeoutError:
                assert work > seconds
            else:
                assert work < seconds
            finally:
                deadlines.drop(deadline)
            return round(loop.time() - began, 6)

        late = [block(number, seconds, seconds + 50) for number, seconds in enumerate(spans)]
        early = [block(number, seconds, seconds / 2) for number, seconds in enumerate(spans)]
        took = await asyncio.gather(*late, *early)
        return took, deadlines._timer is None

    took, quiet = virtual.run(main())
    assert took == pytest.approx([*spans, *(seconds / 2 for seconds in spans)])
    assert quiet


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("http://h", "http://h/chat/completions"),
        ("https://h:8/a%20b/v1", "https://h:8/a%20b/v1/chat/completions"),
    ],
)
def test_the_path_is_appended_to_the_base_url(base: str, url: str) -> None:
    """Whatever the base ends with."""
    http = Http(base, headers={}, scrub=Scrub(), ramp=Ramp())
    assert str(http._url(WireCall(path="/chat/completions"))) == url


@pytest.mark.parametrize("told", [True, False])
def test_a_deadline_that_passed_while_nothing_ran(told: bool) -> None:
    """It is not taken at its word: whoever knows how long nothing ran may give that time back; else it ends soon after."""

    async def main() -> float:
        loop, deadlines, deadline = asyncio.get_running_loop(), Deadlines(), asyncio.timeout(None)
        loop.call_later(10.0, lambda: setattr(loop, "_virtual_now", loop.time() + 3600.0))
        if told:
            loop.call_later(3611.0, deadlines.shift, 3600.0)
        try:
            async with deadline:
                deadlines.add(deadline, 60.0)
                await asyncio.sleep(100_000.0)
        except TimeoutError:
            return loop.time()
        finally:
            deadlines.drop(deadline)
        raise AssertionError("it never ended")

    assert virtual.run(main()) == pytest.approx(3660.0 if told else 3615.0, abs=0.01)


async def test_idle_connections_are_dropped_and_those_in_use_are_not() -> None:
    """After a sleep of the machine the next call goes out on a new connection, and one in flight is answered on its own."""
    came: list[object] = []
    arrived, release = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        came.append(request.transport)
        if request.path == "/slow":
            arrived.set()
            await release.wait()
        return web.Response(text="{}")

    app = web.Application()
    app.router.add_post("/{path}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    http = Http(f"http://127.0.0.1:{runner.addresses[0][1]}", headers={}, scrub=Scrub(), ramp=Ramp())

    async def call(path: str) -> WireReply | Failure:
        return await http.send(WireCall(path=path, body=b"{}"), headers={}, timeout_s=30.0)

    await call("/quick")
    await call("/quick")
    assert came[0] is came[1]
    slow = asyncio.ensure_future(call("/slow"))
    await arrived.wait()
    http.reset(0.0)
    await call("/quick")
    release.set()
    assert isinstance(await slow, WireReply)
    assert came[3] not in came[:3]
    await http.aclose()
    await runner.cleanup()
