"""The laws of a radix tree, recomputed from its nodes; costs the whole tree and synchronises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore.errors import InvariantViolation
from kvcore.prefix_cache.key import ID_BYTES

if TYPE_CHECKING:
    from kvcore.prefix_cache.leaf_order import N
    from kvcore.prefix_cache.tree import RadixTree


def require(holds: bool, law: str) -> None:
    """Raise InvariantViolation with ``law``, which carries both of its sides, unless it holds."""
    if not holds:
        raise InvariantViolation(f"{law}; something changed the tree behind its back")


def check_tree(tree: RadixTree[N], slot_page_size: int) -> None:
    """Nodes are in place, counts are what the locks say, the order holds the unlocked leaves, sorted.

    ``slot_page_size`` is the allocator's page size, which may be finer than the tree's.
    """
    nodes = list(tree.nodes())
    evictable = sum(node.length for node in nodes if node.lock_ref == 0)
    protected = sum(node.length for node in nodes if node.lock_ref > 0)
    require(
        tree.evictable == evictable, f"evictable is counted as {tree.evictable}, the nodes say {evictable}"
    )
    require(
        tree.protected == protected, f"protected is counted as {tree.protected}, the nodes say {protected}"
    )
    for node in nodes:
        _check_node(tree, node)
    _check_order(tree, nodes)
    _check_slots(tree, nodes, slot_page_size)


def _check_node(tree: RadixTree[N], node: N) -> None:
    for own_key, child in node.children.items():
        require(child.parent is node, f"{child} has the parent {child.parent}, but hangs under {node}")
        require(
            child.own_key == own_key, f"{child} is registered as {own_key!r}, calls itself {child.own_key!r}"
        )
        first_page = child.data[: (tree.page_size + child.overlap) * ID_BYTES]
        require(own_key == first_page, f"{child} is registered as {own_key!r}, begins with {first_page!r}")
    below = sum(child.lock_ref for child in node.children.values())
    require(node.lock_ref >= below, f"{node} has fewer locks than the {below} of its children")
    require(node.length > 0, f"{node} is empty")
    require(node.length % tree.page_size == 0, f"{node} ends within a page of {tree.page_size}")
    require(node.value.shape[0] == node.length, f"{node} holds {node.value.shape[0]} slots")
    require(node.overlap in (0, 1), f"{node} has {node.overlap} ids too many")
    hollow = node.is_hollow() and node.lock_ref == 0 and not node.children
    require(not hollow, f"{node} is a worthless leaf, and was not removed")


def _check_order(tree: RadixTree[N], nodes: list[N]) -> None:
    leaves = {node.id for node in nodes if node.lock_ref == 0 and not node.children}
    ordered = list(tree.leaves)
    require(len(tree.leaves) == len(ordered), f"the order counts {len(tree.leaves)} and holds {len(ordered)}")
    ids = [node.id for node in ordered]
    require(
        sorted(ids) == sorted(leaves),
        f"the order holds nodes {sorted(ids)}, unlocked leaves are {sorted(leaves)}",
    )
    keys = [(tree.leaves.policy_key(node), node.id) for node in ordered]
    require(keys == sorted(keys), f"the eviction order is not sorted: {keys}")
    for node, key in zip(ordered, keys, strict=True):
        require(
            node.order_entry is not None and node.order_entry[:2] == key,
            f"{node} moved without being reordered",
        )


def _check_slots(tree: RadixTree[N], nodes: list[N], page_size: int) -> None:
    slots = torch.cat([tree.root.value, *(node.value for node in nodes)])
    require(torch.unique(slots).shape[0] == slots.shape[0], "a slot is in the tree twice")
    for node in nodes:
        offsets = torch.arange(node.length, device=node.value.device)
        first = node.value[offsets // page_size * page_size]
        regular = bool((node.value == first + offsets % page_size).all()) or page_size == 1
        require(regular, f"{node} holds slots {node.value.tolist()}, which are no whole pages")
