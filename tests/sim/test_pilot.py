"""A pilot and its certificate over the whole program: in virtual time, judged by the provider's bill; and as a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fakes.place import Place, at_home, lines
from fakes.simulator import Simulator as Running
from judgerun.api.pilot import Piloted, pilot
from judgerun.api.project import Project, Workspace, snapshot
from judgerun.api.quoting import quote
from judgerun.api.running import World
from judgerun.api.steering import ask
from judgerun.api.watching import Watch
from judgerun.errors import Exit, Refused
from judgerun.files.budgets import find_budget
from judgerun.plan.certificate import Certificate
from judgerun.ports import Order
from judgerun.simulate import virtual
from judgerun.simulate.law import Law
from judgerun.simulate.server import Simulator
from judgerun.simulate.serving import serving

START = 1_800_000_000.0
ROWS = lines(*({"id": f"r{n}", "text": f"text {n}"} for n in range(60)))
PROMPT = "Rate {{ text }}. Think step by step. At the end, answer with YES or NO: YES, NO\n"
STAGES = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "s"
kind = "judge"
from = "t"
models = ["one", "two"]
prompts = ["p"]
parse = { kind = "label", values = ["YES", "NO"] }
gate = { truncated = 0.3, after = 40 }
[[stage]]
name = "g"
kind = "grade"
from = "s"
models = ["one"]
prompts = ["q"]
parse = { kind = "label", values = ["YES", "NO"] }
"""
FILES = {"t.jsonl": ROWS, "p.md": PROMPT, "q.md": "Was it right? {{ s.reply }}\n" + PROMPT.replace("{{ text }}", "it")}
SHORT, LONG = Law(deliberation=60.0, first_s=2.0, token_s=0.02), Law(deliberation=260.0, spread=0.4)


@dataclass
class Scene:
    """A workspace, a provider that lives as long as it does, and what was told."""

    place: Place
    told: list[Certificate]
    provider: Simulator
    logged: list[str] = field(default_factory=list)

    def project(self) -> Project:
        return Workspace(root=self.place.root).open("x")

    def go(
        self,
        *,
        blocks: int = 15,
        yes: bool = False,
        then: Callable[[], None] = lambda: None,
        watch: Callable[[Watch], None] | None = None,
    ) -> Piloted:
        """A pilot in virtual time; `then` is done between its parts."""

        def tell(certificate: Certificate) -> None:
            self.told.append(certificate)
            then()

        async def whole() -> Piloted:
            async with serving(self.provider.app()) as urls:
                at_home(urls["openai"])
                return await pilot(
                    self.project(),
                    budget=find_budget(self.place.root, None),
                    blocks=blocks,
                    yes=yes,
                    world=World(clock=virtual.LoopClock(START), inline=True),
                    watch=watch,
                    log=self.logged.append,
                    tell=tell,
                )

        return virtual.run(whole())

    def ask(self, order: Order) -> None:
        """Give an order as from another terminal; one process hears it."""
        with ThreadPoolExecutor() as elsewhere:  # this thread's loop is running
            asked = elsewhere.submit(ask, Workspace(root=self.place.root), "x", order).result()
        assert asked == ("x", 1)

    def kept(self) -> list[dict[str, Any]]:
        """The certificates in the cache."""
        with snapshot(self.place.root / "cache.db") as view:
            assert view is not None
            return [json.loads(event.detail) for event in view.events(0) if event.kind == "pilot"]

    def calls(self) -> int:
        """What came to the provider."""
        return len(self.provider.bill.rows)


@pytest.fixture
def scene(tmp_path: Path) -> Callable[[Law], Scene]:
    """Two judges and a grader behind them, on a provider whose second model has the given law."""

    def made(law: Law) -> Scene:
        place = Place(tmp_path)
        place.write(STAGES, FILES)
        return Scene(place, [], Simulator(seed=4, models={"sim-one": SHORT, "sim-two": law}))

    return made


def test_a_pilot_that_its_certificate_allows_goes_on(scene: Callable[[Law], Scene]) -> None:
    """All cells are done in one process, each bought once; the certificate is kept as it was told; the rest fell within it."""
    held = scene(SHORT)
    ended = held.go()
    print(json.dumps(ended.document()["pilot"], indent=1))
    assert (ended.code, ended.state.state) == (Exit.DONE, "complete")
    assert held.calls() == 60 * 2 + ended.state.standing.attempts - 120
    (kept,) = held.kept()
    assert kept == held.told[0].document() == ended.document()["pilot"]
    assert kept["allows"]
    assert sum(part["left"] for part in kept["conditions"]) == 4 * 45
    rest = sum(row["nanos"] for row in held.provider.bill.rows[kept["attempt"] :])
    low, _, high, _ = held.told[0].cost.quantiles
    assert low <= rest <= high


