"""Slot planning for speculative decoding: how far each request's row must reach before a step."""

from __future__ import annotations
