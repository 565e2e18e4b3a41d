"""The prefix caches, with a count of what they evict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvcore.prefix_cache import ChunkCache, MambaRadixCache, PrefixCache, RadixCache, SWARadixCache

if TYPE_CHECKING:
    from kvcore.prefix_cache import EvictParams, EvictResult


@dataclass(slots=True)
class EvictionCounter:
    """What a cache has given back on demand, in slots (states for the last)."""

    num_tokens: int = 0
    num_window_tokens: int = 0
    num_states: int = 0

    def add(self, evicted: EvictResult) -> None:
        """Count one call."""
        self.num_tokens += evicted.num_tokens_evicted
        self.num_window_tokens += evicted.swa_num_tokens_evicted
        self.num_states += evicted.mamba_num_evicted


class CountedCache(PrefixCache):
    """Mix-in in front of a cache."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.evictions = EvictionCounter()
        super().__init__(*args, **kwargs)

    def evict(self, params: EvictParams) -> EvictResult:
        """As the cache does; counts the result."""
        evicted = super().evict(params)  # type: ignore[safe-super]  # a cache stands behind the mix-in
        self.evictions.add(evicted)
        return evicted


class CountedChunkCache(CountedCache, ChunkCache):
    """Never evicts."""


class CountedRadixCache(CountedCache, RadixCache):
    """Radix, counted."""


class CountedSWARadixCache(CountedCache, SWARadixCache):
    """Radix with a window, counted."""


class CountedMambaRadixCache(CountedCache, MambaRadixCache):
    """Radix with recurrent states, counted."""