def test_a_stop_between_the_parts_is_heard_before_anything_more_is_sent(scene: Callable[[Law], Scene]) -> None:
    """Status knows of a process that runs; it ends with 130, and has bought the pilot alone."""
    held = scene(SHORT)
    ended = held.go(then=lambda: held.ask(Order.STOP))
    assert (ended.code, ended.reason, ended.state.state) == (Exit.INTERRUPTED, "interrupted", "stopped")
    assert held.calls() == held.told[0].attempt
    assert held.logged[-1].startswith("asked to stop by ")


def test_a_pause_between_the_parts_holds_the_second_until_its_end(scene: Callable[[Law], Scene]) -> None:
    """It begins paused, and goes on when asked; what was asked of the first part and is over is not told again."""
    held = scene(SHORT)
    sent: list[int] = []

    def watch(seen: Watch) -> None:
        if not held.told:  # in the first part
            if seen.progress.paused:
                held.ask(Order.UNPAUSE)
            elif not held.logged:
                held.ask(Order.PAUSE)
        elif seen.progress.paused:
            sent.append(held.calls())
            if len(sent) == 20:
                held.ask(Order.UNPAUSE)

    ended = held.go(then=lambda: held.ask(Order.PAUSE), watch=watch)
    assert ended.state.state == "complete"
    assert set(sent) == {held.told[0].attempt}
    assert [words.split(" by ")[0] for words in held.logged] == ["paused", "unpaused"] * 2


def test_the_time_of_both_parts_is_that_of_one_process(scene: Callable[[Law], Scene]) -> None:
    """Nothing of it is lost or counted twice between them, and no owner is left for a recovery to find."""
    held = scene(SHORT)
    ended = held.go()
    with snapshot(held.place.root / "cache.db") as view:
        assert view is not None
        calls = sum(view.columns("attempts", "x")["latency_ms"]) / 1000
        assert (view.owners(), ended.state.told) == ([], ())
    assert ended.state.lanes()["sim"]["sending"] == pytest.approx(calls, rel=0.01)


def test_the_mean_lies_near_the_quote_of_the_rest(scene: Callable[[Law], Scene]) -> None:
    """Within 3 %, since both rest on the lengths of the same replies; but the quote takes every row as flowing on, and the
    certificate the share that did.
    """
    held = scene(LONG)
    held.go()
    flowed = {"g/one/q@s/two/p@t": 1 - held.told[0].parts[1].shares[0].bad / 15}
    for part in held.told[0].parts:
        assert part.cost.mean == pytest.approx(part.quoted * flowed.get(part.condition, 1), rel=0.03), part.condition


def test_a_cap_that_the_rest_would_pass_ends_the_run_after_the_pilot(scene: Callable[[Law], Scene]) -> None:
    """Exit 7 with the cap and its probability; by the provider's bill nothing is sent after the pilot, and status knows why."""
    held = scene(SHORT)
    held.place.budget('total = "100"\nconfirm_above = "100"\n[stage]\ng = "0.012"\n')
    ended = held.go()
    assert ended.code is Exit.GATE
    assert ended.reason is not None
    assert "P(the rest takes more than stage g leaves)" in ended.reason
    assert held.calls() == held.told[0].attempt
    assert (ended.state.state, ended.state.reason) == ("stopped", ended.reason)
    assert [one["passes"] > 0.05 for one in held.kept()[0]["caps"]] == [False, True]


def test_a_gate_that_would_be_passed_in_the_end_ends_the_run_after_the_pilot(scene: Callable[[Law], Scene]) -> None:
    """Most replies of one judge are cut, too few yet for its gate to fire: exit 7 names the condition and the probability."""
    held = scene(LONG)
    ended = held.go()
    assert ended.code is Exit.GATE
    assert ended.reason is not None
    assert "P(truncated of s/two/p@t ends above its gate of 30.0%)" in ended.reason
    assert held.calls() == held.told[0].attempt


