"""The allocator for recurrent states: one slot per state, host integers throughout.

A request holds a handful of states, so slots live on the host; only kernels that clear or copy states need a
tensor.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import torch

from kvcore.errors import ConfigurationError, FreeGroupError, InvariantViolation

if TYPE_CHECKING:
    from collections.abc import Sequence


class MambaSlotState(NamedTuple):
    """A copy of the free slots and of the alloc group, as ``backup_state`` took it."""

    free: tuple[int, ...]
    reserved: tuple[int, ...]
    group_slots: frozenset[int]
    group_open: bool


class MambaSlotAllocator:
    """Hands out state slots ``1..size``, host integers; slot 0 takes the writes of padded lanes.

    ``device`` is where ``to_tensor`` puts them for kernels. Raises ConfigurationError for a negative size.
    """

    def __init__(self, size: int, *, device: torch.device | str) -> None:
        if size < 0:
            raise ConfigurationError(f"a pool of states has no negative size, found {size}")
        self.size = size
        self.device = torch.device(device)
        self._known = frozenset(range(1, size + 1))
        self._group_open = False
        self.clear()

    def available_size(self) -> int:
        """Free slots; those that an alloc group holds back are not among them."""
        return len(self._free)

    def schedulable_available_size(self) -> int:
        """Free slots that a scheduler may promise to new requests."""
        return self.available_size()

    def single_available_size(self) -> int:
        """Slots that single allocations can take: what an open alloc group holds back, then the free ones."""
        return len(self._reserved) + len(self._free)

    def alloc(self, num_slots: int) -> list[int] | None:
        """Take ``num_slots`` slots; ``None`` with nothing changed when there are too few.

        Inside an alloc group, single slots come from what the group took in advance, as long as that lasts.
        """
        if num_slots == 1 and self._reserved:
            return [self._reserved.popleft()]
        if num_slots > len(self._free):
            return None
        slots = [self._free.popleft() for _ in range(num_slots)]
        self._is_free.difference_update(slots)
        return slots

    def free(self, slots: Sequence[int]) -> None:
        """Give back slots; raises InvariantViolation, with none taken, for one that is free or foreign."""
        given = self._owned(slots)
        self._free.extend(slots)
        self._is_free |= given
        self._group_slots -= given

    def undo_alloc(self, slots: Sequence[int]) -> None:
        """Put the slots of the latest allocations, in their order, back where they came from.

        Everything is then as before those allocations, what an open group holds back too. Raises
        InvariantViolation, with none taken, as ``free`` does.
        """
        given = self._owned(slots)
        for slot in reversed(slots):
            (self._reserved if slot in self._group_slots else self._free).appendleft(slot)
        self._is_free |= given - self._group_slots

    def alloc_group_begin(self, num_slots: int) -> bool:
        """Take ``num_slots`` slots in advance for single allocations to come; False when there are too few.

        Raises FreeGroupError when a group is open.
        """
        if self._group_open:
            raise FreeGroupError("an alloc group is open already; end it before beginning the next")
        slots = self.alloc(num_slots)
        if slots is None:
            return False
        self._group_open = True
        self._reserved.extend(slots)
        self._group_slots.update(slots)
        return True

    def alloc_group_end(self) -> None:
        """Give back what the group took and nobody used; a no-op when no group is open."""
        unused = list(self._reserved)
        self._reserved.clear()
        self._group_slots.clear()
        self._group_open = False
        self.free(unused)

    def clear(self) -> None:
        """Forget all allocations."""
        self._free = deque(range(1, self.size + 1))
        self._is_free = set(self._free)
        self._reserved: deque[int] = deque()
        self._group_slots: set[int] = set()
        self._group_open = False

    def backup_state(self) -> MambaSlotState:
        """A copy of what is free and of the open group, to go back to. Costs what the pool holds."""
        return MambaSlotState(
            tuple(self._free), tuple(self._reserved), frozenset(self._group_slots), self._group_open
        )

    def restore_state(self, state: MambaSlotState) -> None:
        """Make exactly that free which was free when ``state`` was taken; ``state`` stays usable."""
        self._free, self._reserved = deque(state.free), deque(state.reserved)
        self._is_free = set(state.free)
        self._group_slots = set(state.group_slots)
        self._group_open = state.group_open

    def free_slots(self) -> list[int]:
        """Slots that are free or held back by an open group, in order; a copy, for inspection."""
        return [*self._reserved, *self._free]

    def to_tensor(self, slots: Sequence[int]) -> torch.Tensor:
        """``slots`` as int64 [n] on the device, for kernels that clear or copy states."""
        return torch.tensor(slots, dtype=torch.int64, device=self.device)

    def _owned(self, slots: Sequence[int]) -> set[int]:
        given = set(slots)
        if (
            len(given) < len(slots)
            or given & self._is_free
            or not given <= self._known
            or given & set(self._reserved)
        ):
            raise InvariantViolation(
                f"of the state slots {list(slots)} one is free already, foreign or named twice; "
                "look for a request that kept a reference to a state it had given back"
            )
        return given
