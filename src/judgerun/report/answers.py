"""How the answer was found: the section that counts, by condition, which rule gave each reply its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from judgerun.audit.evidence import Evidence
from judgerun.model.experiment import Chat
from judgerun.report.page import Section, Table, Text
from judgerun.table.answers import CONTENT

TITLE = "How the answer was found"


def found(evidence: Evidence, names: Mapping[str, str]) -> Iterator[Section]:
    """The section, where any rule but `content` is declared or has found an answer. `names`: conditions as they are to be read."""
    counted = [counts for counts in evidence.counts if counts.found]
    rules = {rule for counts in counted for rule in counts.found} | _declared(evidence)
    if rules <= {CONTENT}:
        return
    header = (CONTENT, *sorted(rules - {CONTENT}))
    rows = tuple(
        (names.get(counts.condition, counts.condition), *(str(counts.found.get(rule, 0)) for rule in header))
        for counts in counted
    )
    said = "Replies by the rule that found their answer; content is the visible text as it is."
    yield Section(TITLE, (Text(said), Table(("condition", *header), rows)))


def _declared(evidence: Evidence) -> set[str]:
    """The rules that the deployments of the experiment's arms declare, or have as their dialect's own."""
    told: set[str] = set()
    for stage in evidence.experiment.stages:
        for arm in stage.arms if isinstance(stage, Chat) else ():
            if (profile := evidence.profiles.get(arm.model.name)) is not None:
                told.update(profile.answer)
    return told
