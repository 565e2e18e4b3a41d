"""Limits on requests that follow from the sizes of the pools."""

from __future__ import annotations

from kvcore.errors import NotEnoughMemory
from kvcore.page_math import align_up

_TOKENS_PER_CONTEXT = 512
_MOST_ESTIMATED = 4096
_LEAST_ESTIMATED = 2048


def max_running_requests(
    num_tokens: int,
    context_len: int,
    *,
    user_limit: int | None = None,
    dp_size: int = 1,
    num_states: int | None = None,
    states_per_request: int = 1,
) -> int:
    """Requests that may run at a time on one rank; the user's limit, or an estimate from the pool's size.

    Never more than one for every two tokens, nor, with recurrent layers, than the states serve. Raises
    NotEnoughMemory when that is none.
    """
    limit = int(num_tokens / context_len * _TOKENS_PER_CONTEXT)
    limit = min(max(limit, _LEAST_ESTIMATED), _MOST_ESTIMATED)
    if user_limit is not None:
        limit = user_limit // dp_size
    limit = min(limit, num_tokens // 2)
    if num_states is not None:
        limit = min(limit, num_states // states_per_request)
    if limit <= 0:
        raise NotEnoughMemory(
            f"no request can run: {num_tokens} tokens, user limit {user_limit} over {dp_size} ranks, states "
            f"{num_states} at {states_per_request} a request; enlarge the pools or the limit"
        )
    return limit


def max_req_len(num_tokens: int, context_len: int) -> int:
    """Longest sequence that a request may reach: one token stays free in the context, and in the pool."""
    return min(context_len - 1, num_tokens - 1)


def clip_max_new_tokens(
    asked: int, input_len: int, *, num_tokens: int, context_len: int, page_size: int
) -> int:
    """Output tokens that a request may have: it must fit the context, and the pool when it runs alone."""
    in_context = max_req_len(num_tokens, context_len) - input_len - 1
    in_pool = num_tokens - align_up(input_len, page_size) - page_size - 1
    return min(asked, in_context, in_pool)
