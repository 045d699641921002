"""A pilot in words: what a command line may ask of one, and the table of its certificate."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from math import ceil
from typing import Any

from judgerun.api.pilot import Piloted
from judgerun.api.pilot import pilot as run_pilot
from judgerun.api.project import Project, Workspace
from judgerun.api.steering import budget_named
from judgerun.api.watching import Watch
from judgerun.cli.panel import clock
from judgerun.cli.words import Words
from judgerun.errors import Problem, Refused, both
from judgerun.ledger.budget import Budget
from judgerun.model.condition import short
from judgerun.model.money import format_usd
from judgerun.plan.certificate import LEVEL, LIKELY, RISK, Certificate, Part, Share

WHOLE = "a pilot is of the first blocks of the whole experiment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """What was asked: so many blocks, and the probability of passing a cap that is borne."""

    blocks: int
    risk: float = RISK

    def run(
        self,
        words: Words,
        project: Project,
        budget: Budget,
        *,
        yes: bool,
        watch: Callable[[Watch], None],
        log: Callable[[str], None],
    ) -> Coroutine[Any, Any, Piloted]:
        """The pilot and, where its certificate allows it, the rest."""
        return run_pilot(
            project,
            budget=budget,
            blocks=self.blocks,
            risk=self.risk,
            yes=yes,
            signals=True,
            watch=watch,
            log=log,
            tell=lambda certificate: tell(words, certificate),
        )


def asked(
    place: Workspace, name: str, budget: str | None, *, blocks: int | None, risk: float | None, other: dict[str, bool]
) -> Pilot | None:
    """The pilot of a command line; None where none is asked. Raises Refused, with whatever else is wrong, where it is asked with
    an option that would make it another thing: `other` says of each such option whether it was given.
    """
    odd = [
        Problem("command line", "--pilot", f"{WHOLE}, and not with {option}", f"leave out {option} or --pilot")
        for option, given in other.items()
        if given and blocks is not None
    ]
    if risk is not None and blocks is None:
        odd.append(Problem("command line", "--risk", "there is no pilot whose risk it could be", "--pilot N"))
    if odd:
        raise Refused((*odd, *_wrong(place, name, budget)))
    return None if blocks is None else Pilot(blocks=blocks, risk=RISK if risk is None else risk)


def _wrong(place: Workspace, name: str, budget: str | None) -> tuple[Problem, ...]:
    """What the files have wrong besides."""
    try:
        both(lambda: place.open(name, offline=False), lambda: budget_named(place, budget))
    except Refused as error:
        return error.problems
    return ()


def tell(words: Words, held: Certificate) -> None:
    """The certificate for people: a row per condition, one for the whole, then the caps and what follows."""
    names = short(part.condition for part in held.parts)
    heads = (
        "condition",
        "items",
        "replies",
        "left",
        "mean USD",
        "5%",
        "50%",
        "95%",
        "99%",
        "quoted",
        "bad now",
        "bad later",
    )
    rows = [_row(names[part.condition], part) for part in held.parts]
    left, quoted = sum(part.left for part in held.parts), sum(part.quoted for part in held.parts)
    rows.append(("all", "", "", left, *_dollars(held.cost.mean, *held.cost.quantiles), format_usd(quoted), "", ""))
    words.table(heads, rows, title=f"certificate of {held.experiment} after {held.blocks} blocks: what the rest costs")
    for against in held.caps:
        cap, leaves = against.headroom.cap, against.headroom.leaves
        words.say(
            f"cap {cap} leaves {cap.told(leaves)}: P(the rest takes more) = {against.passes:.3f}, "
            f"at most {held.risk:g} is allowed"
        )
    q05, q50, q95, _ = held.seconds.quantiles
    words.say(f"time of the rest at the lanes: {clock(q50)} [{clock(q05)}, {clock(q95)}]")
    for part in held.parts:
        for share in part.shares:
            if share.limit is not None and share.passes is not None:
                words.say(
                    f"gate {share.name} {share.limit:.1%} of {names[part.condition]}: P(passed in the end) = {share.passes:.3f}, "
                    f"at most {LIKELY:g} is allowed"
                )
    words.say(
        "the certificate does not allow the rest" if held.reasons else "the certificate allows the rest: going on"
    )


def _row(name: str, part: Part) -> tuple[object, ...]:
    now = ", ".join(map(_now, filter(_telling, part.shares))) or "-"
    later = ", ".join(f"{share.name} {share.later[0]} to {share.later[1]}" for share in part.shares if _telling(share))
    costs = _dollars(part.cost.mean, *part.cost.quantiles)
    return (name, part.items, part.replies, part.left, *costs, format_usd(part.quoted), now, later or f"({LEVEL:.0%})")


def _telling(share: Share) -> bool:
    """Whether any was seen, or a gate asks."""
    return share.bad > 0 or share.limit is not None


def _now(share: Share) -> str:
    return f"{share.name} {share.bad} of {share.n} [{share.low:.1%}, {share.high:.1%}]"


def _dollars(*nanos: float) -> tuple[str, ...]:
    """To the hundredth of a cent, rounded up: more digits than that no forecast has."""
    return tuple(f"{ceil(each / 100_000) / 10_000:.4f}" for each in nanos)
