"""Guard of 33581: the reserve of a speculative step fits the row at page size 1."""

from __future__ import annotations

import pytest

from kvcore.server_args import SpeculativeAlgorithm
from tests.toggles.context_limit import speculate_to_the_limit
from tests.toggles.small_stack import speculating


@pytest.mark.parametrize(
    ("algorithm", "steps", "draft_tokens"),
    [(SpeculativeAlgorithm.DFLASH, 1, 17), (SpeculativeAlgorithm.EAGLE, 7, 8)],
)
def test_a_long_draft_at_the_context_limit_leaves_the_neighbour_alone(
    algorithm: SpeculativeAlgorithm, steps: int, draft_tokens: int
) -> None:
    speculate_to_the_limit(speculating(64, algorithm=algorithm, steps=steps, draft_tokens=draft_tokens))
