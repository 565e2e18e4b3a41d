"""The oracle that computes: a decoder that reads through rows and pools, and its dense reference."""

from __future__ import annotations
