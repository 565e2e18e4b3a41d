"""What of a commit no run of a range takes out is named: tests, data, and names that the command may find."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from prtoggle.bisect.range_toggles import Commits, commits_between
from prtoggle.forge.git_history import Repository

if TYPE_CHECKING:
    from pathlib import Path

CODE = "def f(x):\n    return x\n"
BESIDE = " as on the bad build in all runs"


class History:
    """A repository with a package `pk`, and the commits after its tag `good`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git("init", "-q", "-b", "main")
        self.commit("Begin", {"pk/__init__.py": "", "pk/m.py": CODE, "tests/helper.py": "V = 1\n"})
        self._git("tag", "good")

    def _git(self, *words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(self.root), *who, *words], check=True, capture_output=True)

    def commit(self, subject: str, files: dict[str, str | None]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self._git("add", "-A")
        self._git("commit", "-qm", subject)

    def searched(self, *command: str) -> Commits:
        return commits_between(Repository(self.root), "good", "HEAD", command)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    root = tmp_path / "repository"
    root.mkdir()
    monkeypatch.chdir(root)
    return History(root)


def partly(commits: Commits) -> list[str]:
    return [item.reason for item in commits.partly]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"tests/helper.py": "V = 2\n"}, "tests/helper.py"),
        ({"tests/helper.py": None}, "tests/helper.py"),
        ({"tests/data.json": "{}\n"}, "tests/data.json"),
        ({"README.md": "new\n"}, "README.md"),
        ({"README.md": "new\n", "tests/helper.py": "V = 2\n"}, "README.md,tests/helper.py"),
        (
            {f"docs/{at}.md": "new\n" for at in range(5)},
            "docs/0.md,docs/1.md,docs/2.md,... (5 files)",
        ),
    ],
)
def test_files_beside_the_code_are_named(history: History, files: dict[str, str | None], told: str) -> None:
    history.commit("Fix it (#1)", {"pk/m.py": CODE.replace("x\n", "x + 1\n"), **files})

    commits = history.searched("python", "-m", "app")

    assert list(commits.toggles) == ["1"]
    assert partly(commits) == [told + BESIDE]
    assert commits.left_out == ()


def test_a_commit_of_code_alone_is_searched_in_full(history: History) -> None:
    history.commit("Fix it (#1)", {"pk/m.py": CODE.replace("x\n", "x + 1\n")})

    commits = history.searched("python", "-m", "app")

    assert (list(commits.toggles), partly(commits), commits.left_out) == (["1"], [], ())


def test_a_commit_of_tests_alone_is_not_searched_with_the_reason(history: History) -> None:
    history.commit("Fix it (#1)", {"pk/m.py": CODE.replace("x\n", "x + 1\n")})
    history.commit("Change a helper (#2)", {"tests/helper.py": "V = 2\n"})

    commits = history.searched("python", "-m", "app")

    assert [(item.subject, item.reason) for item in commits.left_out] == [
        ("Change a helper (#2)", "tests/helper.py" + BESIDE)
    ]


NEW = "def f(x):\n    return x + 1\n\n\ndef fast():\n    return 1\n"


@pytest.mark.parametrize(
    ("test", "command"),
    [
        ("", ("python", "-c", "import pk.m; print(hasattr(pk.m, 'fast'))")),
        ("", ("sh", "-c", "python -c 'from pk.m import fast'")),
        ("", ("python", "-c", "import pk.m as m; print(len(vars(m)))")),
        ("import pk.m\n\ndef test():\n    assert not hasattr(pk.m, 'fast')\n", ("pytest",)),
        ("import pk.m as m\nassert 'f' in dir(m)\n", ("pytest",)),
    ],
)
def test_a_new_name_that_the_command_or_a_test_may_find(
    history: History, test: str, command: tuple[str, ...]
) -> None:
    history.commit("Prepare (#7)", {"tests/test_names.py": test, "notes.md": "a"})
    history.commit("Fix it (#1)", {"pk/m.py": NEW})

    commits = history.searched(*command)

    assert list(commits.toggles) == ["1"]
    assert "fast" not in str(commits.toggles["1"].patches)
    assert partly(commits) == ["stays in force: pk.m.fast"]


def test_a_new_name_that_a_script_which_git_ignores_finds(history: History) -> None:
    history.commit("Prepare (#7)", {".gitignore": "check.py\n"})
    history.commit("Fix it (#1)", {"pk/m.py": NEW})
    (history.root / "check.py").write_text("from pk import m\nprint('fast' in m.__dict__)\n")

    assert partly(history.searched("python", "check.py")) == ["stays in force: pk.m.fast"]
    assert partly(history.searched("python", "-m", "check")) == ["stays in force: pk.m.fast"]
    assert partly(history.searched("python", "-m", "other")) == []


def test_a_new_name_that_nobody_spells_is_no_part(history: History) -> None:
    history.commit("Fix it (#1)", {"pk/m.py": NEW})

    assert partly(history.searched("python", "-c", "import pk.m; pk.m.f(1)")) == []
