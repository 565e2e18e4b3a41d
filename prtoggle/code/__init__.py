"""Code objects: how edited text becomes one that fits into a running function."""

from __future__ import annotations
