"""State slots."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.allocators import MambaSlotAllocator
from kvcore.errors import ConfigurationError, FreeGroupError, InvariantViolation


def test_slots_come_back_first_in_first_out_and_slot_0_never() -> None:
    states = MambaSlotAllocator(3, device="cpu")

    assert states.alloc(3) == [1, 2, 3]
    states.free([2])
    states.free([1])
    assert states.alloc(2) == [2, 1]


def test_a_pool_of_less_than_no_states_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no negative size, found -1"):
        MambaSlotAllocator(-1, device="cpu")


def test_a_short_pool_answers_none_and_stays_as_it_was() -> None:
    states = MambaSlotAllocator(3, device="cpu")
    states.alloc(2)

    assert states.alloc(2) is None
    assert states.free_slots() == [3]


@pytest.mark.parametrize("slots", [[1, 3], [1, 0], [1, 4], [1, 1]])
def test_a_slot_that_is_free_or_foreign_is_refused_and_none_taken(slots: list[int]) -> None:
    states = MambaSlotAllocator(3, device="cpu")
    states.alloc(2)

    with pytest.raises(InvariantViolation, match="one is free already, foreign or named twice"):
        states.free(slots)

    assert states.free_slots() == [3]


def test_a_group_takes_in_advance_and_gives_the_rest_back() -> None:
    states = MambaSlotAllocator(5, device="cpu")

    assert states.alloc_group_begin(3)
    assert states.available_size() == states.schedulable_available_size() == 2
    assert states.alloc(1) == [1]
    assert states.alloc(2) == [4, 5]
    states.alloc_group_end()
    states.alloc_group_end()

    assert states.free_slots() == [2, 3]


def test_single_slots_outlast_their_group() -> None:
    states = MambaSlotAllocator(3, device="cpu")
    states.alloc_group_begin(1)

    assert [states.alloc(1), states.alloc(1)] == [[1], [2]]


def test_a_group_that_does_not_fit_is_not_begun() -> None:
    states = MambaSlotAllocator(2, device="cpu")

    assert not states.alloc_group_begin(3)
    assert states.available_size() == 2
    assert states.alloc_group_begin(2)


def test_alloc_groups_do_not_nest() -> None:
    states = MambaSlotAllocator(3, device="cpu")
    states.alloc_group_begin(1)

    with pytest.raises(FreeGroupError, match="open already"):
        states.alloc_group_begin(1)

    assert states.available_size() == 2


def test_slots_become_a_tensor_for_kernels() -> None:
    tensor = MambaSlotAllocator(3, device="cpu").to_tensor([2, 1])

    assert tensor.dtype == torch.int64
    assert tensor.tolist() == [2, 1]


@given(st.lists(st.integers(0, 6), max_size=40))
def test_no_slot_has_two_owners(steps: list[int]) -> None:
    states = MambaSlotAllocator(5, device="cpu")
    owned: list[int] = []
    for step in steps:
        taken = states.alloc(step) if step <= 3 else None
        if taken is None:
            states.free(owned[:step])
            owned = owned[step:]
        else:
            owned += taken
        assert sorted(states.free_slots() + owned) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("slots", [[1], [2], [4], [3, 3]], ids=["held back", "free", "foreign", "twice"])
def test_only_owned_slots_are_given_back_or_undone(slots: list[int]) -> None:
    states = MambaSlotAllocator(3, device="cpu")
    states.alloc_group_begin(1)
    states.alloc(2)
    states.free([2])

    for give_back in (states.free, states.undo_alloc):
        with pytest.raises(InvariantViolation, match="free already, foreign or named twice"):
            give_back(slots)
        assert states.free_slots() == [1, 2]


def test_a_slot_that_was_given_back_no_longer_belongs_to_the_group() -> None:
    states = MambaSlotAllocator(2, device="cpu")
    states.alloc_group_begin(1)
    states.free(states.alloc(1) or [])
    before = states.free_slots(), states.available_size()

    states.undo_alloc([*(states.alloc(1) or []), *(states.alloc(1) or [])])

    assert (states.free_slots(), states.available_size()) == before == ([2, 1], 2)


def test_a_snapshot_brings_back_the_order_and_the_group() -> None:
    states = MambaSlotAllocator(6, device="cpu")
    states.free(states.alloc(2) or [])
    states.alloc_group_begin(2)
    before, state = (states.free_slots(), states.available_size()), states.backup_state()

    for _ in range(2):
        taken = [slot for _ in range(4) for slot in states.alloc(1) or []]
        states.alloc_group_end()
        states.free(taken[:1])
        assert (states.free_slots(), states.available_size()) != before
        states.restore_state(state)
        assert (states.free_slots(), states.available_size()) == before

    states.alloc_group_end()
    assert sorted(states.free_slots()) == [1, 2, 3, 4, 5, 6]
