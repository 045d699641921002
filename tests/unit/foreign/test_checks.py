"""Checks of foreign runs: each fault planted, and absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from judgerun.audit.finding import Finding
from judgerun.audit.foreign.answers import handed
from judgerun.audit.foreign.boards import agreement, boards
from judgerun.audit.foreign.checks import CHECKS, audit
from judgerun.model.foreign import Call, Run, Score, Tally, Text, Total
from judgerun.model.waiver import Waiver

CAP = 4096
CONDITIONS = ("none", "gold", "dumb")


def run(**parts: Sequence[object]) -> Run:
    """A run of these records."""
    return Run(name="old", format="test", files={}, **{name: tuple(held) for name, held in parts.items()})  # type: ignore[arg-type]


def call(role: str, condition: str, item: str, **more: object) -> Call:
    """One call."""
    return Call(source=f"log:{role}/{condition}/{item}", role=role, condition=condition, item=item, **more)  # type: ignore[arg-type]


def solved(cut: Mapping[tuple[str, str], int | None], n: int = 30) -> list[Call]:
    """A solver under three conditions and its grader: a finished answer (700 to 1,600 tokens) is read whole by the grader; of
    those in `cut` (at the cap) the grader's prompt has the length that is given (None: it has no row).
    """
    calls = []
    for place in range(n):
        for number, condition in enumerate(CONDITIONS):
            item = f"q{place}"
            at_cap = (condition, item) in cut
            made = CAP if at_cap else 700 + 31 * place + number
            calls.append(call("solver", condition, item, input=100, output=made, cost=made * 10, provider="p"))
            length = cut[condition, item] if at_cap else 300 + made
            if length is not None:
                calls.append(call("grader-a", condition, item, input=length, output=1, cost=length, provider="p"))
    return calls


def found(held: Run, check: str) -> list[Finding]:
    """The findings of one name."""
    return [finding for finding in audit(held).findings if finding.check == check]


CUT = {
    ("none", "q1"): 300, ("gold", "q1"): 300,  # both empty
    ("none", "q2"): 300,  # alone, and shorter than the finished
    ("none", "q3"): 2000,  # alone, and longer than the finished
    ("none", "q4"): 900, ("dumb", "q4"): 300,  # of two lengths: the longer had text, the shorter may have had none
    ("gold", "q5"): None,  # lost
    ("none", "q6"): 2100, ("gold", "q6"): 2000,  # of two lengths, both longer than the finished one
    ("none", "q7"): 400, ("dumb", "q7"): 400, ("gold", "q7"): 300,  # two alike, and not the least; no arm finished
    ("none", "q8"): 5000, ("dumb", "q8"): 5000,  # two alike, and longer than the finished one
}  # fmt: skip


def test_empty_answers_are_found_by_the_lengths_of_grader_prompts() -> None:
    """Equal least lengths of two cut arms are empty; a lone cut arm is probably so where it is the shortest; else it is open."""
    told = {(one.condition, one.item): one.judged for one in handed(run(calls=solved(CUT)))}
    assert told == {
        ("none", "q1"): "empty", ("gold", "q1"): "empty", ("none", "q2"): "probably empty", ("none", "q3"): "ambiguous",
        ("none", "q4"): "had text", ("dumb", "q4"): "probably empty", ("gold", "q5"): "no row",
        ("none", "q6"): "had text", ("gold", "q6"): "ambiguous",
        ("none", "q7"): "had text", ("dumb", "q7"): "had text", ("gold", "q7"): "ambiguous",
        ("none", "q8"): "ambiguous", ("dumb", "q8"): "ambiguous",
    }  # fmt: skip
    (finding,) = found(run(calls=solved(CUT)), "empty handed on")
    assert (finding.severity, finding.value) == ("error", 2)


def test_texts_of_judges_do_not_hide_what_lengths_tell() -> None:
    """Each cut answer is judged by its own text where that is in the source, else by the lengths: both ways in one run."""
    judge = call("judge", "lab", "q1", text="3", value="3")
    (finding,) = found(run(calls=[*solved(CUT), judge]), "empty handed on")
    assert finding.value == 2
    told = [
        replace(one, text="" if one.condition == "none" else "x = 1")
        if (one.role, one.item) == ("solver", "q1")
        else one
        for one in solved(CUT | {("none", "q9"): 300, ("gold", "q9"): 300})
    ]
    (finding,) = found(run(calls=told), "empty handed on")
    assert finding.value == 3
    assert "1 by their texts" in finding.message
    assert finding.evidence == ("log:solver/none/q1: none/q1", "gold/q9", "none/q9")
    assert ("gold", "q1") not in {(one.condition, one.item) for one in handed(run(calls=told))}


def test_conditions_that_nobody_graded_lost_no_row() -> None:
    """A cut answer of a condition without graders was handed to none, and its row is not missing."""
    other = [replace(one, condition=f"other {one.condition}") for one in solved(CUT) if one.role == "solver"]
    assert handed(run(calls=[*solved(CUT), *other])) == handed(run(calls=solved(CUT)))


def test_answers_that_are_only_probably_empty_are_a_warning() -> None:
    """No certain one: the finding counts the probable ones."""
    (finding,) = found(run(calls=solved({("none", f"q{place}"): 300 for place in range(3)})), "empty handed on")
    assert (finding.severity, finding.value) == ("warning", 3)


def test_grades_that_nobody_knows_are_told() -> None:
    """Where an empty answer was graded and no grade of it is in the source, the message says so; where there is one, not."""
    (finding,) = found(run(calls=solved(CUT)), "empty handed on")
    assert "2 of them have no grade in the source: nobody can tell how they were graded" in finding.message
    known = [
        replace(one, value="7") if one.role == "grader-a" and one.condition == "none" else one for one in solved(CUT)
    ]
    assert "1 of them has no grade" in found(run(calls=known), "empty handed on")[0].message
    known = [replace(one, value="7") if one.role == "grader-a" else one for one in solved(CUT)]
    assert "no grade" not in found(run(calls=known), "empty handed on")[0].message


def test_what_two_files_say_of_one_call_is_put_together() -> None:
    """A log with tokens and a cache with texts of the same calls: neither hides what the other knows."""
    cached = [replace(one, file="cache", input=None, output=None, cost=None, value="7") for one in solved(CUT)]
    for calls in ([*solved(CUT), *cached], [*cached, *solved(CUT)]):
        (finding,) = found(run(calls=calls), "empty handed on")
        assert finding.value == 2
        assert "no grade" not in finding.message


@pytest.mark.parametrize(
    ("cut", "n", "severity"), [(3, 15, "warning"), (7, 15, "error"), (2, 19, "warning"), (3, 20, "error")]
)
def test_small_groups_are_errors_only_beyond_doubt(cut: int, n: int, severity: str) -> None:
    """Below 20 answers a share above 10% is an error only where the whole Wilson interval is; 7 of 15 is, 3 of 15 is not."""
    calls = [call("solver", "none", f"q{k}", output=5, finish="length" if k < cut else "stop") for k in range(n)]
    (finding,) = found(run(calls=calls), "truncated")
    assert finding.severity == severity


def test_caps_are_found_for_each_model_apart() -> None:
    """The longer cap of another model of the same role does not hide a pile."""
    short = [replace(one, model="a") for one in solved(CUT) if one.role == "solver"]
    long = [call("solver", "long", f"q{k}", output=9_000 + k, model="b") for k in range(30)]
    cut = {finding.condition: finding.value for finding in found(run(calls=[*short, *long]), "truncated")}
    assert cut == {finding.condition: finding.value for finding in found(run(calls=short), "truncated")}


def test_a_run_whose_answers_finished_has_no_finding() -> None:
    """Nothing cut, nothing lost, every total explained: nothing is said."""
    calls = solved({})
    total = Total(source="log#p", name="p", cost=sum(one.cost or 0 for one in calls))
    assert audit(run(calls=calls, totals=[total])).findings == ()


def test_truncation_is_counted_by_lengths() -> None:
    """Answers at the cap are counted by condition, an error above 10%, a warning below, beside what tokens >= cap finds."""
    cut = {("none", f"q{place}"): 300 + place for place in range(4)} | {("gold", "q9"): 300}
    calls = [replace(one, output=CAP - 1) if one.item == "q0" and one.output == CAP else one for one in solved(cut)]
    told = {finding.condition: finding for finding in found(run(calls=calls), "truncated")}
    assert (told["solver/none"].severity, told["solver/gold"].severity) == ("error", "warning")
    assert "4 of 30" in told["solver/none"].message
    assert "tokens >= cap alone finds 3" in told["solver/none"].message


def test_texts_tell_of_empty_answers_and_of_who_accepted_them() -> None:
    """Where texts are there: an empty answer that was graded is an error, and one that was marked correct another."""
    calls = [
        call("solver", "none", "q1", text=" ", finish="length"),
        call("grader-a", "none", "q1", text="7", value="7", extra={"correct": True}),
        call("solver", "none", "q2", text="x = 2", finish="stop"),
        call("grader-a", "none", "q2", text="7", value="7", extra={"correct": True}),
        call("solver", "none", "q3", text="", finish="length"),
    ]
    (handed_on,) = found(run(calls=calls), "empty handed on")
    (accepted,) = found(run(calls=calls), "empty marked correct")
    assert (handed_on.value, accepted.value) == (1, 1)
    assert "gave 7 to none/q1" in accepted.evidence[0]


def test_answers_without_a_value_are_told() -> None:
    """A judge's answer in which the program read nothing is a warning."""
    calls = [call("judge", "lab", f"q{n}", text="3", value=None if n == 1 else "3") for n in range(10)]
    (finding,) = found(run(calls=calls), "unparsed")
    assert (finding.severity, finding.value) == ("warning", 0.1)


