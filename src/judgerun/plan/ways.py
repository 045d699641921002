"""Ways: the arms of a chat stage over the conditions that feed it, with all that can be worked out before the first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from judgerun.model.condition import Condition
from judgerun.model.experiment import Arm, Chat, Join, Model, Settings
from judgerun.model.profile import Profile
from judgerun.plan.gauge import Gauge, Pairing
from judgerun.plan.ladder import Escalation, Forms, Ladder, ladder
from judgerun.plan.requests import Form
from judgerun.plan.tally import Tally
from judgerun.table.conditions import asked, orders
from judgerun.table.expression import Expression


@dataclass(slots=True, kw_only=True)
class Slot:
    """One condition of a chat stage."""

    way: Way
    variant: str | None
    order: str | None
    condition: Condition
    place: int  # among the conditions of the stage
    tally: Tally
    ladder: Ladder = ()
    canary: str = ""  # the known answer that it is given, by kind


@dataclass(slots=True, kw_only=True)
class Branch:
    """One variant of a way: what it joins, and its conditions by order."""

    joins: tuple[Join, ...]
    absent: Mapping[str, None]  # names that only other variants bind: null here
    slots: list[Slot] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Way:
    """One arm on the rows of one condition."""

    arm: Arm
    number: int  # of the arm in the stage
    feed: str  # the stage or data table that feeds it
    forms: Forms
    where: Expression | None
    expect: Expression | None
    branches: list[Branch] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        """The arm's settings."""
        return self.arm.settings

    @property
    def form(self) -> Form:
        """How the arm asks by itself."""
        return self.forms.own


def ways(
    stage: Chat,
    feeds: Sequence[Condition],
    profiles: Mapping[str, Profile],
    *,
    models: Mapping[str, Model],
    plans: Sequence[Escalation],
    canaries: Sequence[str] = ("",),
) -> dict[str, list[Way]]:
    """The ways of a stage by the name of the condition that feeds them, in the order of the file; with kinds of `canaries`,
    those of its canaries.
    """
    forms = [Forms(model=arm.model, profiles=profiles, models=models) for arm in stage.arms]
    bound = [join.name for variant in stage.variants for join in variant.joins]
    found: dict[str, list[Way]] = {}
    place = 0
    for feed in feeds:
        for number, arm in enumerate(stage.arms):
            settings = arm.settings
            way = Way(
                arm=arm,
                number=number,
                feed=feed.stage,
                forms=forms[number],
                where=_expression(settings.where),
                expect=_expression(settings.expect),
            )
            found.setdefault(feed.name, []).append(way)
            for variant in stage.variants:
                own = {join.name for join in (*stage.joins, *variant.joins)}
                absent: dict[str, None] = dict.fromkeys(name for name in bound if name not in own)
                branch = Branch(joins=(*stage.joins, *variant.joins), absent=absent)
                way.branches.append(branch)
                for canary, order in product(canaries, orders(settings.orders)):
                    condition = asked(
                        feed,
                        stage.name,
                        model=arm.model.name,
                        prompt=arm.prompt.name,
                        variant=variant.name,
                        order=order,
                        canary=canary,
                    )
                    slot = _slot(
                        way, condition, plans, variant=variant.name or None, order=order, canary=canary, place=place
                    )
                    branch.slots.append(slot)
                    place += 1
    return found


def _slot(
    way: Way,
    condition: Condition,
    plans: Sequence[Escalation],
    *,
    variant: str | None,
    order: str | None,
    canary: str,
    place: int,
) -> Slot:
    """A condition with its counts, and the rungs by which it is asked again."""
    model = way.arm.model
    rungs = ladder(plans, condition.name, model.max_output_tokens)
    tally = Tally(
        condition=condition.name,
        stage=condition.stage,
        model=model,
        output_expected=way.settings.output_tokens_expected,
        caps=tuple(rung.cap for rung in rungs),
    )
    return Slot(
        way=way,
        variant=variant,
        order=order,
        condition=condition,
        place=place,
        tally=tally,
        ladder=rungs,
        canary=canary,
    )


def gauge(slots: Sequence[Slot]) -> None:
    """Have the conditions of a stage counted as their gates ask; those that look at differences share a pairing."""
    gated = [(slot, gate) for slot in slots if (gate := slot.way.settings.gate) is not None]
    paired = [slot.condition.name for slot, gate in gated if gate.difference is not None]
    pairing = Pairing(paired)
    for slot, gate in gated:
        differs = gate.difference is not None
        slot.tally.gauge = Gauge(
            expected=slot.way.settings.output_tokens_expected if "length" in gate.limits else None,
            pairing=pairing if differs else None,
            place=paired.index(slot.condition.name) if differs else 0,
        )


def _expression(text: str | None) -> Expression | None:
    return None if text is None else Expression(text)
