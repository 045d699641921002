"""The Python API: load, run and read experiments; the CLI is a thin layer over it and decides nothing."""

from judgerun.api.cache import CacheView, open_cache
from judgerun.api.project import Project, Workspace, load
from judgerun.api.running import run
from judgerun.api.state import Result

__all__ = ["CacheView", "Project", "Result", "Workspace", "load", "open_cache", "run"]
