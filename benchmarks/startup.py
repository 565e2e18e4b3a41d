"""Counts the instructions of an interpreter start, with and without the start file.

    python benchmarks/startup.py

With `PRTOGGLE` unset a start may cost at most 1.02 times the instructions of one in an environment whose
site-packages hold an empty `.pth` file in place of ours; exit status 1 above that. What the first `.pth` file
of an environment costs is Python's own affair and is shown beside it (3.13 imports a codec for it).
Counted with valgrind's callgrind, so that the machine's load does not matter.
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


def make_environment(folder: Path, contents: str) -> Path:
    """Makes an environment that is "bare", has an "empty" .pth file, or "ours"; returns its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    site_packages = next(folder.glob("lib/python*/site-packages"))
    if contents == "empty":
        (site_packages / "prtoggle.pth").write_text("\n")
    if contents == "ours":
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
    counts = {}
    with tempfile.TemporaryDirectory() as scratch:
        for contents, name in (("bare", "a"), ("empty", "b"), ("ours", "c")):
            # Names of one length: the interpreter's path handling counts characters.
            python = make_environment(Path(scratch, name), contents)
            counts[contents] = instructions(python, Path(scratch, name))
    ratio = counts["ours"] / counts["empty"]
    print(f"no .pth file      {counts['bare']:>12,} instructions")
    print(f"an empty one      {counts['empty']:>12,}, {counts['empty'] / counts['bare']:.4f} x no file")
    print(f"ours, PRTOGGLE unset {counts['ours']:>9,}, {counts['ours'] / counts['bare']:.4f} x no file")
    print(f"ours against an empty one: {ratio:.4f} x (bound {BOUND})")
    return int(ratio > BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
