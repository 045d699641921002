"""TOML files: what is told of them after they were read."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgerun.errors import Problem, Refused
from judgerun.files.toml import pointing


def test_what_is_refused_later_gets_its_path_and_line(tmp_path: Path) -> None:
    """A problem of `experiment.toml` that an adapter tells is told with the file's path and the line of its key, or of the table
    that holds it; a problem of another file stays as it is.
    """
    path = tmp_path / "experiment.toml"
    path.write_text('name = "x"\n[models."gpt-5.1"]\nprovider = "openai"\nthinking = "high"\n', encoding="utf-8")
    told = (
        Problem("experiment.toml", "models.gpt-5.1.thinking", "wrong"),
        Problem("experiment.toml", 'models."gpt-5.1".temperature', "wrong"),
        Problem("budgets/b.toml", "total", "wrong"),
    )
    with pytest.raises(Refused) as caught, pointing(path):
        raise Refused(told)
    assert [(problem.file, problem.place) for problem in caught.value.problems] == [
        (str(path), "models.gpt-5.1.thinking (line 4)"),
        (str(path), 'models."gpt-5.1".temperature (line 2)'),
        ("budgets/b.toml", "total"),
    ]
