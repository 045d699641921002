"""Reads prompt files: splits them into messages before rendering, checks their syntax, finds the names they use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from judgerun.errors import Problem, Refused
from judgerun.files.expressions import Uses, Wrong, of_template
from judgerun.files.toml import read_text
from judgerun.model.experiment import Prompt

Role = Literal["system", "user", "assistant"]
_MARKS: dict[str, Role] = {"[system]": "system", "[user]": "user", "[assistant]": "assistant"}


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt with the names that its messages use."""

    prompt: Prompt
    uses: Uses


@dataclass(frozen=True, slots=True)
class _Part:
    role: Role
    line: int  # of the message's first line
    text: str


def read_prompt(path: Path, *, name: str, file: str) -> ReadPrompt:
    """The prompt in `path`; `file` is how messages name it. Raises Refused with every problem of the file."""
    text, digest = read_text(path)
    parts, problems = _split(text, file)
    uses = []
    for part in parts:
        try:
            uses.append(of_template(part.text))
        except Wrong as error:
            problems.append(Problem(file, f"line {part.line + error.line - 1}", str(error)))
    if problems:
        raise Refused(problems)
    prompt = Prompt(name=name, file=file, messages=tuple((part.role, part.text) for part in parts), digest=digest)
    return ReadPrompt(prompt, _together(uses))


def _split(text: str, file: str) -> tuple[list[_Part], list[Problem]]:
    """The messages: a line that is exactly `[system]`, `[user]` or `[assistant]` starts one; a text without such a line is
    one user message. Line ends at the edges of a message belong to the file, not to the message.
    """
    problems: list[Problem] = []
    parts: list[_Part] = []
    role: Role | None = None
    start, body = 1, list[str]()
    lines = text.split("\n")
    if not any(line in _MARKS for line in lines):
        if not text.strip():
            problems.append(Problem(file, "", "the prompt is empty", "the text that the model is to read"))
        return [_Part("user", 1 + _leading(text), text.strip("\n"))], problems
    for number, line in enumerate([*lines, "[user]"], start=1):
        if line not in _MARKS:
            body.append(line)
            continue
        message = "\n".join(body)
        if role is None and message.strip():
            problems.append(
                Problem(file, "line 1", "text stands before the first message", "[system] or [user] above it")
            )
        elif role is not None and not message.strip():
            problems.append(Problem(file, f"line {start}", f"the {role} message is empty", "text below its mark"))
        elif role is not None:
            parts.append(_Part(role, start + 1 + _leading(message), message.strip("\n")))
        role, start, body = _MARKS[line], number, []
    return parts, problems


def _leading(text: str) -> int:
    """How many line ends stand before the first other character."""
    return len(text) - len(text.lstrip("\n"))


def _together(uses: Iterable[Uses]) -> Uses:
    parts = list(uses)
    return Uses(
        frozenset().union(*(part.names for part in parts)),
        frozenset().union(*(part.attributes for part in parts)),
        frozenset().union(*(part.optional for part in parts)),
    )
