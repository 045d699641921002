"""A store and a provider that answer at once and keep nothing, to measure and to break what stands between them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence, Set

from judgerun.errors import JudgerunError
from judgerun.ledger.budget import Budget
from judgerun.ledger.entry import Decision, EntryKind
from judgerun.model.event import Event
from judgerun.model.kept import Kept, Lost
from judgerun.model.profile import Profile
from judgerun.model.reply import Finish, Reply, Usage
from judgerun.model.request import Request, RequestKey
from judgerun.ports import (
    Answer,
    Claim,
    Closed,
    Closing,
    Enlisted,
    Grant,
    Jobs,
    JobState,
    LaneTime,
    LeftJob,
    Line,
    Standing,
)

PROFILE = Profile(dialect="openai", adapter="openai/1", embed=True)


class QuickStore:
    """Grants everything. `fail` names a method that raises, from its n-th call on."""

    def __init__(self, *, fail: tuple[str, int, JudgerunError] | None = None) -> None:
        self._fail = fail
        self.calls: dict[str, int] = {}
        self.open: set[int] = set()
        self.closings: list[Closing] = []
        self.losses: list[tuple[Request, str]] = []
        self.notes: list[tuple[str, str, str]] = []
        self.idle: Mapping[str, float] | None = None
        self.grants: list[Grant] = []  # told instead of `reserved`, in order, while there are any
        self.keep = True  # remember closings

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        if self._fail is not None and self._fail[0] == name and self.calls[name] >= self._fail[1]:
            raise self._fail[2]

    async def enter(self, *, experiment: str, budget: Budget) -> int:
        self._count("enter")
        return 1

    async def leave(self, idle: Mapping[str, float], lanes: LaneTime, *, stays: bool = False) -> None:
        self._count("leave")
        self.idle = idle

    async def recover(self) -> int:
        self._count("recover")
        return 0

    async def reserve(self, claim: Claim) -> Grant:
        self._count("reserve")
        if self.grants:
            return self.grants.pop(0)
        attempt = self.calls["reserve"]
        self.open.add(attempt)
        return Grant(decision=Decision.RESERVED, attempt=attempt)

    async def close(self, closing: Closing) -> Closed:
        self._count("close")
        self.open.remove(closing.attempt)
        if self.keep:
            self.closings.append(closing)
        return Closed()

    async def lose(self, request: Request, reason: str) -> None:
        self._count("lose")
        self.losses.append((request, reason))

    async def note(self, kind: str, subject: str, detail: str) -> None:
        self._count("note")
        self.notes.append((kind, subject, detail))

    def lookup(self, key: RequestKey) -> Kept | Lost | None:
        return None

    def is_open(self, key: RequestKey) -> bool:
        return False

    def left(self) -> Sequence[LeftJob]:
        return ()

    async def adopt(self, jobs: Collection[int]) -> Set[int]:
        return frozenset()

    async def enlist(self, claims: Sequence[Claim], *, token: str, deployment: str) -> Enlisted:
        raise AssertionError("nothing here is sent in a job")

    async def move(self, job: int, state: JobState, *, remote: str | None = None, detail: str | None = None) -> None:
        raise AssertionError("nothing here is sent in a job")

    async def close_all(self, closings: Sequence[Closing]) -> Sequence[Closed]:
        return [await self.close(closing) for closing in closings]

    def lines(self, job: int) -> Sequence[Line]:
        return ()

    def remotes(self, provider: str, token: str) -> Set[str]:
        return frozenset()

    def request(self, key: RequestKey) -> Request:
        raise KeyError(key.hex())

    def enqueued(self, provider: str, model: str | None) -> int:
        return 0

    def stranded(self, key: RequestKey) -> str | None:
        return None

    def unattended(self) -> str | None:
        return None

    def events(self, after: int) -> Sequence[Event]:
        return ()

    def standing(self) -> Standing:
        return Standing()

    async def count(self, request: Request) -> int | None:
        return None

    async def aclose(self) -> None:
        self._count("aclose")

    def kinds(self) -> dict[EntryKind, int]:
        """How many closings of each kind."""
        found: dict[EntryKind, int] = {}
        for closing in self.closings:
            found[closing.kind] = found.get(closing.kind, 0) + 1
        return found


class QuickProvider:
    """Answers after `pause` seconds; `answers` are given first, in order, and an exception among them is raised."""

    def __init__(self, *, pause: float = 0.0, answers: Sequence[Answer | Exception] = ()) -> None:
        self.profile = PROFILE
        self.jobs: Jobs | None = None
        self.pause = pause
        self.answers = list(answers)
        self.sent: list[tuple[Request, ...]] = []
        self.resets: list[float] = []
        self.keep = True

    async def send(self, requests: Sequence[Request], *, timeout_s: float, attempt: int) -> Answer:
        if self.keep:
            self.sent.append(tuple(requests))
        await asyncio.sleep(self.pause)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return Answer(replies=tuple(map(reply, requests)), status=200)

    def reset(self, asleep: float) -> None:
        self.resets.append(asleep)

    async def aclose(self) -> None:
        return None


def reply(request: Request) -> Reply:
    """A reply with usage."""
    if request.kind == "embed":
        return Reply(finish=Finish.STOP, vector=b"\0\0\0\0", usage=Usage(input_fresh=3, output_visible=0))
    return Reply(finish=Finish.STOP, finish_raw="stop", text="yes", usage=Usage(input_fresh=3, output_visible=2))
