"""Makes caches as an older judgerun wrote them: the older schema, with the rows that it could hold."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from judgerun.store.locks import Locks
from judgerun.store.schema import MIGRATIONS, open_writer


def older(source: Path, target: Path, *, version: int = 1) -> None:
    """Copy a cache into a new file of an older schema; what that has no table or column for is left out."""
    locks = Locks(target)
    made = open_writer(target, locks, durable=False, migrations=MIGRATIONS[:version])
    held = sqlite3.connect(f"file:{source}?mode=ro", uri=True)
    made.execute("pragma foreign_keys = off")
    tables = made.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'").fetchall()
    for (table,) in tables:
        names = ", ".join(row[1] for row in made.execute(f"pragma table_info({table})"))
        if not held.execute("select 1 from sqlite_master where name = ?", (table,)).fetchone():
            continue  # today's schema has it no more
        rows = held.execute(f"select {names} from {table}").fetchall()
        made.executemany(f"insert into {table} ({names}) values ({', '.join('?' * (names.count(',') + 1))})", rows)
    made.execute("pragma journal_mode = delete")
    held.close()
    made.close()
    locks.close()
    target.with_name(target.name + ".lock").unlink()
