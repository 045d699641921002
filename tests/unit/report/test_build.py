"""The report's files: their shape, their banners, their bytes; spend within caps; a person's own questions."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from fakes.evidence import (
    COST,
    NEED,
    TRUNCATED,
    Ending,
    budget,
    chat,
    evidence,
    plain,
    rebalanced,
)
from judgerun.analysis.estimate import Estimate
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.errors import Refused
from judgerun.ledger.budget import Budget, Cap
from judgerun.ledger.entry import Amount, Entry, EntryKind
from judgerun.model.condition import short
from judgerun.model.experiment import ParseRule, Question
from judgerun.model.profile import Profile
from judgerun.report import plots
from judgerun.report.build import estimates, report
from judgerun.report.html import to_html
from judgerun.report.money import avoided, spend, within
from judgerun.report.page import Figure, Page, Section, Table, Text, to_markdown
from judgerun.report.told import seed_of

QUESTION = Question(
    name="same", feed="pick", value="value == 'yes'", compare=("model", ("ann", "bob")), test="paired-bootstrap"
)


def mixed() -> Evidence:
    """Bob is truncated in 8 of 40; a question; slices."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        return TRUNCATED if model == "bob" and id_ < "q008" else Ending(value="no" if id_ > "q030" else "yes")

    return evidence(rule, stage=chat(slices=("tier",)), questions=[QUESTION])


def test_estimates_have_exactly_the_keys_that_other_tools_read() -> None:
    """Every line has the twelve keys; a line without a value has a reason; every line names the seal."""
    given = mixed()
    lines = json.loads(report(given, audit(given))["estimates.json"])
    keys = ["question", "coords", "value", "low", "high", "n", "level", "method", "convention", "seed", "seal", "note"]
    assert all(list(line) == keys for line in lines)
    assert all(line["note"] for line in lines if line["value"] is None)
    assert {line["seal"] for line in lines} == {given.seal}
    assert all(line["method"] for line in lines)
    assert all(line["seed"] is not None for line in lines if "bootstrap" in line["method"])
    assert estimates(given, audit(given)) == report(given, audit(given))["estimates.json"]


def test_the_finish_table_comes_before_any_score() -> None:
    """In every format how the calls ended stands above the first number of the questions."""
    given = mixed()
    files = report(given, audit(given))
    for name in ("report.md", "report.html"):
        text = files[name].decode()
        assert 0 < text.index("How the calls ended") < text.index("Questions") < text.index("Verdicts")
    first = json.loads(files["estimates.json"])[0]
    assert first["question"] == "truncated"


def test_a_report_is_read_from_above_and_slices_are_shut_below() -> None:
    """Each question has its headline, each method its line; slices stand last, and folded in HTML; labels are read across."""
    given = mixed()
    files = report(given, audit(given))
    text, html = files["report.md"].decode(), files["report.html"].decode()
    assert (
        text.index("### same") < text.index("What the numbers rest on") < text.index("## How the calls ended, by slice")
    )
    assert html.index("What the numbers rest on") < html.index("<details>") < html.index("Verdicts, by slice")
    assert html.count("<details>") == html.count("</details>")
    assert "| of | n | no | yes | note |" in text
    counts = [line for line in text.splitlines() if line.startswith("| pick/ann/")]
    assert any("| 40 | 9 (22.5%) [" in line for line in counts), counts


def test_banners() -> None:
    """DRAFT without a seal, the reason of an unfinished seal, and the audit's errors; none on a clean sealed run."""
    clean = evidence(plain)
    assert "> **" not in report(clean, audit(clean))["report.md"].decode()
    draft = replace(clean, seal=None)
    assert "DRAFT" in report(draft, audit(draft))["report.md"].decode()
    assert "DRAFT" in report(draft, audit(draft))["report.html"].decode()
    stopped = replace(clean, sealed_because="the money ended")
    assert "Sealed unfinished: the money ended" in report(stopped, audit(stopped))["report.md"].decode()
    given = mixed()
    assert "The audit has 1 error" in report(given, audit(given))["report.md"].decode()


