"""Sockets: how many files the calls of a run hold open, and the limit that the system sets on them."""

from __future__ import annotations

import resource

from judgerun.api.project import Project
from judgerun.dispatch.lane import width
from judgerun.errors import Problem, Refused

ROOM = 8_192
"""Open files that a run may have where the system lets it."""
SPARE = 128
"""Files beside the sockets of calls: the cache, rows, logs, libraries, and connections that are just being closed."""


def wanted(project: Project) -> int:
    """Open files that a run of this project may need, by the concurrency of its lanes; a local model needs no socket."""
    remote = [model for model in project.experiment.models if model.provider.dialect != "local"]
    return width(project.lanes, ((model.provider.name, model.name) for model in remote)) + SPARE


def wrong(project: Project) -> Problem | None:
    """Why this system cannot hold the calls of a run open, None where it can once the soft limit is raised."""
    need, (_, hard) = wanted(project), resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or need <= hard:
        return None
    told = f"{need - SPARE} calls in flight need {need} open files, and the system allows {hard}"
    right = f"ulimit -Hn {need} (or ulimit -n {need}) as whoever may, or concurrency of {max(hard - SPARE, 1)} in all"
    return Problem("budgets/lanes.toml", "concurrency", told, right)


def ready(project: Project) -> None:
    """Raise the soft limit of this process to what a run needs, and to `ROOM` where it may, since lanes may be widened while it
    runs. Refused where the hard limit is below the need.
    """
    problem = wrong(project)
    if problem is not None:
        raise Refused(problem)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ROOM if hard == resource.RLIM_INFINITY else min(ROOM, hard)
    need = max(wanted(project), most)
    if soft != resource.RLIM_INFINITY and soft < need:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
