"""A radix tree whose nodes also hold slots of a window pool, until they become tombstones.

The full side of a node is counted and locked as in any tree. Beside it stands the window side:

    live, no window lock    window_evictable, in the order of use
    live, window locked     window_protected
    tombstone               window slots given back, the full slots stay

An unlocked leaf is live: a tombstone that nothing hangs under can serve no request, and is removed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.prefix_cache.eviction_policy import lru
from kvcore.prefix_cache.node import TreeNode
from kvcore.prefix_cache.recency import RecencyOrder
from kvcore.prefix_cache.tree import RadixTree

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Self

    import torch

    from kvcore.prefix_cache.key import RadixKey


class SWANode(TreeNode):
    """A node with a window side; ``lock_ref >= swa_lock_ref``, and a tombstone has no window lock."""

    __slots__ = ("swa_lock_ref", "swa_tombstone", "swa_uuid")

    def __init__(
        self, node_id: int, own_key: Hashable, data: bytes, length: int, value: torch.Tensor
    ) -> None:
        super().__init__(node_id, own_key, data, length, value)
        self.swa_tombstone = False
        self.swa_lock_ref = 0
        self.swa_uuid: int | None = None
        """Names the node as the upper end of window locks."""

    def inherit(self, lower: Self) -> None:
        """Take over the window side too. Window locks that ended at ``lower`` now end at this upper part."""
        super().inherit(lower)
        self.swa_tombstone = lower.swa_tombstone
        self.swa_lock_ref = lower.swa_lock_ref
        self.swa_uuid = lower.swa_uuid
        lower.swa_uuid = None

    def is_hollow(self) -> bool:
        """A tombstone is of no use as a leaf."""
        return self.swa_tombstone


class SWATree(RadixTree[SWANode]):
    """A radix tree for a sliding window of ``window`` tokens; sizes in tokens."""

    def __init__(self, page_size: int, window: int, device: torch.device) -> None:
        super().__init__(SWANode, page_size, lru, device)
        self.window = window
        self.window_order: RecencyOrder[SWANode] = RecencyOrder()
        self.window_evictable = 0
        self.window_protected = 0
        self._next_uuid = 0

    def split(self, node: SWANode, length: int) -> SWANode:
        """Cut ``node``; both parts are on the same side of the window's accounts."""
        upper = super().split(node, length)
        if node in self.window_order:
            self.window_order.add(upper)
        return upper

    def add_leaf(self, parent: SWANode, key: RadixKey, start: int, end: int, value: torch.Tensor) -> SWANode:
        """Hang a live leaf under ``parent``."""
        leaf = super().add_leaf(parent, key, start, end, value)
        self.window_evictable += leaf.length
        self.window_order.add(leaf)
        return leaf

    def remove_leaf(self, leaf: SWANode) -> None:
        """Take an unlocked leaf out of both sides."""
        super().remove_leaf(leaf)
        if not leaf.swa_tombstone:
            self._leave_window(leaf)

    def bury(self, node: SWANode) -> None:
        """Make a live node without window locks a tombstone."""
        assert node.swa_lock_ref == 0, f"{node} has {node.swa_lock_ref} window locks"
        assert not node.swa_tombstone, f"{node} is a tombstone already"
        self._leave_window(node)
        node.swa_tombstone = True

    def revive(self, node: SWANode) -> None:
        """Make a tombstone live again."""
        assert node.swa_tombstone, f"{node} is live"
        node.swa_tombstone = False
        self.window_evictable += node.length
        self.window_order.add(node)

    def touch(self, path: list[SWANode]) -> None:
        """Note a use on both sides; on the window's, ancestors count as less recent than descendants."""
        super().touch(path)
        self.window_order.touch(path)

    def lock_window(self, node: SWANode) -> int | None:
        """Lock the last ``window`` live tokens up to the end of ``node``.

        Returns the mark of the uppermost node locked, or ``None`` when that is the root. AssertionError, and
        no change, when a tombstone comes before the window is full.
        """
        path: list[SWANode] = []
        num_locked = 0
        current = node
        while current is not self.root and num_locked < self.window:
            assert not current.swa_tombstone, f"{current} lies in the window of {node}, but is a tombstone"
            path.append(current)
            num_locked += current.length
            assert current.parent is not None, (
                f"{current} above {node} was evicted: nothing is above it, where the root is expected"
            )
            current = current.parent
        for locked in path:
            if locked.swa_lock_ref == 0:
                self.window_evictable -= locked.length
                self.window_protected += locked.length
                self.window_order.discard(locked)
            locked.swa_lock_ref += 1
        if current is self.root:
            return None
        return self._mark(path[-1])

    def unlock_window(self, node: SWANode, uuid: int | None) -> None:
        """Undo one ``lock_window(node)`` that returned ``uuid``; a use of what becomes evictable."""
        released: list[SWANode] = []
        current = node
        while current is not self.root:
            assert current.swa_lock_ref > 0, f"{current} has no window lock to release"
            current.swa_lock_ref -= 1
            if current.swa_lock_ref == 0:
                self.window_evictable += current.length
                self.window_protected -= current.length
                released.append(current)
            if uuid is not None and current.swa_uuid == uuid:
                break
            assert current.parent is not None, (
                f"{current} above {node} was evicted under its window lock: nothing is above it, where the "
                "root is expected"
            )
            current = current.parent
        for unlocked in reversed(released):
            self.window_order.add(unlocked)

    def _mark(self, node: SWANode) -> int:
        if node.swa_uuid is None:
            self._next_uuid += 1
            node.swa_uuid = self._next_uuid
        return node.swa_uuid

    def _leave_window(self, node: SWANode) -> None:
        self.window_evictable -= node.length
        self.window_order.discard(node)