def test_a_lost_row_is_named() -> None:
    """A grader without one of its solver's items: the item is named. One that has only a part of them was stopped, not lost."""
    calls = [one for one in solved({}) if (one.role, one.condition, one.item) != ("grader-a", "gold", "q7")]
    (finding,) = found(run(calls=calls), "lost rows")
    assert (finding.condition, finding.value, finding.evidence) == ("grader-a/gold", 1, ("gold/q7",))
    half = [one for one in solved({}) if one.role == "solver" or one.item < "q2"]
    assert found(run(calls=half), "lost rows") == []


def test_an_item_that_was_paid_twice_is_named() -> None:
    """A second row of one role, condition and item is an error with what it cost; rows of no item are no cells."""
    calls = solved({})
    (finding,) = found(run(calls=[*calls, replace(calls[0], cost=4_000)]), "paid twice")
    assert (finding.severity, finding.value) == ("error", 1)
    assert "0.000004 USD" in finding.message
    probes = [call("note", "", "", cost=5) for _ in range(3)]
    assert found(run(calls=[*calls, *probes]), "paid twice") == []


def test_a_stray_probe_is_named() -> None:
    """A lone row that repeats another role's call to the token is a warning; a lone row of its own is none."""
    calls = solved({})
    again = replace(calls[0], role="probe", source="log:last")
    assert [finding.value for finding in found(run(calls=[*calls, again]), "stray")] == [1]
    assert found(run(calls=[*calls, replace(again, input=77)]), "stray") == []


