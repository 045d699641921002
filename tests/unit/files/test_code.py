"""A person's own Python: found beside the experiment or in a package, with its digest; faults are told with their line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from judgerun.files.code import CodeWrong, load_function, load_questions, load_study


def test_a_function_beside_the_experiment_is_loaded_with_its_digest(tmp_path: Path) -> None:
    """`rows:label` means rows.py beside the file; two folders may each have one."""
    for name, body in (("one", "def label(row):\n    return 1\n"), ("two", "def label(row):\n    return 2\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.py").write_text(body)
        found = load_function("rows:label", tmp_path / name)
        assert found.function({}) == (1 if name == "one" else 2)
        assert found.source == "rows.py"
        assert found.digest == hashlib.sha256(body.encode()).hexdigest()


def test_a_function_of_a_package_is_loaded(tmp_path: Path) -> None:
    """`package.module:function` is imported as Python does."""
    found = load_function("os.path:basename", tmp_path)
    assert found.function("a/b") == "b"
    assert len(found.digest) == 64


@pytest.mark.parametrize(
    ("body", "call", "message"),
    [
        ("def label(row): ...\n", "rows:lable", "did you mean 'label'"),
        ("x = 1\n\nraise RuntimeError('no')\n", "rows:label", "failed at line 3: RuntimeError: no"),
        ("def label(:\n", "rows:label", "failed at line 1: SyntaxError"),
        ("raise SystemExit(3)\n", "rows:label", "SystemExit"),
        ("", "nowhere.at.all:label", "there is no module"),
    ],
)
def test_code_that_cannot_be_loaded_is_told(tmp_path: Path, body: str, call: str, message: str) -> None:
    """A missing name, a fault on import and a missing module are told, never raised as they are."""
    (tmp_path / "rows.py").write_text(body)
    with pytest.raises(CodeWrong) as caught:
        load_function(call, tmp_path)
    assert message in f"{caught.value} {caught.value.right}"


def test_questions_are_the_public_functions_that_the_file_defines(tmp_path: Path) -> None:
    """Imported and private functions are no questions; without a file there are none."""
    assert load_questions(tmp_path) is None
    (tmp_path / "questions.py").write_text(
        "from os.path import join\ndef gain(rows):\n    return 1\ndef _help():\n    ...\n"
    )
    found = load_questions(tmp_path)
    assert found is not None
    assert list(found[0]) == ["gain"]


def test_a_study_is_found_by_its_name() -> None:
    """A study of this version is loaded with its questions; a name that no module has is None."""
    found = load_study("structural-retrieval")
    assert found is not None
    assert found.name == "structural-retrieval"
    assert load_study("no-such-study") is None
