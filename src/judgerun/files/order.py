"""The order of stages: every table that a stage reads comes before it; cycles are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def ordered(needs: Mapping[str, Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Stage names so that each comes after those it needs, else in the order given; and the cycles found. Names that are
    no key (data tables, unknown ones) are left aside.
    """
    done: list[str] = []
    cycles: list[list[str]] = []
    way: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        if name in way:
            cycles.append([*way[way.index(name) :], name])
            return
        way.append(name)
        for need in needs[name]:
            if need in needs:
                visit(need)
        way.pop()
        if name not in done:
            done.append(name)

    for name in needs:
        visit(name)
    return done, cycles
