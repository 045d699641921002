"""Values that a maker makes are those of the class itself."""

from __future__ import annotations

from copy import copy
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from judgerun.errors import InvariantBroken
from judgerun.model.kept import Kept
from judgerun.model.making import maker
from judgerun.model.reply import Finish, Reply, Usage
from judgerun.model.request import Request, build
from judgerun.table.row import Row


@pytest.mark.parametrize(
    "value",
    [
        Usage(input_fresh=3, reasoning=0),
        Reply(finish=Finish.LENGTH, text="a", usage=Usage(output_visible=1)),
        Kept(reply=Reply(finish=Finish.STOP), attempt=4, experiment="e"),
        build("chat", {"model": "m"}, deployment="d", adapter="a", draw=2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_same_values(value: Usage | Reply | Kept | Request) -> None:
    """Of the same arguments comes an equal value of the class itself, frozen, and to be replaced and copied like any other."""
    made = maker(type(value))(**{one.name: getattr(value, one.name) for one in fields(value)})
    assert type(made) is type(value)
    assert made == value
    assert replace(made) == copy(made) == value
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(value)[0].name, None)


def test_defaults() -> None:
    """What is left out has its default, and a mutable one is no other value's."""
    make = maker(Row)
    condition = object()
    first, second = (make(id="a", condition=condition, block="b") for _ in range(2))  # type: ignore[arg-type]  # any will do
    assert first == Row(id="a", condition=condition, block="b")  # type: ignore[arg-type]
    assert first.stages is not second.stages
    with pytest.raises(TypeError):
        make(id="a")  # type: ignore[call-arg]


def test_a_class_that_checks() -> None:
    """A class that looks at its values when they are made has no maker: it would not be asked."""

    @dataclass(frozen=True, slots=True)
    class Checked:
        held: list[int] = field(default_factory=list)

        def __post_init__(self) -> None:
            raise AssertionError

    with pytest.raises(InvariantBroken):
        maker(Checked)
