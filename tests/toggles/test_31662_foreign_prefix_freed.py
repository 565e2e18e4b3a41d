"""Guard of 31662: a cache that keeps nothing does not free a prefix that belongs to somebody else."""

from __future__ import annotations

import pytest
import torch

from kvcore.prefix_cache.chunk import ChunkCache
from kvcore.prefix_cache.radix import RadixCache
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack, extend_by, record


@pytest.mark.parametrize("disabled_radix", [False, True])
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_received_prefix_outlives_the_request(page_size: int, disabled_radix: bool) -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=page_size), num_slots=64)
    if disabled_radix:
        stack.tree = RadixCache(stack.pool, stack.allocator, disable=True)
    else:
        stack.tree = ChunkCache(stack.pool, stack.allocator)
    received = stack.allocator.alloc(8)
    assert isinstance(received, torch.Tensor)
    req = extend_by(stack, "r", list(range(8)), 8)
    stack.allocator.free_segment(stack.row(req))
    stack.pool.req_to_token[record(req).req_pool_idx, :8] = received
    record(req).cache_protected_len = 8
    stack.release(req)
    free = set(stack.allocator.free_page_ids().tolist())
    assert not free & set((received // page_size).tolist()), "the received prefix is free"
    assert stack.allocator.available_size() == 56
