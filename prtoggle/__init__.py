"""Take one historical fix out of a live Python process, and put it back."""

from __future__ import annotations

__version__ = "0.1.0"
