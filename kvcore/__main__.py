"""``python -m kvcore``."""

from __future__ import annotations

from kvcore.simulate.cli import main

if __name__ == "__main__":
    main(prog_name="python -m kvcore")
