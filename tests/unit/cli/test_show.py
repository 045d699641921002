"""`judgerun show` and `doctor` told a name that is none: a refusal, never an empty answer or a traceback."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from fakes.simulator import simulator
from judgerun.cli.program import execute
from judgerun.errors import Exit


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which four rows were judged."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "rows.csv").write_text("id,text\n" + "".join(f"row-{n},text {n}\n" for n in range(4)))
    (folder / "p.md").write_text("{{ text }}\nAnswer with one word: GOOD or BAD\n")
    with simulator(folder / "bill.jsonl") as provider:
        code = execute(
            ["judge", str(folder / "rows.csv"), f"--prompt={folder / 'p.md'}", "--model=m", "--labels=GOOD,BAD", "--id=id",
             f"--base-url={provider.url}", "--price=1,1", "--cap=1.00", "--yes", f"--workspace={folder}"]
        )  # fmt: skip
    assert code == Exit.DONE
    return folder


@pytest.mark.parametrize(
    ("asked", "right"),
    [
        (["show", "rows", "verdict/jugde"], "verdict/judge/judge"),
        (["show", "rows", "--finish", "truncated"], "length"),
        (["show", "rows", "--item", "row_1"], "row-1"),
        (["sheet", "rows", "--condition", "nothing"], "verdict/judge/judge"),
    ],
)
def test_a_name_that_is_none_is_refused_with_those_there_are(
    ran: Path, capsys: pytest.CaptureFixture[str], asked: list[str], right: str
) -> None:
    """A misspelt condition, finish or id is a refusal that tells what there is: an empty list would look like a good answer."""
    capsys.readouterr()
    assert execute([*asked, f"--workspace={ran}", "--json"]) == Exit.REFUSED
    problems = json.loads(capsys.readouterr().out)["error"]["problems"]
    assert right in problems[0]["right"]


def test_doctor_names_a_workspace_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A workspace that does not exist is a sign like any other."""
    assert execute(["doctor", f"--workspace={tmp_path / 'none'}", "--json"]) == Exit.DONE
    signs = {sign["what"]: sign for sign in json.loads(capsys.readouterr().out)["signs"]}
    assert signs["workspace"]["state"] == "bad"


def test_a_filled_sheet_comes_back_through_expect(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sheet is the data of an experiment as it stands: the same requests, so nothing is sent, and labels to agree with."""
    folder = ran / "prompts" / "labelled"
    folder.mkdir()
    assert execute(["sheet", "rows", "--n=4", f"--out={folder / 'sheet.csv'}", f"--workspace={ran}"]) == Exit.DONE
    filled = list(csv.DictReader((folder / "sheet.csv").open(newline="", encoding="utf-8")))
    for row in filled:
        row["human"] = "GOOD"
    with (folder / "sheet.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(filled[0]))
        writer.writeheader()
        writer.writerows(filled)
    own = (ran / "prompts" / "rows" / "experiment.toml").read_text()
    own = own.replace('name = "rows"', 'name = "labelled"').replace('"rows.csv"', '"sheet.csv"')
    (folder / "experiment.toml").write_text(own.replace("draws = 1", 'draws = 1\nexpect = "human"'))
    (folder / "judge.md").write_text((ran / "prompts" / "rows" / "judge.md").read_text())
    capsys.readouterr()
    assert execute(["run", "labelled", "--budget=rows", f"--workspace={ran}", "--json"]) == Exit.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["cells"]["done"], told["cells"]["cached"], told["attempts"]) == (4, 4, 0)
    assert execute(["show", "labelled", f"--workspace={ran}", "--json"]) == Exit.DONE
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["agrees"] for cell in cells] == [cell["value"] == "GOOD" for cell in cells]


def test_a_file_system_that_refuses_is_no_bug_of_ours(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a result cannot be written the file is named, and the exit code is that of the store."""
    (ran / "audits").write_text("a file where a folder should be")
    capsys.readouterr()
    assert execute(["audit", "rows", f"--workspace={ran}", "--json"]) == Exit.STORE
    assert "audits" in json.loads(capsys.readouterr().out)["error"]["message"]
    (ran / "audits").unlink()
