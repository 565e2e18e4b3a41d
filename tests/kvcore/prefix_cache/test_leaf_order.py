from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.errors import ConfigurationError
from kvcore.prefix_cache import leaf_order
from kvcore.prefix_cache.eviction_policy import POLICIES, get_eviction_policy, lru
from kvcore.prefix_cache.leaf_order import LeafOrder
from kvcore.prefix_cache.node import TreeNode


def make_node(node_id: int, **fields: int) -> TreeNode:
    node = TreeNode(node_id, b"", b"", 0, torch.empty(0))
    for name, value in fields.items():
        setattr(node, name, value)
    return node


steps = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "reorder", "first"]), st.integers(0, 30)), max_size=80
)


@given(steps)
def test_order_is_that_of_a_sorted_list_after_every_step(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_order, "BUCKET_SIZE", 4)
        order: LeafOrder[TreeNode] = LeafOrder(lru)
        model: list[TreeNode] = []
        for index, (step, number) in enumerate(steps):
            if step == "add":
                node = make_node(index, last_access=number)
                order.add(node)
                model.append(node)
            elif step == "first":
                assert order.first() is (model[0] if model else None)
            elif model:
                node = model[number % len(model)]
                if step == "remove":
                    order.remove(node)
                    model.remove(node)
                    assert node.order_entry is None
                else:
                    node.last_access = number
                    order.reorder(node)
            model.sort(key=lambda node: (node.last_access, node.id))

            assert list(order) == model
            assert len(order) == len(model)


def test_removing_a_node_that_is_not_there_is_refused() -> None:
    order: LeafOrder[TreeNode] = LeafOrder(lru)
    order.add(make_node(1))

    with pytest.raises(AssertionError, match="no place"):
        order.remove(make_node(2))
    assert len(order) == 1


FIRST_OF_PAIR: list[tuple[str, dict[str, int], dict[str, int]]] = [
    ("lru", {"last_access": 1, "hit_count": 9}, {"last_access": 2, "hit_count": 1}),
    ("mru", {"last_access": 2}, {"last_access": 1}),
    ("fifo", {"creation": 1, "last_access": 9}, {"creation": 2, "last_access": 3}),
    ("filo", {"creation": 2}, {"creation": 1}),
    ("lfu", {"hit_count": 1, "last_access": 9}, {"hit_count": 2, "last_access": 1}),
    ("lfu", {"hit_count": 1, "last_access": 1}, {"hit_count": 1, "last_access": 2}),
    ("priority", {"priority": 1, "last_access": 9}, {"priority": 2, "last_access": 1}),
    ("priority", {"priority": 1, "last_access": 1}, {"priority": 1, "last_access": 2}),
    ("slru", {"hit_count": 1, "last_access": 9}, {"hit_count": 2, "last_access": 1}),
    ("slru", {"hit_count": 9, "last_access": 1}, {"hit_count": 2, "last_access": 2}),
]


@pytest.mark.parametrize(("policy", "first", "second"), FIRST_OF_PAIR)
def test_policy_puts_the_first_before_the_second(
    policy: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    key = get_eviction_policy(policy)

    assert key(make_node(1, **first)) < key(make_node(2, **second))


def test_every_policy_is_covered_above() -> None:
    assert {policy for policy, _, _ in FIRST_OF_PAIR} == set(POLICIES)


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'random'.*fifo.*lru.*slru"):
        get_eviction_policy("random")
