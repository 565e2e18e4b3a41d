"""Guard of 31616: a watermark that is rounded up to a page stays inside the request's row."""

from __future__ import annotations

import pytest

from tests.toggles.context_limit import speculate_to_the_limit
from tests.toggles.small_stack import speculating


@pytest.mark.parametrize(("page_size", "steps", "draft_tokens"), [(16, 3, 4), (64, 3, 4), (16, 7, 8)])
def test_a_draft_chain_at_the_context_limit_leaves_the_neighbour_alone(
    page_size: int, steps: int, draft_tokens: int
) -> None:
    speculate_to_the_limit(speculating(64, page_size=page_size, steps=steps, draft_tokens=draft_tokens))


def test_a_draft_tree_is_rounded_up_as_well() -> None:
    speculate_to_the_limit(speculating(61, page_size=16, steps=3, topk=4, draft_tokens=8))
