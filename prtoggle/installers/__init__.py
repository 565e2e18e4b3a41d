"""How an edit gets into a running process: at load, in place, as a value or wrapper, into a kernel."""

from __future__ import annotations
