"""Resting: what numbers rest on beside their cache and files, as a seal is told it, and what of it changed since."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, requires, version

from judgerun.audit.books import Attempt
from judgerun.audit.evidence import Evidence
from judgerun.ledger.prices import Price, PriceSheet
from judgerun.model.registration import digest_of, items, registrations
from judgerun.model.request import digest

Groups = Mapping[str, Mapping[str, str]]


def resting(evidence: Evidence) -> Groups:
    """Group by group, name by name: environment, prices that were charged, registration, waivers, exclusions."""
    own = [attempt for attempt in evidence.books.attempts if attempt.leaf.experiment == evidence.experiment.name]
    return {
        "environment": environment(),
        "prices": dict(_charged(evidence.prices, [attempt for attempt in own if attempt.job is None])),
        "batch prices": dict(_charged(evidence.job_prices, [attempt for attempt in own if attempt.job is not None])),
        "registration": _fixed(evidence),
        "waivers": {
            f"{waiver.check} {waiver.condition}".strip(): waiver.because
            + (f" (until {waiver.until})" if waiver.until else "")
            for waiver in evidence.waivers
            if waiver.experiment == evidence.experiment.name
        },
        "exclusions": {one.subject: one.because for one in evidence.exclusions},
    }


def code() -> str:
    """The version of the program."""
    return f"judgerun {version('judgerun')}"


def environment() -> dict[str, str]:
    """Python, the machine's kind, and the version of every package that judgerun asks for and that is here."""
    found_names = (re.match(r"[A-Za-z0-9._-]+", text) for text in requires("judgerun") or ())
    names = sorted({name.group().lower() for name in found_names if name is not None})
    found = {"python": platform.python_version(), "platform": f"{sys.platform} {platform.machine()}"}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _charged(prices: Mapping[str, Sequence[Price]], attempts: Iterable[Attempt]) -> Iterator[tuple[str, str]]:
    """Each dated price that was in force on a day of an attempt: its model and day of start, and its source with a digest."""
    sheet = PriceSheet(prices)
    for model, day in sorted({(attempt.model, attempt.leaf.day) for attempt in attempts}):
        price = sheet.find(model, date.fromisoformat(day))
        if price is not None:
            start = "" if price.start is None else f" from {price.start}"
            yield f"{model}{start}", f"{price.source or 'written'} {digest(repr(price).encode())[:16]}"


def _fixed(evidence: Evidence) -> dict[str, str]:
    """The digest of questions, gates and rules as they are, and of each registration."""
    held = registrations(evidence.books.events, evidence.experiment.name)
    told = {"as they are": digest_of(items(evidence.experiment))}
    return told | {f"registration {number}": one.digest for number, one in enumerate(held, 1)}


def changes(sealed: Groups, now: Groups) -> Iterator[str]:
    """What differs, in words; nothing where a seal was not told a group."""
    for group, values in sealed.items():
        today = now.get(group, {})
        for name in sorted({*values, *today}):
            was, is_ = values.get(name), today.get(name)
            if was != is_:
                yield f"{group}: {name} is now {is_ or 'gone'}, was {was or 'not there'} when sealed"
