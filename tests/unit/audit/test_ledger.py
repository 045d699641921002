"""Ledger checks: each fault in otherwise whole books is found under its own name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from fakes.evidence import COST, NEED, RATES, Ending, evidence, plain, rebalanced
from judgerun.audit.books import Attempt, Books
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.ledger.account import Balance
from judgerun.ledger.entry import Amount, Entry, EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.experiment import Hours, PriceSpec
from judgerun.model.reply import Usage


def with_books(given: Evidence, books: Books, *, balance: bool = True) -> Evidence:
    """The evidence with other books, their account folded anew unless it is the fault."""
    return replace(given, books=rebalanced(books) if balance else books)


def severities(given: Evidence) -> dict[str, str]:
    """Severity by check."""
    return {finding.check: finding.severity for finding in audit(given).findings}


def without(given: Evidence, kind: EntryKind, attempt: int) -> Books:
    """The books without one entry."""
    entries = tuple(e for e in given.books.entries if (e.attempt, e.kind) != (attempt, kind))
    return replace(given.books, entries=entries)


def test_a_hold_that_was_never_closed_is_an_error() -> None:
    """A reserve without settle, void or forfeit is named; its reply has no settle either."""
    given = evidence(plain)
    told = severities(with_books(given, without(given, EntryKind.SETTLE, 3)))
    assert told["closings"] == told["replies"] == told["attempts"] == "error"


def test_an_attempt_closed_twice_is_an_error() -> None:
    """A second closing is named, and the entries are no ledger any more."""
    given = evidence(plain)
    extra = next(e for e in given.books.entries if e.kind is EntryKind.SETTLE)
    told = severities(with_books(given, replace(given.books, entries=(*given.books.entries, extra)), balance=False))
    assert told["closings"] == told["account"] == "error"


def test_a_closing_before_its_reserve_is_an_error() -> None:
    """Order matters: what is closed was reserved before."""
    given = evidence(plain)
    first, second, *rest = given.books.entries
    swapped = replace(given.books, entries=(second, first, *rest))
    findings = [f for f in audit(with_books(given, swapped, balance=False)).findings if f.check == "closings"]
    assert "before they were reserved" in findings[0].message


def test_an_account_that_differs_from_its_entries_is_an_error() -> None:
    """One nano more in one leaf is enough."""
    given = evidence(plain)
    leaf, balance = next(iter(given.books.balances.items()))
    more = Balance(balance.settled + Amount(nanos=1), balance.forfeited, balance.held)
    books = replace(given.books, balances={**given.books.balances, leaf: more})
    assert severities(with_books(given, books, balance=False)) == {"account": "error"}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda attempt: replace(attempt, need=NEED + Amount(nanos=1)),
        lambda attempt: replace(attempt, leaf=attempt.leaf._replace(provider="other")),
        lambda attempt: replace(attempt, open=True),
    ],
)
def test_attempts_that_differ_from_their_entries_are_errors(spoil: Callable[[Attempt], Attempt]) -> None:
    """Amount, leaf and state of an attempt are those of its entries."""
    given = evidence(plain)
    first, *rest = given.books.attempts
    assert severities(with_books(given, replace(given.books, attempts=(spoil(first), *rest)))) == {"attempts": "error"}


def test_a_reply_without_its_attempt_is_an_error() -> None:
    """A reply whose attempt is not there, or did not carry it, is an orphan."""
    given = evidence(plain)
    first, *rest = given.books.bought
    stray = replace(first, key=b"x" * 32)
    assert severities(with_books(given, replace(given.books, bought=(stray, *rest))))["replies"] == "error"
    gone = replace(given.books, attempts=given.books.attempts[1:])
    assert severities(with_books(given, gone))["replies"] == "error"


def test_two_replies_to_one_request_are_an_error() -> None:
    """A key has one reply."""
    given = evidence(plain)
    books = replace(given.books, bought=(*given.books.bought, given.books.bought[0]))
    assert severities(with_books(given, books))["duplicates"] == "error"


def test_shares_that_do_not_add_up_are_an_error() -> None:
    """The costs of an attempt's replies are its settle, to the nano."""
    given = evidence(plain)
    first, *rest = given.books.bought
    books = replace(given.books, bought=(replace(first, cost=COST - 1), *rest))
    assert severities(with_books(given, books)) == {"shares": "error"}


def closed_with(given: Evidence, kind: EntryKind, amount: Amount) -> Books:
    """The books with the first attempt closed otherwise."""
    entries = tuple(
        replace(e, kind=kind, amount=amount) if e.attempt == 1 and e.kind is EntryKind.SETTLE else e
        for e in given.books.entries
    )
    cost = amount.nanos if kind is EntryKind.SETTLE else None
    bought = tuple(replace(b, cost=cost) if b.attempt == 1 else b for b in given.books.bought)
    return replace(given.books, entries=entries, bought=bought)


def test_a_bill_above_its_hold_is_an_error() -> None:
    """What was billed above the worst case is told with the amount."""
    given = evidence(plain)
    books = closed_with(given, EntryKind.SETTLE, Amount(nanos=NEED.nanos + 7, calls=1, tokens=110))
    told = severities(with_books(given, books))
    assert told["overrun"] == "error"
    (finding,) = [f for f in audit(with_books(given, books)).findings if f.check == "overrun"]
    assert finding.value == "0.000000007"


