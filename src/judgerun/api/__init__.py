"""The Python API: load, run and read experiments; the CLI is a thin layer over it and decides nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judgerun.api.cache import CacheView, open_cache
    from judgerun.api.project import Project, Workspace, load
    from judgerun.api.running import run
    from judgerun.api.state import Result

__all__ = ["CacheView", "Project", "Result", "Workspace", "load", "open_cache", "run"]

_PLACES = {
    "CacheView": "cache",
    "open_cache": "cache",
    "Project": "project",
    "Workspace": "project",
    "load": "project",
    "run": "running",
    "Result": "state",
}


def __getattr__(name: str) -> Any:
    """The public names, read when asked for: what only looks need not bring what runs."""
    if name not in _PLACES:
        raise AttributeError(f"module 'judgerun.api' has no attribute {name!r}")
    return getattr(import_module(f"judgerun.api.{_PLACES[name]}"), name)
