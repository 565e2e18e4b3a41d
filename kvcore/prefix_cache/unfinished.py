"""Between the chunks of a prompt: hand what is computed to the cache, or at least remember it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.prefix_cache.rows import advance_prefix, row_of

if TYPE_CHECKING:
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req


def maybe_cache_unfinished_req(req: Req, cache: PrefixCache, *, chunked: bool = False) -> None:
    """Cache what ``req`` has computed, unless it opted out; either way its prefix covers ``fill_ids`` then.

    ``chunked`` says that more chunks follow, so that the tree does not count a hit for every one of them.
    """
    if req.skip_radix_cache_insert:
        # Without this the next chunk starts from the old prefix and the slots of this one are lost (#33996).
        advance_prefix(req, row_of(req, cache.req_to_token_pool))
        return
    cache.cache_unfinished_req(req, chunked=chunked)
