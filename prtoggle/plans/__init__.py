"""What is to be done to which function or module, and what was done."""

from __future__ import annotations
