"""Width: how many of a lane's slots are used at once, learnt from how its provider bears them; the law is pure, times come in.

The ceiling is what a person wrote. Below it the width follows additive increase and multiplicative decrease:

- a call that ends in overload weighs as much as `WEIGHT` answers: more than one in so many cuts the width by half. A stray
  failure of a large service does not: for what one call in a hundred says, a run must not become narrow.
- A cut is followed by `DEBOUNCE_S` without another, and what was sent before it says nothing about the new width: one wave of
  failures is one cut. The time is our own: what a provider asks us to wait postpones calls (`Stated.hold`), and never a width.
- It grows by a `STEP`th of the ceiling for each round (as many answers as there are slots), counted only while every slot is in
  use, somebody waits, and no overload is unforgotten: a width that is not used proves nothing. On its way through the upper
  part of what was too much the last time it takes smaller steps.
"""

from __future__ import annotations

from judgerun.dispatch.slots import Slots

WEIGHT = 20
"""Answers that make one overload forgotten."""
PRESSURE_MAX = 3 * WEIGHT
"""So many overloads in a row, or among few answers, make a cut."""
DEBOUNCE_S = 5.0
STEP = 32


class Width:
    """The law over the slots of one lane."""

    __slots__ = ("_credit", "_cut_at", "_much", "_pressure", "ceiling", "held", "narrow", "slots")

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.ceiling = slots.size
        self.narrow = False  # something was seen since it was last as wide as it may be
        self.held = False  # it may not grow: its provider is slow
        self._pressure = 0
        self._credit = 0
        self._cut_at = float("-inf")
        self._much = 0  # what was too much when it was last cut

    def answered(self, now: float) -> None:
        """A call was answered; to be asked only while `narrow`, and before its slot is given back."""
        if self._pressure:
            self._pressure -= 1
        elif self.slots.size >= self.ceiling:
            self.narrow = False
        elif now >= self._cut_at + DEBOUNCE_S and not self.held and self.slots.saturated:
            self._credit += 1
            if self._credit >= self.slots.size:
                self._credit = 0
                near = 3 * self._much <= 4 * self.slots.size < 4 * self._much
                step = max(1, self.ceiling // (4 * STEP if near else STEP))
                self.slots.resize(min(self.ceiling, self.slots.size + step))

    def overloaded(self, now: float, *, began: float) -> bool:
        """A call that began then was refused for overload; whether the width was cut for it."""
        if began < self._cut_at or now < self._cut_at + DEBOUNCE_S:
            return False
        self.narrow = True
        self._credit = 0
        self._pressure += WEIGHT
        if self._pressure < PRESSURE_MAX:
            return False
        self.cut(now)
        return True

    def cut(self, now: float) -> None:
        """Use half of the slots, and at least one."""
        self.narrow = True
        self._pressure = self._credit = 0
        self._cut_at, self._much = now, self.slots.size
        self.slots.resize(max(1, self.slots.size // 2))

    def limit(self, ceiling: int) -> None:
        """The ceiling is another one from now on. What was never cut goes along with it."""
        wide = self.slots.size >= self.ceiling
        self.ceiling = ceiling
        self.narrow = True
        self.slots.resize(ceiling if wide else min(self.slots.size, ceiling))
