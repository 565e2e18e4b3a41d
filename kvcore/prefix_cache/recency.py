"""Nodes by how recently they were used, where every step costs the same however many there are."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic

from kvcore.prefix_cache.leaf_order import N

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class RecencyOrder(Generic[N]):
    """A set of nodes in order of use, least recent first. Entering it counts as a use."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: OrderedDict[N, None] = OrderedDict()

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __iter__(self) -> Iterator[N]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, node: N) -> None:
        """Let ``node`` in as the most recently used one, or make it that."""
        self._nodes[node] = None
        self._nodes.move_to_end(node)

    def discard(self, node: N) -> None:
        """Take ``node`` out, if it is here."""
        self._nodes.pop(node, None)

    def touch(self, nodes: Iterable[N]) -> None:
        """Make those of ``nodes`` that are here the most recently used ones, the last of them most of all."""
        for node in nodes:
            if node in self._nodes:
                self._nodes.move_to_end(node)

    def first(self) -> N | None:
        """The least recently used node; ``None`` when there is none."""
        return next(iter(self._nodes), None)
