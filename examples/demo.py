"""The main job, end to end: the same command with a fix in place and with it taken out. Run by `make demo`.

Exits 0 only when the three commands end as they must: the clean run without a violation, the run without the
fix of pull request 26972 with the row overflow that the fix is for, and the listing with the toggle in it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TOGGLE = "26972"
# The bundled trace with the default options: pages of 16 tokens, and EAGLE with four branches, which is what
# the fix of 26972 is about.
SIMULATE = "kvcore simulate"


class Step(NamedTuple):
    """One command, how it must end, and what its output must contain."""

    says: str
    module: str
    toggle: str
    status: int
    contains: tuple[str, ...]


STEPS = (
    Step("1. The stack as it is: the bundled trace runs clean.", SIMULATE, "", 0, ()),
    Step(
        f"2. The same command with one fix taken out ({TOGGLE}): it must end with the row overflow.",
        SIMULATE,
        TOGGLE,
        1,
        ("row", TOGGLE),
    ),
    Step("3. The catalogue.", "prtoggle list", "", 0, (TOGGLE,)),
)


def run(step: Step) -> str:
    """Runs one step with its output shown; returns what was wrong with it, or an empty string."""
    shown = f"python -m {step.module}"
    print(f"\n{step.says}\n$ {f'PRTOGGLE={step.toggle} ' if step.toggle else ''}{shown}", flush=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PRTOGGLE")}
    if step.toggle:
        environ["PRTOGGLE"] = step.toggle
    command = [sys.executable, "-m", *shlex.split(step.module)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout, end="")
    print(f"(exit status {done.returncode})", flush=True)
    if done.returncode != step.status:
        return f"`{shown}` ended with {done.returncode}, not {step.status}"
    missing = [text for text in step.contains if text not in done.stdout]
    return f"the output of `{shown}` does not contain {missing}" if missing else ""


def main() -> int:
    """Runs all steps, also after one that went wrong; returns 0 when none did."""
    wrong = [problem for step in STEPS if (problem := run(step))]
    for problem in wrong:
        print(f"demo: {problem}", file=sys.stderr)
    if not wrong:
        print("\nAll three ended as they must.")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
