"""Gates of a run: what its ending says of those that fired."""

from __future__ import annotations

from judgerun.dispatch.gates import Gates


def test_an_ending_names_every_gate_that_fired() -> None:
    """Up to four in the order in which they fired, with what became of them; beyond, how many more there are."""
    gates = Gates(None)
    assert gates.tell("gate of a: truncated") == "gate of a: truncated"
    assert gates.tell("gate of b: empty") == "gate of a: truncated; gate of b: empty"
    assert gates.tell("gate of a: truncated", "reopened") == "gate of a: truncated; reopened; gate of b: empty"
    for name in "cdef":
        said = gates.tell(f"gate of {name}: cost")
    assert said.endswith("gate of c: cost; gate of d: cost; and 2 more")
