"""Prefix caches: keep the KV of past requests for later ones."""

from __future__ import annotations

from kvcore.prefix_cache.base import (
    EvictParams,
    EvictResult,
    InsertResult,
    LockRef,
    MatchResult,
    OwnsSlots,
    OwnsStates,
    OwnsWindowSlots,
    PrefixCache,
    RadixKey,
    StateRows,
    SupportsMamba,
    SupportsSWA,
)
from kvcore.prefix_cache.chunk import ChunkCache
from kvcore.prefix_cache.mamba_radix import MambaRadixCache
from kvcore.prefix_cache.pure_swa_radix import PureSWARadixCache
from kvcore.prefix_cache.radix import RadixCache
from kvcore.prefix_cache.swa_chunk import SWAChunkCache
from kvcore.prefix_cache.swa_radix import SWARadixCache
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req

__all__ = [
    "ChunkCache",
    "EvictParams",
    "EvictResult",
    "InsertResult",
    "LockRef",
    "MambaRadixCache",
    "MatchResult",
    "OwnsSlots",
    "OwnsStates",
    "OwnsWindowSlots",
    "PrefixCache",
    "PureSWARadixCache",
    "RadixCache",
    "RadixKey",
    "SWAChunkCache",
    "SWARadixCache",
    "StateRows",
    "SupportsMamba",
    "SupportsSWA",
    "maybe_cache_unfinished_req",
]
