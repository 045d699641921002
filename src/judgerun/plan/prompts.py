"""Prompts: a prompt's messages and a row's scope in, the rendered messages out; strict, and the same bytes every time.

What a template's text becomes:

- Newlines at the two ends of a message belong to the file and are dropped before rendering; newlines inside it, and all
  that data brings, stay as they are. CRLF in the file is LF in the message.
- A line that holds nothing but a block tag (`{% for ... %}`) leaves nothing behind.
- Nothing is escaped: data stands as it is.
- A missing name, a null, or a method that is not called is an error where it would be printed: none of them may reach a
  model as the word "None". Ask with `{% if x %}` or `x | default(...)`.
- A system or assistant message that renders to white space alone is left out; a user message that does is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, Undefined, meta

from judgerun.errors import Problem, Refused
from judgerun.model.experiment import Prompt
from judgerun.table.strict import FAULTS, NameMissing, environment


class RenderError(Refused):
    """A prompt that cannot be rendered for a row. `name` is the missing name, or None where the fault is another."""

    def __init__(self, problem: Problem, name: str | None = None) -> None:
        super().__init__(problem)
        self.name = name


class _Unprintable(ValueError):
    """A value that must not be printed into a prompt."""


def render(prompt: Prompt, scope: Mapping[str, Any]) -> list[dict[str, str]]:
    """The messages of `prompt` for one row, as `{"role", "content"}`.

    RenderError (a Refused) names the file, the message, the line and, where one is missing, the name.
    """
    messages = []
    for number, (role, text) in enumerate(prompt.messages, start=1):
        content = _message(prompt, number, role, text, scope)
        if content.strip():
            messages.append({"role": role, "content": content})
        elif role == "user":
            raise RenderError(
                Problem(prompt.file, _place(number, role), "the message is empty", "nothing would be asked")
            )
    if not messages:
        raise RenderError(Problem(prompt.file, "", "every message is empty", "nothing would be asked"))
    return messages


def names(prompt: Prompt) -> frozenset[str]:
    """The top-level names that the prompt's messages may ask of a scope. RenderError when a message is no template."""
    found: set[str] = set()
    for number, (role, text) in enumerate(prompt.messages, start=1):
        try:
            found |= meta.find_undeclared_variables(_ENVIRONMENT.parse(_trimmed(text)))
        except TemplateSyntaxError as error:
            raise _syntax(prompt, number, role, error) from error
    return frozenset(found)


def _printable(value: Any) -> Any:
    if value is None:
        raise _Unprintable("a null would be printed")
    if callable(value) and not isinstance(value, Undefined):  # a missing value tells its own name
        raise _Unprintable("a method would be printed: it is not called")
    return value


_ENVIRONMENT = environment(
    finalize=_printable, keep_trailing_newline=True, newline_sequence="\n", trim_blocks=True, lstrip_blocks=True
)


class _Sheet:
    """A template with the one context in which it is rendered: Jinja2's own `render` makes one each time, for half of the cost."""

    def __init__(self, text: str) -> None:
        self._template = _ENVIRONMENT.from_string(_trimmed(text))
        self._template.globals = {}  # there are none; Jinja2's own chain of empty mappings is walked at every rendering
        self._context = self._template.new_context()

    def render(self, scope: Mapping[str, Any]) -> str:
        """What Jinja2's `render` gives. The scope is not copied."""
        context = self._context
        context.parent = scope if isinstance(scope, dict) else dict(scope)
        context.vars.clear()  # what the template set for itself at the last rendering
        context.exported_vars.clear()
        try:
            return _ENVIRONMENT.concat(self._template.root_render_func(context))
        except Exception:  # noqa: BLE001 - as Jinja2's own render does
            self._context = self._template.new_context()  # a block tag may not have put back what it changed
            _ENVIRONMENT.handle_exception()  # raises it, with the template's lines in its traceback


_sheet = lru_cache(maxsize=1024)(_Sheet)


def _trimmed(text: str) -> str:
    return text.strip("\r\n")


def _message(prompt: Prompt, number: int, role: str, text: str, scope: Mapping[str, Any]) -> str:
    try:
        return _sheet(text).render(scope)
    except TemplateSyntaxError as error:
        raise _syntax(prompt, number, role, error) from error
    except NameMissing as error:
        place = _place(number, role, _line(error.__traceback__))
        right = f"the prompt sees {', '.join(sorted(scope))}" if scope else "the prompt sees no names"
        raise RenderError(Problem(prompt.file, place, f"{error.name!r} is missing", right), error.name) from error
    except (TemplateError, *FAULTS) as error:
        line = _line(error.__traceback__)
        wrong = str(error) if isinstance(error, _Unprintable) else f"{type(error).__name__}: {error}"
        raise RenderError(Problem(prompt.file, _place(number, role, line), wrong, _source(text, line))) from error


def _syntax(prompt: Prompt, number: int, role: str, error: TemplateSyntaxError) -> RenderError:
    return RenderError(Problem(prompt.file, _place(number, role, error.lineno), f"no template: {error.message}"))


def _place(number: int, role: str, line: int | None = None) -> str:
    return f"message {number} [{role}]" + (f", its line {line}" if line else "")


def _line(traceback: TracebackType | None) -> int | None:
    """The line of the template in which rendering failed; Jinja2 puts its frames, with template lines, into the traceback."""
    found = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            found = traceback.tb_lineno
        traceback = traceback.tb_next
    return found


def _source(text: str, line: int | None) -> str:
    lines = _trimmed(text).splitlines()
    return lines[line - 1].strip() if line is not None and line <= len(lines) else ""
