"""Loads the Python that an experiment names: `rows:label` beside its file, or `package.module:function`; with its digest."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from judgerun.files.faults import hint
from judgerun.model.study import Study

Function = Callable[..., Any]


class CodeWrong(ValueError):
    """The code cannot be loaded; `right` says what would be right."""

    def __init__(self, wrong: str, right: str = "") -> None:
        super().__init__(wrong)
        self.right = right


@dataclass(frozen=True, slots=True)
class Loaded:
    """A function, the file of its source as messages name it, and the hex sha256 of that file."""

    function: Function
    source: str
    digest: str


def load_function(call: str, folder: Path) -> Loaded:
    """The function that `module:function` names; a module without a dot is looked for beside the experiment file first.

    Raises CodeWrong when there is no such module or function, or importing it fails.
    """
    module_name, _, name = call.partition(":")
    module, source = _module(module_name, folder)
    function = getattr(module, name, None)
    if not callable(function):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise CodeWrong(f"{module_name!r} has no function {name!r}", hint(name, public))
    body = Path(inspect.getfile(module)).read_bytes() if getattr(module, "__file__", None) else b""
    return Loaded(function, source, hashlib.sha256(body).hexdigest())


def load_questions(folder: Path) -> tuple[Mapping[str, Function], str] | None:
    """The public functions that `questions.py` beside the experiment file defines, and the hex sha256 of that file; None
    without such a file. Raises CodeWrong.
    """
    file = folder / "questions.py"
    if not file.is_file():
        return None
    module = _beside(file)
    functions = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == module.__name__
    }
    return functions, hashlib.sha256(file.read_bytes()).hexdigest()


def load_study(name: str) -> Study | None:
    """The STUDY of `judgerun.studies.NAME`, with - and . as _; None where this version has none. Raises CodeWrong."""
    module = f"judgerun.studies.{name.replace('-', '_').replace('.', '_')}"
    if importlib.util.find_spec(module) is None:
        return None
    found = getattr(_run(module, lambda: importlib.import_module(module)), "STUDY", None)
    if not isinstance(found, Study):
        raise CodeWrong(f"{module} has no STUDY")
    return found


def _module(name: str, folder: Path) -> tuple[ModuleType, str]:
    file = folder / f"{name}.py"
    if "." not in name and file.is_file():
        return _beside(file), file.name
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise CodeWrong(f"there is no module {name!r}: {error}", f"{name}.py beside the experiment file") from None
    if found is None:
        raise CodeWrong(
            f"there is no module {name!r}", f"{name}.py beside the experiment file, or an installed package"
        )
    return _run(name, lambda: importlib.import_module(name)), name


def _beside(file: Path) -> ModuleType:
    """The module of a file beside an experiment, under a name of its own: two experiments may each have a rows.py."""
    name = f"judgerun_beside_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:16]}_{file.stem}"
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise CodeWrong(f"{file.name} cannot be imported", "a Python file")
    module, loader = importlib.util.module_from_spec(found), found.loader
    sys.modules[name] = module  # dataclasses and pickle look their module up

    def execute() -> ModuleType:
        loader.exec_module(module)
        return module

    try:
        return _run(file.name, execute)
    except CodeWrong:
        del sys.modules[name]
        raise


def _run(shown: str, execute: Callable[[], ModuleType]) -> ModuleType:
    try:
        return execute()
    except (Exception, SystemExit) as error:
        line = _line_of(error, shown)
        raise CodeWrong(f"importing {shown} failed{line}: {type(error).__name__}: {error}") from error


def _line_of(error: BaseException, shown: str) -> str:
    """` at line N` of the person's file, from a traceback or a syntax error."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f" at line {error.lineno}"
    line, frame = None, error.__traceback__
    while frame is not None:
        if Path(frame.tb_frame.f_code.co_filename).name == shown:
            line = frame.tb_lineno
        frame = frame.tb_next
    return f" at line {line}" if line else ""
