"""Keys of the prefix trees: token ids packed into bytes, so that comparing a run is one memory compare.

A *unit* is what the tree counts: one token, or, for bigram keys, a pair of neighbouring tokens. Unit ``i`` of
a bigram key is ``(id[i], id[i+1])``, so units ``[a, b)`` stand for ids ``[a, b+1)``: two runs of units are
equal exactly when those runs of ids are. No pair is ever built.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ID_BYTES = 8
"""Bytes of one packed token id."""


def pack_ids(token_ids: Sequence[int]) -> bytes:
    """``token_ids`` as native int64; ``array('q')`` is copied in one piece, a list costs about 8 ns an id."""
    if isinstance(token_ids, array) and token_ids.typecode == "q":
        return token_ids.tobytes()
    return struct.pack(f"{len(token_ids)}q", *token_ids)


def unpack_ids(data: bytes) -> list[int]:
    """The token ids of packed bytes."""
    return list(struct.unpack(f"{len(data) // ID_BYTES}q", data))


def num_shared_ids(left: bytes, right: bytes) -> int:
    """Ids at the front that two packed runs have in common.

    A binary search whose every step is a memory compare of half of what is left, so the whole is linear in
    bytes.
    """
    low, high = 0, min(len(left), len(right)) // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if left[low * ID_BYTES : middle * ID_BYTES] == right[low * ID_BYTES : middle * ID_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, slots=True)
class RadixKey:
    """What a prefix is looked up by: token ids in a namespace. Reads ``token_ids`` once, when it is made."""

    token_ids: Sequence[int]
    extra_key: str | None = None
    """Namespace; keys with different namespaces never share a node."""
    is_bigram: bool = False
    """EAGLE: a unit is a pair of neighbouring tokens, so ``n`` ids make ``n - 1`` units."""
    data: bytes = field(init=False, repr=False, compare=False)
    """The ids, packed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", pack_ids(self.token_ids))

    def __len__(self) -> int:
        """Units of the key."""
        return max(0, len(self.data) // ID_BYTES - self.overlap)

    @property
    def overlap(self) -> int:
        """Ids that a run of units needs beyond its number of units: 1 for bigrams, else 0."""
        return 1 if self.is_bigram else 0
