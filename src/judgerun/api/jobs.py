"""Jobs: what stands in the batch lane for an experiment, and what a person does about it: cancel a job, or write one off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judgerun.api.project import Project, snapshot
from judgerun.api.state import job_document
from judgerun.dispatch.clock import WallClock
from judgerun.dispatch.retry import says
from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.ledger.entry import Amount
from judgerun.ports import Jobs, JobState, Place, Provider
from judgerun.providers.open import connect
from judgerun.store.inline import Inline
from judgerun.store.snapshot import KeptJob

CANCEL_S = 60.0
"""How long a provider may take to hear that a job is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A job, how many of its calls have an end, and the process that has it now."""

    job: KeptJob
    closed: int
    pid: int | None

    def document(self) -> dict[str, Any]:
        """For programs: as in `status --json`, with what is closed and the process."""
        return {**job_document(self.job), "closed": self.closed, "pid": self.pid}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came of asking a provider to cancel a job: None, or why it did not take it."""

    job: KeptJob
    trouble: str | None


def listed(project: Project) -> tuple[Listed, ...]:
    """Every job that the cache knows of an experiment, those that have ended among them."""
    with snapshot(project.workspace.cache) as view:
        if view is None:
            return ()
        closed = view.closed(project.name)
        alive = {owner.id: owner.pid for owner in view.owners() if owner.alive}
        return tuple(
            Listed(
                job=job,
                closed=closed.get(job.id, 0),
                pid=None if job.state is JobState.ENDED else alive.get(job.owner),
            )
            for job in view.jobs(project.name, ended=True)
        )


async def cancel(project: Project, which: str) -> tuple[Asked, ...]:
    """Ask the providers to do nothing more of a job, or of `all` that they have; what is done of it is collected by the next run.
    Each request is on record. Refused for a job that no provider has, or that is at none of the experiment's.
    """
    jobs = _chosen(project, which)
    if not jobs:
        return ()
    providers = connect(project.deployments, project.experiment.models, project.workspace.environ)
    try:
        ways = _ways(project, providers, jobs)
        async with Inline.open(project.workspace.cache, clock=WallClock()) as cache:
            said = []
            for job, way in ways:
                failure = await way.cancel(str(job.remote), timeout_s=CANCEL_S)
                trouble = None if failure is None else says(failure)
                told = f"job {job.id} at {job.place.provider} ({job.remote}): {trouble or 'it was asked to cancel'}"
                await cache.note("cancel", project.name, told, experiment=project.name)
                said.append(Asked(job=job, trouble=trouble))
            return tuple(said)
    finally:
        for provider in providers.values():
            await provider.aclose()


def _chosen(project: Project, which: str) -> Sequence[KeptJob]:
    """The jobs that are meant: those that a provider has. `all` of none is none."""
    with snapshot(project.workspace.cache) as view:
        known = {} if view is None else {str(job.id): job for job in view.jobs(project.name, ended=True)}
    if which == "all":
        return [job for job in known.values() if job.state is JobState.SUBMITTED]
    job = known.get(which)
    if job is not None and job.state is JobState.SUBMITTED:
        return [job]
    wrong = (
        f"is not a job of {project.name}" if job is None else "is not known to its provider, as far as is known here"
    )
    if job is not None and job.state is JobState.ENDED:
        wrong = "has ended"
    raise Refused(
        Problem("command line", f"--cancel {which}", wrong, f"a number of judgerun jobs {project.name}, or all")
    )


def _ways(project: Project, providers: Mapping[str, Provider], jobs: Sequence[KeptJob]) -> list[tuple[KeptJob, Jobs]]:
    """The batch API of each job: where it was submitted, by what stands in keys."""
    at = {Place(held.name, held.key_part, ""): providers[held.name].jobs for held in project.deployments}
    found, problems = [], []
    for job in jobs:
        way = at.get(job.place._replace(model=""))
        if way is None:
            wrong = f"its provider {job.place.provider} is not one of the experiment, or not at the same place"
            problems.append(Problem(EXPERIMENT, f"job {job.id}", wrong, "the provider as it was"))
        else:
            found.append((job, way))
    if problems:
        raise Refused(problems)
    return found


async def write_off(project: Project, job: int, because: str) -> Amount:
    """Forfeit what a job that its provider no longer knows has open; what that held. Its cells may be asked again. Refused as
    `Owners.write_off`.
    """
    if not project.workspace.cache.exists():
        raise Refused(Problem(str(project.workspace.cache), "", "there is no cache here", "--workspace DIR"))
    async with Inline.open(project.workspace.cache, clock=WallClock()) as cache:
        return await cache.write_off(job, experiment=project.name, because=because)
