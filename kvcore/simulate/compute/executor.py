"""Runs every batch through the decoder, and compares each request with the dense reference when it ends."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch

from kvcore.errors import InvariantViolation
from kvcore.simulate.compute.decoder import dense_logits, dense_pass
from kvcore.simulate.compute.draft_tree import accepted_path, grow_tree
from kvcore.simulate.compute.paged import Segment, causal_segment, paged_logits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.req import Req
    from kvcore.schedule_batch import ScheduleBatch
    from kvcore.simulate.compute.decoder import Decoder
    from kvcore.simulate.compute.draft_tree import DraftTree
    from kvcore.simulate.compute.paged import KvStore

TOLERANCE = 2e-4
"""Largest difference of a logit (of size 1) that counts as rounding; a wrong slot makes one of some 0.01."""
_MAX_LIKELY = 4
"""Drafts of a tree that are computed; deeper ones are guesses."""


class _Computed(NamedTuple):
    operation: str
    start: int
    logits: torch.Tensor
    """Float32 [n, vocab_size], of positions ``start`` to ``start + n``."""


@dataclass(slots=True)
class _Known:
    """A request as the device sees it, ahead of the host by the step in flight."""

    token_ids: list[int]
    """Prompt and output; the last one has no keys and values yet."""
    computed: list[_Computed] = field(default_factory=list)


class ComputingExecutor:
    """An executor that computes: extends, decodes, drafts and verifies through rows and pools.

    ``compared`` counts the positions that have been compared with the reference.
    """

    def __init__(
        self, decoder: Decoder, store: KvStore, *, topk: int, num_draft_tokens: int, seed: int
    ) -> None:
        self._decoder = decoder
        self._store = store
        self._topk = topk
        self._num_draft_tokens = num_draft_tokens
        self._rng = random.Random(seed)  # noqa: S311 - reproducible drafts, no secret
        self._known: dict[str, _Known] = {}
        self.compared = 0

    def extend(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """Compute what is not cached; one token where the prompt ends."""
        slots = torch.split(batch.out_cache_loc, [req.extend_len for req in batch.reqs])
        segments = [
            causal_segment(
                req.fill_ids[-req.extend_len :],
                len(req.fill_ids) - req.extend_len,
                own,
                self._row(batch, req, len(req.fill_ids)),
            )
            for req, own in zip(batch.reqs, slots, strict=True)
        ]
        tokens: list[Sequence[int]] = []
        for req, segment, logits in zip(batch.reqs, segments, self._run(segments), strict=True):
            known = self._known.setdefault(req.rid, _Known([]))
            known.token_ids = list(req.fill_ids)
            known.computed.append(_Computed("extend", int(segment.positions[0]), logits))
            said = [] if req.is_chunked else self._decoder.sample(logits[-1:], segment.positions[-1:])
            known.token_ids += said
            tokens.append(said)
        return tokens

    def receive(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """Write what a machine without a cache would send; the first token comes with it."""
        tokens: list[Sequence[int]] = []
        for req in batch.reqs:
            start, end = req.prefix_indices.numel(), len(req.fill_ids)
            sent = dense_pass(self._decoder, req.fill_ids)
            slots = self._row(batch, req, end)[start:end].to(torch.int64)
            for layer, (key, value) in enumerate(sent.key_values):
                self._store.write(layer, slots, key[start:], value[start:])
            said = [] if req.output_ids else self._decoder.sample(sent.logits[-1:], torch.tensor([end - 1]))
            self._known[req.rid] = _Known([*req.token_ids, *said])
            tokens.append(said)
        return tokens

    def decode(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """One token a request, or as many as a verified draft tree gives."""
        if batch.is_speculative:
            return self._verify(batch)
        segments = []
        for req, slot in zip(batch.reqs, torch.split(batch.out_cache_loc, 1), strict=True):
            ids = self._known[req.rid].token_ids
            segments.append(causal_segment(ids[-1:], len(ids) - 1, slot, self._row(batch, req, len(ids))))
        return [list(said) for said in self._say_next(batch, segments, "decode")]

    def forget(self, req: Req) -> None:
        """Compare what was computed for ``req``; raises InvariantViolation at the first wrong position."""
        known = self._known.pop(req.rid, None)
        if known is None:
            return
        expected = dense_logits(self._decoder, known.token_ids)
        for operation, start, logits in known.computed:
            end = start + logits.shape[0]
            worst = (logits - expected[start:end]).abs().amax(dim=1)
            wrong = torch.nonzero(~(worst <= TOLERANCE)).flatten()
            if wrong.numel():
                position, by = start + int(wrong[0]), float(worst[wrong[0]])
                raise InvariantViolation(
                    f"{req.rid}: {operation} of tokens [{start}, {end}) gave logits at {position} that "
                    f"differ by {by:.4f} from a dense pass without a cache (rounding: {TOLERANCE}); a key or "
                    "value was read from a wrong slot, or written over"
                )
            self.compared += end - start

    def _say_next(self, batch: ScheduleBatch, segments: list[Segment], operation: str) -> list[list[int]]:
        tokens = []
        for req, segment, logits in zip(batch.reqs, segments, self._run(segments), strict=True):
            known = self._known[req.rid]
            known.computed.append(_Computed(operation, int(segment.positions[0]), logits))
            said = self._decoder.sample(logits, segment.positions)
            known.token_ids += said
            tokens.append(said)
        return tokens

    def _verify(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        likely = self._draft(batch)
        trees, segments = [], []
        for req, path in zip(batch.reqs, likely, strict=True):
            root = self._known[req.rid].token_ids[-1]
            tree = grow_tree(
                root,
                path,
                topk=self._topk,
                num_nodes=self._num_draft_tokens,
                vocab_size=self._decoder.shape.vocab_size,
                rng=self._rng,
            )
            trees.append(tree)
            segments.append(self._tree_segment(batch, req, tree))
        tokens: list[Sequence[int]] = []
        for req, tree, logits in zip(batch.reqs, trees, self._run(segments), strict=True):
            tokens.append(self._accept(batch, req, tree, logits))
        return tokens

    def _draft(self, batch: ScheduleBatch) -> list[list[int]]:
        """The tokens that come next, by decoding ahead into the reserved slots; then the reserve is spoilt.

        What drafting leaves behind has no meaning; verification writes its own keys and values over it. So
        everything behind the committed part may be written here, and must belong to nobody else.
        """
        likely: list[list[int]] = [[] for _ in batch.reqs]
        for step in range(min(_MAX_LIKELY, self._num_draft_tokens - 1)):
            segments = []
            for req, path in zip(batch.reqs, likely, strict=True):
                ids = self._known[req.rid].token_ids
                at = len(ids) - 1 + step
                row = self._row(batch, req, at + 1)
                segments.append(causal_segment([[*ids[-1:], *path][step]], at, row[at : at + 1], row))
            for path, segment, logits in zip(likely, segments, self._run(segments), strict=True):
                path.extend(self._decoder.sample(logits, segment.positions))
        for req in batch.reqs:
            start = len(self._known[req.rid].token_ids) - 1
            self._spoil(self._row(batch, req, start)[start:])
        return likely

    def _spoil(self, slots: torch.Tensor) -> None:
        shape = self._decoder.shape
        junk = torch.full((slots.numel(), shape.num_kv_heads, shape.head_dim), 3.0)
        for layer in range(shape.num_layers):
            self._store.write(layer, slots.to(torch.int64), junk, junk)

    def _tree_segment(self, batch: ScheduleBatch, req: Req, tree: DraftTree) -> Segment:
        start = len(self._known[req.rid].token_ids) - 1
        end = start + len(tree.token_ids)
        row = self._row(batch, req, end)[:end].to(torch.int64)
        positions = start + torch.tensor(tree.depths)
        before = torch.ones(len(tree.token_ids), start, dtype=torch.bool)
        return Segment(
            token_ids=tree.token_ids,
            positions=positions,
            write_slots=row[start:],
            read_slots=row,
            read_positions=torch.cat([torch.arange(start), positions]),
            visible=torch.cat([before, tree.ancestors()], dim=1),
        )

    def _accept(self, batch: ScheduleBatch, req: Req, tree: DraftTree, logits: torch.Tensor) -> list[int]:
        """Keep the accepted path: its keys and values move to where a plain sequence would have them."""
        known = self._known[req.rid]
        start = len(known.token_ids) - 1
        path, said = accepted_path(tree, logits, start, self._decoder)
        nodes = torch.tensor(path)
        row = self._row(batch, req, start + len(path)).to(torch.int64)
        self._store.move(row[start : start + len(path)], row[start + nodes])
        known.computed.append(_Computed("verify", start, logits[nodes]))
        known.token_ids += said
        return said

    @staticmethod
    def _row(batch: ScheduleBatch, req: Req, end: int) -> torch.Tensor:
        """The slots of ``req``, int32, as far as they are allocated, at least ``end`` of them; a view."""
        assert req.kv is not None, f"{req.rid} holds no row"
        allocated = req.kv.kv_allocated_len
        assert allocated >= end, (
            f"{req.rid} computes token {end - 1}, but only {allocated} tokens are allocated"
        )
        return batch.req_to_token_pool.req_to_token[req.kv.req_pool_idx, :allocated]

    def _run(self, segments: list[Segment]) -> list[torch.Tensor]:
        return paged_logits(self._decoder, self._store, segments)
