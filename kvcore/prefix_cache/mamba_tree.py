"""A radix tree some of whose nodes also hold a recurrent state, that after the tokens up to the node's end.

The full side of a node is counted and locked as in any tree. Beside it stands the state side, counted in
states:

    has a state, no state lock    state_evictable, in the order of use
    has a state, state locked     state_protected
    has none (tombstone)          its slots serve longer prefixes that do have a state

An unlocked leaf has a state: without one nothing could start there, and it is removed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.prefix_cache.eviction_policy import lru
from kvcore.prefix_cache.node import TreeNode
from kvcore.prefix_cache.recency import RecencyOrder
from kvcore.prefix_cache.tree import RadixTree
from kvcore.prefix_cache.tree_check import fail, require

if TYPE_CHECKING:
    from collections.abc import Hashable

    import torch


class MambaNode(TreeNode):
    """A node with room for a state. A split leaves the state with the lower part, whose end it belongs to."""

    __slots__ = ("mamba_lock_ref", "mamba_slot")

    def __init__(
        self, node_id: int, own_key: Hashable, data: bytes, length: int, value: torch.Tensor
    ) -> None:
        super().__init__(node_id, own_key, data, length, value)
        self.mamba_slot: int | None = None
        """State slot, a host integer."""
        self.mamba_lock_ref = 0
        """State locks on this very node."""

    def is_hollow(self) -> bool:
        """No request can start at a node without a state."""
        return self.mamba_slot is None


class MambaTree(RadixTree[MambaNode]):
    """A radix tree with states, evicted least recently used first on either side."""

    def __init__(self, page_size: int, device: torch.device) -> None:
        super().__init__(MambaNode, page_size, lru, device)
        self.state_order: RecencyOrder[MambaNode] = RecencyOrder()
        self.state_evictable = 0
        self.state_protected = 0

    def remove_leaf(self, leaf: MambaNode) -> None:
        """Take an unlocked leaf out of both sides; its state slot stays on it, for the caller to free."""
        super().remove_leaf(leaf)
        if leaf.mamba_slot is not None:
            self.state_evictable -= 1
            self.state_order.discard(leaf)

    def set_state(self, node: MambaNode, slot: int) -> None:
        """Give a node without a state one."""
        assert node.mamba_slot is None, f"{node} holds state {node.mamba_slot} already"
        node.mamba_slot = slot
        self.state_evictable += 1
        self.state_order.add(node)

    def take_state(self, node: MambaNode) -> int:
        """Take the unlocked state of a node away, which leaves a tombstone."""
        slot = node.mamba_slot
        assert slot is not None, f"{node} holds no state"
        assert node.mamba_lock_ref == 0, f"the state of {node} has {node.mamba_lock_ref} locks"
        node.mamba_slot = None
        self.state_evictable -= 1
        self.state_order.discard(node)
        return slot

    def lock_state(self, node: MambaNode) -> bool:
        """Lock the state of ``node``; False when it holds none."""
        if node.mamba_slot is None:
            return False
        if node.mamba_lock_ref == 0:
            self.state_evictable -= 1
            self.state_protected += 1
            self.state_order.discard(node)
        node.mamba_lock_ref += 1
        return True

    def unlock_state(self, node: MambaNode) -> None:
        """Undo one ``lock_state``; counts as a use."""
        assert node.mamba_lock_ref > 0, f"the state of {node} is not locked"
        node.mamba_lock_ref -= 1
        if node.mamba_lock_ref == 0:
            self.state_evictable += 1
            self.state_protected -= 1
            self.state_order.add(node)

    def check_states(self) -> None:
        """Recompute the state side from the nodes; raises InvariantViolation where a counter disagrees."""
        held = [node for node in self.nodes() if node.mamba_slot is not None]
        unlocked = sorted(node.id for node in held if node.mamba_lock_ref == 0)
        counted = (self.state_evictable, self.state_protected)
        expected = (len(unlocked), len(held) - len(unlocked))
        require(
            counted == expected, f"states (evictable, protected) are counted as {counted}, found {expected}"
        )
        ordered = sorted(node.id for node in self.state_order)
        require(
            ordered == unlocked, f"the state order holds nodes {ordered}, unlocked states have {unlocked}"
        )
        slots = [node.mamba_slot for node in held]
        require(len(set(slots)) == len(slots), f"a state slot is in the tree twice: {slots}")
        for node in self.nodes():
            if node.mamba_lock_ref and (node.mamba_slot is None or node.lock_ref < node.mamba_lock_ref):
                fail(f"{node} has {node.mamba_lock_ref} locks on state {node.mamba_slot}")