def timed(count: int, *, step: float = 60.0, **more: object) -> list[Call]:
    """Calls of one role, one a step."""
    return [call("judge", "lab", f"t{n}", at=n * step, model="m", input=5, output=1, **more) for n in range(count)]


@pytest.mark.parametrize(
    ("at", "count"),
    [((12_000.0,), 1), ((-3_700.0,), 1), ((4_000.0, 4_005.0), 0), ((4_200.0, 4_205.0), 2), ((300.0,), 0)],
)
def test_a_row_far_from_its_run_is_a_stray(at: Sequence[float], count: int) -> None:
    """One or two rows over an hour before or after all others of their role are told; a pause inside a run is none."""
    far = [call("judge", "lab", f"far{n}", at=one, model="m") for n, one in enumerate(at)]
    findings = found(run(calls=[*timed(10), *far]), "stray")
    assert [finding.value for finding in findings] == ([count] if count else [])
    if count:
        assert findings[0].evidence[0].startswith("log:judge/lab/far0")
    resumed = [replace(one, item=f"{one.item} later", at=(one.at or 0) + 40_000) for one in timed(10)]
    assert found(run(calls=[*timed(10), *resumed]), "stray") == []
    assert found(run(calls=[replace(one, at=None) for one in [*timed(10), *far]]), "stray") == []


