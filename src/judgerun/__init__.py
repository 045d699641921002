"""judgerun: an async batch runner with budgeted, audited LLM calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judgerun.api import CacheView, Project, Result, Workspace, load, open_cache, run

__all__ = ["CacheView", "Project", "Result", "Workspace", "load", "open_cache", "run"]


def __getattr__(name: str) -> Any:
    """The public names, read when asked for: a room below must not bring the whole house with it."""
    if name not in __all__:
        raise AttributeError(f"module 'judgerun' has no attribute {name!r}")
    from judgerun import api

    return getattr(api, name)
