"""Replays request traces through the allocation stack, without a model."""

from __future__ import annotations
