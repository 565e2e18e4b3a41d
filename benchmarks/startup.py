"""Counts the instructions of an interpreter start, with and without the start file.

    python benchmarks/startup.py

With `PRTOGGLE` unset a start may cost at most 1.02 times the instructions of one whose site-packages lack
`prtoggle.pth`. Counted with valgrind's callgrind, so the machine's load does not matter; exit status 1 above the bound.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

BOUND = 1.02
ROOT = Path(__file__).parents[1]


def make_environment(folder: Path, *, start_file: bool) -> Path:
    """Makes a bare virtual environment, with our start files or without; returns its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    if start_file:
        site_packages = next(folder.glob("lib/python*/site-packages"))
        for name in ("prtoggle.pth", "prtoggle.start", "_prtoggle_start.py"):
            shutil.copy(ROOT / name, site_packages)
    return folder / "bin/python"


def instructions(python: Path, folder: Path) -> int:
    """Counts the instructions that `python -c pass` executes; the hash seed is fixed, so counts repeat."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
    }
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}"]
    done = subprocess.run(
        [*command, str(python), "-c", "pass"],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    counted = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    assert counted, done.stderr
    return int(counted.group(1))


def main() -> int:
    if shutil.which("valgrind") is None:
        print("benchmarks/startup.py needs valgrind (Debian: apt install valgrind)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        # The two paths have the same length: the interpreter's path handling counts characters.
        counts = {}
        for name, start_file in (("bare", False), ("ours", True)):
            folder = Path(scratch, name)
            python = make_environment(folder, start_file=start_file)
            counts[name] = instructions(python, folder)
    ratio = counts["ours"] / counts["bare"]
    print(f"without the start file {counts['bare']:>12,} instructions")
    print(f"with it, PRTOGGLE unset {counts['ours']:>11,} instructions, {ratio:.4f} x (bound {BOUND})")
    return int(ratio > BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
