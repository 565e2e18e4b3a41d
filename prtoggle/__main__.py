"""`python -m prtoggle`."""

from __future__ import annotations

from prtoggle.cli import main

raise SystemExit(main())
