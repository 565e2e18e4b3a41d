"""The ring of free ids."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.allocators import PagedAllocator, TokenAllocator
from kvcore.allocators.free_list import FreeList
from kvcore.errors import InvariantViolation

CPU = torch.device("cpu")


def test_a_full_list_hands_out_ascending_ids() -> None:
    assert FreeList(4, CPU).take(4).tolist() == [1, 2, 3, 4]


def test_ids_come_back_first_in_first_out_across_the_end_of_the_ring() -> None:
    ids = FreeList(4, CPU)
    ids.drop(3)
    ids.push(torch.tensor([2, 1]))

    assert ids.peek(3).tolist() == [4, 2, 1]
    assert len(ids) == 3


def test_peek_is_a_view_and_take_a_copy() -> None:
    ids = FreeList(4, CPU)
    view, taken = ids.peek(2), ids.take(2)
    ids.push(torch.tensor([7, 8]))
    ids.push(torch.tensor([], dtype=torch.int64))

    assert taken.tolist() == [1, 2]
    assert view.tolist() == [7, 8]


def test_more_ids_than_the_pool_has_are_refused_and_none_taken() -> None:
    ids = FreeList(4, CPU)
    ids.drop(1)

    with pytest.raises(InvariantViolation, match="would make 5 free of 4"):
        ids.push(torch.tensor([1, 1]))

    assert ids.to_tensor().tolist() == [2, 3, 4]


def test_a_peek_beyond_the_list_is_an_error_not_stale_ids() -> None:
    ids = FreeList(4, CPU)
    ids.drop(2)

    with pytest.raises(AssertionError, match="3 ids asked of a free list that holds 2"):
        ids.peek(3)


def test_int32_ids_are_widened() -> None:
    ids = FreeList(2, CPU, full=False)
    ids.push(torch.tensor([2, 1], dtype=torch.int32))

    assert ids.peek(2).dtype == torch.int64


def test_a_list_of_no_ids_works() -> None:
    ids = FreeList(0, CPU)

    assert ids.take(0).tolist() == []
    ids.push(torch.empty(0, dtype=torch.int64))
    assert len(ids) == 0


@given(st.integers(1, 9), st.lists(st.integers(0, 9), max_size=40))
def test_any_sequence_of_takes_and_pushes_behaves_like_a_queue(capacity: int, steps: list[int]) -> None:
    ids, model, taken = FreeList(capacity, CPU), list(range(1, capacity + 1)), []
    for step in steps:
        if step <= len(model):
            assert ids.take(step).tolist() == model[:step]
            taken += model[:step]
            model = model[step:]
        else:
            ids.push(torch.tensor(taken, dtype=torch.int64))
            model += taken
            taken = []
        assert ids.to_tensor().tolist() == model


@pytest.mark.parametrize("num_ids", [-1, -4, 3])
def test_a_number_of_ids_that_is_not_there_is_refused(num_ids: int) -> None:
    ids = FreeList(4, CPU)
    ids.drop(2)
    with pytest.raises(AssertionError, match=f"{num_ids} ids asked of a free list that holds 2"):
        ids.take(num_ids)

    assert ids.to_tensor().tolist() == [3, 4]


@pytest.mark.parametrize(("page_size", "num_slots"), [(1, -1), (16, -16), (16, -64)])
def test_no_allocator_takes_less_than_nothing(page_size: int, num_slots: int) -> None:
    allocator = PagedAllocator(64, 16, device=CPU) if page_size > 1 else TokenAllocator(64, device=CPU)
    assert allocator.alloc(32) is not None
    before = allocator.free_page_ids().tolist()
    with pytest.raises(AssertionError, match="ids asked of a free list"):
        allocator.alloc(num_slots)

    assert allocator.available_size() == 32
    assert allocator.free_page_ids().tolist() == before
