"""A radix tree over pages of token ids: structure, locks and eviction order. It knows no pool, frees nothing.

Sizes are in tokens. Every node but the root is either evictable (no lock on it or below it) or protected; the
eviction order holds exactly the evictable leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

import torch

from kvcore.prefix_cache.key import ID_BYTES, RadixKey, num_shared_ids
from kvcore.prefix_cache.leaf_order import LeafOrder, N

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from kvcore.prefix_cache.eviction_policy import EvictionPolicy


class Walk(NamedTuple, Generic[N]):
    """How far a key runs along the tree.

    0                        length          length + partial_len       len(key), floored to pages
    |---- whole nodes: path ----|---- front of `partial` ----|---- not in the tree ----|
    """

    path: list[N]
    length: int
    partial: N | None
    partial_len: int


class RadixTree(Generic[N]):
    """Nodes of type ``node_type`` under one root, in pages of ``page_size`` units.

    ``evictable`` and ``protected`` are the sums of the lengths of unlocked and locked nodes.
    """

    def __init__(
        self, node_type: type[N], page_size: int, policy: EvictionPolicy, device: torch.device
    ) -> None:
        self.page_size = page_size
        self.leaves: LeafOrder[N] = LeafOrder(policy)
        self.evictable = 0
        self.protected = 0
        self._node_type = node_type
        self._next_id = 0
        self._now = 0
        self.root = self._new_node(None, b"", 0, torch.empty(0, dtype=torch.int64, device=device))
        self.root.lock_ref = 1

    def walk(self, key: RadixKey) -> Walk[N]:
        """Follow ``key`` (floored to pages) from the root; changes nothing."""
        data = key.data
        overlap = key.overlap * ID_BYTES
        page = self.page_size * ID_BYTES + overlap
        end = len(key) // self.page_size * self.page_size * ID_BYTES
        path: list[N] = []
        children = self.root.children
        child_key = self._key_below_root(key, data[:page])
        at = 0
        while at < end:
            child = children.get(child_key)
            if child is None:
                break
            stop = at + child.length * ID_BYTES
            if stop > end or data[at : stop + overlap] != child.data:
                shared = num_shared_ids(data[at : min(stop, end) + overlap], child.data) - key.overlap
                return Walk(path, at // ID_BYTES, child, shared // self.page_size * self.page_size)
            path.append(child)
            children = child.children
            at = stop
            child_key = data[at : at + page]
        return Walk(path, at // ID_BYTES, None, 0)

    def reach(self, key: RadixKey) -> tuple[list[N], int]:
        """Nodes that cover the longest prefix of ``key`` in the tree, and its length; may split the last."""
        path, length, partial, partial_len = self.walk(key)
        if partial is not None:
            path.append(self.split(partial, partial_len))
            length += partial_len
        return path, length

    def split(self, node: N, length: int) -> N:
        """Cut ``node`` after ``length`` units (whole pages); returns the new upper part."""
        parent = node.parent
        assert parent is not None, f"{node} is not in the tree"
        cut = length * ID_BYTES
        front = node.data[: cut + node.overlap * ID_BYTES]
        upper = self._new_node(node.own_key, front, length, node.value[:length].clone())
        upper.inherit(node)
        upper.parent = parent
        parent.children[upper.own_key] = upper
        node.own_key = node.data[cut : cut + (self.page_size + node.overlap) * ID_BYTES]
        node.data = node.data[cut:]
        node.value = node.value[length:].clone()
        node.length -= length
        node.parent = upper
        # The lower part begins with another page now, and is known by that one.
        upper.children[node.own_key] = node
        return upper

    def add_leaf(self, parent: N, key: RadixKey, start: int, end: int, value: torch.Tensor) -> N:
        """Hang units ``[start, end)`` of ``key`` under ``parent``; the tree takes over ``value`` (int64)."""
        data = key.data[start * ID_BYTES : (end + key.overlap) * ID_BYTES]
        own_key: Hashable = data[: (self.page_size + key.overlap) * ID_BYTES]
        if parent is self.root:
            own_key = self._key_below_root(key, own_key)
        leaf = self._new_node(own_key, data, end - start, value)
        self._now += 1
        leaf.creation = leaf.last_access = self._now
        leaf.parent = parent
        if parent.order_entry is not None:
            self.leaves.remove(parent)
        parent.children[own_key] = leaf
        self.evictable += leaf.length
        self.leaves.add(leaf)
        return leaf

    def remove_leaf(self, leaf: N) -> None:
        """Take an unlocked leaf out; its parent enters the eviction order if that makes it one."""
        parent = leaf.parent
        assert parent is not None, f"{leaf} is not in the tree"
        assert not leaf.children, f"{leaf} is no leaf"
        assert leaf.lock_ref == 0, f"{leaf} is locked"
        del parent.children[leaf.own_key]
        leaf.parent = None
        if leaf.order_entry is not None:
            self.leaves.remove(leaf)
        self.evictable -= leaf.length
        if not parent.children and parent.lock_ref == 0:
            self.leaves.add(parent)

    def prune(self, leaf: N) -> list[N]:
        """Take an unlocked leaf out, and ancestors that it leaves behind as hollow leaves; returns all."""
        parent = leaf.parent
        self.remove_leaf(leaf)
        removed = [leaf]
        assert parent is not None, f"{leaf} has no parent: it is the root, or not in the tree any more"
        removed += self.prune_hollow(parent)
        return removed

    def prune_hollow(self, node: N) -> list[N]:
        """Take out ``node``, then its ancestors, while they are hollow unlocked leaves; returns what went."""
        removed: list[N] = []
        while node is not self.root and not node.children and node.lock_ref == 0 and node.is_hollow():
            parent = node.parent
            self.remove_leaf(node)
            removed.append(node)
            assert parent is not None, f"{node} has no parent: it is not in the tree any more"
            node = parent
        return removed

    def prune_first(self) -> list[N]:
        """``prune`` the leaf that the policy evicts first; empty when every leaf is locked."""
        leaf = self.leaves.first()
        return [] if leaf is None else self.prune(leaf)

    def touch(self, path: list[N]) -> None:
        """Note that the nodes of ``path`` were used now, and give the last one the place it has earned."""
        self._now += 1
        now = self._now
        for node in path:
            node.last_access = now
        # Only the last node of a path can be a leaf.
        if path and path[-1].order_entry is not None:
            self.leaves.reorder(path[-1])

    def lock_path(self, node: N) -> None:
        """Add one lock to ``node`` and its ancestors, the root excluded."""
        assert node is self.root or node.parent is not None, f"{node} is not in the tree any more"
        current = node
        while current is not self.root:
            if current.lock_ref == 0:
                self.evictable -= current.length
                self.protected += current.length
                if current.order_entry is not None:
                    self.leaves.remove(current)
            current.lock_ref += 1
            assert current.parent is not None, (
                f"{current} above {node} was evicted: nothing is above it, where the root is expected"
            )
            current = current.parent

    def unlock_path(self, node: N) -> None:
        """Take one lock off ``node`` and its ancestors; AssertionError, and no change, if it has none."""
        assert node is self.root or node.lock_ref > 0, f"{node} is not locked"
        current = node
        while current is not self.root:
            current.lock_ref -= 1
            if current.lock_ref == 0:
                self.evictable += current.length
                self.protected -= current.length
                if not current.children:
                    self.leaves.add(current)
            assert current.parent is not None, (
                f"{current} above {node} was evicted under its lock: nothing is above it, where the root is "
                "expected"
            )
            current = current.parent

    def nodes(self) -> Iterator[N]:
        """All nodes but the root, parents before their children."""
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def _new_node(self, own_key: Hashable, data: bytes, length: int, value: torch.Tensor) -> N:
        node = self._node_type(self._next_id, own_key, data, length, value)
        self._next_id += 1
        return node

    def _key_below_root(self, key: RadixKey, page: Hashable) -> Hashable:
        # A namespace is told apart at the first page; everything below inherits it.
        return (key.extra_key, key.is_bigram, page)
