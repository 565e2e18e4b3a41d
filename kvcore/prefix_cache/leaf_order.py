"""The unlocked leaves of a tree in the order of eviction.

A sorted list in buckets rather than a heap: a leaf leaves and changes its place at once, so there are no
stale entries to skip, compact or pay for later. Every operation costs a binary search and a move within one
bucket.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kvcore.prefix_cache.node import TreeNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvcore.prefix_cache.eviction_policy import EvictionPolicy

N = TypeVar("N", bound=TreeNode)

BUCKET_SIZE = 512
"""Entries after which a bucket is split in two."""


class LeafOrder(Generic[N]):
    """Leaves sorted by ``(policy key, node id)``. A leaf's key may change only through ``reorder``."""

    __slots__ = ("_buckets", "_lasts", "_policy", "_size")

    def __init__(self, policy: EvictionPolicy) -> None:
        self._policy = policy
        self._buckets: list[list[tuple[Any, int, N]]] = []
        self._lasts: list[tuple[Any, int, N]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[N]:
        """Leaves, first to be evicted first."""
        for bucket in self._buckets:
            for entry in bucket:
                yield entry[2]

    def add(self, node: N) -> None:
        """Put a leaf that is not here yet in its place."""
        entry = (self._policy(node), node.id, node)
        node.order_entry = entry
        self._size += 1
        if not self._buckets:
            self._buckets.append([entry])
            self._lasts.append(entry)
            return
        # Node ids are unique, so that comparing entries never comes to the nodes.
        if entry > self._lasts[-1]:
            at = len(self._buckets) - 1
            self._buckets[at].append(entry)
            self._lasts[at] = entry
        else:
            at = bisect_left(self._lasts, entry)
            insort(self._buckets[at], entry)
        if len(self._buckets[at]) > BUCKET_SIZE:
            self._split(at)

    def remove(self, node: N) -> None:
        """Take a leaf out."""
        entry = node.order_entry
        assert entry is not None, f"{node} has no place in the eviction order"
        node.order_entry = None
        at = bisect_left(self._lasts, entry)
        bucket = self._buckets[at]
        self._delete(at, bisect_left(bucket, entry))

    def reorder(self, node: N) -> None:
        """Move a leaf whose access time, hits or priority changed."""
        self.remove(node)
        self.add(node)

    def first(self) -> N | None:
        """The leaf that goes first; ``None`` when there is none."""
        return self._buckets[0][0][2] if self._buckets else None

    def policy_key(self, node: N) -> Any:
        """The key by which ``node`` is, or would be, sorted."""
        return self._policy(node)

    def _delete(self, at: int, index: int) -> None:
        bucket = self._buckets[at]
        del bucket[index]
        self._size -= 1
        if not bucket:
            del self._buckets[at]
            del self._lasts[at]
        elif index == len(bucket):
            self._lasts[at] = bucket[-1]

    def _split(self, at: int) -> None:
        bucket = self._buckets[at]
        half = len(bucket) // 2
        self._buckets[at : at + 1] = [bucket[:half], bucket[half:]]
        self._lasts[at : at + 1] = [bucket[half - 1], bucket[-1]]
