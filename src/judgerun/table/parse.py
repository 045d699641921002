"""Parse rules: what a reply's text says, as a Verdict. Nothing is guessed: what a rule cannot tell is not parsed, with why."""

from __future__ import annotations

from judgerun.model.experiment import ParseRule
from judgerun.table.row import Verdict


def parse(rule: ParseRule, text: str, *, prompt: str, candidates: int | None) -> Verdict:
    """What `rule` makes of a reply's text. `prompt` is the rendered prompt, `candidates` how many a choice is among."""
    return Verdict(parsed=False, why="empty" if not text.strip() else "no match", rule=f"{rule.kind}/{rule.version}")
