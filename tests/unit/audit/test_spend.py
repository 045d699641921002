"""Where the money went: sums that agree with the ledger, waste, estimates, rows that were taken out."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fakes.evidence import COST, TRUNCATED, Ending, evidence, plain, rebalanced
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding, Table
from judgerun.audit.spend import UNPLANNED, by_ending
from judgerun.ledger.entry import Amount, Entry, EntryKind
from judgerun.model.money import format_usd
from judgerun.model.reply import Usage

EMPTY_CUT = replace(TRUNCATED, text="", parsed=False)


def found(told: Evidence, check: str) -> list[Finding]:
    """The findings of one name."""
    return [finding for finding in audit(told).findings if finding.check == check]


def table(told: Evidence, name: str) -> Table:
    """The table of that name."""
    return next(table for table in audit(told).tables if table.name == name)


def test_the_settled_money_is_split_by_how_replies_ended() -> None:
    """Of eighty calls ten were cut, four of these empty: a warning above 10% of the money, with the part that bought nothing."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        place = int(id_[1:])
        return (EMPTY_CUT if place < 4 else TRUNCATED) if model == "bob" and place < 10 else Ending()

    told = evidence(rule)
    assert by_ending(told) == {
        "concluded": 70 * COST,
        "truncated": 6 * COST,
        "empty by truncation + truncated + unparsed": 4 * COST,
    }
    (finding,) = found(told, "spend on truncated")
    assert (finding.severity, finding.value) == ("warning", format_usd(10 * COST))
    assert f"{format_usd(4 * COST)} USD of it empty ones" in finding.message
    assert found(evidence(lambda model, id_, draw: TRUNCATED if id_ < "q004" else Ending()), "spend on truncated") == []


@given(st.lists(st.sampled_from(["whole", "cut", "empty"]), min_size=1, max_size=12))
def test_every_dimension_adds_up_to_the_ledger(kinds: list[str]) -> None:
    """Whatever the endings: each dimension of the table, and the endings, sum to what is settled."""
    endings = {"whole": Ending(), "cut": TRUNCATED, "empty": EMPTY_CUT}
    told = evidence(lambda model, id_, draw: endings[kinds[int(id_[1:]) % len(kinds)]], n=12)
    settled = sum(entry.amount.nanos for entry in told.books.entries if entry.kind is EntryKind.SETTLE)
    assert sum(by_ending(told).values()) == settled
    rows = table(told, "spend").rows
    for dimension in ("stage", "condition", "provider", "model", "day", "lane"):
        held = [row for row in rows if row[0] == dimension]
        assert sum(int(row[2] or 0) for row in held) == 24
        assert format_usd(settled) == (held[0][3] if len(held) == 1 else format_usd(settled))


def test_a_second_try_is_told_as_a_retry() -> None:
    """An attempt of a request that another attempt came before: its forfeit stands in the line of retries."""
    told = evidence(plain, n=2)
    first = told.books.attempts[0]
    again = replace(first, id=99)
    need = first.need
    more = (
        Entry(attempt=99, kind=EntryKind.RESERVE, leaf=first.leaf, amount=need),
        Entry(attempt=99, kind=EntryKind.FORFEIT, leaf=first.leaf, amount=need),
    )
    books = replace(told.books, attempts=(*told.books.attempts, again), entries=(*told.books.entries, *more))
    (row,) = [row for row in table(replace(told, books=rebalanced(books)), "spend").rows if row[0] == "retries"]
    assert row[2:] == (1, format_usd(0), format_usd(need.nanos), format_usd(0))


def test_a_reply_that_is_no_longer_planned_keeps_its_money() -> None:
    """What was bought for rows that the file no longer has stands under a name of its own."""
    told = evidence(plain, n=3)
    fewer = replace(told, rows={"pick": [row for row in told.rows["pick"] if row.id != "q000"]})
    assert by_ending(fewer) == {"concluded": 4 * COST, UNPLANNED: 2 * COST}


def test_an_adjust_replaces_what_was_booked() -> None:
    """On the word of a document an attempt cost more: the sums tell that, and the endings with what no reply's share explains."""
    told = evidence(plain, n=2)
    first = told.books.attempts[0]
    adjust = Entry(
        attempt=first.id,
        kind=EntryKind.ADJUST,
        leaf=first.leaf,
        amount=Amount(nanos=COST + 7, calls=1),
        document="bill",
    )
    books = rebalanced(replace(told.books, entries=(*told.books.entries, adjust)))
    assert sum(by_ending(replace(told, books=books)).values()) == 4 * COST + 7


def test_a_settle_without_usage_is_an_estimate() -> None:
    """Money booked as a bill for a reply that says neither tokens nor cost is an error; a reported cost is a bill."""
    told = evidence(lambda model, id_, draw: Ending(usage=Usage()) if id_ == "q001" else Ending(), n=3)
    (first, second) = found(told, "estimate")
    assert (first.severity, first.value, second.value) == ("error", 1, 1)
    reported = evidence(lambda model, id_, draw: Ending(usage=Usage(), reported=COST), n=3)
    assert found(reported, "estimate") == []


def test_rows_that_were_taken_out_leave_a_gap() -> None:
    """Missing numbers of entries or attempts are an error."""
    told = evidence(plain, n=2)
    assert found(told, "gaps") == []
    (finding,) = found(replace(told, books=replace(told.books, gaps={"entry": (3, 4)})), "gaps")
    assert (finding.severity, finding.value, finding.evidence) == ("error", 2, ("3", "4"))
