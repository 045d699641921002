"""`judgerun judge`: a person's rows in every shape that a spreadsheet gives them, and what is told of those that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgerun.cli.program import execute
from judgerun.cli.start import Task, write_task
from judgerun.errors import Exit, Refused

PROMPT = "Q: {{ question }}\nA: {{ answer }}\nAnswer with one of these labels and nothing else: RIGHT, WRONG\n"


def task(folder: Path, content: bytes, *, name: str = "rows.csv", prompt: bytes = PROMPT.encode()) -> Task:
    """The task of judging these rows by two labels on a server of one's own."""
    (folder / name).write_bytes(content)
    (folder / "p.md").write_bytes(prompt)
    return Task(
        file=folder / name, prompt=folder / "p.md", model="m", labels=("RIGHT", "WRONG"), score=None, schema=None, id="id",
        draws=1, cap="1.00", name=None, base_url="http://127.0.0.1:9/v1", key_env=None, price="1,1", max_output_tokens=64,
        temperature=None, thinking=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "name", "rows"),
    [
        (b"\xef\xbb\xbfid,question,answer\n1,a,b\n", "rows.csv", "id,question,answer\n1,a,b\n"),
        (b"id,question,answer\r\n1,a,b\r\n", "rows.csv", "id,question,answer\n1,a,b\n"),
        (b"id\tquestion\tanswer\n1\ta\tb\n", "rows.tsv", "id,question,answer\n1,a,b\n"),
        (b'id,question,answer\n1,"x ""y""","l1\nl2"\n', "rows.csv", 'id,question,answer\n1,"x ""y""","l1\nl2"\n'),
        (b"id,question,answer\n1,,b\n", "rows.csv", "id,question,answer\n1,,b\n"),
    ],
)
def test_rows_of_every_shape_are_read(tmp_path: Path, content: bytes, name: str, rows: str) -> None:
    """A byte order mark, CRLF, tabs, quotes, line ends inside a cell and empty cells come through as they are."""
    written = write_task(tmp_path, task(tmp_path, content, name=name))
    assert (written.experiment.parent / "rows.csv").read_text(encoding="utf-8") == rows


@pytest.mark.parametrize(
    ("content", "place", "said"),
    [
        (b"id,question,answer\n1,caf\xe9,b\n", "", "UTF-8"),
        (b"id;question;answer\n1;a;b\n", "line 1", "semicolons"),
        (b"id\tquestion\tanswer\n1\ta\tb\n", "line 1", "tabs"),
        (b"id,question,question,answer\n1,a,b,c\n", "line 1", "twice"),
        (b'id,question,answer\n1,a,"b\n2,c,d\n', "line 3", "not CSV"),
        (b"id,question,answer\n1,a\n", "line 2", "2 cells under 3 heads"),
        (b"id,question,answer\n1,a,b,c\n", "line 2", "4 cells under 3 heads"),
        (b"question,answer\na,b\n", "line 1", "no column 'id'"),
        (b"id,question,answer\n", "", "no rows"),
        (b"", "", "no rows"),
    ],
)
def test_rows_that_cannot_be_read_are_refused_with_their_place(
    tmp_path: Path, content: bytes, place: str, said: str
) -> None:
    """What is no table of cells is refused with file, line, what is wrong and what would be right; nothing is written."""
    with pytest.raises(Refused) as caught:
        write_task(tmp_path, task(tmp_path, content))
    problem = caught.value.problems[0]
    assert problem.file.endswith("rows.csv")
    assert place in problem.place
    assert problem.right
    assert said in f"{problem.wrong} {problem.right}"
    assert not (tmp_path / "prompts").exists()


def test_every_bad_line_is_told(tmp_path: Path) -> None:
    """All lines with too many or too few cells are named at once."""
    with pytest.raises(Refused) as caught:
        write_task(tmp_path, task(tmp_path, b"id,question,answer\n1,a\n2,a,b\n3,a,b,c\n"))
    assert [problem.place for problem in caught.value.problems] == ["line 2", "line 4"]


def test_a_prompt_in_another_encoding_is_refused(tmp_path: Path) -> None:
    """A prompt that is not UTF-8 is a mistake of a person, with its line, and no bug."""
    with pytest.raises(Refused, match=r"p\.md: line 2: is not UTF-8"):
        write_task(tmp_path, task(tmp_path, b"id,question,answer\n1,a,b\n", prompt=b"Q {{ question }}\ncaf\xe9\n"))


@pytest.mark.parametrize("wrong", ["--name=bad name", "--labels=RIGHT,RIGHT", "--model=none/m"])
def test_a_refused_command_can_be_mended_and_given_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    """A refusal leaves nothing behind that stands in the way of the mended command."""
    task(tmp_path, b"id,question,answer\n1,a,b\n")
    own = ["--base-url=http://127.0.0.1:9/v1"] if not wrong.startswith("--model") else []
    asked = ["--model=m", "--labels=RIGHT,WRONG", "--name=mine"]
    given = [word for word in asked if word.split("=")[0] != wrong.split("=")[0]]
    common = ["judge", str(tmp_path / "rows.csv"), f"--prompt={tmp_path / 'p.md'}", "--price=1,1", "--cap=1.00"]
    common += [f"--workspace={tmp_path}"]
    assert execute([*common, *given, *own, wrong]) == Exit.REFUSED
    assert not list(tmp_path.glob("prompts/*"))
    assert not list(tmp_path.glob("budgets/*"))
    assert execute([*common, *asked, "--base-url=http://127.0.0.1:9/v1"]) == Exit.DONE
    assert "nothing was sent" in capsys.readouterr().out
