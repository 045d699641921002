"""The program's own simulated provider in the loop of a test, with its books in the form that the judge reads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from fakes.provider import Bill, Hit
from fakes.serving import serving
from judgerun.simulate.bill import Bill as Books
from judgerun.simulate.bill import Tariff
from judgerun.simulate.server import Simulator


class _OneTariff(Books):
    """Books in which every model costs the same."""

    def __init__(self, tariff: Tariff) -> None:
        super().__init__()
        self._only = tariff

    def tariff(self, model: str) -> Tariff:
        return self._only


class SimulatedProvider:
    """A server. `weights` are its faults; emptied, it is healthy."""

    def __init__(
        self,
        *,
        seed: int,
        weights: Mapping[str, float],
        price: tuple[int, int],
        wall: Callable[[], float],
        began: float,
        pace: float = 10.0,
    ) -> None:
        self._books = _OneTariff(Tariff(input=price[0], output=price[1]))
        self._began = began
        self._simulator = Simulator(
            seed=seed, faults=weights, bill=self._books, wall=wall, pace=pace, flood_bytes=10_000
        )
        self._stack = contextlib.AsyncExitStack()
        self.url = ""

    async def start(self) -> None:
        """Listen on a free port."""
        self.url = await self._stack.enter_async_context(serving(self._simulator))

    async def stop(self) -> None:
        await self._stack.aclose()

    @property
    def weights(self) -> Mapping[str, float]:
        return self._simulator.faults

    @weights.setter
    def weights(self, weights: Mapping[str, float]) -> None:
        self._simulator.faults = dict(weights)

    @property
    def bill(self) -> Bill:
        """Its books so far."""
        bill = Bill()
        for row in self._books.rows:
            attempt = None if row["attempt"] is None else int(row["attempt"])
            bill.hits.append(Hit(row["at"] - self._began, attempt, row["model"], str(row["n"])))
            if row["billed"]:
                bill.charge(attempt, row["nanos"])
            if row["fault"] == "overrun":
                bill.overruns.add(attempt)
        return bill
