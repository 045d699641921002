"""Names of conditions as screens and pages show them."""

from __future__ import annotations

import pytest

from judgerun.model.condition import short


@pytest.mark.parametrize(
    ("names", "cut"),
    [
        (["judge/a/p@rows", "judge/b/p@rows"], ["judge/a/p", "judge/b/p"]),
        (["judge/a/p@rows:x", "judge/a/p@rows:y"], ["judge/a/p@rows:x", "judge/a/p@rows:y"]),
        (["grade/g@solve/none@rows", "grade/g@solve/gold@rows"], ["grade/g@solve/none", "grade/g@solve/gold"]),
        (["solve/none@rows", "grade/g@solve/none@rows"], ["solve/none", "grade/g"]),
        (["v/m@problems", "v/m@form/x@problems"], ["v/m", "v/m@form/x"]),
    ],
)
def test_names_lose_what_all_conditions_of_their_stage_share(names: list[str], cut: list[str]) -> None:
    """The common tail goes, stage by stage; what tells two conditions apart stays."""
    held = short(names)
    assert [held[name] for name in names] == cut
    assert len(set(held.values())) == len(names)