def test_two_runs_give_identical_bytes_in_any_order_of_rows() -> None:
    """Every file of a report is the same for the same cache, plots included."""
    given = mixed()
    rows = list(given.rows["pick"])
    random.Random(3).shuffle(rows)
    shuffled = replace(given, rows={"pick": rows})
    assert report(given, audit(given)) == report(shuffled, audit(shuffled))


def test_html_is_one_file_that_fetches_and_runs_nothing() -> None:
    """No script, no link to anything; plots are inline; text of a model cannot become markup."""
    given = evidence(
        lambda model, id_, draw: Ending(value="<script>alert(1)</script>" if id_ < "q020" else "|x|"),
        stage=chat(parse=ParseRule(kind="json", value=("verdict",))),
    )
    files = report(given, audit(given))
    html = files["report.html"].decode()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "src=" not in html
    assert 'href="http' not in html
    assert ("<svg" in html) is plots.has_plots()
    lines = files["report.md"].decode().splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("| of | n | &lt;script>"))
    assert all(line.replace("\\|", "").count("|") == 6 for line in lines[head : head + 4])


def test_svg_has_no_date_and_fixed_ids() -> None:
    """The same numbers give the same SVG text."""
    if not plots.has_plots():
        pytest.skip("needs the plots extra")
    given = audit(mixed())
    names = short(completion.condition for completion in given.conditions)
    first, second = plots.endings(given.conditions, names), plots.endings(given.conditions, names)
    assert first == second
    assert first[0].svg.startswith("<svg")
    assert "dc:date" not in first[0].svg


def test_pages_render_every_kind_of_block() -> None:
    """Paragraphs, banners, tables and figures stand in both formats; a figure is left out of Markdown."""
    blocks = (
        Text("plain"),
        Text("loud", loud=True),
        Table(("a", "b"), (("1", "x|y"),)),
        Figure("<svg></svg>", "caption"),
    )
    page = Page("A & B", ("look",), (Section("One", blocks),))
    markdown = to_markdown(page).decode()
    assert markdown.startswith("# A & B\n\n> **look**\n\n## One\n\nplain\n\n> **loud**\n\n| a | b |")
    assert "x\\|y" in markdown
    assert "svg" not in markdown
    html = to_html(page).decode()
    for words in (
        "A &amp; B",
        "<svg></svg>",
        "<figcaption>caption</figcaption>",
        '<p class="loud">loud</p>',
        '<td class="short">x|y</td>',
    ):
        assert words in html


def test_spend_is_an_interval_in_whole_nanos() -> None:
    """Settled below, forfeits above: the interval of the whole, of a stage, of a condition and of each cap."""
    given = evidence(plain, n=10)
    entries = tuple(
        replace(entry, kind=EntryKind.FORFEIT, amount=NEED)
        if entry.attempt == 1 and entry.kind is EntryKind.SETTLE
        else entry
        for entry in given.books.entries
    )
    given = replace(given, books=rebalanced(replace(given.books, entries=entries)))
    whole, *_ = spend(given)
    assert (whole.value, whole.low, whole.high, whole.n) == (19 * COST, 19 * COST, 19 * COST + NEED.nanos, 20)
    assert all(isinstance(value, int) for value in (whole.value, whole.low, whole.high))
    ann = next(line for line in spend(given) if line.coords.get("condition") == "pick/ann/terse@items")
    assert (ann.low, ann.high) == (9 * COST, 9 * COST + NEED.nanos)
    caps = {line.coords["cap"]: line for line in within(given)}
    assert set(caps) == {"total", "provider lab"}
    assert caps["total"].coords["limit_nanos"] == "10000000000"
    daily = Budget(name="main", caps=(Cap("nanos", "total", "", 5), Cap("nanos", "day", "total", 7)))
    assert [line.coords["cap"] for line in within(replace(given, budgets=(daily,)))][1].endswith("2026-03-01")


