"""The laws of a radix tree, recomputed from its nodes; costs the whole tree and synchronises."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import torch

from kvcore.errors import InvariantViolation
from kvcore.prefix_cache.key import ID_BYTES

if TYPE_CHECKING:
    from kvcore.prefix_cache.leaf_order import N
    from kvcore.prefix_cache.tree import RadixTree


def require(holds: bool, law: str) -> None:
    """Raise InvariantViolation with ``law``, which carries both of its sides, unless it holds."""
    if not holds:
        fail(law)


def fail(law: str) -> NoReturn:
    """Raise InvariantViolation with ``law``; per node, where wording laws that hold would cost most."""
    raise InvariantViolation(f"{law}; something changed the tree behind its back")


def check_tree(tree: RadixTree[N], slot_page_size: int, num_slots: int) -> None:
    """Nodes are in place, counts are what the locks say, the order holds the unlocked leaves, sorted.

    ``slot_page_size`` is the allocator's page size, which may be finer than the tree's; its slots are
    ``0..num_slots-1``, the reserved page among them.
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
        _check_children(tree, node)
        _check_node(tree, node)
    _check_order(tree, nodes)
    _check_slots(tree, nodes, slot_page_size, num_slots)


def _check_children(tree: RadixTree[N], node: N) -> None:
    for own_key, child in node.children.items():
        if child.parent is not node:
            fail(f"{child} has the parent {child.parent}, but hangs under {node}")
        if child.own_key != own_key:
            fail(f"{child} is registered as {own_key!r}, calls itself {child.own_key!r}")
        first_page = child.data[: (tree.page_size + child.overlap) * ID_BYTES]
        if own_key != first_page:
            fail(f"{child} is registered as {own_key!r}, begins with {first_page!r}")


def _check_node(tree: RadixTree[N], node: N) -> None:
    below = sum(child.lock_ref for child in node.children.values())
    if node.lock_ref < below:
        fail(f"{node} has fewer locks than the {below} of its children")
    if node.length <= 0:
        fail(f"{node} is empty")
    if node.length % tree.page_size:
        fail(f"{node} ends within a page of {tree.page_size}")
    if node.value.shape[0] != node.length:
        fail(f"{node} holds {node.value.shape[0]} slots")
    if node.overlap not in {0, 1}:
        fail(f"{node} has {node.overlap} ids too many")
    if node.is_hollow() and node.lock_ref == 0 and not node.children:
        fail(f"{node} is a worthless leaf, and was not removed")


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


def _check_slots(tree: RadixTree[N], nodes: list[N], page_size: int, num_slots: int) -> None:
    slots = torch.cat([tree.root.value, *(node.value for node in nodes)])
    if slots.shape[0] == 0:
        return
    # A mark per slot of the range: sorting them would cost most of the check.
    low, high = (int(end) for end in slots.aminmax())
    if low < 0 or high >= num_slots:
        fail(f"the nodes hold slots {low} to {high}, the pool has {num_slots}")
    marks = torch.zeros(high + 1, dtype=torch.bool, device=slots.device)
    num_distinct = int(marks.index_fill_(0, slots, value=True).sum())
    require(
        num_distinct == slots.shape[0],
        f"a slot is in the tree twice: {slots.shape[0]} slots are {num_distinct} different ones",
    )
    # Nodes begin on page boundaries, so the columns of all of them together are page regular, too.
    columns = torch.arange(slots.shape[0], device=slots.device)
    regular = slots == slots[columns // page_size * page_size] + columns % page_size
    if not bool(regular.all()):
        node = node_with_column(nodes, int(torch.nonzero(~regular)[0]))
        fail(f"{node} holds slots {node.value.tolist()}, which are no whole pages")


def node_with_column(nodes: list[N], column: int) -> N:
    """The node that holds token ``column`` of the nodes' values, one behind the other."""
    for node in nodes:
        if column < node.length:
            return node
        column -= node.length
    raise IndexError(f"there is no column {column} behind the last node")
