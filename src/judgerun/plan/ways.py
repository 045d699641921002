"""Ways: the arms of a chat stage over the conditions that feed it, with all that can be worked out before the first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judgerun.model.condition import Condition
from judgerun.model.experiment import Arm, Chat, Join, Settings
from judgerun.model.profile import Profile
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
    form: Form
    where: Expression | None
    expect: Expression | None
    branches: list[Branch] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        """The arm's settings."""
        return self.arm.settings


def ways(stage: Chat, feeds: Sequence[Condition], profiles: Mapping[str, Profile]) -> dict[str, list[Way]]:
    """The ways of a stage by the name of the condition that feeds them, in the order of the file."""
    forms = [Form(arm.model, profiles[arm.model.name]) for arm in stage.arms]
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
                form=forms[number],
                where=_expression(settings.where),
                expect=_expression(settings.expect),
            )
            found.setdefault(feed.name, []).append(way)
            for variant in stage.variants:
                own = {join.name for join in (*stage.joins, *variant.joins)}
                absent: dict[str, None] = dict.fromkeys(name for name in bound if name not in own)
                branch = Branch(joins=(*stage.joins, *variant.joins), absent=absent)
                way.branches.append(branch)
                for order in orders(settings.orders):
                    condition = asked(
                        feed,
                        stage.name,
                        model=arm.model.name,
                        prompt=arm.prompt.name,
                        variant=variant.name,
                        order=order,
                    )
                    tally = Tally(
                        condition=condition.name,
                        stage=stage.name,
                        model=arm.model,
                        output_expected=settings.output_tokens_expected,
                    )
                    slot = Slot(
                        way=way,
                        variant=variant.name or None,
                        order=order,
                        condition=condition,
                        place=place,
                        tally=tally,
                    )
                    branch.slots.append(slot)
                    place += 1
    return found


def _expression(text: str | None) -> Expression | None:
    return None if text is None else Expression(text)
