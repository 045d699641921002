"""A workspace on disk: where its experiments and budgets are, and how a command's word finds one."""

from __future__ import annotations

from pathlib import Path

from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.files.faults import hint

NOT_BUDGETS = frozenset({"prices", "lanes"})


def list_experiments(workspace: Path) -> tuple[Path, ...]:
    """Every `prompts/<name>/experiment.toml`, by name."""
    return tuple(sorted((workspace / "prompts").glob(f"*/{EXPERIMENT}")))


def find_experiment(workspace: Path, word: str) -> Path:
    """The experiment file that a name, a folder or a file path means; a name is looked up in the workspace first.

    Raises Refused, with the nearest name, when there is none.
    """
    for path in (workspace / "prompts" / word, workspace / word, Path(word)):
        file = path / EXPERIMENT if path.is_dir() else path
        if file.is_file() and file.suffix == ".toml":
            return file
    known = [path.parent.name for path in list_experiments(workspace)]
    folder = str(workspace / "prompts")
    raise Refused(Problem(folder, "", f"there is no experiment {word!r}", hint(word, known)))


def list_budgets(workspace: Path) -> tuple[Path, ...]:
    """Every `budgets/<name>.toml` that is a budget, by name."""
    return tuple(path for path in sorted((workspace / "budgets").glob("*.toml")) if path.stem not in NOT_BUDGETS)


def find_budget_file(workspace: Path, word: str | None) -> Path:
    """The budget file that a name or a path means; without a word the only one.

    Raises Refused when there is none, or several and no word.
    """
    budgets = list_budgets(workspace)
    folder = str(workspace / "budgets")
    if word is None:
        if len(budgets) == 1:
            return budgets[0]
        if not budgets:
            raise Refused(Problem(folder, "", "there is no budget", 'budgets/NAME.toml with total = "10.00"'))
        names = ", ".join(path.stem for path in budgets)
        raise Refused(Problem(folder, "", f"there are several budgets: {names}", "--budget NAME"))
    for path in (workspace / "budgets" / f"{word}.toml", workspace / word, Path(word)):
        if path.is_file() and path.suffix == ".toml" and path.stem not in NOT_BUDGETS:
            return path
    raise Refused(Problem(folder, "", f"there is no budget {word!r}", hint(word, (path.stem for path in budgets))))