def test_what_a_person_does_after_a_certificate_that_refuses(place: Place) -> None:
    """No gate has fired, so nobody is sent to reopen one."""
    place.write(STAGES, FILES)
    place.budget('total = "0.06"\nconfirm_above = "100"\n')
    ended = place.do("run", "--pilot", "15", json=False, fine=(7,))
    assert "judgerun run x without --pilot" in ended.out
    assert "judgerun resume" not in ended.out


def test_a_gate_that_fires_in_the_pilot_refuses_the_rest(scene: Callable[[Law], Scene]) -> None:
    """Exit 7, with a certificate that says which gate has fired."""
    held = scene(LONG)
    path = held.place.folder / "experiment.toml"
    path.write_text(path.read_text().replace("0.3, after = 40", "0.1, after = 10"))
    ended = held.go()
    assert ended.code is Exit.GATE
    assert ended.reason is not None
    assert "the gate of s/two/p@t has fired: truncated" in ended.reason


def test_a_pilot_that_a_cap_stops_ends_with_the_code_of_that(scene: Callable[[Law], Scene]) -> None:
    """Exit 3, and no certificate."""
    held = scene(SHORT)
    held.place.budget('total = "100"\nconfirm_above = "100"\n[calls]\ntotal = 20\n')
    ended = held.go()
    assert (ended.code, ended.certificate, held.kept()) == (Exit.EXHAUSTED, None, [])
    assert held.calls() == 20


def test_a_pilot_that_is_resumed_buys_nothing_twice_and_draws_the_same_certificate(
    scene: Callable[[Law], Scene],
) -> None:
    """The first is refused by a cap; the same command makes its certificate anew, byte for byte, without a call; with the cap
    raised the rest goes on.
    """
    held = scene(SHORT)
    held.place.budget('total = "0.02"\nconfirm_above = "100"\n')
    assert held.go().code is Exit.GATE
    sent = held.calls()
    assert held.go().code is Exit.GATE
    assert held.calls() == sent
    first, second = held.kept()
    assert json.dumps(first) == json.dumps(second)
    held.place.budget('total = "100"\nconfirm_above = "100"\n')
    assert held.go().state.state == "complete"
    assert len({row["attempt"] for row in held.provider.bill.rows}) == held.calls()


def test_a_pilot_of_everything_is_simply_done(scene: Callable[[Law], Scene]) -> None:
    """No certificate of nothing."""
    held = scene(SHORT)
    ended = held.go(blocks=60)
    assert (ended.code, ended.state.state, ended.certificate, held.kept()) == (Exit.DONE, "complete", None, [])


def test_consent_is_asked_once_for_the_whole(scene: Callable[[Law], Scene]) -> None:
    """The pilot alone is below `confirm_above` and the whole above: refused before any call; with --yes both parts run."""
    held = scene(SHORT)
    whole = quote(held.project(), find_budget(held.place.root, None)).quote.worst
    held.place.budget(f'total = "100"\nconfirm_above = "{whole / 2e9:.6f}"\n')
    with pytest.raises(Refused, match="confirm_above"):
        held.go()
    assert held.calls() == 0
    assert held.go(yes=True).state.state == "complete"


def test_what_pilots_cannot_be_is_refused_with_everything_else(place: Place, provider: Running) -> None:
    """--only, --limit and --rehearse beside --pilot, and what the files have wrong, are told at once."""
    place.write(STAGES.replace('"two"]', '"three"]'), FILES)
    said = place.do("run", "--pilot", "5", "--only", "s", "--limit", "2", "--rehearse", fine=(2,))
    for words in ("not with --only", "not with --limit", "not with --rehearse", "three"):
        assert any(words in problem for problem in said.problems), words
    assert any("no pilot whose risk" in problem for problem in place.do("run", "--risk", "0.1", fine=(2,)).problems)


def test_the_command_prints_the_certificate_and_the_audit_looks_back_at_it(place: Place, provider: Running) -> None:
    """A row per condition, the caps, the gates and what follows; afterwards a note per condition, of the whole and of the time."""
    place.write(STAGES, FILES)
    told = place.do("run", "--pilot", "10", json=False, fine=(0, 8)).out
    for words in ("certificate of x after 10 blocks", "cap total leaves", "gate truncated 30.0%", "going on"):
        assert words in told
    audit = place.do("audit", fine=(0, 8)).json
    found = [one for one in audit["findings"] if one["check"] == "certificate"]
    assert {one["condition"] for one in found} == {None, *(one["condition"] for one in audit["conditions"])}
    assert any("the rest cost" in one["message"] for one in found if one["condition"] is None)
    assert any("replies after the pilot are truncated" in one["message"] for one in found)
