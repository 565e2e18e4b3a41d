"""A node of a prefix tree: a run of units, and the slots that hold their KV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvcore.prefix_cache.key import ID_BYTES, unpack_ids

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Self

    import torch


class TreeNode:
    """One edge and its end point. Only the tree that made a node changes it.

    ``value`` is int64 [length], slots in whole pages. ``data`` holds the packed ids of the run, with the one
    id more that a bigram run needs. ``last_access`` and ``creation`` are readings of the tree's own counter,
    not of a clock.
    """

    __slots__ = (
        "children",
        "creation",
        "data",
        "hit_count",
        "id",
        "last_access",
        "length",
        "lock_ref",
        "order_entry",
        "own_key",
        "parent",
        "priority",
        "value",
    )

    def __init__(
        self, node_id: int, own_key: Hashable, data: bytes, length: int, value: torch.Tensor
    ) -> None:
        self.id = node_id
        self.own_key = own_key
        """What the parent's ``children`` knows this node by."""
        self.data = data
        self.length = length
        self.value = value
        self.parent: Self | None = None
        self.children: dict[Hashable, Self] = {}
        self.lock_ref = 0
        """Locks on this node or below it."""
        self.last_access = 0
        self.creation = 0
        self.hit_count = 0
        """Insertions that ended at this node or below it."""
        self.priority = 0
        self.order_entry: tuple[Any, int, Self] | None = None
        """Place in the eviction order; ``None`` unless this is an unlocked leaf."""

    def inherit(self, lower: Self) -> None:
        """Take over what the upper part of a split has in common with ``lower``, the rest of the old node."""
        self.lock_ref = lower.lock_ref
        self.hit_count = lower.hit_count
        self.priority = lower.priority
        self.creation = lower.creation
        self.last_access = lower.last_access

    def is_hollow(self) -> bool:
        """Whether the node is worthless as an unlocked leaf; such a leaf is removed at once."""
        return False

    def __repr__(self) -> str:
        ids = unpack_ids(self.data)
        shown = ", ".join(map(str, ids[:4])) + (", ..." if len(ids) > 4 else "")
        return (
            f"{type(self).__name__}(id={self.id}, length={self.length}, ids=[{shown}], lock={self.lock_ref}, "
            f"hits={self.hit_count}, children={len(self.children)})"
        )

    @property
    def overlap(self) -> int:
        """Ids in ``data`` beyond one per unit: 1 for bigram runs."""
        return len(self.data) // ID_BYTES - self.length
