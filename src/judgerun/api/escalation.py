"""Escalation: what a person asks to be bought again under higher caps, checked against the experiment and what is in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from judgerun.api.project import Project, nothing, snapshot
from judgerun.errors import Problem, Refused
from judgerun.model.condition import matches
from judgerun.model.experiment import Chat
from judgerun.model.money import format_usd
from judgerun.plan.ladder import KINDS, Escalation
from judgerun.plan.quote import Quote
from judgerun.plan.tally import Tally
from judgerun.providers.open import unsent

CAPS = "--max-output-tokens"


def planned(
    project: Project, condition: str, *, rungs: Sequence[int], kinds: Sequence[str] = ("truncated",), because: str = ""
) -> Escalation:
    """The plan to buy the replies of these kinds again, cap by cap; the one in force where it is the same, whose event it then
    names. Raises Refused with everything that is wrong with it.
    """
    with snapshot(project.workspace.cache) as view:
        plans = project.plans(view)
        bought = view is not None and project.name in view.experiments()
    asked = Escalation(
        condition=condition, rungs=tuple(rungs), kinds=tuple(sorted(set(kinds))), because=because.strip()
    )
    problems = (
        [] if bought else [Problem(project.name, "", "nothing of it was bought yet", f"judgerun run {project.name}")]
    )
    problems += [*_shape(asked), *_conditions(project, asked), *_follows(asked, plans)]
    if problems:
        raise Refused(tuple(dict.fromkeys(problems)))
    same = (plan for plan in reversed(plans) if _asked(plan) == _asked(asked))
    return next(same, asked)


def _asked(plan: Escalation) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    return plan.condition, plan.rungs, plan.kinds


def told(escalation: Escalation, quoted: Quote) -> str:
    """The quote of an escalation in a line, and what it leaves alone."""
    return (
        f"asking again: {escalation}; {quoted.to_send} cells, expected {format_usd(quoted.expected)}, worst "
        f"{format_usd(quoted.worst)} USD over all rungs; nothing else is sent"
    )


def _shape(asked: Escalation) -> Iterator[Problem]:
    """What is wrong by itself."""
    rungs = asked.rungs
    if not rungs or any(low >= high for low, high in pairwise(rungs)) or rungs[0] < 1:
        wrong = f"{', '.join(map(str, rungs)) or 'nothing'} is no ladder of caps"
        yield Problem("command line", CAPS, wrong, "tokens that rise, as in 16384,32768")
    for kind in asked.kinds:
        if kind not in KINDS:
            yield Problem("command line", "--of", f"{kind!r} is no kind of reply", f"one or more of {', '.join(KINDS)}")
    if not asked.kinds:
        yield Problem("command line", "--of", "no kind of reply is named", f"one or more of {', '.join(KINDS)}")


def _conditions(project: Project, asked: Escalation) -> Iterator[Problem]:
    """Conditions that cannot be asked so."""
    with snapshot(project.workspace.cache) as view:
        tallies = project.flow(lookup=nothing, matrix=project.matrix(view)).tallies
    named = [tally for name, tally in tallies.items() if matches(asked.condition, name)]
    if not named:
        there = ", ".join(sorted({name.split("@", 1)[0] for name in tallies}))
        yield Problem(
            "command line", "--condition", f"{asked.condition!r} is the key of no condition", f"there are {there}"
        )
    for tally in named:
        yield from _condition(project, asked, tally)


def _condition(project: Project, asked: Escalation, tally: Tally) -> Iterator[Problem]:
    model, own = tally.model, tally.model.max_output_tokens
    if not isinstance(project.experiment.stage(tally.stage), Chat):
        wrong = f"{tally.condition} has vectors, no replies"
        yield Problem("command line", "--condition", wrong, "a condition of a stage that asks for text")
    elif own is None:
        wrong = f"{tally.condition} has no cap of its own: no max_output_tokens of model {model.name} was reached"
        yield Problem("command line", "--condition", wrong, "a condition whose model has max_output_tokens")
    else:
        for cap in asked.rungs:
            if cap <= own:
                wrong = f"{cap} does not lie above {own}, the cap of {tally.condition}"
                yield Problem("command line", CAPS, wrong, f"caps above {own}")
            for problem in unsent(replace(model, max_output_tokens=cap), project.profiles[model.name]):
                yield Problem("command line", CAPS, f"{cap} for {tally.condition}: {problem.wrong}", problem.right)


def _follows(asked: Escalation, plans: Sequence[Escalation]) -> Iterator[Problem]:
    """A new cap lies above all that are in force for the same conditions: a cell that was answered above it is not asked below."""
    held = {cap for plan in plans if _meet(plan.condition, asked.condition) for cap in plan.rungs}
    for cap in asked.rungs:
        if held and cap not in held and cap < max(held):
            wrong = f"{cap} lies below {max(held)}, up to which a plan in force goes"
            yield Problem("command line", CAPS, wrong, f"caps of the plans in force ({_list(held)}), or above them")


def _meet(one: str, other: str) -> bool:
    """Whether two keys may name one condition."""
    return "*" in one + other or matches(one, other) or matches(other, one)


def _list(caps: set[int]) -> str:
    return ", ".join(map(str, sorted(caps)))
