"""House rules that a machine can check: charters, sizes, names, no float in money, no dead module, no stray file reading."""

from __future__ import annotations

import ast
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "judgerun"
MODULES = sorted(PACKAGE.rglob("*.py"))
OTHERS = sorted(path for folder in ("tests", "benchmarks", "docs", "prompts") for path in (ROOT / folder).rglob("*.py"))
TESTS = [path for path in OTHERS if path.name.startswith("test_")]
CORE = ("errors.py", "ports.py", "model/", "ledger/", "table/", "plan/", "analysis/", "retrieval/")

LINES_MAX = 400
FUNCTION_LINES_MAX = 60
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler", "tools", "lib", "base"}
FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}
SECRET = re.compile(r"\b(sk-[A-Za-z0-9]{16,}|AIza[0-9A-Za-z_-]{30,}|ghp_[0-9A-Za-z]{30,})")


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name(path: Path) -> str:
    """A file as a person would name it."""
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a file, nested ones included."""
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the signature to the end, without the docstring."""
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        total -= (first.end_lineno or first.lineno) - first.lineno + 1
    return total


def dotted(path: Path) -> str:
    """The import name of a module of the package."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """Import names that a file may bind: `from a import b` counts as a and as a.b."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_every_module_has_a_charter() -> None:
    """Every file of Python opens with a sentence that says what may live in it."""
    bare = [name(path) for path in [*MODULES, *OTHERS] if not (ast.get_docstring(tree(path)) or "").strip()]
    assert bare == []


def test_every_room_has_a_charter() -> None:
    """Every folder of the package is a package with a charter; every other tracked folder at the top is in ARCHITECTURE.md."""
    folders = {path.parent for path in MODULES}
    assert [name(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: tracked folders cannot be listed")
    top = {line.split("/")[0] for line in listed.stdout.splitlines() if "/" in line}
    pages = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert [folder for folder in sorted(top) if f"{folder}/" not in pages] == []


def test_every_test_folder_is_explained() -> None:
    """tests/README.md has a line for each folder of tests."""
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("*.py")}
    assert [folder for folder in sorted(folders) if "." not in folder and f"`{folder}/`" not in page] == []


def test_modules_are_short() -> None:
    """No module of the package reaches 400 lines."""
    long = {name(path): lines for path in MODULES if (lines := len(path.read_text().splitlines())) >= LINES_MAX}
    assert long == {}


def test_functions_are_short() -> None:
    """No function of the package passes 60 lines without its docstring."""
    long = {
        f"{name(path)}:{function.name}": body_lines(function)
        for path in MODULES
        for function in functions(path)
        if body_lines(function) > FUNCTION_LINES_MAX
    }
    assert long == {}


def test_module_names_are_one_plain_word() -> None:
    """A module has a one-word name (studies and migrations carry their own), and none of the words that mean nothing."""
    special = re.compile(r"__(init|main)__|m\d{3}_[a-z_]+")
    stems = [path.stem for path in MODULES if path.parent.name != "studies"]
    odd = [stem for stem in stems if not re.fullmatch(r"[a-z]+\d*", stem) and not special.fullmatch(stem)]
    assert odd == []
    words = {word for path in MODULES for word in path.relative_to(PACKAGE).with_suffix("").parts}
    assert words & FORBIDDEN_NAMES == set()


def test_every_test_states_its_behaviour() -> None:
    """Every test function opens with a sentence."""
    silent = [
        f"{name(path)}:{function.name}"
        for path in TESTS
        for function in functions(path)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert silent == []


def test_public_things_are_documented() -> None:
    """Every public class and function at the top of a module has a docstring."""
    bare = [
        f"{name(path)}:{node.name}"
        for path in MODULES
        for node in tree(path).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert bare == []


def test_no_float_in_money() -> None:
    """ledger/ and model/money.py hold no float: no literal, no `float`, no true division."""
    found: list[str] = []
    for path in [*PACKAGE.glob("ledger/*.py"), PACKAGE / "model" / "money.py"]:
        for node in ast.walk(tree(path)):
            literal = isinstance(node, ast.Constant) and isinstance(node.value, float)
            word = isinstance(node, ast.Name) and node.id == "float"
            division = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)
            if literal or word or division:
                found.append(f"{name(path)}:{node.lineno}")
    assert found == []


def test_core_opens_no_file() -> None:
    """Nothing in the core calls open or a reading or writing method of a path."""
    found: list[str] = []
    for path in MODULES:
        if not path.relative_to(PACKAGE).as_posix().startswith(CORE):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                plain = node.func.id if isinstance(node.func, ast.Name) else ""
                if plain == "open" or method in FILE_METHODS:
                    found.append(f"{name(path)}:{node.lineno}")
    assert found == []


def test_no_dead_module() -> None:
    """Every module is imported by another of the package, started by the project file, or a study named in experiments."""
    entries = {"judgerun", "judgerun.cli.main", "judgerun.__main__"}
    used = set().union(*(imported(path) for path in MODULES)) | entries
    dead = [
        dotted(path)
        for path in MODULES
        if "studies" not in (path.parent.name, path.parent.parent.name)
        and dotted(path) not in used
        and not any(u.startswith(dotted(path) + ".") for u in used)
    ]
    assert dead == []


def test_every_excuse_has_its_reason() -> None:
    """A `noqa` or `type: ignore` names its rule, and its reason stands in the comment, above it, or in the function's docstring."""
    excuse = re.compile(r"(noqa|(?:type|pyright):\s*ignore)(:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*|\[[\w, -]+\])?")
    bare: list[str] = []
    for path in MODULES:
        with path.open("rb") as stream:
            comments = {t.start[0]: t.string for t in tokenize.tokenize(stream.readline) if t.type == tokenize.COMMENT}
        told = [(f.lineno, f.end_lineno or f.lineno) for f in functions(path) if ast.get_docstring(f)]
        for line, text in comments.items():
            found = excuse.search(text)
            if found is None:
                continue
            words = re.findall(r"[a-z]{2,}", excuse.sub("", text))
            said = len(words) >= 2 or line - 1 in comments or any(low <= line <= high for low, high in told)
            if not (found[2] and said):
                bare.append(f"{name(path)}:{line}")
    assert bare == []


def test_no_key_is_tracked() -> None:
    """No tracked text holds what looks like a provider's key."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: tracked files cannot be listed")
    held: list[str] = []
    for entry in filter(None, listed.stdout.split("\0")):
        path = ROOT / entry
        if path.is_file() and path.suffix in {".py", ".toml", ".md", ".jsonl", ".json", ".csv", ".sh", ".cfg", ""}:
            held.extend(f"{entry}: {found.group()}" for found in SECRET.finditer(path.read_text("utf-8", "replace")))
    assert held == []
