"""A workspace that a test writes and on which it runs commands in its own process, with what they printed and how they ended."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgerun.cli.program import execute

HEAD = """
seed = 5
[providers.sim]
dialect = "openai"
base_url = "${SIM_URL}"
identity = "sim"
price = { input = "1", output = "2" }
[models.one]
provider = "sim"
model = "sim-one"
lineage = "north"
temperature = 0
max_output_tokens = 300
thinking = "off"
[models.two]
provider = "sim"
model = "sim-two"
lineage = "south"
temperature = 0
max_output_tokens = 300
thinking = "off"
[models.vec]
provider = "sim"
model = "sim-embed"
"""
"""A deployment on the simulated provider (one dollar a million in, two out), two models that chat and one that embeds."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The object on stdout."""
        return json.loads(self.out)

    @property
    def problems(self) -> list[str]:
        """Of a refusal: `place: wrong (right)` of each problem."""
        return [f"{p['file']} {p['place']}: {p['wrong']} ({p['right']})" for p in self.json["error"]["problems"]]


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace with the experiment `x` and a budget of a hundred dollars."""

    root: Path
    name: str = "x"

    @property
    def folder(self) -> Path:
        """Where the experiment file stands."""
        return self.root / "prompts" / self.name

    def write(self, text: str, files: dict[str, str] | None = None, *, head: str = HEAD) -> None:
        """The experiment file behind `head`, with files beside it. Lines before the first table stand at the top."""
        top, found, rest = ("\n" + text).partition("\n[")
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "experiment.toml").write_text(f'name = "{self.name}"\n{top}\n{head}\n{found}{rest}')
        for name, body in (files or {}).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        if not (self.root / "budgets").exists():
            self.budget('total = "100"\nconfirm_above = "100"\n')

    def budget(self, text: str, name: str = "main.toml") -> None:
        """A file of the budgets folder."""
        (self.root / "budgets").mkdir(exist_ok=True)
        (self.root / "budgets" / name).write_text(text)

    def beside(self, name: str) -> Place:
        """Another experiment of the same workspace."""
        return Place(self.root, name)

    def do(self, command: str, *words: str, json: bool = True, fine: tuple[int, ...] = (0,)) -> Said:
        """`judgerun COMMAND x WORDS --json`; fails the test when it ends otherwise than with one of `fine`."""
        said = self.say(command, self.name, *words, *(["--json"] if json else []))
        assert said.code in fine, f"{command}: {said.code}\n{said.out[-3000:]}\n{said.err[-3000:]}"
        return said

    def say(self, *words: str) -> Said:
        """Any command in this workspace."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = execute([*words, "--workspace", str(self.root)])
        return Said(int(code), out.getvalue(), err.getvalue())

    def rows(self, stage: str) -> list[dict[str, Any]]:
        """The table of a stage as `export` writes it."""
        self.do("export", "--format", "jsonl")
        path = self.root / "results" / self.name / "export" / f"{stage}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def counts(self, command: str = "status") -> dict[str, tuple[int, int, int, int]]:
        """planned, done, failed and pending of each condition."""
        told = self.do(command).json
        for one in told["conditions"]:
            assert one["planned"] == one["done"] + one["failed"] + one["pending"], one
        return {
            one["condition"]: (one["planned"], one["done"], one["failed"], one["pending"]) for one in told["conditions"]
        }


def lines(*records: object) -> str:
    """Records as JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def stated(**values: object) -> str:
    """The end of a prompt to which the simulated provider answers with exactly these values, as JSON."""
    parts = {name: {"const": value} for name, value in values.items()}
    return "Answer as JSON.\n" + json.dumps({"type": "object", "properties": parts})


def at_home(url: str) -> None:
    """Tell experiments where the simulated provider is."""
    os.environ["SIM_URL"] = url
