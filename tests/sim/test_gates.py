"""Gates in whole runs in virtual time: one of three conditions goes bad, stops with its grader, and is reopened."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from fakes import judge, tables
from fakes.flow import Arm, model
from fakes.world import Knobs, Outcome, World
from judgerun.api.gates import rule
from judgerun.errors import Exit
from judgerun.model.experiment import Deployment, Experiment, Gate
from judgerun.plan.counts import Counts
from judgerun.simulate import virtual
from judgerun.store.inline import Inline
from judgerun.table.gate import reopening

ROWS = 100
BAD, GRADED = "solve/a/p@rows", "grade/g/q@solve/a/p@rows"


class Gated(World):
    """Three solvers, of which one has a cap that most of its answers reach, and a grader of them all."""

    def default_arms(self, lab: Deployment) -> list[Arm]:
        return [Arm(name=name, model=model(name, lab, cap=4 if name == "a" else 16)) for name in "abcg"]

    def written(self, lab: Deployment) -> Experiment:
        given = {name: {"provider": lab, "max_output_tokens": 4 if name == "a" else 16} for name in "abcg"}
        gate = Gate(limits={"truncated": 0.3}, difference=0.2, after=20)
        solvers = [tables.arm(name, "p", "solve {{ text }}", given=given[name], gate=gate) for name in "abc"]
        grader = tables.arm("g", "q", "grade {{ id }} {{ solve.reply }}", given=given["g"], admit=("stop", "length"))
        made = Experiment(
            name="e",
            folder="",
            seed=self.seed,
            stages=(tables.chat("solve", "rows", *solvers), tables.chat("grade", "solve", grader)),
        )
        self.gate = rule(made, {})
        return made

    async def reopen(self, counts: Counts) -> None:
        """What `judgerun resume` writes."""
        async with Inline.open(self.path, clock=self.clock, durable=False) as cache:
            await cache.note("resume", BAD, reopening("we know", "it was bad", counts), experiment="e")


def done(outcome: Outcome) -> dict[str, int]:
    """Cells with a reply, by condition."""
    return {counts.condition: counts.done for counts in outcome.flow.counts()}


def of_bad(outcome: Outcome) -> Counts:
    """How the bad condition stands."""
    return next(counts for counts in outcome.flow.counts() if counts.condition == BAD)


def code(outcome: Outcome) -> Exit:
    """How a run ended."""
    assert outcome.ending is not None
    return outcome.ending.code


def test_a_bad_condition_stops_with_its_grader_until_it_is_reopened(tmp_path: Path) -> None:
    """The two others and their graders finish and the run ends with 7, as does a rerun, which sends nothing. Reopened, it goes on,
    is judged by what comes after and stops again; in the end every cell is done, and the books and the bill agree.
    """

    async def life() -> None:
        async with Gated(tmp_path, 21, Knobs(rows=ROWS, concurrency=6, real=True)) as world:
            first = await world.run()
            assert code(first) is Exit.GATE
            assert 20 <= done(first)[BAD] < 50
            assert done(first)[GRADED] <= done(first)[BAD]
            assert {n for name, n in done(first).items() if name not in (BAD, GRADED)} == {ROWS}
            ((subject, detail),) = judge.rows_of(world.path, "select subject, detail from event where kind = 'gate'")
            told = json.loads(detail)
            assert (subject, told["limit"]) == (BAD, "truncated")
            assert "the gate is 30.0%" in told["why"]
            assert 1 <= len(told["items"]) <= 10

            sent, number = len(world.server.bill.hits), 1
            again = await world.run(number=number, surveyed=first.flow.counts())
            assert (code(again), len(world.server.bill.hits)) == (Exit.GATE, sent)
            last, stops = again, 1
            while code(last) is Exit.GATE:
                before = of_bad(last).done
                await world.reopen(of_bad(last))
                number += 1
                last = await world.run(number=number, surveyed=last.flow.counts())
                assert done(last)[BAD] >= min(ROWS, before + 20)
                stops += code(last) is Exit.GATE
            assert stops >= 2, "a condition that goes on being bad stops again"
            assert code(last) is Exit.DONE
            assert last.complete
            assert set(done(last).values()) == {ROWS}
            assert world.findings + judge.judge_books(world.path, world.server.bill) == []

    virtual.run(life())


def test_a_running_process_hears_that_a_condition_is_reopened(tmp_path: Path) -> None:
    """It goes on, once the work that is open is done, with the cells that it has not passed over; those wait for the next run,
    hence 7.
    """

    async def life() -> None:
        async with Gated(tmp_path, 22, Knobs(rows=ROWS, concurrency=6, real=True)) as world:
            running = asyncio.ensure_future(world.run())
            await asyncio.sleep(40.0)
            assert judge.rows_of(world.path, "select subject from event where kind = 'gate'") == [(BAD,)]
            stopped = sum(hit.model == "id-a" for hit in world.server.bill.hits)
            counts = Counts(condition=BAD, stage="solve", done=stopped)
            await world.reopen(counts)
            at = asyncio.get_running_loop().time()
            outcome = await running
            later = [hit.at for hit in world.server.bill.hits if hit.model == "id-a" and hit.at > at]
            assert later
            assert min(later) < at + 15.0
            assert code(outcome) is Exit.GATE
            assert of_bad(outcome).done < ROWS
            assert outcome.ending is not None
            assert "wait for the next run" in (outcome.ending.reason or "")

    virtual.run(life())


def test_a_condition_that_is_within_its_gate_again_is_reopened_on_record(tmp_path: Path) -> None:
    """Where the gate was widened, the next run goes on with what the last one stopped, says so in the record, and ends with 0."""

    async def life() -> None:
        async with Gated(tmp_path, 23, Knobs(rows=40, concurrency=6, real=True)) as world:
            first = await world.run()
            assert code(first) is Exit.GATE
            world.gate = lambda counts, since, stopped: []
            second = await world.run(number=1, surveyed=first.flow.counts())
            assert code(second) is Exit.DONE
            assert second.complete
            ((subject, detail),) = judge.rows_of(world.path, "select subject, detail from event where kind = 'resume'")
            assert (subject, json.loads(detail)["counts"]) == (BAD, None)

    virtual.run(life())
