"""What the radix caches have in common: a tree, and the pools whose slots it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

import torch

from kvcore.allocators.base import MapsWindow
from kvcore.errors import ConfigurationError
from kvcore.page_math import align_down
from kvcore.prefix_cache.base import MatchResult, PrefixCache, RadixKey
from kvcore.prefix_cache.eviction_policy import get_eviction_policy
from kvcore.prefix_cache.leaf_order import N
from kvcore.prefix_cache.tree import RadixTree
from kvcore.prefix_cache.tree_check import check_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req


class TreeCache(PrefixCache, Generic[N]):
    """A prefix cache over a ``RadixTree`` of nodes of type ``node_type``.

    ``page_size`` is the granularity of sharing, a multiple of the allocator's page size (and that by
    default). ``is_bigram`` makes the keys of requests bigram keys (EAGLE). Raises ConfigurationError for an
    unknown policy or a page size that does not fit.
    """

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        allocator: TokenToKVPoolAllocator,
        node_type: type[N],
        *,
        page_size: int | None,
        eviction_policy: str,
        is_bigram: bool,
    ) -> None:
        if page_size is None:
            page_size = allocator.page_size
        if page_size < 1 or page_size % allocator.page_size:
            raise ConfigurationError(
                f"a tree shares whole pages of its allocator, found page_size {page_size} over an allocator "
                f"with page_size {allocator.page_size}; use a multiple of the latter"
            )
        self.req_to_token_pool = req_to_token_pool
        self.allocator = allocator
        self.page_size = page_size
        self.is_bigram = is_bigram
        self._node_type = node_type
        self._policy = get_eviction_policy(eviction_policy)
        self.reset()

    def reset(self) -> None:
        """Forget everything, without freeing a slot; locks taken before are void."""
        self.tree = RadixTree(self._node_type, self.page_size, self._policy, self.allocator.device)

    def evictable_size(self) -> int:
        """Slots of the full pool that eviction could give back."""
        return self.tree.evictable

    def protected_size(self) -> int:
        """Slots of the full pool that locked nodes hold."""
        return self.tree.protected

    def request_key(self, req: Req, token_ids: Sequence[int]) -> RadixKey:
        """The key under which ``req`` looks up and keeps ``token_ids``."""
        return RadixKey(token_ids, req.extra_key, self.is_bigram)

    def cached_len(self, key: RadixKey) -> int:
        """Units of ``key`` that a tree of this page size can hold: whole pages."""
        return align_down(len(key), self.page_size)

    def owned_slots(self) -> torch.Tensor:
        """int64, each slot of the full pool that a node holds, tombstones too; one held twice shows twice."""
        return torch.cat([self.tree.root.value, *(node.value for node in self.tree.nodes())])

    def check(self) -> None:
        """Recompute sizes and locks from the nodes; raises InvariantViolation where a counter disagrees."""
        allocator = self.allocator
        pool = allocator.full_attn_allocator if isinstance(allocator, MapsWindow) else allocator
        check_tree(self.tree, allocator.page_size, pool.size + allocator.page_size)

    def pretty_print(self) -> str:
        """One line per node, indented by depth."""
        sizes = f"evictable={self.evictable_size()}, protected={self.protected_size()} (tokens)"
        lines = [f"{type(self).__name__}: page_size={self.page_size}, {sizes}"]
        stack = [(node, 1) for node in self.tree.root.children.values()]
        while stack:
            node, depth = stack.pop()
            lines.append("  " * depth + repr(node))
            stack.extend((child, depth + 1) for child in node.children.values())
        return "\n".join(lines)

    def _match_result(self, path: list[N], length: int) -> MatchResult:
        """What a match that ended after ``path`` returns; a single node's slots are not copied."""
        if not path:
            return MatchResult(self.tree.root.value, self.tree.root, 0)
        slots = path[0].value if len(path) == 1 else torch.cat([node.value for node in path])
        return MatchResult(slots, path[-1], length)

    def _move_lock(self, req: Req, node: N | None) -> None:
        """Lock ``node`` for ``req`` (nothing, for ``None``), then release what it held."""
        held = req.last_lock
        req.last_lock = None if node is None else self.inc_lock_ref(node)
        if held is not None:
            self.dec_lock_ref(held)


def require_slots(value: torch.Tensor, length: int) -> None:
    """AssertionError unless a key comes with a slot for each of the ``length`` tokens that are kept."""
    assert value.shape[0] >= length, (
        f"{length} tokens are inserted with {value.shape[0]} slots; give the slot of every token of the key"
    )
