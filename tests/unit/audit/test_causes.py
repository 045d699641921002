"""Findings by cause: what is read in full, what is counted, and that nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from judgerun.audit.causes import SHOWN, causes
from judgerun.audit.finding import Audit, Finding
from judgerun.audit.render import files
from judgerun.report.audited import files as pages


def finding(n: int, *, stage: str = "pick", severity: str = "warning", waived: str | None = None) -> Finding:
    """One of many that differ in their condition alone."""
    return Finding(
        check="truncated",
        severity=severity,  # type: ignore[arg-type]
        condition=f"{stage}/m{n:02}/p@rows" if stage else "",
        message=f"{n} of 99 are truncated",
        value=n / 99,
        waived=waived,
    )


FINDINGS = st.builds(
    finding,
    st.integers(0, 60),
    stage=st.sampled_from(["pick", "grade", ""]),
    severity=st.sampled_from(["error", "warning", "note"]),
    waived=st.sampled_from([None, "known"]),
)


@given(st.lists(FINDINGS, max_size=40))
def test_every_finding_has_one_cause(findings: list[Finding]) -> None:
    """All findings are in exactly one cause; those of a cause share check, severity, stage and whether they are waived; what is not
    shown is counted.
    """
    found = causes(findings)
    assert sorted(one.order for cause in found for one in cause.findings) == sorted(one.order for one in findings)
    for cause in found:
        assert len({(one.severity, one.condition[:4], one.waived) for one in cause.findings}) == 1
        hidden = len(cause.findings) - len(cause.shown)
        assert (f"and {hidden} more" in cause.rest) if hidden else cause.rest == ""
        assert hidden != 1


def test_the_worst_of_many_are_shown_in_their_order() -> None:
    """Of 48 findings of one cause the three of the greatest values stand, as they stood in the audit."""
    (cause,) = causes([finding(n) for n in (5, 40, 1, 30, *range(2, 5), 50)])
    assert [one.message[:2] for one in cause.shown] == ["40", "30", "50"]
    assert cause.rest == "and 5 more in pick"
    assert len(causes([finding(n) for n in range(SHOWN + 1)])[0].shown) == SHOWN + 1


def test_pages_name_the_worst_and_keep_all() -> None:
    """audit.md and the open part of audit.html name three of 48 and count the rest; audit.json and the shut part have all."""
    audit = Audit(experiment="x", findings=tuple(finding(n, severity="error") for n in range(48)), conditions=())
    text = files(audit)["audit.md"].decode()
    assert text.count("are truncated") == SHOWN
    assert "and 45 more in pick; all are in audit.json" in text
    assert "48 errors" in text
    assert files(audit)["audit.json"].decode().count("are truncated") == 48
    page = pages(audit)["audit.html"].decode()
    assert page.count("are truncated") == 48 + SHOWN
    assert page.index("and 45 more in pick") < page.index("Every finding")
