"""Expressions over rows: one strict, sandboxed Jinja2 expression, compiled once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, meta, nodes
from jinja2.environment import TemplateExpression
from jinja2.parser import Parser

from judgerun.table.strict import FAULTS, NameMissing, environment

_ENVIRONMENT = environment()


class ExpressionError(Exception):
    """An expression that cannot be told of this row. `name` is the missing name (dotted where the text is), or None."""

    def __init__(self, text: str, wrong: str, name: str | None = None) -> None:
        super().__init__(f"{wrong} in the expression {text!r}")
        self.text = text
        self.wrong = wrong
        self.name = name


class Expression:
    """A compiled expression. ValueError when the text is no single expression.

    Strict: a name that the scope lacks is an error wherever it is reached, also as the whole result; `x is defined` and
    `x | default(...)` are the ways to ask. There are no globals, so `names` are exactly what the scope must bring.
    """

    __slots__ = ("_call", "_tree", "names", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree, self._call = _compile(text)
        self.names: frozenset[str] = frozenset(meta.find_undeclared_variables(self._tree))

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """The value of the expression over `scope`. ExpressionError when a name is missing or an operation fails."""
        try:
            value = self._call(scope)
            if isinstance(value, StrictUndefined):
                str(value)  # a missing value tells its name when it is used
        except NameMissing as error:
            name = self._dotted(error.name)
            raise ExpressionError(self.text, f"{name!r} is missing", name) from error
        except (TemplateError, *FAULTS) as error:
            raise ExpressionError(self.text, f"{type(error).__name__}: {error}") from error
        if isinstance(value, Undefined):
            raise ExpressionError(self.text, "`if` without `else` gave nothing")
        if callable(value):
            raise ExpressionError(self.text, "a method is no value: it is not called")
        return value

    def rendered(self, scope: Mapping[str, Any]) -> str:
        """The value as a text. ExpressionError also where it is null, as a prompt that would print one is refused."""
        value = self.evaluate(scope)
        if value is None:
            raise ExpressionError(self.text, "it is null (`... or ''` says what a blank means)")
        return str(value)

    def _dotted(self, name: str) -> str:
        """The missing name as the text writes it, where only one dotted name of the text ends in it."""
        written = {path for node in self._tree.find_all(nodes.Getattr) if (path := _path(node)) is not None}
        if name in self.names:
            return name
        ends = {path for path in written if path.rpartition(".")[2] == name}
        return ends.pop() if len(ends) == 1 else name


@lru_cache(maxsize=4096)
def _compile(text: str) -> tuple[nodes.Template, TemplateExpression]:
    try:
        call = _ENVIRONMENT.compile_expression(text, undefined_to_none=False)
        tree = Parser(_ENVIRONMENT, text, state="variable").parse_expression()
    except TemplateSyntaxError as error:
        raise ValueError(f"{text!r} is no expression: {error.message}") from error
    whole = nodes.Template([nodes.Output([tree], lineno=1)], lineno=1)
    whole.set_environment(_ENVIRONMENT)
    return whole, call


def _path(node: nodes.Node) -> str | None:
    """`a.b.c` of a chain of attributes over a name; None for anything else."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Getattr):
        head = _path(node.node)
        return None if head is None else f"{head}.{node.attr}"
    return None
