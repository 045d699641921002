"""Which names an expression or a template uses: read from the syntax tree, nothing is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import TemplateError, TemplateSyntaxError, meta, nodes

from judgerun.table.strict import environment

_ENVIRONMENT = environment()


@dataclass(frozen=True, slots=True)
class Uses:
    """Names that stand free in a text. `attributes` are chains `name.first.second`, as far as they are plain names.
    `optional` names are asked for with `is defined` or `default`: they may be missing.
    """

    names: frozenset[str]
    attributes: frozenset[tuple[str, ...]] = frozenset()
    optional: frozenset[str] = frozenset()


class Wrong(ValueError):
    """The text is no expression or template; `line` counts from 1 inside the text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def of_expression(text: str) -> Uses:
    """What an expression uses. Raises Wrong."""
    if not text.strip():
        raise Wrong("the expression is empty", 1)
    try:
        # `compile_expression` finds what the tree alone lets pass: more than one expression, unknown filters.
        _ENVIRONMENT.compile_expression(text)
    except TemplateError as error:
        raise Wrong(_message(error), 1) from None
    return of_template("{{ (" + text + ") }}")


def of_template(text: str) -> Uses:
    """What a template uses. Raises Wrong, also for filters and tests that do not exist."""
    try:
        tree = _ENVIRONMENT.parse(text)
        _ENVIRONMENT.compile(text)
    except TemplateError as error:
        raise Wrong(_message(error), getattr(error, "lineno", None) or 1) from None
    if next(tree.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport)), None) is not None:
        raise Wrong("a prompt is one file: include, extends and import are not read", 1)
    free = meta.find_undeclared_variables(tree)
    bound = {name.name for name in tree.find_all(nodes.Name) if name.ctx in ("store", "param")}
    chains = {chain for chain in _chains(tree) if chain[0] in free and chain[0] not in bound}
    return Uses(frozenset(free), frozenset(chains), frozenset(_asked(tree)))


def _message(error: TemplateError) -> str:
    return error.message or str(error) if isinstance(error, TemplateSyntaxError) else str(error)


def _chains(tree: nodes.Node) -> Iterator[tuple[str, ...]]:
    """Every chain of plain attributes that starts at a name, the longest and all its beginnings."""
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        chain = _chain(node)
        if chain is not None:
            yield chain


def _chain(node: nodes.Node) -> tuple[str, ...] | None:
    match node:
        case nodes.Name():
            return (node.name,)
        case nodes.Getattr():
            above = _chain(node.node)
            return None if above is None else (*above, node.attr)
        case nodes.Getitem() if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            above = _chain(node.node)
            return None if above is None else (*above, node.arg.value)
    return None


def _asked(tree: nodes.Node) -> Iterator[str]:
    for node in tree.find_all((nodes.Test, nodes.Filter)):
        if node.name in ("defined", "undefined", "default", "d") and node.node is not None:
            yield from (
                name.name for name in [node.node, *node.node.find_all(nodes.Name)] if isinstance(name, nodes.Name)
            )
