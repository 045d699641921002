"""Resting: what numbers rest on beside their cache and files, as a seal is told it, and what of it changed since."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version

from judgerun.audit.evidence import Evidence
from judgerun.ledger.prices import Price
from judgerun.model.registration import digest_of, items, registrations
from judgerun.model.request import digest

Groups = Mapping[str, Mapping[str, str]]


def resting(evidence: Evidence) -> Groups:
    """Group by group, name by name: the environment, the prices of the models, the registration, the waivers, the exclusions."""
    return {
        "environment": environment(),
        "price": {name: _priced(prices) for name, prices in sorted(evidence.prices.items())},
        "batch price": {name: _priced(prices) for name, prices in sorted(evidence.job_prices.items())},
        "fixed": _fixed(evidence),
        "waiver": {
            f"{waiver.check} {waiver.condition}".strip(): waiver.because
            for waiver in evidence.waivers
            if waiver.experiment == evidence.experiment.name
        },
        "excluded": {one.subject: one.because for one in evidence.exclusions},
    }


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


def _priced(prices: Sequence[Price]) -> str:
    """A digest of dated prices."""
    return digest(repr(prices).encode())[:16]


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
                yield f"{group} {name} is now {is_ or 'gone'}, was {was or 'not there'} when sealed"
