"""Serving: a simulated provider on a free port of this machine, in the running loop, for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from judgerun.simulate.dialects import BASES


@asynccontextmanager
async def serving(
    app: web.Application, *, host: str = "127.0.0.1", port: int = 0, grace_s: float = 0.0
) -> AsyncIterator[Mapping[str, str]]:
    """Serve the application of a Simulator while inside; the base URL of each dialect. At the end calls in flight have
    `grace_s` seconds to finish.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=grace_s)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=4096).start()
        name, bound = runner.addresses[0][:2]
        origin = f"http://{f'[{name}]' if ':' in name else name}:{bound}"
        yield {dialect: origin + bases[0] for dialect, bases in BASES.items()}
    finally:
        await runner.cleanup()
