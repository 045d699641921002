"""Pins: what an experiment rested on (plans, digests of its files) and what a person decided (unfreeze), as transactions."""

from __future__ import annotations

import json
from collections.abc import Mapping

from judgerun.errors import Problem, Refused
from judgerun.store.books import Books
from judgerun.store.queries import SQL


class Pins:
    """Rows about files, plans and decisions of one cache."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def pin(self, experiment: str, digests: Mapping[str, str], texts: Mapping[str, str], now: float) -> dict[str, str]:
        """Pin the digests of files. For each file that was pinned with another digest before: that digest; the change is an
        event, and the new digest is pinned.
        """
        execute = self._books.connection.execute
        before = dict(execute(SQL["pins_of"], (experiment,)).fetchall())
        changed = {file: before[file] for file, digest in digests.items() if before.get(file, digest) != digest}
        for file, digest in digests.items():
            if before.get(file) != digest:
                execute(SQL["put_pin"], (experiment, file, digest, now, texts.get(file)))
        for file, old in changed.items():
            self._books.note(
                "pin", experiment, f"{file} changed from {old[:12]} to {digests[file][:12]}", now, experiment=experiment
            )
        return changed

    def plan(self, experiment: str, digest: str, files: Mapping[str, str], now: float) -> bool:
        """Record a plan; whether it differs from the experiment's last one (the first differs from none)."""
        execute = self._books.connection.execute
        document = json.dumps(dict(files), sort_keys=True)
        last = execute(SQL["last_plan"], (experiment,)).fetchone()
        if last == (digest, document):
            return False
        execute(SQL["new_plan"], (experiment, digest, document, now))
        return True

    def stand(self, experiment: str, rests_on: str, document: str, now: float) -> None:
        """Keep how an experiment stands."""
        self._books.connection.execute(SQL["put_stand"], (experiment, now, rests_on, document))

    def unfreeze(self, budget: str, because: str, now: float) -> bool:
        """Reopen a frozen budget, on the record; whether it was frozen. Refused without a reason."""
        if not because.strip():
            raise Refused(Problem("cache.db", f"budget {budget}", "unfreeze gives no reason", "--because TEXT"))
        if self._books.frozen(budget) is None:
            return False
        self._books.note("unfreeze", budget, because, now)
        return True
