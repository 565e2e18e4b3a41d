"""What the documentation tells of each benchmark: its words, the goal, and what sglang's own code took.

The figures of sglang 0.5.16 and 0.5.23 are microseconds, medians, of its allocators, pools and caches called
alone, on a machine with 2 cores, with torch 2.13 for the CPU and one thread. Where only one stands, the other
was not noted. The goals were set from them before kvcore was written; they stand in the benchmarks.
"""

from __future__ import annotations

from typing import NamedTuple


class Measured(NamedTuple):
    """A row of the table that is a time."""

    operation: str
    benchmark: str
    """Name of the benchmark, without ``test_``."""
    sglang_us: tuple[float, ...] = ()
    """Of 0.5.16 and 0.5.23, or of one of them; empty where neither was measured."""


class Ratio(NamedTuple):
    """A row that is one benchmark's median over another's."""

    operation: str
    benchmark: str
    base: str
    goal: float
    sglang: str = ""


class Counted(NamedTuple):
    """A row that is a count; tests hold it."""

    operation: str
    sglang: str
    goal: str
    tests: tuple[str, ...]


class Section(NamedTuple):
    title: str
    about: str
    rows: tuple[Measured | Ratio, ...]


ALLOCATORS = Section(
    "Allocators and kernels",
    "`benchmarks/test_allocators.py`, `benchmarks/test_kernels.py`; "
    "page size 64 where there are pages, a pool of 2^20 slots where none is named.",
    (
        Measured("token free(64), pool of 2^14", "token_free_64[14]", (2.4,)),
        Measured("token free(64), pool of 2^20", "token_free_64[20]", (181,)),
        Measured("token free(64), pool of 2^23", "token_free_64[23]", (3022,)),
        Ratio("token free, 2^23 over 2^14", "token_free_64[23]", "token_free_64[14]", 1.2, "1,259"),
        Measured("token alloc(64), pool of 2^14", "token_alloc_64[14]"),
        Measured("token alloc(64), pool of 2^23", "token_alloc_64[23]"),
        Measured("free one request of 4,096 slots", "paged_free_4096_slots", (58, 52)),
        Measured("the same from a full and a window pool", "swa_free_4096_slots[0]", (259,)),
        Measured("the same, half of it out of the window", "swa_free_4096_slots[2048]"),
        Measured("alloc_extend, 64 tokens each, batch 1", "alloc_extend_64_tokens_each[1-60]", (179, 170)),
        Measured("alloc_extend, batch 32", "alloc_extend_64_tokens_each[32-70]", (4308, 251)),
        Measured("alloc_extend, batch 256", "alloc_extend_64_tokens_each[256-150]", (31175, 938)),
        Measured("alloc_decode, batch 1", "alloc_decode[1-17-few]", (48, 17)),
        Measured("alloc_decode, batch 256, few new pages", "alloc_decode[256-25-few]", (56, 47)),
        Measured("alloc_decode, batch 256, all new pages", "alloc_decode[256-25-all]"),
        Measured("write_req_to_token, 256 requests, no prefix", "write_req_to_token_256_requests[0]"),
        Measured("write_req_to_token, 256 requests, prefix of 64", "write_req_to_token_256_requests[64]"),
        Measured("assign_req_to_token, 8 slots each, batch 1", "assign_req_to_token_8_slots_each[1]"),
        Measured("assign_req_to_token, 8 slots each, batch 256", "assign_req_to_token_8_slots_each[256]"),
        Measured("get_last_loc, batch 1", "get_last_loc[1]"),
        Measured("get_last_loc, batch 256", "get_last_loc[256]"),
        Measured("store_kv, 64 tokens", "store_kv[64]"),
    ),
)

CACHES = Section(
    "Prefix caches",
    "`benchmarks/test_prefix_cache.py`; page size 1 where none is named, leaves of 64 tokens.",
    (
        Measured("match 4,096 tokens in one node, key made beforehand", "match_4096_tokens[1]", (17,)),
        Measured("match 4,096 tokens over 64 nodes", "match_4096_tokens[64]", (269,)),
        Measured("one node, making the key from an array", "match_4096_tokens_making_the_key[1-array]"),
        Measured("64 nodes, making the key from an array", "match_4096_tokens_making_the_key[64-array]"),
        Measured("one node, making the key from a list", "match_4096_tokens_making_the_key[1-list]"),
        Measured("64 nodes, making the key from a list", "match_4096_tokens_making_the_key[64-list]"),
        Measured("one node, with a window", "match_4096_tokens_with_a_window[1]"),
        Measured("64 nodes, with a window", "match_4096_tokens_with_a_window[64]"),
        Measured("evict one leaf (64 slots) of 10,000", "evict_one_leaf_of_many[lru-10000]", (5494,)),
        Ratio(
            "the same, of 30,000 over of 100",
            "evict_one_leaf_of_many[lru-30000]",
            "evict_one_leaf_of_many[lru-100]",
            2.0,
        ),
        Measured(
            "after all 10,000 were matched, locked and unlocked",
            "evict_one_leaf_of_many_after_all_were_matched_and_locked",
        ),
        Measured("evict 64 leaves (4,096 slots) of 1,000", "evict_64_leaves_of_1000[1]", (19782,)),
        Measured("the same, page size 64", "evict_64_leaves_of_1000[64]"),
        Measured("the same from a full and a window pool", "evict_64_leaves_of_1000_from_both_pools"),
        Measured("lock and unlock a path of 64 nodes", "lock_and_unlock_64_nodes"),
    ),
)

ENTRY_POINTS = Section(
    "Entry points",
    "`benchmarks/test_entry_points.py`; 256 requests, page size 64, rows of 4,096.",
    (
        Measured("ReqToTokenPool.alloc, 256 rows of 4,096", "row_alloc_256_of_4096", (987,)),
        Measured("write_cache_indices", "write_cache_indices_256", (2870,)),
        Measured("alloc_for_extend, 64 tokens each", "alloc_for_extend_256_of_64_tokens", (24428,)),
        Measured("alloc_for_decode", "alloc_for_decode_256", (186,)),
        Measured("a decode step, first requests", "decode_bookkeeping_forgets_the_finished[0]"),
        Ratio(
            "a decode step after 100,000 finished requests over the first",
            "decode_bookkeeping_forgets_the_finished[100000]",
            "decode_bookkeeping_forgets_the_finished[0]",
            1.1,
        ),
    ),
)

SECTIONS = (ALLOCATORS, CACHES, ENTRY_POINTS)

COUNTS = (
    Counted(
        "device synchronisations: paged free, window free, eviction of L leaves, extend with empty prefixes",
        "1, 3 to 5, L, 1 a request",
        "0 everywhere",
        (
            "tests/kvcore/test_no_sync.py",
            "tests/kvcore/allocators/test_no_device_reads.py",
            "tests/kvcore/prefix_cache/test_no_device_reads.py",
        ),
    ),
    Counted(
        "Triton compilations over batches of 1 to 256",
        "9 buckets, 0.25 s each",
        "1 per page size and dtype",
        ("tests/kvcore/kernels/test_compilation.py::test_one_compilation_serves_all_batches",),
    ),
)
