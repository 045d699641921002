"""Serving: a simulated provider on a free port of this machine, in the running loop, for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from judgerun.simulate.dialects import BASES
from judgerun.simulate.server import Simulator


@asynccontextmanager
async def serving(simulator: Simulator) -> AsyncIterator[Mapping[str, str]]:
    """Serve while inside; the base URL of each dialect."""
    runner = web.AppRunner(simulator.app(), access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        host = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield {dialect: host + bases[0] for dialect, bases in BASES.items()}
    finally:
        await runner.cleanup()