def test_a_probe_after_the_end_of_its_run_is_a_stray() -> None:
    """A lone row of another role that asks the same model about an item of a run that had ended; one within the run is none."""
    probe = call("judge probe", "lab", "t3", at=900.0, model="m", input=6, output=1)
    (finding,) = found(run(calls=[*timed(10), probe]), "stray")
    assert "after the end" in finding.message
    for other in (
        replace(probe, at=300.0),
        replace(probe, model="other"),
        replace(probe, item="new"),
        replace(probe, at=None),
    ):
        assert found(run(calls=[*timed(10), other]), "stray") == []


def test_money_that_two_files_tell_of_counts_once() -> None:
    """A log beside its own reduction is an error that names both, and no double payment; the sums hold."""
    log = [replace(one, file="log") for one in solved({})]
    total = Total(source="log#p", name="p", files=("log",), cost=sum(one.cost or 0 for one in log))
    half = [replace(one, file="run.csv", source=f"run.csv:{n}") for n, one in enumerate(log) if one.role == "solver"]
    rest = [
        replace(one, file="other.csv", source=f"other.csv:{n}", role="g")
        for n, one in enumerate(log)
        if one.role != "solver"
    ]
    told = audit(run(calls=[*half, *log, *rest], totals=[total]))
    assert {(finding.check, finding.value) for finding in told.findings} == {("counted twice", 90)}
    assert sorted(finding.message.split(" stand")[0] for finding in told.findings) == [
        "90 of 90 rows of other.csv", "90 of 90 rows of run.csv",
    ]  # fmt: skip
    (table,) = [table for table in told.tables if table.name == "spend"]
    assert sum(int(str(row[2])) for row in table.rows) == len(log)


def test_files_of_other_calls_are_no_copies() -> None:
    """Calls at other times, of other tokens, or too few to tell are calls of their own: their second payment is told."""
    log = [replace(one, file="log", at=float(n)) for n, one in enumerate(solved({}))]
    later = [replace(one, file="later", at=(one.at or 0) + 9_999) for one in log]
    assert found(run(calls=[*log, *later]), "counted twice") == []
    assert len(found(run(calls=[*log, *later]), "paid twice")) == 6
    dearer = [replace(one, file="later", cost=(one.cost or 0) + 1) for one in log]
    assert found(run(calls=[*log, *dearer]), "counted twice") == []
    few = [replace(one, file="few") for one in log[:4]]
    assert found(run(calls=[*log, *few]), "counted twice") == []


def test_a_cache_without_prompts_is_a_copy_by_its_items() -> None:
    """A cache that knows no input tokens tells of the calls of a log by role, condition, item and cost."""
    log = [replace(one, file="log") for one in solved({})]
    cache = [replace(one, file="cache", input=None, output=None, text="x", value="1") for one in log if one.item < "q2"]
    assert [finding.value for finding in found(run(calls=[*log, *cache]), "counted twice")] == [len(cache)]


