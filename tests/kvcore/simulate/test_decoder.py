"""The oracle's own parts, over a pool that is a plain tensor: the stack has no part in these tests."""

from __future__ import annotations

import random

import pytest
import torch

from kvcore.simulate.compute.decoder import Decoder, DecoderShape, dense_logits
from kvcore.simulate.compute.draft_tree import DraftTree, accepted_path, grow_tree
from kvcore.simulate.compute.paged import Segment, causal_segment, paged_logits

TOLERANCE = 1e-4
NUM_SLOTS = 200


class TensorStore:
    def __init__(self, shape: DecoderShape) -> None:
        self.data = torch.zeros(shape.num_layers, 2, NUM_SLOTS, shape.num_kv_heads, shape.head_dim)

    def write(self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        self.data[layer, 0, slots] = key
        self.data[layer, 1, slots] = value

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.data[layer, 0, slots], self.data[layer, 1, slots]

    def move(self, targets: torch.Tensor, sources: torch.Tensor) -> None:
        self.data[:, :, targets] = self.data[:, :, sources]


def make_ids(count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(509), k=count)


def make_row(count: int, seed: int = 1) -> torch.Tensor:
    return torch.tensor(random.Random(seed).sample(range(1, NUM_SLOTS), count))


@pytest.fixture(params=[None, 7], ids=["full", "window"])
def decoder(request: pytest.FixtureRequest) -> Decoder:
    return Decoder(DecoderShape(window=request.param), seed=3)


def test_chunks_through_scattered_slots_give_the_logits_of_one_dense_pass(decoder: Decoder) -> None:
    ids, row, store = make_ids(60), make_row(60), TensorStore(decoder.shape)
    parts = [
        paged_logits(decoder, store, [causal_segment(ids[start:end], start, row[start:end], row)])[0]
        for start, end in [(0, 25), (25, 26), (26, 60)]
    ]

    torch.testing.assert_close(torch.cat(parts), dense_logits(decoder, ids), atol=TOLERANCE, rtol=0)


def test_requests_in_one_pass_do_not_see_each_other(decoder: Decoder) -> None:
    store, rows = TensorStore(decoder.shape), make_row(70)
    ids = [make_ids(40), make_ids(30, seed=9)]
    segments = [
        causal_segment(ids[0], 0, rows[:40], rows[:40]),
        causal_segment(ids[1], 0, rows[40:], rows[40:]),
    ]

    got = paged_logits(decoder, store, segments)

    for one, expected in zip(got, ids, strict=True):
        torch.testing.assert_close(one, dense_logits(decoder, expected), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("wrong", [0, 20, 38])
def test_one_wrong_slot_anywhere_in_the_row_changes_the_logits(wrong: int) -> None:
    decoder = Decoder(DecoderShape(), seed=3)
    ids, row, store = make_ids(40), make_row(40), TensorStore(decoder.shape)
    paged_logits(decoder, store, [causal_segment(ids[:-1], 0, row[:-1], row)])
    row[wrong] = row[(wrong + 7) % 39]

    got = paged_logits(decoder, store, [causal_segment(ids[-1:], 39, row[-1:], row)])[0]

    assert (got - dense_logits(decoder, ids)[-1:]).abs().max() > 10 * TOLERANCE


def test_a_token_outside_the_window_is_not_seen_and_one_at_its_edge_is() -> None:
    decoder = Decoder(DecoderShape(num_layers=1, window=5), seed=3)
    ids = make_ids(20)

    def last(changed: int) -> torch.Tensor:
        return dense_logits(decoder, [*ids[:changed], ids[changed] + 1, *ids[changed + 1 :]])[-1]

    assert torch.equal(last(13), dense_logits(decoder, ids)[-1])
    assert (last(14) - dense_logits(decoder, ids)[-1]).abs().max() > 10 * TOLERANCE


@pytest.mark.parametrize("topk", [1, 4])
def test_a_tree_accepts_what_one_by_one_decoding_would_say_and_leaves_its_keys_behind(topk: int) -> None:
    decoder = Decoder(DecoderShape(), seed=3)
    ids, row, store = make_ids(40), make_row(60), TensorStore(decoder.shape)
    paged_logits(decoder, store, [causal_segment(ids[:-1], 0, row[:39], row)])
    said: list[int] = []
    for _ in range(4):
        sequence = ids + said
        said += decoder.sample(dense_logits(decoder, sequence)[-1:], torch.tensor([len(sequence) - 1]))
    tree = grow_tree(ids[-1], said, topk=topk, num_nodes=9, vocab_size=509, rng=random.Random(5))
    depths = torch.tensor(tree.depths)
    visible = torch.cat([torch.ones(9, 39, dtype=torch.bool), tree.ancestors()], dim=1)
    positions = torch.cat([torch.arange(39), 39 + depths])
    segment = Segment(tree.token_ids, 39 + depths, row[39:48], row[:48], positions, visible)

    logits = paged_logits(decoder, store, [segment])[0]
    path, gained = accepted_path(tree, logits, 39, decoder)
    store.move(row[39 : 39 + len(path)], row[39 + torch.tensor(path)])

    assert len(path) > 1
    assert gained[: len(said)] == said[: len(gained)]
    sequence = ids + gained
    end = len(sequence) - 1
    after = paged_logits(decoder, store, [causal_segment(sequence[-1:], end, row[end : end + 1], row)])[0]
    torch.testing.assert_close(after, dense_logits(decoder, sequence)[-1:], atol=TOLERANCE, rtol=0)


def test_trees_have_the_asked_size_distinct_siblings_and_parents_first() -> None:
    rng = random.Random(0)
    for _ in range(200):
        topk, nodes = rng.randint(1, 5), rng.randint(1, 17)
        tree = grow_tree(700, [3, 4, 5], topk=topk, num_nodes=nodes, vocab_size=509, rng=rng)
        children = [(tree.parents[i], tree.token_ids[i]) for i in range(1, nodes)]

        assert (len(tree.token_ids), tree.token_ids[0]) == (nodes, 700 % 509)
        assert len(set(children)) == len(children)
        assert all(tree.parents[i] < i for i in range(1, nodes))
        assert all(tree.depths[i] == tree.depths[tree.parents[i]] + 1 for i in range(1, nodes))


def test_ancestors_are_the_node_itself_and_all_above_it() -> None:
    tree = DraftTree([1, 2, 3, 4], parents=[0, 0, 0, 2], depths=[0, 1, 1, 2])

    assert tree.ancestors().int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]
