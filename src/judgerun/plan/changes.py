"""Changes: what people changed in their files since a run, told by file and line, with what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Change:
    """One file that is not what it was. `lines` are line numbers of the new text; empty where the old text is not known."""

    file: str
    kind: str  # changed, gone, new
    lines: str = ""

    def __str__(self) -> str:
        where = f" {self.lines}" if self.lines else ""
        return f"{self.file}{where} {'is ' if self.kind != 'changed' else ''}{self.kind}"


def changed(pinned: Mapping[str, str], now: Mapping[str, str], texts: Mapping[str, tuple[str, str]]) -> list[Change]:
    """The files whose digests differ from the pinned ones, by name. `texts` has (old, new) of those whose text was kept."""
    found = []
    for file in sorted(pinned.keys() | now.keys()):
        if file not in now:
            found.append(Change(file, "gone"))
        elif file not in pinned:
            found.append(Change(file, "new"))
        elif pinned[file] != now[file]:
            old, new = texts.get(file, ("", ""))
            found.append(Change(file, "changed", lines(old, new)))
    return found


def lines(old: str, new: str) -> str:
    """Which lines of the new text differ: "line 12", "lines 3-5", "lines 2, 7-9"; "" where none does. Lines that were only
    taken away stand as the line before which they stood.
    """
    spans: list[tuple[int, int]] = []
    after = new.splitlines()
    for tag, _, _, first, last in SequenceMatcher(None, old.splitlines(), after, autojunk=False).get_opcodes():
        if tag != "equal":
            start = min(first + 1, max(1, len(after)))
            spans.append((start, max(start, last)))
    told = [str(start) if start == end else f"{start}-{end}" for start, end in spans]
    if not told:
        return ""
    one = len(told) == 1 and "-" not in told[0]
    return f"{'line' if one else 'lines'} {', '.join(told)}"


def cost(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Conditions that lost replies: "pick/glm-j/terse@...: 2,000 cached -> 0". Both map conditions to cells with a reply."""
    return [
        f"{condition}: {count:,} cached -> {now.get(condition, 0):,}"
        for condition, count in before.items()
        if now.get(condition, 0) < count
    ]
