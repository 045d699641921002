"""Whether the books are whole: entries, account, attempts, replies and prices agree, and every doubt about money is named."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime

from judgerun.audit.books import Attempt, Books, Bought
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.audit.words import few
from judgerun.errors import InvariantBroken
from judgerun.ledger.account import EMPTY, Balance, fold
from judgerun.ledger.entry import Amount, Entry, EntryKind
from judgerun.ledger.outcome import total_usage
from judgerun.ledger.prices import Price, PriceSheet
from judgerun.model.money import format_usd
from judgerun.model.reply import Finish, Reply

CLOSINGS = frozenset({EntryKind.SETTLE, EntryKind.VOID, EntryKind.FORFEIT})


def _error(check: str, message: str, names: Iterable[str], *, condition: str = "") -> Finding:
    held = list(names)
    return Finding(
        check=check,
        severity="error",
        condition=condition,
        message=message,
        value=len(held),
        evidence=few(held),
    )


def check_amended(evidence: Evidence) -> Iterator[Finding]:
    """Caps and limits that a person set in the place of what the files say, and that are in force, are named."""
    for words in evidence.amended:
        yield Finding(check="amended", severity="note", message=f"{words} (judgerun set)")


def check_closings(evidence: Evidence) -> Iterator[Finding]:
    """Each attempt has one reserve, and it ends in exactly one settle, void or forfeit, after it; an open one is a hold that
    no report should rest on.
    """
    reserves: Counter[int] = Counter()
    closings: Counter[int] = Counter()
    early: list[int] = []
    for entry in evidence.books.entries:
        if entry.kind is EntryKind.RESERVE:
            reserves[entry.attempt] += 1
        elif entry.kind in CLOSINGS:
            closings[entry.attempt] += 1
        if not reserves[entry.attempt]:
            early.append(entry.attempt)
    twice = sorted(attempt for attempt, n in reserves.items() if n > 1)
    double = sorted(attempt for attempt, n in closings.items() if n > 1)
    open_ = sorted(attempt for attempt in reserves if not closings[attempt])
    told = {
        "attempts reserved more than once": twice,
        "attempts closed more than once": double,
        "attempts closed or adjusted before they were reserved": sorted(set(early)),
        "reserves without a settle, void or forfeit: holds still open": open_,
    }
    for message, attempts in told.items():
        if attempts:
            yield _error("closings", f"{len(attempts)} {message}", (f"attempt {id_}" for id_ in attempts))


def check_account(evidence: Evidence) -> Iterator[Finding]:
    """The entries of the experiment, folded from zero, give the balances that the account keeps, leaf by leaf."""
    name = evidence.experiment.name
    try:
        folded = fold(entry for entry in evidence.books.entries if entry.leaf.experiment == name)
    except InvariantBroken as broken:
        yield _error("account", "the entries cannot be folded: they are no ledger", [str(broken)])
        return
    kept = evidence.books.balances
    wrong = [leaf for leaf in sorted({*folded, *kept}) if folded.get(leaf, EMPTY) != kept.get(leaf, EMPTY)]
    if wrong:
        yield _error(
            "account",
            f"{len(wrong)} leaves of the account differ from the fold of their entries",
            (
                f"{leaf.condition} {leaf.provider} {leaf.day}: entries say {_said(folded.get(leaf, EMPTY))}, "
                f"the account {_said(kept.get(leaf, EMPTY))}"
                for leaf in wrong
            ),
        )


def _said(balance: Balance) -> str:
    parts = (balance.settled, balance.forfeited, balance.held)
    return " + ".join(f"{format_usd(part.nanos)} USD/{part.calls} calls/{part.tokens} tokens" for part in parts)


def check_attempts(evidence: Evidence) -> Iterator[Finding]:
    """Attempts match entries: the same leaf, the same reserved amount, open in both or closed in both."""
    attempts = {attempt.id: attempt for attempt in evidence.books.attempts}
    entries: dict[int, list[Entry]] = defaultdict(list)
    for entry in evidence.books.entries:
        entries[entry.attempt].append(entry)
    told: dict[str, list[int]] = {
        "attempts have no entry": sorted(set(attempts) - set(entries)),
        "attempts named by entries are missing": sorted(set(entries) - set(attempts)),
        "attempts differ from their entries in leaf or amount": [],
        "attempts and their entries disagree on whether they are open": [],
    }
    for id_, attempt in sorted(attempts.items()):
        held = entries.get(id_, [])
        reserves = [entry.amount for entry in held if entry.kind is EntryKind.RESERVE]
        if held and (reserves != [attempt.need] or any(entry.leaf != attempt.leaf for entry in held)):
            told["attempts differ from their entries in leaf or amount"].append(id_)
        if held and attempt.open == any(entry.kind in CLOSINGS for entry in held):
            told["attempts and their entries disagree on whether they are open"].append(id_)
    for message, found in told.items():
        if found:
            yield _error("attempts", f"{len(found)} {message}", (f"attempt {id_}" for id_ in found))


def check_replies(evidence: Evidence) -> Iterator[Finding]:
    """Every reply was carried by an attempt that was settled or forfeited, once; no key has two replies; a settled reply has
    a cost, and the costs of an attempt's replies add up to its settle.
    """
    books = evidence.books
    attempts = {attempt.id: attempt for attempt in books.attempts}
    closing = {entry.attempt: entry for entry in books.entries if entry.kind in CLOSINGS}
    orphans = [b for b in books.bought if b.attempt not in attempts or b.key not in attempts[b.attempt].keys]
    unpaid = [
        b
        for b in books.bought
        if b.attempt in attempts and _kind(closing, b) not in (EntryKind.SETTLE, EntryKind.FORFEIT)
    ]
    told = {
        "replies have no attempt that carried them": orphans,
        "replies have neither a settle nor a forfeit": unpaid,
    }
    for message, found in told.items():
        if found:
            yield _error("replies", f"{len(found)} {message}", (f"request {b.key.hex()[:12]}" for b in found))
    double = [key for key, n in Counter(b.key for b in books.bought).items() if n > 1]
    if double:
        names = (f"request {key.hex()[:12]}" for key in sorted(double))
        yield _error("duplicates", f"{len(double)} requests have more than one reply", names)
    yield from _shares(books, {a: e for a, e in closing.items() if e.leaf.experiment == evidence.experiment.name})


def _kind(closing: dict[int, Entry], bought: Bought) -> EntryKind | None:
    entry = closing.get(bought.attempt)
    return entry.kind if entry is not None else None


def _shares(books: Books, closing: dict[int, Entry]) -> Iterator[Finding]:
    shares: dict[int, list[int | None]] = defaultdict(list)
    for bought in books.bought:
        shares[bought.attempt].append(bought.cost)
    wrong: list[int] = []
    for attempt, entry in sorted(closing.items()):
        parts = shares.get(attempt, [])
        known = [part for part in parts if part is not None]
        match entry.kind:
            case EntryKind.SETTLE:
                if len(known) != len(parts) or sum(known) != entry.amount.nanos:
                    wrong.append(attempt)
            case _:
                if known:
                    wrong.append(attempt)
    if wrong:
        yield _error(
            "shares",
            f"{len(wrong)} attempts whose replies' costs do not add up to their settle",
            (f"attempt {id_}" for id_ in wrong),
        )


def check_overruns(evidence: Evidence) -> Iterator[Finding]:
    """A bill above its hold: in dollars an error, since the worst case was no worst case; in tokens alone a warning."""
    holds = {attempt.id: attempt for attempt in evidence.books.attempts}
    for entry in evidence.books.entries:
        attempt = holds.get(entry.attempt)
        if attempt is None or entry.kind is not EntryKind.SETTLE:
            continue
        dollars = entry.amount.nanos > attempt.need.nanos
        if dollars or entry.amount.tokens > attempt.need.tokens:
            yield Finding(
                check="overrun",
                severity="error" if dollars else "warning",
                condition=attempt.leaf.condition,
                message=f"attempt {attempt.id} was billed {format_usd(entry.amount.nanos)} USD for {entry.amount.tokens} "
                f"tokens, on a hold of {format_usd(attempt.need.nanos)} USD for {attempt.need.tokens}",
                value=format_usd(entry.amount.nanos - attempt.need.nanos),
                evidence=(f"input bound by {attempt.bound_by}",) if attempt.bound_by else (),
            )


def check_doubles(evidence: Evidence) -> Iterator[Finding]:
    """A request that was paid for more than once: forfeits that a retry followed are the price of unknown outcomes and are
    a note; two settles are an error.
    """
    kinds: dict[int, EntryKind] = {e.attempt: e.kind for e in evidence.books.entries if e.kind in CLOSINGS}
    paid: dict[bytes, list[tuple[int, EntryKind]]] = defaultdict(list)
    for attempt in evidence.books.attempts:
        kind = kinds.get(attempt.id)
        if kind is EntryKind.SETTLE or kind is EntryKind.FORFEIT:
            for key in attempt.keys:
                paid[key].append((attempt.id, kind))
    settled = {key: held for key, held in paid.items() if sum(kind is EntryKind.SETTLE for _, kind in held) > 1}
    if settled:
        names = (
            f"request {k.hex()[:12]}: attempts {', '.join(str(a) for a, _ in settled[k])}" for k in sorted(settled)
        )
        yield _error("bought twice", f"{len(settled)} requests were settled more than once", names)
    again = sum(len(held) - 1 for key, held in paid.items() if len(held) > 1 and key not in settled)
    if again:
        yield Finding(
            check="bought twice",
            severity="note",
            message=f"{again} attempts may have been billed besides the one that counted: retries after unknown outcomes",
            value=again,
        )


def check_forfeits(evidence: Evidence) -> Iterator[Finding]:
    """Forfeits, by condition and reason, with their amount: money that may or may not have been charged."""
    attempts = {attempt.id: attempt for attempt in evidence.books.attempts}
    sums: dict[str, Amount] = defaultdict(Amount)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in evidence.books.entries:
        attempt = attempts.get(entry.attempt)
        if entry.kind is EntryKind.FORFEIT and entry.leaf.experiment == evidence.experiment.name:
            sums[entry.leaf.condition] += entry.amount
            reasons[entry.leaf.condition][_reason(attempt)] += 1
    for condition, amount in sorted(sums.items()):
        counted = reasons[condition]
        yield Finding(
            check="forfeits",
            severity="warning",
            condition=condition,
            message=f"{counted.total()} attempts were forfeited for {format_usd(amount.nanos)} USD: what they cost is not known",
            value=format_usd(amount.nanos),
            evidence=tuple(f"{reason}: {n}" for reason, n in sorted(counted.items())),
        )


def _reason(attempt: Attempt | None) -> str:
    if attempt is None:
        return "attempt missing"
    return attempt.cause or "reply without usage or price"


def check_prices(evidence: Evidence) -> Iterator[Finding]:
    """The bill of each settled attempt, computed anew from its usage and the price of its day and lane, agrees with the ledger;
    tokens that cost nothing on a priced model are an error; a cost that the provider reported must agree with ours but for
    rounding: a nano for each of the two numbers.
    """
    sheets = {False: PriceSheet(evidence.prices), True: PriceSheet(evidence.job_prices)}
    attempts = {attempt.id: attempt for attempt in evidence.books.attempts}
    replies: dict[int, list[Bought]] = defaultdict(list)
    for bought in evidence.books.bought:
        replies[bought.attempt].append(bought)
    told: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for entry in evidence.books.entries:
        attempt = attempts.get(entry.attempt)
        if attempt is None or entry.kind is not EntryKind.SETTLE or attempt.leaf.experiment != evidence.experiment.name:
            continue
        price = sheets[attempt.job is not None].find(attempt.model, date.fromisoformat(attempt.leaf.day))
        for check, said in _priced(entry, replies[attempt.id], price, _answered(attempt)):
            told[check][attempt.leaf.condition].append(f"attempt {attempt.id}: {said}")
    for check, wrong in sorted(told.items()):
        for condition, names in sorted(wrong.items()):
            yield Finding(
                check=check,
                severity="error" if check == "free tokens" else "warning",
                condition=condition,
                message=f"{len(names)} {MESSAGES[check]}",
                value=len(names),
                evidence=few(names),
            )


MESSAGES = {
    "free tokens": "settles of 0 USD for tokens of a priced model",
    "price": "settles differ from usage x the price of their day as the price files stand now",
    "reported cost": "attempts for which the provider reported another cost than was computed (beyond rounding to a nano)",
}


def _answered(attempt: Attempt) -> datetime | None:
    return None if attempt.closed_at is None else datetime.fromtimestamp(attempt.closed_at, UTC)


def _priced(
    entry: Entry, bought: Sequence[Bought], price: Price | None, at: datetime | None
) -> Iterator[tuple[str, str]]:
    """What is odd about the amount of one settle: (check, words)."""
    nanos, tokens = entry.amount.nanos, entry.amount.tokens
    if price is not None:
        dear = price.bound(1, 1) > 0
        if dear and tokens > 0 and nanos == 0:
            yield "free tokens", f"{tokens} tokens"
        usage = total_usage([_reply(one) for one in bought]) if bought else None
        cost = price.cost(usage, at=at) if usage is not None else None
        if cost is not None and cost != nanos:
            yield "price", f"ledger {format_usd(nanos)} USD, now {format_usd(cost)} USD"
    reported = [one.reported_cost for one in bought if one.reported_cost is not None]
    slack = len(reported) + 1  # each reported cost was rounded to a nano once, ours once for the whole bill
    if reported and len(reported) == len(bought) and abs(sum(reported) - nanos) > slack:
        yield "reported cost", f"provider {format_usd(sum(reported))} USD, ledger {format_usd(nanos)} USD"


def _reply(bought: Bought) -> Reply:
    """The reply as far as its price depends on it."""
    return Reply(finish=Finish.UNKNOWN, vector=b"" if bought.embedding else None, usage=bought.usage)