def test_the_spend_of_a_sealed_run_is_that_of_its_seal() -> None:
    """An adjust that came after the seal is audited, and changes no number of the report; nor does a raised cap."""
    given = evidence(plain, n=10)
    first = given.books.entries[0]
    adjust = Entry(
        attempt=1, kind=EntryKind.ADJUST, leaf=first.leaf, amount=Amount(nanos=1, calls=1), document="bill 7"
    )
    books = replace(given.books, entries=(*given.books.entries, adjust), covered=len(given.books.entries))
    later = replace(given, books=rebalanced(books), budgets=(budget(99_000_000_000),))
    assert estimates(later, audit(later)) == estimates(given, audit(given))
    assert not [finding for finding in audit(later).findings if finding.severity == "error"]
    unsealed = replace(later, books=replace(later.books, covered=None))
    assert next(spend(unsealed)).value == 19 * COST + 1


def test_what_the_cache_avoided_is_told() -> None:
    """Replies that another experiment bought, and cells that share a call, are counted with what they cost then."""
    given = evidence(lambda model, id_, draw: Ending(experiment="older" if model == "ann" else "exp"), n=10)
    (line,) = avoided(given)
    assert (line.value, line.n) == (10 * COST, 10)
    shared = evidence(lambda model, id_, draw: Ending(key=id_), n=10)
    (line,) = avoided(shared)
    assert (line.value, line.n) == (10 * COST, 10)
    assert list(avoided(evidence(plain, n=10))) == []


def test_a_persons_own_questions_get_columns_and_a_seed() -> None:
    """questions.py: a function of the tables and its seed gives one Estimate, or several by name."""

    def share(tables: Any, seed: int) -> Estimate:
        values = tables["pick"]["pick.value"]
        return Estimate(value=values.count("yes") / len(values), n=len(values), method="share", note=str(seed))

    def two(tables: Any, seed: int) -> dict[str, Estimate]:
        return {name: Estimate(value=0.0, n=1, method="m") for name in ("b", "a")}

    given = replace(mixed(), questions={"share": share, "two": two})
    lines = json.loads(estimates(given, audit(given)))
    (mine,) = [line for line in lines if line["question"] == "share"]
    assert mine["note"] == str(seed_of(7, "share"))
    assert mine["seed"] == seed_of(7, "share")
    assert [line["coords"]["measure"] for line in lines if line["question"] == "two"] == ["a", "b"]


@pytest.mark.parametrize("wrong", [lambda tables, seed: 3, lambda tables, seed: 1 / 0])
def test_a_question_that_fails_is_refused_by_name(wrong: Any) -> None:
    """A function that raises, or returns no Estimate, is the person's error and is named."""
    given = replace(evidence(plain), questions={"mine": wrong})
    with pytest.raises(Refused, match=r"questions\.py: mine"):
        estimates(given, audit(given))


def test_how_answers_were_found_is_counted_where_a_rule_is_declared_or_used() -> None:
    """Counts by condition and rule; a declared rule that found nothing stands with 0; with visible text alone nothing is said."""
    title = b"## How the answer was found"

    def page(given: Evidence) -> bytes:
        return report(given, audit(given))["report.md"]

    assert title not in page(evidence(plain))
    used = evidence(
        lambda model, id_, draw: Ending(found="reasoning" if model == "bob" and id_ < "q008" else "content")
    )
    assert b"| condition | content | reasoning |" in page(used)
    assert b"| pick/ann/terse | 40 | 0 |\n| pick/bob/terse | 32 | 8 |" in page(used)
    arms = chat().arms
    lab = Profile(dialect="openai", adapter="openai/1", answer=("content", "after-think"))
    declared = replace(evidence(plain), profiles={arm.model.name: lab for arm in arms})
    assert b"| pick/ann/terse | 40 | 0 |" in page(declared).partition(title)[2]
