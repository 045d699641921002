"""A process that buys everything on one cache through the real Store and tells on files what it did; storm tests kill it.

    python buyer.py CACHE FOLDER NAME KEYS CAP

`sent-NAME` gets a line before an attempt's first byte would leave, `kept-NAME` one after its closing has returned; both are
written straight to the kernel, so that a kill takes nothing back.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from judgerun.ledger.budget import Budget, Cap
from judgerun.ledger.entry import Amount, Decision, EntryKind
from judgerun.model.kept import Kept
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.ports import Claim, Closing
from judgerun.store.cache import Cache

NEED, BILL, WIDTH = 100, 60, 24


class WallClock:
    """Real time."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def request(number: int) -> Request:
    """The request of a number."""
    payload = {"model": "m", "messages": [{"role": "user", "content": f"storm {number}"}]}
    return build("chat", payload, deployment="lab", adapter="openai/1", draw=0)


@dataclass
class Buyer:
    """The store and the two files of one process."""

    store: Cache
    sent: int
    kept: int
    rng: random.Random

    async def buy(self, number: int) -> bool:
        """One try at a request; whether it is done for good (kept, or out of money)."""
        wanted = request(number)
        if isinstance(self.store.lookup(wanted.key), Kept):
            return True
        grant = await self.store.reserve(
            Claim(
                requests=(wanted,), stage="pick", condition="pick/m@rows", provider="lab", model="m",
                need=Amount(nanos=NEED, calls=1, tokens=10), tokens_expected=10, bound_by="bytes",
            )
        )  # fmt: skip
        if grant.decision in (Decision.KEPT, Decision.EXHAUSTED):
            return True
        if grant.attempt is None:
            await asyncio.sleep(0.005)
            return False
        os.write(self.sent, f"{grant.attempt} {number}\n".encode())
        await asyncio.sleep(self.rng.random() * 0.01)
        closing = self.ending(grant.attempt, wanted)
        await self.store.close(closing)
        if closing.replies:
            os.write(self.kept, f"{number}\n".encode())
        return bool(closing.replies)

    def ending(self, attempt: int, wanted: Request) -> Closing:
        """Mostly a bill; now and then a void, a forfeit, or a reply without usage."""
        fate = self.rng.random()
        hold = Amount(nanos=NEED, calls=1, tokens=10)
        if fate < 0.05:
            refused = Failure(cause=Cause.RATE_LIMITED, billable=Billable.NO)
            return Closing(attempt=attempt, kind=EntryKind.VOID, amount=Amount(), failure=refused)
        if fate < 0.10:
            silent = Failure(cause=Cause.TIMED_OUT, billable=Billable.UNKNOWN)
            return Closing(attempt=attempt, kind=EntryKind.FORFEIT, amount=hold, failure=silent)
        answer = Reply(finish=Finish.STOP, text="x" * 200, raw=b"y" * 300, raw_digest="00", usage=Usage(input_fresh=5))
        if fate < 0.15:
            return Closing(attempt=attempt, kind=EntryKind.FORFEIT, amount=hold, replies=((wanted, answer, None),))
        bill = Amount(nanos=BILL, calls=1, tokens=8)
        return Closing(attempt=attempt, kind=EntryKind.SETTLE, amount=bill, replies=((wanted, answer, BILL),))


async def main(cache: str, folder: str, name: str, keys: int, cap: int) -> None:
    """Recover, then buy every key in an order of one's own."""
    sent, kept = (
        os.open(Path(folder) / f"{what}-{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for what in ("sent", "kept")
    )
    rng = random.Random(f"{name} {os.getpid()}")
    async with await Cache.open(cache, clock=WallClock()) as store:
        await store.enter(experiment="storm", budget=Budget(name="purse", caps=(Cap("nanos", "total", "", cap),)))
        await store.recover()
        print("ready", flush=True)
        sys.stdin.readline()  # the test says when
        buyer = Buyer(store, sent, kept, rng)
        numbers = list(range(keys))
        rng.shuffle(numbers)

        async def work() -> None:
            while numbers:
                number = numbers.pop()
                while not await buyer.buy(number):
                    if rng.random() < 0.01:
                        await store.recover()

        async with asyncio.TaskGroup() as group:
            for _ in range(WIDTH):
                group.create_task(work())
        await store.leave({"money": 1.0}, {})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