def test_forfeits_are_listed_with_their_amount() -> None:
    """A reply without usage forfeits its hold: a warning with the sum."""
    given = evidence(plain)
    (finding,) = audit(with_books(given, closed_with(given, EntryKind.FORFEIT, NEED))).findings
    assert (finding.check, finding.severity, finding.value) == ("forfeits", "warning", "0.0005")
    assert finding.evidence == ("reply without usage or price: 1",)


def test_free_tokens_of_a_priced_model_are_an_error() -> None:
    """Tokens that cost nothing where the price says otherwise."""
    given = evidence(plain)
    told = severities(with_books(given, closed_with(given, EntryKind.SETTLE, Amount(calls=1, tokens=110))))
    assert told["free tokens"] == "error"


def test_a_free_model_may_cost_nothing() -> None:
    """Price 0 is a price."""
    given = replace(evidence(plain), prices={"ann": (Price(rates=PriceSpec(input=0, output=0), source="local"),)})
    told = severities(with_books(given, closed_with(given, EntryKind.SETTLE, Amount(calls=1, tokens=110))))
    assert "free tokens" not in told


def test_a_settle_that_the_price_does_not_explain_is_a_warning() -> None:
    """Usage times the price of the day gives the settle; a price file changed since then is told."""
    dearer = replace(RATES, output=RATES.output + 1_000_000_000)
    given = replace(evidence(plain), prices={name: (Price(rates=dearer, source="new"),) for name in ("ann", "bob")})
    assert severities(given) == {"price": "warning"}


@pytest.mark.parametrize(("answered", "told"), [(59, {"price": "warning"}), (60, {})])
def test_a_settle_is_explained_by_the_hour_of_its_answer(answered: int, told: dict[str, str]) -> None:
    """A price that hangs on the time of day is that of the moment at which the attempt ended, to the minute."""
    usual = replace(RATES, output=RATES.output * 2)
    hours = Hours(start=1, end=0, input=RATES.input, output=RATES.output)
    price = Price(rates=replace(usual, hours=(hours,)), source="test")
    given = replace(evidence(plain), prices=dict.fromkeys(("ann", "bob"), (price,)))
    attempts = tuple(replace(attempt, closed_at=answered) for attempt in given.books.attempts)
    assert severities(with_books(given, replace(given.books, attempts=attempts))) == told


def test_a_reported_cost_that_disagrees_is_a_warning() -> None:
    """A cost that the provider itself reported is kept beside the computed one; a rounding of a nano is not a disagreement."""
    assert "reported cost" not in severities(evidence(lambda model, id_, draw: Ending(reported=COST + 1)))
    assert severities(evidence(lambda model, id_, draw: Ending(reported=COST + 5_000)))["reported cost"] == "warning"


def test_a_request_settled_twice_is_an_error_and_a_retry_after_a_forfeit_a_note() -> None:
    """Nothing is bought twice; what a forfeited try may have cost besides is only noted."""
    given = evidence(plain)
    first = given.books.attempts[0]
    for kind, severity in ((EntryKind.SETTLE, "error"), (EntryKind.FORFEIT, "note")):
        again = replace(first, id=999, cause="timed out")
        amount = NEED if kind is EntryKind.FORFEIT else Amount(nanos=0, calls=1)
        entries = (
            *given.books.entries,
            Entry(attempt=999, kind=EntryKind.RESERVE, leaf=first.leaf, amount=NEED),
            Entry(attempt=999, kind=kind, leaf=first.leaf, amount=amount),
        )
        books = replace(given.books, attempts=(*given.books.attempts, again), entries=entries)
        told = severities(with_books(given, books))
        assert told["bought twice"] == severity


def test_a_batch_is_judged_as_one_bill() -> None:
    """Several replies of one attempt share one settle, rounded up once over their usage."""
    given = evidence(plain, n=2)
    keys = tuple(key for attempt in given.books.attempts for key in attempt.keys)
    first = replace(given.books.attempts[0], keys=keys)
    usage = Usage(input_fresh=100, output_visible=10)
    bought = tuple(replace(b, attempt=1, cost=COST, usage=usage) for b in given.books.bought)
    entries = tuple(
        replace(e, amount=Amount(nanos=4 * COST, calls=1, tokens=440)) if e.kind is EntryKind.SETTLE else e
        for e in given.books.entries
        if e.attempt == 1
    )
    books = replace(given.books, attempts=(replace(first, need=NEED),), bought=bought, entries=entries)
    assert severities(with_books(given, books)) == {"overrun": "warning"}  # 440 tokens on a hold of 400, dollars within


@pytest.mark.parametrize(("job", "told"), [(None, {}), (1, {"price": "warning"})])
def test_a_settle_is_explained_by_the_price_of_its_own_lane(job: int | None, told: dict[str, str]) -> None:
    """A call is priced in the lane by which it went, whatever lane its model has now: single calls by the full price."""
    given = evidence(plain)
    half = {name: tuple(replace(price, factor=Fraction(1, 2)) for price in held) for name, held in given.prices.items()}
    attempts = tuple(replace(attempt, job=job) for attempt in given.books.attempts)
    assert severities(replace(with_books(given, replace(given.books, attempts=attempts)), job_prices=half)) == told
