"""`python -m prtoggle`."""

from __future__ import annotations

import sys

# What the command line needs beside the standard library.
_NEEDED = ("click", "rich", "wrapt", "yaml")

try:
    from prtoggle.cli import main

    status = main()
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in _NEEDED:
        raise
    sys.stderr.write(
        f"prtoggle: {error.name} is needed, and {sys.executable} does not have it. Install prtoggle for that "
        "interpreter, or call the one that has it: in a clone, after `make demo`, `.venv/bin/python -m "
        "prtoggle`.\n"
    )
    status = 2
raise SystemExit(status)
