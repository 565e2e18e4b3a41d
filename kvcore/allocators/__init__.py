"""Slot allocators, one file each."""

from __future__ import annotations

from kvcore.allocators.base import Shortfall, TokenToKVPoolAllocator
from kvcore.allocators.paged import PagedAllocator
from kvcore.allocators.token import TokenAllocator

__all__ = ["PagedAllocator", "Shortfall", "TokenAllocator", "TokenToKVPoolAllocator"]
