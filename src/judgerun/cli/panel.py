"""The live panel of a run: on a terminal a picture, elsewhere plain lines; it decides nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from types import TracebackType

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from judgerun.api.watching import Watch
from judgerun.cli.jobs import stands
from judgerun.cli.words import GONE, Words, plain
from judgerun.dispatch.progress import OpenJob, Progress
from judgerun.model.condition import short
from judgerun.model.money import format_usd
from judgerun.plan.counts import Counts
from judgerun.ports import Standing

LINE_EVERY = 10
"""Seconds between two plain lines."""
CONDITIONS_MAX = 24
"""Conditions that the panel has room for; `status` lists all."""
JOBS_MAX = 8
"""The same of jobs."""


class Panel:
    """Use as a context; `show` each second. On a terminal the panel stands below the log and is gone when the run ends."""

    def __init__(self, words: Words, name: str, *, plain: bool = False) -> None:
        """`plain`: lines, on a terminal too."""
        self._words = words
        self._name = name
        self._shown = 0
        live = sys.stderr.isatty() and not words.json and not plain
        self._live = Live(console=words.err, refresh_per_second=4, transient=True) if live else None

    def __enter__(self) -> Panel:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            _try(self._live.stop)

    def show(self, seen: Watch) -> None:
        """Show how the run stands now."""
        counts = tuple(replace(count, planned=seen.planned(count)) for count in seen.flow.counts())
        said = _lines(self._name, seen, counts, seen.cache.standing())
        if self._live is not None:
            _try(partial(self._live.update, _picture(counts, said)))
        elif self._shown % LINE_EVERY == 0:
            self._words.event("; ".join(said))
        self._shown += 1


def _lines(name: str, seen: Watch, counts: tuple[Counts, ...], standing: Standing) -> tuple[str, ...]:
    """How it stands, in lines that fit a narrow terminal: cells and time, money, pace and waits, then troubles."""
    whole = sum(count.planned for count in counts)
    done, failed = sum(count.done for count in counts), sum(count.failed for count in counts)
    calls, tokens = seen.progress.rates(seen.now)
    spend = standing.experiment
    waits = ", ".join(f"{cause} {cells}" for cause, cells in seen.progress.waits().items()) or "nothing"
    return (
        f"{name}: {done} of {whole} done, {failed} failed, {_time(seen.progress)}",
        f"spent [{format_usd(spend.low)}, {format_usd(spend.high)}] of {format_usd(seen.budget.total)} USD, "
        f"{format_usd(spend.held)} of it held",
        f"{calls:.1f} calls/s, {tokens:.0f} tokens/s, {seen.progress.in_flight} in flight; cells wait for {waits}",
        *_jobs(name, seen.progress.jobs),
        *(
            f"{provider}: {plain(why)}, next try in {after:.0f} s"
            for provider, (why, after) in seen.progress.troubles(seen.now).items()
        ),
    )


def _jobs(name: str, held: Mapping[int, OpenJob]) -> Iterator[str]:
    for number, job in islice(held.items(), JOBS_MAX):
        yield f"job {number} at {job.provider}: {job.size} calls; {stands(job.state, job.told)}"
    if len(held) > JOBS_MAX:
        yield f"... and {len(held) - JOBS_MAX} more jobs: judgerun jobs {name}"


def _time(progress: Progress) -> str:
    if progress.paused:
        return "paused"
    return "time left unknown" if progress.left is None else f"{progress.left}"


def clock(seconds: float) -> str:
    """A span of time: `h:mm:ss`."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def _try(draw: Callable[[], None]) -> None:
    """Draw, as long as there is a terminal."""
    try:
        draw()
    except OSError as error:
        if error.errno not in GONE:
            raise


def _picture(counts: tuple[Counts, ...], said: tuple[str, ...]) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head, side in (("condition", "left"), ("", "left"), ("done", "right"), ("failed", "right"), ("finish", "left")):
        table.add_column(head, justify="right" if side == "right" else "left")
    names = short(count.condition for count in counts)
    for count in counts[:CONDITIONS_MAX]:
        finish = " ".join(f"{word} {n}" for word, n in sorted(count.finish.items()))
        bar = ProgressBar(total=max(1, count.planned), completed=count.done + count.failed, width=16)
        table.add_row(names[count.condition], bar, f"{count.done}/{count.planned}", str(count.failed), finish)
    if len(counts) > CONDITIONS_MAX:
        table.add_row(f"... and {len(counts) - CONDITIONS_MAX} more conditions", "", "", "", "")
    return Group(table, *(Text(line, overflow="fold") for line in said))
