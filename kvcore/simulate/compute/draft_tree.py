"""Draft trees: which tokens a verify step looks at, who may see whom, and which path the target accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import random

    from kvcore.simulate.compute.decoder import Decoder

_RIGHT_DRAFT = 0.7
"""How often the next token is among the candidates; otherwise all candidates of a depth are wrong."""


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Nodes in the order of their slots; node 0 is the last known token, every other one is a proposal."""

    token_ids: list[int]
    parents: list[int]
    """Parent of each node; the root is its own."""
    depths: list[int]

    def ancestors(self) -> torch.Tensor:
        """Bool [nodes, nodes]: row i marks i and everything above it."""
        seen = torch.eye(len(self.parents), dtype=torch.bool)
        # A parent always stands before its children, so its row is complete when they copy it.
        for node, parent in enumerate(self.parents):
            seen[node] |= seen[parent]
        return seen


def grow_tree(
    root: int, likely: list[int], *, topk: int, num_nodes: int, vocab_size: int, rng: random.Random
) -> DraftTree:
    """A tree of ``num_nodes`` around the path ``likely``, ``topk`` candidates a position, in random order.

    At each depth the likely token is one of the candidates with a fixed probability; where it is missing, and
    below the end of ``likely``, the tree goes on under a wrong one. Siblings are different tokens.
    """
    tokens, parents, depths = [root % vocab_size], [0], [0]
    above, on_path = 0, True
    for depth in range(1, num_nodes):
        wanted = min(topk, num_nodes - len(tokens))
        if wanted == 0:
            break
        right = likely[depth - 1] if on_path and depth <= len(likely) else None
        taken = right is not None and rng.random() < _RIGHT_DRAFT
        pool = [token for token in rng.sample(range(vocab_size), wanted + 1) if token != right]
        candidates = pool[: wanted - taken] + ([right] if taken and right is not None else [])
        rng.shuffle(candidates)
        first = len(tokens)
        tokens += candidates
        parents += [above] * len(candidates)
        depths += [depth] * len(candidates)
        on_path = taken
        above = first + (candidates.index(right) if taken and right is not None else 0)
    return DraftTree(tokens, parents, depths)


def accepted_path(
    tree: DraftTree, logits: torch.Tensor, start: int, decoder: Decoder
) -> tuple[list[int], list[int]]:
    """Nodes whose tokens the target would have said itself, from the root down, and the token after each.

    Args:
        logits: float32 [nodes, vocab_size].
        start: position of the root.
    """
    said = decoder.sample(logits, torch.tensor([start + depth for depth in tree.depths]))
    path = [0]
    while True:
        here = path[-1]
        matching = (
            node
            for node in range(here + 1, len(tree.parents))
            if tree.parents[node] == here and tree.token_ids[node] == said[here]
        )
        child = next(matching, None)
        if child is None:
            return path, [said[node] for node in path]
        path.append(child)
