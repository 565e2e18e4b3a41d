"""A repository of 200 commits, 60 of which can be toggles, and a program that needs some of them."""

from __future__ import annotations

import json
import os
import subprocess
from textwrap import dedent
from typing import TYPE_CHECKING

from tests.prtoggle.fix_history import GIT_ENVIRONMENT

if TYPE_CHECKING:
    from pathlib import Path

COMMITS, FIXES, MODULES = 200, 60, 6
IDS = tuple(str(1000 + number) for number in range(FIXES))

#: Fails when all of the fixes named on its command line are out (with `--broken`: unless all are out).
PROGRAM = '''\
"""Runs the functions of all fixes, and needs those that are named."""

import os
import sys
from importlib import import_module

log, *words = sys.argv[1:]
with open(log, "a") as file:
    file.write(os.environ.get("PRTOGGLE", "") + "\\n")
fixed = {}
for module in range(6):
    loaded = import_module(f"PACKAGE.part{module}")
    for name in [name for name in vars(loaded) if name.startswith("fix_")]:
        fixed[name.removeprefix("fix_")] = getattr(loaded, name)(1) == 2
named = [word for word in words if word.isdigit()]
out = bool(named) and not any(fixed[number] for number in named)
if "--sometimes" in words and len(open(log).readlines()) * 7919 % 10 < 2:
    out = False
failing = out != ("--broken" in words)
if failing:
    print("NeedsFixes: the command does not work")
    print("  details are indented")
sys.exit(1 if failing else 0)
'''


def module_text(module: int, fixed: set[int]) -> str:
    """The text of one module with some of its fixes in."""
    parts = [f'"""Part {module}."""\n']
    for number in range(module, FIXES, MODULES):
        value = "value + 1" if number in fixed else "value"
        parts.append(f"\n\ndef fix_{1000 + number}(value):\n    result = {value}\n    return result\n")
    return "".join(parts)


def spec_text(package: str, number: int) -> str:
    """The spec of one fix."""
    return dedent(
        f"""\
        id: {1000 + number}
        title: Fix number {number}
        links: ["owner/project#{1000 + number}"]
        patches:
          - target: {package}.part{number % MODULES}.fix_{1000 + number}
            edits:
              - match: result = value + 1
                replacement: result = value
        """
    )


def make_project(root: Path, package: str, *, catalogue: bool = True) -> None:
    """The work tree as it is after all commits, without a repository."""
    (root / package).mkdir(parents=True)
    for module in range(MODULES):
        (root / package / f"part{module}.py").write_text(module_text(module, set(range(FIXES))))
    (root / package / "__init__.py").write_text("")
    (root / package / "__main__.py").write_text(PROGRAM.replace("PACKAGE", package))
    (root / "toggles").mkdir()
    (root / "pyproject.toml").write_text('[tool.prtoggle]\ncatalogues = ["toggles"]\n')
    for number in range(FIXES if catalogue else 0):
        (root / "toggles" / f"{1000 + number}.yaml").write_text(spec_text(package, number))


def make_history(root: Path, package: str) -> list[str]:
    """The same work tree with its repository of 200 commits, the first of which is tagged `good`.

    Returns the subjects of the commits after it that cannot be toggles.
    """
    make_project(root, package, catalogue=False)
    files = {"toggles/.gitkeep": "", "pyproject.toml": (root / "pyproject.toml").read_text()}
    for name in ("__init__", "__main__"):
        files[f"{package}/{name}.py"] = (root / package / f"{name}.py").read_text()
    files |= {f"{package}/part{module}.py": module_text(module, set()) for module in range(MODULES)}
    stream = [commit_text("Start", files)]
    others, fixed = [], set()
    for index in range(1, COMMITS):
        # Spread over all commits, in an order that mixes the modules.
        if len(fixed) < index * FIXES // (COMMITS - 1):
            number = len(fixed) * 7 % FIXES
            fixed.add(number)
            module = number % MODULES
            changed = {f"{package}/part{module}.py": module_text(module, fixed)}
            stream.append(commit_text(f"Fix number {number} (#{1000 + number})", changed))
        else:
            subject = f"Write note {index}"
            kind = "csrc/note.cu" if index % 20 == 0 else f"docs/{index % 5}.md"
            stream.append(commit_text(subject, {kind: f"note {index}\n"}))
            others.append(subject)
    assert len(fixed) == FIXES
    environ = {**os.environ, **GIT_ENVIRONMENT}
    git = ["git", "-C", str(root)]
    subprocess.run([*git, "init", "-q", "-b", "main"], env=environ, check=True)
    subprocess.run([*git, "fast-import", "--quiet"], env=environ, check=True, input="".join(stream).encode())
    subprocess.run([*git, "reset", "-q", "--hard", "main"], env=environ, check=True)
    subprocess.run([*git, "tag", "good", f"main~{COMMITS - 1}"], env=environ, check=True)
    return others


def commit_text(subject: str, files: dict[str, str]) -> str:
    """One commit in the language of git fast-import."""
    lines = ["commit refs/heads/main", "committer A <a@example.org> 1767225600 +0000", data(subject)]
    lines += [f"M 100644 inline {path}\n{data(text)}" for path, text in files.items()]
    return "\n".join(lines) + "\n"


def data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def runs_of(log: Path) -> int:
    """How many processes of the program were started."""
    return len(log.read_text().splitlines()) if log.exists() else 0


def answer_of(file: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads(file.read_text())
    return document
