"""The strict, sandboxed Jinja2 environment of expressions and prompts; nothing else may live here.

Strict: a missing name is an error wherever it is used, and `int` and `float` refuse what is no number (Jinja2's own give 0).
Pure: no globals, and none of the filters that draw at random, so that the same template and the same row give the same
bytes every time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from jinja2 import StrictUndefined
from jinja2.exceptions import UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

IMPURE_FILTERS = ("random",)

#: What a template over data may raise besides Jinja2's own errors: wrong types, bad numbers, odd indices, deep nesting.
FAULTS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


class NameMissing(UndefinedError):
    """A name, or an attribute of a name, that a template uses and its scope lacks."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class Missing(StrictUndefined):
    """A missing value that tells its name when it is used."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: Any = UndefinedError,
    ) -> None:
        # A sandbox refusal brings its own exception class, which must stay what it is.
        raised: Any = partial(NameMissing, str(name)) if exc is UndefinedError else exc
        super().__init__(hint, obj, name, raised)


class Strict(ImmutableSandboxedEnvironment):
    """A sandbox in which a dot on a mapping asks for its key first: a field may be named `items` or `values`."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The key of a mapping, else the attribute, else a Missing."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


_NO_DEFAULT = object()


def _int(value: Any, default: Any = _NO_DEFAULT) -> Any:
    """A whole number; `default`, where one is given, for what is none."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        if default is _NO_DEFAULT:
            raise ValueError(f"{value!r} is no whole number") from None
        return default


def _float(value: Any, default: Any = _NO_DEFAULT) -> Any:
    """A number; `default`, where one is given, for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        if default is _NO_DEFAULT:
            raise ValueError(f"{value!r} is no number") from None
        return default


def environment(**options: Any) -> Strict:
    """A fresh environment; `options` are Jinja2's own."""
    made = Strict(undefined=Missing, autoescape=False, **options)
    made.globals.clear()
    for name in IMPURE_FILTERS:
        del made.filters[name]
    made.filters.update({"int": _int, "float": _float})
    return made
