"""How an edit gets into a running process: at load, in place, as a value, as a wrapper, into a Triton kernel."""

from __future__ import annotations
