from __future__ import annotations

import itertools
from array import array

from hypothesis import given
from hypothesis import strategies as st

from kvcore.prefix_cache.key import RadixKey, num_shared_ids, pack_ids, unpack_ids

ids = st.lists(st.integers(0, 3), max_size=40)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_packing_keeps_every_id(token_ids: list[int]) -> None:
    assert unpack_ids(pack_ids(token_ids)) == token_ids
    assert pack_ids(array("q", token_ids)) == pack_ids(token_ids)


def test_arrays_of_other_widths_pack_as_lists_do() -> None:
    assert pack_ids(array("i", [1, -2])) == pack_ids([1, -2])


@given(ids, ids)
def test_shared_ids_are_the_longest_common_prefix(left: list[int], right: list[int]) -> None:
    expected = 0
    while expected < min(len(left), len(right)) and left[expected] == right[expected]:
        expected += 1

    assert num_shared_ids(pack_ids(left), pack_ids(right)) == expected


@given(ids)
def test_a_bigram_key_has_a_unit_per_neighbouring_pair(token_ids: list[int]) -> None:
    assert len(RadixKey(token_ids, is_bigram=True)) == len(list(itertools.pairwise(token_ids)))
    assert len(RadixKey(token_ids)) == len(token_ids)


def test_a_key_does_not_follow_later_changes_of_the_list() -> None:
    token_ids = [1, 2, 3]
    key = RadixKey(token_ids)
    token_ids.append(4)

    assert len(key) == 3
