"""Guard of 35424: rows have room for reserves that are rounded up to a page of the whole group."""

from __future__ import annotations

import pytest

from tests.toggles.context_limit import speculate_to_the_limit
from tests.toggles.small_stack import speculating


@pytest.mark.parametrize(("page_size", "dcp_size"), [(4, 4), (1, 16)])
def test_a_group_page_at_the_context_limit_leaves_the_neighbour_alone(page_size: int, dcp_size: int) -> None:
    speculate_to_the_limit(speculating(64, page_size=page_size, dcp_size=dcp_size, steps=3, draft_tokens=4))
