"""Slot allocators, one file each."""

from __future__ import annotations

from kvcore.allocators.base import Shortfall, TokenToKVPoolAllocator
from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.allocators.dsv4_values import DSV4OutCacheLoc, DSV4PoolSizes
from kvcore.allocators.mamba import MambaSlotAllocator
from kvcore.allocators.paged import PagedAllocator
from kvcore.allocators.pure_swa import PureSWAAllocator
from kvcore.allocators.swa import SWAAllocator
from kvcore.allocators.token import TokenAllocator

__all__ = [
    "DSV4Allocator",
    "DSV4OutCacheLoc",
    "DSV4PoolSizes",
    "MambaSlotAllocator",
    "PagedAllocator",
    "PureSWAAllocator",
    "SWAAllocator",
    "Shortfall",
    "TokenAllocator",
    "TokenToKVPoolAllocator",
]
