"""Records: the JSON value of a reply, read as it stands; code fences are removed and nothing is repaired.

The whole reply is JSON, or one fenced block in it is (what stands around the fence is dropped). Two fenced blocks, prose
around bare JSON, doubled keys, NaN, Infinity and halves of surrogate pairs are refused: which of them was meant is not ours to say.

LaTeX inside a JSON string needs doubled backslashes. Where a model forgot them, a JSON reader turns `\\frac`, `\\beta`,
`\\theta`, `\\nabla` and `\\rho` into control characters without a word (and fails on `\\alpha`). Both are told: "latex escape".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)\n?")
_ESCAPE = re.compile(r"\\(?:\\|(?P<command>[bfnrt][A-Za-z]*)(?P<next>.?))", re.DOTALL)

#: LaTeX commands that begin with the letter of a JSON escape which also stands in plain text (\n, \r, \t).
_COMMANDS = frozenset(
    re.findall(
        "[a-z]+",
        """
        nabla natural ncong ne nearrow neg neq nexists ngeq nleq nmid nolimits nonumber norm not notin nsubseteq nu
        rangle rbrace rbrack rceil rfloor rgroup rho right rightarrow rightharpoonup rightleftharpoons rm root rtimes rvert
        tan tanh tau tbinom text textbf textit textrm textsf texttt tfrac therefore theta tilde times to top triangle
        triangleleft triangleright
        """,
    )
)
#: Too short to be told from the first letters of a new line when one of these follows: "\ne) ..." opens a list item.
_AMBIGUOUS_NEXT = frozenset(").:")


class Unread(Exception):
    """A reply whose JSON cannot be taken; the message is the verdict's reason."""


def read(text: str, schema: Mapping[str, Any] | None) -> tuple[Any, int, int]:
    """The JSON value of `text`, with the place where it stands. Unread: "not json", "latex escape", "not schema"."""
    start, end = _place(text)
    body = text[start:end]
    try:
        value = json.loads(body, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise Unread("latex escape" if "escape" in error.msg else "not json") from error
    except (ValueError, RecursionError) as error:
        raise Unread("not json") from error
    if "\\u" in body and not _encodable(value):
        raise Unread("not json")
    if _swallowed(body):
        raise Unread("latex escape")
    if schema is not None and not _fits(value, schema):
        raise Unread("not schema")
    return value, start, end


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    from jsonschema.validators import validator_for  # only where a rule has a schema: it takes long to import
    from referencing import Registry

    # An empty registry: a schema that refers to another document is never fetched.
    return bool(validator_for(schema)(schema, registry=Registry()).is_valid(value))


def pick(value: Any, names: Sequence[str]) -> Any:
    """What `value` holds under `names`: one name gives its value, several a record, none everything. Dots go inside.

    Unread("no value") where a name is absent.
    """
    if not names:
        return value
    if len(names) == 1:
        return _follow(value, names[0])
    return {name: _follow(value, name) for name in names}


def _follow(value: Any, name: str) -> Any:
    if isinstance(value, dict) and name in value:
        return value[name]
    head, dot, rest = name.partition(".")
    if dot and isinstance(value, dict) and head in value:
        return _follow(value[head], rest)
    raise Unread("no value")


def _place(text: str) -> tuple[int, int]:
    """Where the JSON stands: inside the one fenced block of the reply, else the whole of it."""
    blocks: list[tuple[int, int]] = []
    mark, begin, at = "", 0, 0
    for line in text.splitlines(keepends=True):
        fence = _FENCE.fullmatch(line)
        if fence and not mark:
            mark, begin = fence["mark"], at + len(line)
        elif fence and fence["mark"] == mark and not fence["info"].strip():
            blocks.append((begin, at))
            mark = ""
        at += len(line)
    return blocks[0] if len(blocks) == 1 else (0, len(text))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice")
    return made


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _encodable(value: Any) -> bool:
    """Whether the value holds no half of a surrogate pair, which no file could hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _swallowed(body: str) -> bool:
    """Whether an escape of `body`, valid as JSON, is the beginning of a LaTeX command."""
    for found in _ESCAPE.finditer(body):
        command = found["command"]
        if command is None:
            continue
        if command[0] in "bf" or (
            command in _COMMANDS and not (len(command) == 2 and found["next"] in _AMBIGUOUS_NEXT)
        ):
            return True
    return False
