"""The laws of a tree's window side, recomputed from its nodes and from the mapping; synchronises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore.allocators.swa import SWAAllocator
from kvcore.errors import ConfigurationError
from kvcore.prefix_cache.tree_check import fail, node_with_column, require

if TYPE_CHECKING:
    from kvcore.prefix_cache.swa_tree import SWANode, SWATree


def check_window(tree: SWATree, allocator: SWAAllocator) -> None:
    """Live nodes are mapped, tombstones are not; the window's counts and its order are what the locks say."""
    nodes = list(tree.nodes())
    live = [node for node in nodes if not node.swa_tombstone]
    evictable = sum(node.length for node in live if node.swa_lock_ref == 0)
    protected = sum(node.length for node in live if node.swa_lock_ref > 0)
    counted = (tree.window_evictable, tree.window_protected)
    require(
        counted == (evictable, protected),
        f"window (evictable, protected) is counted as {counted}, the nodes say {(evictable, protected)}",
    )
    ordered = sorted(node.id for node in tree.window_order)
    expected = sorted(node.id for node in live if node.swa_lock_ref == 0)
    require(ordered == expected, f"the window order holds nodes {ordered}, live and unlocked are {expected}")
    for node in nodes:
        if not 0 <= node.swa_lock_ref <= node.lock_ref:
            fail(f"{node} has {node.swa_lock_ref} window locks")
        if node.swa_tombstone and node.swa_lock_ref:
            fail(f"{node} is a tombstone with window locks")
    _check_mapping(live, allocator, mapped=True)
    _check_mapping([node for node in nodes if node.swa_tombstone], allocator, mapped=False)


def _check_mapping(nodes: list[SWANode], allocator: SWAAllocator, *, mapped: bool) -> None:
    if not nodes:
        return
    window_slots = allocator.translate_loc_from_full_to_swa(torch.cat([node.value for node in nodes]))
    right = (window_slots > 0) == mapped
    if not bool(right.all()):
        column = int(torch.nonzero(~right)[0])
        node = node_with_column(nodes, column)
        kind = "live and leads" if mapped else "a tombstone that leads"
        found = allocator.translate_loc_from_full_to_swa(node.value)
        fail(f"{node} is {kind} to {found.tolist()}")


def require_own_pages(allocator: object, page_size: int | None) -> None:
    """Raise ConfigurationError unless a window's tree shares the very pages of an SWAAllocator.

    The frontier of the window lies at the allocator's pages, and nodes are cut there.
    """
    if not isinstance(allocator, SWAAllocator) or page_size not in (None, allocator.page_size):
        raise ConfigurationError(
            f"a radix cache with a window shares the pages of an SWAAllocator, found page_size {page_size} "
            f"over a {type(allocator).__name__}; leave the page size out, or use SWAChunkCache"
        )
