"""What the tokens of replies say: whether usage adds up, what nobody counted, whether a bill stayed within its input bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median

from judgerun.audit.books import Attempt, Bought
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.audit.words import few
from judgerun.model.condition import matches
from judgerun.model.experiment import Chat, Experiment
from judgerun.model.money import format_usd
from judgerun.model.request import RequestKey
from judgerun.plan.quote import output_bound

Place = tuple[str, str]
"""(condition, by what the input bound was known)"""


def check_usage(evidence: Evidence) -> Iterator[Finding]:
    """The buckets of each reply add up to the total that its provider reports, exactly; a reply that does not say what it used,
    or for which a cost was reported without tokens, is counted. All are warnings: the ledger rests on these numbers.
    """
    attempts = _own(evidence)
    totals: dict[str, int] = defaultdict(int)
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    for bought in evidence.books.bought:
        if (attempt := attempts.get(bought.attempt)) is None:
            continue
        condition = attempt.leaf.condition
        totals[condition] += 1
        for check, said in _odd(bought):
            wrong[check, condition].append(f"request {bought.key.hex()[:12]}: {said}")
    for (check, condition), names in sorted(wrong.items()):
        yield Finding(
            check=check,
            severity="warning",
            condition=condition,
            message=f"{len(names)} of {totals[condition]} {MESSAGES[check]}",
            value=len(names),
            evidence=few(names),
        )


MESSAGES = {
    "usage": "replies whose usage does not add up to the total that the provider reports",
    "usage unknown": "replies do not say what they used",
    "cost without tokens": "replies for which the provider reported a cost, and no tokens",
}


def _odd(bought: Bought) -> Iterator[tuple[str, str]]:
    """What is odd about the usage of one reply: (check, words)."""
    given, made = bought.usage.input, bought.usage.output
    if made is None and bought.embedding:
        made = 0  # an embedding has no output
    if given is None or made is None:
        yield "usage unknown", f"input {_known(given)}, output {_known(made)}"
    elif bought.reported_tokens is not None and given + made != bought.reported_tokens:
        yield "usage", f"{given} + {made} tokens, the provider says {bought.reported_tokens}"
    if bought.reported_cost and not (given or made):
        yield "cost without tokens", f"{format_usd(bought.reported_cost)} USD"


def _known(tokens: int | None) -> str:
    return "unknown" if tokens is None else str(tokens)


def check_thinking(evidence: Evidence) -> Iterator[Finding]:
    """Reasoning tokens in the replies of a model whose thinking is off: paid for, inside its cap, asked for by nobody."""
    silent = _silent(evidence.experiment)
    attempts = _own(evidence)
    thought: dict[str, list[int]] = defaultdict(list)
    for bought in evidence.books.bought:
        if (attempt := attempts.get(bought.attempt)) is None or not bought.usage.reasoning:
            continue
        if any(matches(arm, attempt.leaf.condition) for arm in silent):
            thought[attempt.leaf.condition].append(bought.usage.reasoning)
    for condition, tokens in sorted(thought.items()):
        yield Finding(
            check="thinking",
            severity="warning",
            condition=condition,
            message=f"{len(tokens)} replies hold {sum(tokens)} reasoning tokens, although thinking is off",
            value=sum(tokens),
        )


def _silent(experiment: Experiment) -> list[str]:
    """The keys of the arms whose model shall not think."""
    arms = ((stage.name, arm) for stage in experiment.stages if isinstance(stage, Chat) for arm in stage.arms)
    return [f"{stage}/{arm.model.name}/{arm.prompt.name}" for stage, arm in arms if arm.model.thinking in ("off", 0)]


def check_bounds(evidence: Evidence) -> Iterator[Finding]:
    """The input that was billed against the input that was reserved, by condition and by what the bound was known: a bill beyond
    its bound is an error, since an overrun begins so; how tight the bound is, is a note. Calls whose output was bounded by a
    ceiling of the budget are left out: their reservation does not tell input from output.
    """
    ratios: dict[Place, list[float]] = defaultdict(list)
    beyond: dict[Place, list[str]] = defaultdict(list)
    for attempt, bound, billed in _bills(evidence):
        place = attempt.leaf.condition, attempt.bound_by
        ratios[place].append(billed / bound)
        if billed > bound:
            beyond[place].append(f"attempt {attempt.id}: {billed} tokens, at most {bound} were expected")
    for (condition, by), held in sorted(ratios.items()):
        if names := beyond[condition, by]:
            yield Finding(
                check="input bound",
                severity="error",
                condition=condition,
                message=f"{len(names)} of {len(held)} bills have more input than their bound by {by} allows",
                value=len(names),
                evidence=few(names),
            )
        middle, most = median(held), max(held)
        yield Finding(
            check="bound tightness",
            severity="note",
            condition=condition,
            message=f"{len(held)} bills took {middle:.2f} of the input that was reserved, at most {most:.2f}; bounded by {by}",
            value=middle,
        )


def _bills(evidence: Evidence) -> Iterator[tuple[Attempt, int, int]]:
    """(attempt, its input bound, the input that was billed), where both are known."""
    replies: dict[int, list[Bought]] = defaultdict(list)
    for bought in evidence.books.bought:
        replies[bought.attempt].append(bought)
    outputs = _outputs(evidence)
    for attempt in _own(evidence).values():
        held = replies[attempt.id]
        inputs = [bought.usage.input for bought in held]
        known = [tokens for tokens in inputs if tokens is not None]
        made = 0 if all(bought.embedding for bought in held) else outputs.get(attempt.keys[0])
        if made is None or len(known) != len(attempt.keys):
            continue
        bound = attempt.need.tokens - made
        if bound > 0:
            yield attempt, bound, sum(known)


def _outputs(evidence: Evidence) -> Mapping[RequestKey, int]:
    """By request, the output tokens that were reserved for it, where its own cap bounds them."""
    told: dict[RequestKey, int] = {}
    for stage in evidence.experiment.stages:
        if not isinstance(stage, Chat):
            continue
        caps = {
            (arm.model.name, arm.prompt.name): output_bound(arm.model.max_output_tokens, None, profile)
            for arm in stage.arms
            if (profile := evidence.profiles.get(arm.model.name)) is not None
        }
        for row in evidence.rows.get(stage.name, ()):
            outcome = row.outcome
            if outcome is None or outcome.key is None or outcome.model is None or outcome.prompt is None:
                continue
            cap = caps.get((outcome.model, outcome.prompt))
            if cap is not None:
                told[outcome.key] = cap
    return told


def _own(evidence: Evidence) -> Mapping[int, Attempt]:
    """The experiment's own attempts."""
    name = evidence.experiment.name
    return {attempt.id: attempt for attempt in evidence.books.attempts if attempt.leaf.experiment == name}
