"""Pools: the rows of requests, the keys and values of slots, the recurrent states."""

from __future__ import annotations