def test_estimates_among_bills_are_errors() -> None:
    """Estimated rows are named, and one that is the same to the token as another was booked again."""
    calls = [call("embed", "", name, input=649, output=0, cost=97_350, estimated=True) for name in ("new", "new again")]
    assert [finding.value for finding in found(run(calls=calls), "estimate")] == [2]
    assert [finding.value for finding in found(run(calls=calls), "booked twice")] == [1]
    assert found(run(calls=[replace(one, estimated=False) for one in calls]), "estimate") == []


@pytest.mark.parametrize(("more", "severity"), [(6_650_000_000, "error"), (500, None), (-9_000, "error")])
def test_a_total_that_no_row_explains_is_told(more: int, severity: str | None) -> None:
    """A head that states more than its rows was seeded by hand; a rounding of floats is no finding; less is an error, too."""
    calls = solved({})
    total = Total(source="log#p", name="p", cost=sum(one.cost or 0 for one in calls) + more)
    assert [finding.severity for finding in found(run(calls=calls, totals=[total]), "totals")] == (
        [severity] if severity else []
    )


def test_a_total_is_that_of_its_own_files_and_of_all_providers() -> None:
    """Two logs with one provider each have their own total; `total` is the sum of all providers."""
    first = [replace(one, file="a") for one in solved({})]
    second = [replace(one, file="b", condition="x", provider="q") for one in first]
    sums = [sum(one.cost or 0 for one in held) for held in (first, second)]
    totals = [
        Total(source="a#p", name="p", files=("a",), cost=sums[0]),
        Total(source="b#q", name="q", files=("b",), cost=sums[1]),
        Total(source="b#total", name="total", files=("a", "b"), cost=sum(sums)),
    ]
    assert found(run(calls=[*first, *second], totals=totals), "totals") == []
    wrong = replace(totals[2], cost=sum(sums) + 5_000)
    (finding,) = found(run(calls=[*first, *second], totals=[wrong]), "totals")
    assert finding.severity == "error"
    unknown = Total(source="a#z", name="z", files=("a",), cost=5_000)
    assert [one.severity for one in found(run(calls=first, totals=[unknown]), "totals")] == ["warning"]


def test_boards_are_compared_where_they_share_items() -> None:
    """Repeats on one dataset stand beside nothing of another."""
    held = [
        Score(source="f", condition=f"repeats/{name}", system=f"s{n}", item=f"{name} 1", value=n / 3)
        for name in "de"
        for n in range(4)
    ]
    assert [table.name for table in audit(run(scores=held)).tables] == []


def test_money_for_cut_answers_is_told() -> None:
    """Above 10% of what a role cost it is a warning."""
    cut = {("none", f"q{place}"): 300 + place for place in range(6)}
    (finding,) = found(run(calls=solved(cut)), "spend on truncated")
    assert finding.condition == "solver"
    few = {("none", f"q{place}"): 300 + place for place in range(3)}
    assert found(run(calls=solved(few, n=60)), "spend on truncated") == []


def scored(same: Sequence[str], differing: int = 0) -> Run:
    """Ten systems on twenty items, by people and rewritten; on the items of `same` scores are equal but for `differing` systems."""
    held = []
    for place in range(20):
        for system in range(10):
            value = ((place * 7 + system * 13) % 29) / 29
            other = value if f"t{place}" in same and system >= differing else ((place * 5 + system * 11 + 3) % 31) / 31
            held.append(Score(source="b", condition="human", system=f"s{system}", item=f"t{place}", value=value))
            held.append(Score(source="b", condition="terse/gen", system=f"s{system}", item=f"t{place}", value=other))
    return run(scores=held)


