"""Which leaf goes first: each policy is the key by which leaves are sorted; the smallest is evicted first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvcore.errors import ConfigurationError

if TYPE_CHECKING:
    from kvcore.prefix_cache.node import TreeNode

EvictionPolicy = Callable[["TreeNode"], Any]
"""Sort key of a leaf; keys of one policy compare with each other."""

SLRU_PROTECTED_HITS = 2
"""Insertions that move a prefix into the protected segment of SLRU."""


def lru(node: TreeNode) -> int:
    """Least recently used first."""
    return node.last_access


def lfu(node: TreeNode) -> tuple[int, int]:
    """Fewest hits first, then least recently used."""
    return (node.hit_count, node.last_access)


def fifo(node: TreeNode) -> int:
    """Oldest first."""
    return node.creation


def mru(node: TreeNode) -> int:
    """Most recently used first."""
    return -node.last_access


def filo(node: TreeNode) -> int:
    """Youngest first."""
    return -node.creation


def priority(node: TreeNode) -> tuple[int, int]:
    """Lowest priority first, then least recently used."""
    return (node.priority, node.last_access)


def slru(node: TreeNode) -> tuple[bool, int]:
    """Prefixes hit once before those hit again; least recently used first in either segment."""
    return (node.hit_count >= SLRU_PROTECTED_HITS, node.last_access)


POLICIES: dict[str, EvictionPolicy] = {
    "lru": lru,
    "lfu": lfu,
    "fifo": fifo,
    "mru": mru,
    "filo": filo,
    "priority": priority,
    "slru": slru,
}


def get_eviction_policy(name: str) -> EvictionPolicy:
    """The policy called ``name``. Raises ConfigurationError (a ValueError) for an unknown one."""
    policy = POLICIES.get(name)
    if policy is None:
        raise ConfigurationError(
            f"unknown eviction policy {name!r}; choose one of {', '.join(sorted(POLICIES))}"
        )
    return policy
