"""The free ids of one pool: a ring whose head and length are host integers.

    ring   | taken |  head ... free, oldest first ... head+count  | taken |      (wraps around)

Taking and putting back k ids touches k entries, whatever the pool holds, and asks the device nothing.
"""

from __future__ import annotations

import torch

from kvcore.errors import InvariantViolation


class FreeList:
    """First in, first out: ids that were freed first are handed out first. Holds at most ``capacity`` ids."""

    __slots__ = ("_capacity", "_count", "_head", "_ring")

    def __init__(self, capacity: int, device: torch.device, *, full: bool = True) -> None:
        """Make a list of the ids ``1..capacity``, or an empty one with room for them."""
        self._ring = torch.empty(capacity, dtype=torch.int64, device=device)
        self._capacity = capacity
        self._head = 0
        self._count = 0
        if full:
            self.fill()

    def __len__(self) -> int:
        return self._count

    def fill(self) -> None:
        """Make every id free, in ascending order."""
        torch.arange(1, self._capacity + 1, out=self._ring)
        self._head = 0
        self._count = self._capacity

    def clear(self) -> None:
        """Forget all ids."""
        self._head = 0
        self._count = 0

    def peek(self, num_ids: int) -> torch.Tensor:
        """The next ``num_ids`` ids, int64, without taking them; a view that the next ``push`` may overwrite.

        The caller has made sure that there are so many.
        """
        assert 0 <= num_ids <= self._count, f"{num_ids} ids asked of a free list that holds {self._count}"
        end = self._head + num_ids
        if end <= self._capacity:
            return self._ring[self._head : end]
        return torch.cat((self._ring[self._head :], self._ring[: end - self._capacity]))

    def drop(self, num_ids: int) -> None:
        """Take the next ``num_ids`` ids out of the list; their values were read with ``peek``."""
        self._head += num_ids
        if self._head >= self._capacity:
            self._head -= self._capacity
        self._count -= num_ids

    def take(self, num_ids: int) -> torch.Tensor:
        """The next ``num_ids`` ids, int64, taken out of the list; the caller owns the tensor."""
        ids = self.peek(num_ids)
        if self._head + num_ids <= self._capacity:
            ids = ids.clone()
        self.drop(num_ids)
        return ids

    def push(self, ids: torch.Tensor) -> None:
        """Put ``ids`` (int [n]) back at the end; raises InvariantViolation when they cannot fit."""
        num_ids = ids.shape[0]
        if self._count + num_ids > self._capacity:
            raise InvariantViolation(
                f"freeing {num_ids} ids would make {self._count + num_ids} free of {self._capacity}: "
                "something is freed twice; look for a second owner of these slots"
            )
        start = self._head + self._count
        if start >= self._capacity:
            start -= self._capacity
        end = start + num_ids
        if end <= self._capacity:
            self._ring[start:end] = ids
        else:
            room = self._capacity - start
            self._ring[start:] = ids[:room]
            self._ring[: num_ids - room] = ids[room:]
        self._count += num_ids

    def to_tensor(self) -> torch.Tensor:
        """All ids in the order in which they will be handed out, int64; a copy. Costs what the list holds."""
        ids = self.peek(self._count)
        return ids.clone()

    def assign(self, ids: torch.Tensor) -> None:
        """Hold exactly ``ids`` (int [n], n at most the capacity), in this order."""
        self.clear()
        self.push(ids)
