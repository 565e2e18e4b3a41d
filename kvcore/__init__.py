"""The KV-cache allocation stack of an LLM serving engine: sizing, slots, pages, rows and prefix caches.

Names are loaded when they are first used: a process that needs the arithmetic alone does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvcore.admission import cancel_admission, match_for_admission, set_extend_range
    from kvcore.allocation import (
        alloc_for_decode,
        alloc_for_extend,
        alloc_for_spec_decode,
        alloc_paged_token_slots_decode,
        alloc_paged_token_slots_extend,
        alloc_req_slots,
        alloc_token_slots,
        evict_from_tree_cache,
        get_last_loc,
        write_cache_indices,
    )
    from kvcore.allocation_sizing import (
        get_alloc_len_per_decode,
        get_alloc_reserve_per_decode,
        get_req_to_token_extra_context_len,
        page_aligned_decode_alloc_lens,
    )
    from kvcore.allocators import (
        DSV4Allocator,
        MambaSlotAllocator,
        PagedAllocator,
        PureSWAAllocator,
        SWAAllocator,
        TokenAllocator,
    )
    from kvcore.disaggregation.decode import alloc_for_decode_prealloc
    from kvcore.disaggregation.pages import kv_to_page_indices
    from kvcore.errors import (
        ConfigurationError,
        FreeGroupError,
        InvariantViolation,
        KVCacheError,
        KvReuseError,
        NotEnoughMemory,
        OutOfSlots,
        PageAlignmentError,
        RowOverflow,
        SlotOutOfRange,
    )
    from kvcore.invariants import InvariantChecker
    from kvcore.pool_snapshot import snapshot
    from kvcore.pools.draft import make_draft_pool
    from kvcore.pools.hybrid import HybridReqToTokenPool
    from kvcore.pools.mamba import MambaStatePool, MambaStateShape
    from kvcore.pools.mha import MHATokenToKVPool, PagedMHATokenToKVPool
    from kvcore.pools.mla import MLATokenToKVPool
    from kvcore.pools.req_to_token import DecodeReqToTokenPool, ReqToTokenPool
    from kvcore.pools.swa_kv import SWAKVPool
    from kvcore.pools.track_buffer import TrackPolicy
    from kvcore.prefix_cache import (
        ChunkCache,
        EvictParams,
        MambaRadixCache,
        PureSWARadixCache,
        RadixCache,
        RadixKey,
        SWAChunkCache,
        SWARadixCache,
        maybe_cache_unfinished_req,
    )
    from kvcore.release import (
        free_swa_out_of_window_slots,
        free_swa_out_of_window_slots_of_batch,
        release_kv_cache,
    )
    from kvcore.req import Req, ReqKvInfo
    from kvcore.schedule_batch import ScheduleBatch
    from kvcore.server_args import ServerArgs, SpeculativeAlgorithm, get_server_args, set_server_args

__all__ = [
    "ChunkCache",
    "ConfigurationError",
    "DSV4Allocator",
    "DecodeReqToTokenPool",
    "EvictParams",
    "FreeGroupError",
    "HybridReqToTokenPool",
    "InvariantChecker",
    "InvariantViolation",
    "KVCacheError",
    "KvReuseError",
    "MHATokenToKVPool",
    "MLATokenToKVPool",
    "MambaRadixCache",
    "MambaSlotAllocator",
    "MambaStatePool",
    "MambaStateShape",
    "NotEnoughMemory",
    "OutOfSlots",
    "PageAlignmentError",
    "PagedAllocator",
    "PagedMHATokenToKVPool",
    "PureSWAAllocator",
    "PureSWARadixCache",
    "RadixCache",
    "RadixKey",
    "Req",
    "ReqKvInfo",
    "ReqToTokenPool",
    "RowOverflow",
    "SWAAllocator",
    "SWAChunkCache",
    "SWAKVPool",
    "SWARadixCache",
    "ScheduleBatch",
    "ServerArgs",
    "SlotOutOfRange",
    "SpeculativeAlgorithm",
    "TokenAllocator",
    "TrackPolicy",
    "alloc_for_decode",
    "alloc_for_decode_prealloc",
    "alloc_for_extend",
    "alloc_for_spec_decode",
    "alloc_paged_token_slots_decode",
    "alloc_paged_token_slots_extend",
    "alloc_req_slots",
    "alloc_token_slots",
    "cancel_admission",
    "evict_from_tree_cache",
    "free_swa_out_of_window_slots",
    "free_swa_out_of_window_slots_of_batch",
    "get_alloc_len_per_decode",
    "get_alloc_reserve_per_decode",
    "get_last_loc",
    "get_req_to_token_extra_context_len",
    "get_server_args",
    "kv_to_page_indices",
    "make_draft_pool",
    "match_for_admission",
    "maybe_cache_unfinished_req",
    "page_aligned_decode_alloc_lens",
    "release_kv_cache",
    "set_extend_range",
    "set_server_args",
    "snapshot",
    "write_cache_indices",
]

_HOMES = {
    "kvcore.admission": (
        "cancel_admission",
        "match_for_admission",
        "set_extend_range",
    ),
    "kvcore.allocation": (
        "alloc_for_decode",
        "alloc_for_extend",
        "alloc_for_spec_decode",
        "alloc_paged_token_slots_decode",
        "alloc_paged_token_slots_extend",
        "alloc_req_slots",
        "alloc_token_slots",
        "evict_from_tree_cache",
        "get_last_loc",
        "write_cache_indices",
    ),
    "kvcore.allocation_sizing": (
        "get_alloc_len_per_decode",
        "get_alloc_reserve_per_decode",
        "get_req_to_token_extra_context_len",
        "page_aligned_decode_alloc_lens",
    ),
    "kvcore.allocators": (
        "DSV4Allocator",
        "MambaSlotAllocator",
        "PagedAllocator",
        "PureSWAAllocator",
        "SWAAllocator",
        "TokenAllocator",
    ),
    "kvcore.disaggregation.decode": ("alloc_for_decode_prealloc",),
    "kvcore.disaggregation.pages": ("kv_to_page_indices",),
    "kvcore.errors": (
        "ConfigurationError",
        "FreeGroupError",
        "InvariantViolation",
        "KVCacheError",
        "KvReuseError",
        "NotEnoughMemory",
        "OutOfSlots",
        "PageAlignmentError",
        "RowOverflow",
        "SlotOutOfRange",
    ),
    "kvcore.invariants": ("InvariantChecker",),
    "kvcore.pool_snapshot": ("snapshot",),
    "kvcore.pools.draft": ("make_draft_pool",),
    "kvcore.pools.hybrid": ("HybridReqToTokenPool",),
    "kvcore.pools.mamba": (
        "MambaStatePool",
        "MambaStateShape",
    ),
    "kvcore.pools.mha": (
        "MHATokenToKVPool",
        "PagedMHATokenToKVPool",
    ),
    "kvcore.pools.mla": ("MLATokenToKVPool",),
    "kvcore.pools.req_to_token": (
        "DecodeReqToTokenPool",
        "ReqToTokenPool",
    ),
    "kvcore.pools.swa_kv": ("SWAKVPool",),
    "kvcore.pools.track_buffer": ("TrackPolicy",),
    "kvcore.prefix_cache": (
        "ChunkCache",
        "EvictParams",
        "MambaRadixCache",
        "PureSWARadixCache",
        "RadixCache",
        "RadixKey",
        "SWAChunkCache",
        "SWARadixCache",
        "maybe_cache_unfinished_req",
    ),
    "kvcore.release": (
        "free_swa_out_of_window_slots",
        "free_swa_out_of_window_slots_of_batch",
        "release_kv_cache",
    ),
    "kvcore.req": (
        "Req",
        "ReqKvInfo",
    ),
    "kvcore.schedule_batch": ("ScheduleBatch",),
    "kvcore.server_args": (
        "ServerArgs",
        "SpeculativeAlgorithm",
        "get_server_args",
        "set_server_args",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
