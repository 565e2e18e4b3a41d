"""``python -m kvcore``."""

from __future__ import annotations

import sys

# What the simulation needs beside the standard library.
_NEEDED = ("click", "numpy", "rich", "torch", "triton")

if __name__ == "__main__":
    try:
        from kvcore.simulate.cli import main
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write(
            f"python -m kvcore needs {error.name}, which {sys.executable} does not have. Install it with "
            "`pip install '.[kvcore]'` in a clone; there `make demo` makes an environment that has it, and "
            "`.venv/bin/python -m kvcore` uses that.\n"
        )
        sys.exit(2)
    main(prog_name="python -m kvcore")
