"""A process that may die: wrappers around a Store and a Provider that stop at a step, watch every commit, and bear mutants."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import inf

from judgerun.ledger.budget import Budget, Leaf
from judgerun.ledger.entry import Amount, Decision, EntryKind
from judgerun.model.event import Event
from judgerun.model.kept import Kept, Lost
from judgerun.model.reply import Billable
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
    Provider,
    Standing,
)
from judgerun.store.inline import Inline

MUTANTS = ("void on unknown", "hidden retry", "clipped overrun", "no recovery")
"""Faults of our own, planted to see whether the judge would find them."""


class Killed(BaseException):
    """The process is gone: nothing of it runs on, and no handler of ordinary errors sees this."""


@dataclass(slots=True)
class Mortal:
    """A process that dies at its n-th step; steps are store operations and sends."""

    steps: int | None = None
    after: bool = False  # the step's effect stands, but the process never learns of it
    dead: bool = False

    def before_step(self) -> None:
        if self.dead:
            raise Killed
        if self.steps is not None:
            self.steps -= 1
            if self.steps <= 0 and not self.after:
                self.dead = True
                raise Killed

    def after_step(self) -> None:
        if self.dead:
            raise Killed
        if self.steps is not None and self.steps <= 0:
            self.dead = True
            raise Killed


class WatchedStore:
    """A Store around another, which looks at the books after every commit, dies with its process, and bears a mutant."""

    def __init__(self, inner: Inline, budget: Budget, mortal: Mortal, findings: list[str], mutant: str = "") -> None:
        self._inner = inner
        self._budget = budget
        self._mortal = mortal
        self._findings = findings
        self._mutant = mutant
        self._needs: dict[int, Amount] = {}
        self.reserved: list[tuple[int, str]] = []  # (attempt, condition), in order
        self.decisions: dict[Decision, int] = {}

    async def enter(self, *, experiment: str, budget: Budget) -> int:
        self._mortal.before_step()
        owner = await self._inner.enter(experiment=experiment, budget=budget)
        self._mortal.after_step()
        return owner

    async def leave(self, idle: Mapping[str, float], lanes: LaneTime, *, stays: bool = False) -> None:
        self._mortal.before_step()
        await self._inner.leave(idle, lanes, stays=stays)
        self._mortal.after_step()
        self._look()

    async def recover(self) -> int:
        self._mortal.before_step()
        if self._mutant == "no recovery":
            return 0
        found = await self._inner.recover()
        self._mortal.after_step()
        self._look()
        return found

    async def reserve(self, claim: Claim) -> Grant:
        self._mortal.before_step()
        grant = await self._inner.reserve(claim)
        self._mortal.after_step()
        self.decisions[grant.decision] = self.decisions.get(grant.decision, 0) + 1
        if grant.attempt is not None:
            self._needs[grant.attempt] = claim.need
            self.reserved.append((grant.attempt, claim.condition))
        self._look()
        return grant

    def left(self) -> Sequence[LeftJob]:
        return self._inner.left()

    async def adopt(self, jobs: Collection[int]) -> Set[int]:
        self._mortal.before_step()
        found = await self._inner.adopt(jobs)
        self._mortal.after_step()
        return found

    async def enlist(self, claims: Sequence[Claim], *, token: str, deployment: str) -> Enlisted:
        self._mortal.before_step()
        said = await self._inner.enlist(claims, token=token, deployment=deployment)
        self._mortal.after_step()
        for claim, grant in zip(claims, said.grants, strict=False):
            self.decisions[grant.decision] = self.decisions.get(grant.decision, 0) + 1
            if grant.attempt is not None:
                self._needs[grant.attempt] = claim.need
        self._look()
        return said

    async def move(self, job: int, state: JobState, *, remote: str | None = None, detail: str | None = None) -> None:
        self._mortal.before_step()
        if self._mutant == "no submitting":
            if state is JobState.SUBMITTING:
                return
            if state is JobState.SUBMITTED and remote is not None:
                await self._inner.move(job, JobState.SUBMITTING)
        await self._inner.move(job, state, remote=remote, detail=detail)
        self._mortal.after_step()

    async def close_all(self, closings: Sequence[Closing]) -> Sequence[Closed]:
        self._mortal.before_step()
        closed = await self._inner.close_all([self._mutated(closing) for closing in closings])
        self._mortal.after_step()
        self._look()
        return closed

    async def close(self, closing: Closing) -> Closed:
        self._mortal.before_step()
        closed = await self._inner.close(self._mutated(closing))
        self._mortal.after_step()
        self._look()
        return closed

    def _mutated(self, closing: Closing) -> Closing:
        unknown = closing.failure is not None and closing.failure.billable is Billable.UNKNOWN
        if self._mutant == "void on unknown" and closing.kind is EntryKind.FORFEIT and unknown:
            return replace(closing, kind=EntryKind.VOID, amount=Amount())
        if self._mutant == "clipped overrun" and closing.kind is EntryKind.SETTLE:
            need = self._needs[closing.attempt]
            clipped = Amount(min(closing.amount.nanos, need.nanos), 1, min(closing.amount.tokens, need.tokens))
            return replace(closing, amount=clipped)
        return closing

    async def lose(self, request: Request, reason: str) -> None:
        self._mortal.before_step()
        await self._inner.lose(request, reason)
        self._mortal.after_step()

    async def note(self, kind: str, subject: str, detail: str) -> None:
        self._mortal.before_step()
        await self._inner.note(kind, subject, detail)
        self._mortal.after_step()

    def lookup(self, key: RequestKey) -> Kept | Lost | None:
        self._mortal.after_step()
        return self._inner.lookup(key)

    def is_open(self, key: RequestKey) -> bool:
        self._mortal.after_step()
        return self._inner.is_open(key)

    def lines(self, job: int) -> Sequence[Line]:
        self._mortal.after_step()
        return self._inner.lines(job)

    def remotes(self, provider: str, token: str) -> Set[str]:
        return self._inner.remotes(provider, token)

    def request(self, key: RequestKey) -> Request:
        return self._inner.request(key)

    def enqueued(self, provider: str, model: str | None) -> int:
        return self._inner.enqueued(provider, model)

    def stranded(self, key: RequestKey) -> str | None:
        return self._inner.stranded(key)

    def unattended(self) -> str | None:
        return self._inner.unattended()

    def events(self, after: int) -> Sequence[Event]:
        self._mortal.after_step()
        return self._inner.events(after)

    def standing(self) -> Standing:
        return self._inner.standing()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _look(self) -> None:
        """Promise 1, at this commit."""
        for problem in over_cap(self._inner, self._budget):
            self._findings.append(problem)


def over_cap(store: Inline, budget: Budget) -> list[str]:
    """The caps that are passed though the budget is not frozen, from the rows of the accounts."""
    db = store._books.connection
    frozen = db.execute(
        "select kind from event where kind in ('freeze', 'unfreeze') order by id desc limit 1"
    ).fetchone()
    if frozen is not None:  # once frozen, the true bill may stand above the cap for good
        return []
    rows = db.execute(
        "select budget, experiment, stage, condition, provider, day, settled_nanos + forfeited_nanos + held_nanos,"
        " settled_calls + forfeited_calls + held_calls from account"
    ).fetchall()
    found = []
    for cap in budget.amended(store._reader.settings(inf)).caps:
        place = {"nanos": 6, "calls": 7}[cap.unit]
        spent = sum(row[place] for row in rows if cap.covers(Leaf(*row[:6]), row[5]))
        if cap.kind != "day" and spent > cap.limit:
            found.append(f"{cap}: {spent} above {cap.limit}")
    return found


class WatchedProvider:
    """A Provider around another, which dies with its process and bears a mutant."""

    def __init__(self, inner: Provider, mortal: Mortal, mutant: str = "", jobs: Jobs | None = None) -> None:
        self._inner = inner
        self._mortal = mortal
        self._mutant = mutant
        self.profile = inner.profile
        self.jobs = jobs

    async def send(self, requests: Sequence[Request], *, timeout_s: float, attempt: int) -> Answer:
        self._mortal.before_step()
        answer = await self._inner.send(requests, timeout_s=timeout_s, attempt=attempt)
        if self._mutant == "hidden retry" and answer.failure is not None:
            answer = await self._inner.send(requests, timeout_s=timeout_s, attempt=attempt)
        self._mortal.after_step()
        return answer

    async def count(self, request: Request) -> int | None:
        return None

    def reset(self, asleep: float) -> None:
        self._inner.reset(asleep)

    async def aclose(self) -> None:
        await self._inner.aclose()
