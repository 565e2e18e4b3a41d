"""Guard of 33996: a request that skips the cache keeps what its chunks computed."""

from __future__ import annotations

import pytest

from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack, extend_by, record


@pytest.mark.parametrize("cache", ["chunk", "radix"])
@pytest.mark.parametrize("page_size", [1, 4])
def test_the_second_chunk_goes_on_where_the_first_ended(cache: str, page_size: int) -> None:
    stack = SmallStack(
        server_args=ServerArgs(context_len=64, page_size=page_size), num_slots=128, cache=cache
    )
    tokens = list(range(20))
    req = extend_by(stack, "r", tokens, 8)
    req.skip_radix_cache_insert = True
    first = stack.row(req).tolist()
    maybe_cache_unfinished_req(req, stack.tree, chunked=True)
    extend_by(stack, "r", tokens, 12, req=req)
    assert stack.row(req).tolist()[:8] == first, "the first chunk is computed again, elsewhere"
    assert record(req).kv_allocated_len == 20
    stack.release(req, is_insert=False)
    assert stack.lost_slots() == 0
