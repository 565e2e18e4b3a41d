"""How many draft tokens a verify step accepts, drawn from a seeded distribution instead of a model."""

from __future__ import annotations

import numpy as np


class AcceptanceModel:
    """Accepted lengths of a verify step: the bonus token plus a geometric run of right drafts.

    One draft is right with ``probability``; with ``topk`` candidates a position fails only when all of them
    are wrong, and the run stops at the first failure or after ``max_drafts``. The same seed gives the same
    sequence of draws.
    """

    def __init__(self, *, seed: int, max_drafts: int, topk: int = 1, probability: float = 0.6) -> None:
        self._rng = np.random.default_rng(seed)
        self.max_drafts = max_drafts
        self.miss = (1.0 - probability) ** topk

    def draw(self, num_requests: int) -> list[int]:
        """Tokens that each of ``num_requests`` gains in one step: 1 (bonus only) to ``max_drafts + 1``."""
        if self.max_drafts == 0:
            return [1] * num_requests
        runs = self._rng.geometric(self.miss, num_requests)
        gained: list[int] = np.minimum(runs, self.max_drafts + 1).tolist()
        return gained