def test_items_on_which_nothing_changed_are_found() -> None:
    """Scores that are the same for all systems, or all but one in ten: the text was not changed, an error with both taus."""
    (finding,) = found(scored(["t3", "t8"], differing=1), "identical scores")
    assert (finding.severity, finding.condition) == ("error", "terse/gen")
    assert [words.split(":")[0] for words in finding.evidence] == ["item t3", "item t8"]
    held = boards(scored(["t3", "t8"]))
    assert finding.value == agreement(held["human"], held["terse/gen"], ["t3", "t8"])
    assert found(scored(["t3"], differing=2), "identical scores") == []
    assert found(scored([]), "identical scores") == []


def tally(drifted: int, uncertain: int = 0, n: int = 120, **more: object) -> Tally:
    """Verdicts on one generator."""
    counts = {"drifted": drifted, "preserved": n - drifted - uncertain, "uncertain": uncertain, "errors": 0}
    told = {
        "source": "a",
        "condition": "d/terse",
        "subject": "gen",
        "judge": "j",
        "n": n,
        "counts": counts,
        "threshold": 0.15,
    }
    return Tally(**(told | more))  # type: ignore[arg-type]


def test_rates_that_contradict_their_counts_are_found() -> None:
    """A rate that does not follow, verdicts that do not add up, a pool that is no sum: each is named; right ones are not."""
    pooled = tally(10, subject="pooled", judge=None)
    assert found(run(tallies=[tally(10, rate=10 / 120), pooled]), "rates") == []
    assert found(run(tallies=[tally(10, rate=0.1)]), "rates")[0].value == 1
    assert found(run(tallies=[tally(10, uncertain=20, rate=0.1)]), "rates") == []
    assert found(run(tallies=[replace(tally(10), n=121)]), "rates")[0].value == 1
    assert found(run(tallies=[tally(9), pooled]), "rates")[0].value == 1


@pytest.mark.parametrize(("drifted", "exact", "open_"), [(18, 1, 1), (17, 0, 1), (3, 0, 0), (60, 0, 0)])
def test_rates_at_their_threshold_are_told(drifted: int, exact: int, open_: int) -> None:
    """18 of 120 is exactly 15%; 17 cannot be told from it; 3 and 60 can."""
    assert len(found(run(tallies=[tally(drifted)]), "at the threshold")) == exact
    assert len(found(run(tallies=[tally(drifted)]), "undecided")) == open_


def test_failures_filed_as_verdicts_and_crossed_judges_are_told() -> None:
    """Judges' errors among the verdicts are counted; subjects that different judges judged cannot be compared."""
    wrong = replace(tally(3), counts={**tally(3).counts, "errors": 2})
    assert found(run(tallies=[wrong]), "errors as verdicts")[0].value == 2
    assert len(found(run(tallies=[tally(3), tally(4, subject="other", judge="k")]), "judges differ")) == 1
    assert found(run(tallies=[tally(3), tally(4, subject="other")]), "judges differ") == []


def test_fallbacks_are_named_and_lost_ones_are_errors() -> None:
    """A stand-in that the source names is a warning; one that it shows and does not place is an error."""
    text = Text(source="q#1", condition="terse", generator="g", item="1", text="x", fallback=True, reason="refused")
    assert found(run(texts=[text]), "fallback")[0].severity == "warning"
    assert found(run(texts=[replace(text, fallback=None)]), "fallbacks lost")[0].severity == "error"
    assert audit(run(texts=[replace(text, fallback=False)])).findings == ()


def test_waivers_work_on_foreign_runs() -> None:
    """A waived error no longer blocks; a waiver that covers nothing is told."""
    text = Text(source="q#1", condition="terse", generator="g", item="1", text="x", fallback=None)
    waiver = Waiver(experiment="old", check="fallbacks lost", because="known since")
    assert audit(run(texts=[text])).verdict == "findings"
    assert audit(run(texts=[text]), [waiver]).verdict == "pass"


def test_every_check_says_what_it_proves() -> None:
    """The list of checks can be printed, and no two share a name."""
    names = [name for check in CHECKS for name in check.emits]
    assert len(names) == len(set(names))
    assert all(len(check.proves) > 20 for check in CHECKS)
