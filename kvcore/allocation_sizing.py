"""How many tokens a decode step may take, and how wide a request's row must be. Host integers only.

Symbols: S draft steps, K branches (topk), D tokens verified per step, P slots per page of the allocator,
R the reserve of one request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvcore.page_math import align_up, ceil_div
from kvcore.server_args import get_server_args

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvcore.server_args import ServerArgs


class KvLens(Protocol):
    """The two lengths that the watermark of a request follows from, in tokens."""

    @property
    def kv_committed_len(self) -> int:
        """Tokens whose KV is valid."""
        ...

    @property
    def kv_allocated_len(self) -> int:
        """Tokens whose slots stand in the row."""
        ...


class DecodeAllocLens(NamedTuple):
    """How far the rows of a batch reach before and after a speculative step's allocation, in tokens."""

    cur: list[int]
    nxt: list[int]
    num_needed: int
    """Slots to take: ``sum(nxt - cur)``."""


def get_alloc_len_per_decode(server_args: ServerArgs | None = None) -> int:
    """Most tokens that one request may take in one decode step; ``None`` asks the process-wide settings.

    A branch of a draft tree may start at the last slot of a shared page, and every branch gets whole pages of
    its own: ``ceil((P - 1 + S) / P)`` pages a branch (sgl-project/sglang#26972, #27458).
    """
    if server_args is None:
        server_args = get_server_args()
    algorithm = server_args.speculative_algorithm
    if algorithm is None:
        return 1

    num_steps, topk = server_args.num_steps, server_args.topk
    num_draft_tokens = server_args.max_speculative_num_draft_tokens or 0
    page_size = server_args.alloc_page_size
    if page_size == 1 or topk == 1 or not algorithm.has_draft_kv():
        return max(num_steps * topk, num_draft_tokens)
    pages_per_branch = ceil_div(page_size - 1 + num_steps, page_size)
    return max(pages_per_branch * page_size * topk, num_draft_tokens)


def get_alloc_reserve_per_decode(server_args: ServerArgs | None = None) -> int:
    """Tokens kept allocated beyond the committed length of a request: two steps' worth.

    Under overlap the committed length lags behind by about one verification, so a single step would not do.
    """
    return 2 * get_alloc_len_per_decode(server_args)


def get_req_to_token_extra_context_len(server_args: ServerArgs) -> int:
    """Columns of a request's row beyond the context length, so that no reserve runs into the neighbour's row.

    ``max(4 + D, R + P - 1)`` with speculation: a request near the context limit holds R tokens beyond it, and
    its watermark is rounded up to a page (sgl-project/sglang#26972, #31616, #33581). At P == 1 nothing is
    rounded.
    """
    base = 4 + (server_args.max_speculative_num_draft_tokens or 0)
    if server_args.speculative_algorithm is None:
        return base

    page_size = server_args.alloc_page_size
    reserve = get_alloc_reserve_per_decode(server_args)
    if page_size == 1:
        return max(base, reserve)
    return max(base, reserve + page_size - 1)


def page_aligned_decode_alloc_lens(reqs: Iterable[KvLens], reserve: int, page_size: int) -> DecodeAllocLens:
    """Where the row of each request must reach before a speculative step: whole pages, and never back.

        0        committed      allocated        nxt = align_up(committed + reserve)
        |---- valid ----|-- reserved --|-- to take --|

    A request keeps what it has when adaptive speculation shrinks the reserve.
    """
    cur: list[int] = []
    nxt: list[int] = []
    for req in reqs:
        allocated = req.kv_allocated_len
        watermark = align_up(req.kv_committed_len + reserve, page_size)
        cur.append(allocated)
        nxt.append(max(allocated, watermark))
    return DecodeAllocLens(cur, nxt, sum(nxt) - sum(cur))


def spec_decode_alloc_len_per_request(server_args: ServerArgs) -> int:
    """Most tokens of one request and step without overlap, where every branch copies the shared last page.

    Used by the window pool's cap when results are known before the next step is prepared.
    """
    page_size = server_args.alloc_page_size
    branch_len = server_args.num_steps
    num_draft_tokens = server_args.max_speculative_num_draft_tokens or 0
    if page_size > 1:
        shared_page = page_size if server_args.topk > 1 else 0
        branch_len = align_up(branch_len + shared_page, page_size)
        num_draft_tokens = align_up(num_draft_tokens, page_size)
    return max(branch_len * server_args.topk, num_draft_tokens)
