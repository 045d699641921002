"""A workspace whose models have the lane, at the three batch APIs of the simulated provider; real processes on a fast clock."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from fakes import hasty
from fakes.judge import rows_of
from fakes.processes import Place

PROVIDER = """
[providers.{name}]
dialect = "{dialect}"
base_url = "${{{variable}}}"
identity = "{name}"
price = {{ input = "0.50", output = "2.00", batch_factor = "0.5" }}
[models.{name}]
provider = "{name}"
model = "judge-{name}"
max_output_tokens = 60
lane = "batch"
"""
PROVIDERS = (("oa", "openai", "SIM_URL"), ("an", "anthropic", "SIM_ANTHROPIC"), ("go", "google", "SIM_GOOGLE"))
STAGES = """
[models.calls]
provider = "oa"
model = "judge-calls"
max_output_tokens = 60
[models.vec]
provider = "oa"
model = "embed-oa"
lane = "batch"
[[stage]]
name = "vectors"
kind = "embed"
models = ["vec"]
corpus = "rows.text"
[[stage]]
name = "say"
kind = "solve"
from = "rows"
models = ["oa", "an", "go", "calls"]
prompts = ["say"]
parse = { kind = "text" }
[[stage]]
name = "rate"
kind = "grade"
from = "say"
models = ["oa"]
prompts = ["rate"]
admit = ["stop", "length"]
parse = { kind = "text" }
"""
LANES = "".join(
    f"[{name}]\nconcurrency = 6\nattempts_max = 4\ntimeout_s = 5\nenqueued_tokens = 900\n" for name, *_ in PROVIDERS
)
"""Some thirty calls at a time: a job for each part of an experiment, and not one for the whole."""


class Lane(Place):
    """A workspace whose models have the lane, at three APIs; its processes have a fast clock."""

    PROGRAM = (sys.executable, hasty.__file__)

    @staticmethod
    def _write(folder: Path, name: str, seed: int, rows: int) -> None:
        folder.mkdir(parents=True)
        head = f'name = "{name}"\nseed = {seed}\n[data.rows]\npath = "rows.jsonl"\n'
        providers = (PROVIDER.format(name=own, dialect=dialect, variable=at) for own, dialect, at in PROVIDERS)
        (folder / "experiment.toml").write_text(head + "".join(providers) + STAGES)
        (folder / "say.md").write_text(f"Say for {name} a little about {{{{ text }}}}\n")
        (folder / "rate.md").write_text("What is good in this?\n{{ say.reply }}\n")
        lines = (f'{{"id": "r{n}", "text": "thing number {n} of many"}}\n' for n in range(rows))
        (folder / "rows.jsonl").write_text("".join(lines))

    def environ(self) -> dict[str, str]:
        host = self.url.removesuffix("/v1")
        return {"SIM_ANTHROPIC": f"{host}/anthropic/v1", "SIM_GOOGLE": f"{host}/google/v1beta"}

    def wrong(self) -> list[str]:
        """What is wrong in the cache: of a request no more was billed than its attempts have booked, in number and in money."""
        found = super().wrong()
        if not self.made():
            return found
        ends = rows_of(
            self.cache,
            "select hex(r.key), e.kind, e.nanos from carried k join request r on r.id = k.request join entry e on"
            " e.attempt = k.attempt join attempt a on a.id = k.attempt where a.job is not null",
        )
        booked: Counter[str] = Counter()
        paid: Counter[str] = Counter()
        for key, kind, amount in ends:
            name = key.lower()
            booked[name] += {"reserve": 1, "void": -1}.get(kind, 0)  # open, settled or forfeited: it may be billed
            paid[name] += amount if kind in ("settle", "forfeit") else 0
            paid[name] += 0
        billed = Counter(row["line"] for row in self.lines())
        if twice := {key: n for key, n in billed.items() if n > booked[key]}:
            found.append(f"billed more often than it is booked: {twice}")
        return found

    def submitted(self) -> int:
        """The jobs that providers have, as far as the cache knows; none before there is one."""
        if not self.made():
            return 0
        return int(rows_of(self.cache, "select count(*) from job where state = 'submitted'")[0][0])

    def lines(self) -> list[dict[str, Any]]:
        """The lines of jobs that were billed."""
        return [row for row in self.calls() if row["line"] is not None and row["billed"]]
