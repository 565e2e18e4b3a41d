"""Guard of 26972: tree drafts near the context limit stay inside the request's row."""

from __future__ import annotations

import pytest

from tests.toggles.context_limit import speculate_to_the_limit
from tests.toggles.small_stack import speculating


@pytest.mark.parametrize(
    ("page_size", "steps", "topk", "draft_tokens"),
    [(16, 3, 4, 8), (4, 5, 4, 8), (64, 3, 4, 16)],
)
def test_a_draft_tree_at_the_context_limit_leaves_the_neighbour_alone(
    page_size: int, steps: int, topk: int, draft_tokens: int
) -> None:
    speculate_to_the_limit(
        speculating(64, page_size=page_size, steps=steps, topk=topk, draft_tokens=draft_tokens)
    )
