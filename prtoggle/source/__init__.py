"""What a module's text is, where an edit goes in it, and why it does not: text only."""

from __future__ import annotations
