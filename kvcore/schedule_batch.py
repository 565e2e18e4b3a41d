"""The running batch: what the next decode step will take, who has to go when that is too much, and the steps.

``Req`` and ``ReqKvInfo`` are importable from here, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kvcore.admission import forget_match
from kvcore.allocation import ExtendLens, alloc_for_decode, alloc_for_extend, extend_lens_of
from kvcore.allocation_sizing import get_alloc_reserve_per_decode
from kvcore.capacity import available_and_evictable_str, evict_from_tree_cache
from kvcore.compressed_allocation import decode_states_fit
from kvcore.errors import FreeGroupError
from kvcore.kernels.addressing import upload
from kvcore.page_math import align_up
from kvcore.release import release_kv_cache
from kvcore.req import Req, ReqKvInfo, records_of
from kvcore.speculative import dflash, eagle
from kvcore.speculative.dflash import PlanBuffers
from kvcore.window import evict_window_before_decode, evict_window_before_extend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.allocators.dsv4_values import DSV4OutCacheLoc
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.server_args import ServerArgs
    from kvcore.speculative.eagle import SpecDecodePlan

__all__ = ["Req", "ReqKvInfo", "Retraction", "ScheduleBatch", "advance_request"]


class Retraction(NamedTuple):
    """Who left the batch so that the rest can go on."""

    retracted: list[Req]
    """Back to the queue: they hold nothing, keep their output, and are computed anew."""
    aborted: list[Req]
    """Ended with an error: alone, and still too large for the pools."""


def _no_lens() -> torch.Tensor:
    return torch.empty(0, dtype=torch.int64)


def _no_extend() -> ExtendLens:
    return ExtendLens(_no_lens(), _no_lens(), _no_lens(), _no_lens(), 0)


@dataclass(slots=True, eq=False, kw_only=True)
class ScheduleBatch:
    """Requests that take their next step together, and the pools that they live in.

    Tensors are int64 [bs] in the order of ``reqs``; the ``_cpu`` twins hold the same values on the host.
    """

    reqs: list[Req]
    req_to_token_pool: ReqToTokenPool
    allocator: TokenToKVPoolAllocator
    tree_cache: PrefixCache
    server_args: ServerArgs
    sliding_window_size: int | None = None
    """Tokens that a sliding-window layer attends to; ``None`` without such layers."""
    swa_eviction_interval: int = 128
    """Decode tokens of a request between two looks for slots that left the window."""

    req_pool_indices: torch.Tensor = field(default_factory=_no_lens)
    req_pool_indices_cpu: torch.Tensor = field(default_factory=_no_lens)
    seq_lens: torch.Tensor = field(default_factory=_no_lens)
    """Tokens before the next step, without those of the encoder."""
    seq_lens_cpu: torch.Tensor = field(default_factory=_no_lens)
    encoder_lens: torch.Tensor | None = None
    """Columns of the encoder at the front of the rows; ``None`` for decoder-only models."""
    encoder_lens_cpu: torch.Tensor | None = None
    extend_lens: ExtendLens = field(default_factory=_no_extend)
    """Lengths of the extend that was prepared last."""
    out_cache_loc: torch.Tensor = field(default_factory=_no_lens)
    """Slots that the coming forward writes KV to."""
    out_cache_loc_dsv4: DSV4OutCacheLoc | None = None
    """The same slots in all pools of a model with compressed attention; ``None`` for other models."""
    spec_plan: SpecDecodePlan | None = None
    """Where the rows reach for the speculative step that was prepared last; ``None`` after any other step."""
    plan_buffers: PlanBuffers = field(default_factory=PlanBuffers)
    """Reused by block drafting from step to step."""

    @property
    def is_speculative(self) -> bool:
        """Whether decode steps draft ahead."""
        return self.server_args.speculative_algorithm is not None

    def prepare_for_extend(self) -> None:
        """Grant rows and slots for the next chunk of every request; sets the tensors of the batch.

        Raises RowOverflow, KvReuseError or OutOfSlots; the requests and pools are then as before, but for
        slots that had left the window.
        """
        device = self.allocator.device
        evict_window_before_extend(self)
        self.extend_lens = lens = extend_lens_of(self.reqs, device)
        granted = alloc_for_extend(self)
        self.spec_plan = None
        self.out_cache_loc, self.req_pool_indices, self.req_pool_indices_cpu = granted
        self.seq_lens, self.seq_lens_cpu = lens.seq_lens, lens.seq_lens_cpu
        self._split_off_encoder()
        self.req_to_token_pool.start_states(self.reqs)

    def prepare_for_decode(self) -> None:
        """Take the slots of the next decode step: one per request, or up to the speculative watermark.

        Raises RowOverflow or OutOfSlots; the requests and pools are then as before, but for slots that had
        left the window.
        """
        evict_window_before_decode(self)
        algorithm = self.server_args.speculative_algorithm
        if algorithm is None:
            self.out_cache_loc = alloc_for_decode(self, token_per_req=1)
            # New tensors: a forward in flight may still read the old ones.
            self.seq_lens = self.seq_lens + 1
            self.seq_lens_cpu = self.seq_lens_cpu + 1
            for req in self.reqs:
                req.decode_batch_idx += 1
        elif algorithm.drafts_in_blocks():
            self.spec_plan = dflash.prepare_for_decode(self, self.plan_buffers)
        else:
            self.spec_plan = eagle.prepare_for_decode(self)

    def take_over(self) -> None:
        """Set the tensors of a batch whose requests got their slots elsewhere (disaggregation): no extend."""
        device = self.allocator.device
        rows = np.array([kv.req_pool_idx for kv in records_of(self.reqs)], dtype=np.int64)
        self.req_pool_indices_cpu, self.req_pool_indices = torch.from_numpy(rows), upload(rows, device)
        self.spec_plan = None
        self._read_seq_lens()
        self._split_off_encoder()
        self.req_to_token_pool.start_states(self.reqs)

    def advance(self, new_ids: Sequence[Sequence[int]]) -> list[Req]:
        """Settle a step: append the ids that each request produced; returns the requests that are done.

        After a speculative step the committed length moves by the ids that are kept. Ids beyond
        ``max_new_tokens`` are dropped, and so is what a request produced that has been finished or retracted
        since.
        """
        finished = [
            req
            for req, ids in zip(self.reqs, new_ids, strict=True)
            if advance_request(req, ids, verified=self.spec_plan is not None)
        ]
        if self.spec_plan is not None:
            self._read_seq_lens()
        return finished

    def new_tokens_required_next_decode(self, reqs: Sequence[Req] | None = None) -> int:
        """Slots that the next decode step of ``reqs`` (all, for ``None``) takes from the pools: whole pages.

        Counted in pages because that is what the allocator hands out: a request at a page boundary takes a
        page for its one token (sgl-project/sglang#4977, #9989).
        """
        reqs = self.reqs if reqs is None else reqs
        if self.is_speculative:
            return self._new_tokens_required_next_decode_spec_v2(reqs)
        page_size = self.allocator.page_size
        num_pages = sum(1 for kv in records_of(reqs) if kv.kv_allocated_len % page_size == 0)
        return num_pages * page_size

    def _new_tokens_required_next_decode_spec_v2(self, reqs: Sequence[Req]) -> int:
        """Slots between what the rows hold and the watermark of the next step, in whole pages."""
        page_size = self.allocator.page_size
        reserve = get_alloc_reserve_per_decode(self.server_args)
        num_tokens = 0
        for kv in records_of(reqs):
            missing = max(0, kv.kv_committed_len + reserve - kv.kv_allocated_len)
            end = align_up(kv.kv_allocated_len + missing, page_size)
            num_tokens += end - align_up(kv.kv_allocated_len, page_size)
        return num_tokens

    def check_decode_mem(self, reqs: Sequence[Req] | None = None) -> bool:
        """Whether the next decode step of ``reqs`` (all, for ``None``) fits, after evicting what it lacks.

        Slots count in whole pages, and so do the compress states of models that have them.
        """
        reqs = self.reqs if reqs is None else reqs
        num_tokens = self.new_tokens_required_next_decode(reqs)
        evict_from_tree_cache(self.tree_cache, self.allocator, num_tokens)
        if self.allocator.available_size() < num_tokens:
            return False
        return decode_states_fit(self.allocator, self.server_args, records_of(reqs))

    def retract_decode(self) -> Retraction:
        """Take requests out of the batch until the next decode step of the rest fits.

        Those go first that have produced least, and among them the longest prompts. One request is kept as
        long as it fits on its own; if it does not, it is aborted: nobody else could make room
        (sgl-project/sglang#19881). Raises FreeGroupError, with nothing changed, within a free group: what is
        released does not show before its end, and one request after the other would be taken out for nothing.
        """
        if self.allocator.free_group_open:
            raise FreeGroupError("retract_decode within a free group; end the group first")
        kept = sorted(self.reqs, key=lambda req: (-len(req.output_ids), len(req.origin_input_ids)))
        retracted: list[Req] = []
        aborted: list[Req] = []
        while not self.check_decode_mem(kept):
            if len(kept) == 1:
                aborted.append(kept.pop())
                break
            retracted.append(kept.pop())
            self._release_uncached(retracted[-1])
        for req in aborted:
            num_tokens = self.new_tokens_required_next_decode([req])
            available = available_and_evictable_str(self.tree_cache, self.allocator)
            req.finished_reason = f"abort: out of memory, alone it needs {num_tokens} more slots. {available}"
            self._release_uncached(req)
        self.filter([i for i, req in enumerate(self.reqs) if req.kv is not None])
        return Retraction(retracted, aborted)

    def filter(self, keep: Sequence[int]) -> None:
        """Keep the requests at the indices ``keep``, in that order."""
        if len(keep) == len(self.reqs) and all(i == k for i, k in enumerate(keep)):
            return
        self.reqs = [self.reqs[i] for i in keep]
        host = np.array(keep, dtype=np.int64)
        index, index_cpu = upload(host, self.allocator.device), torch.from_numpy(host)
        self.req_pool_indices = self.req_pool_indices[index]
        self.req_pool_indices_cpu = self.req_pool_indices_cpu[index_cpu]
        self.seq_lens, self.seq_lens_cpu = self.seq_lens[index], self.seq_lens_cpu[index_cpu]
        if self.encoder_lens is not None and self.encoder_lens_cpu is not None:
            self.encoder_lens = self.encoder_lens[index]
            self.encoder_lens_cpu = self.encoder_lens_cpu[index_cpu]

    def merge(self, other: ScheduleBatch) -> None:
        """Append the requests of ``other``, which has had its extend; both have encoders, or none has."""
        encoders = self.encoder_lens is not None, other.encoder_lens is not None
        assert encoders[0] == encoders[1] or not self.reqs or not other.reqs, (
            f"batches of {len(self.reqs)} and {len(other.reqs)} requests merge only if both have "
            f"encoders, or neither has: found {encoders}"
        )
        self.reqs = [*self.reqs, *other.reqs]
        self.req_pool_indices = torch.cat((self.req_pool_indices, other.req_pool_indices))
        self.req_pool_indices_cpu = torch.cat((self.req_pool_indices_cpu, other.req_pool_indices_cpu))
        self.seq_lens = torch.cat((self.seq_lens, other.seq_lens))
        self.seq_lens_cpu = torch.cat((self.seq_lens_cpu, other.seq_lens_cpu))
        self.encoder_lens = _cat_optional(self.encoder_lens, other.encoder_lens)
        self.encoder_lens_cpu = _cat_optional(self.encoder_lens_cpu, other.encoder_lens_cpu)

    def _split_off_encoder(self) -> None:
        """Count the encoder's columns apart from the sequence, for encoder-decoder models."""
        self.encoder_lens = self.encoder_lens_cpu = None
        if any(req.encoder_len for req in self.reqs):
            host = np.array([req.encoder_len for req in self.reqs], dtype=np.int64)
            self.encoder_lens_cpu = torch.from_numpy(host)
            self.encoder_lens = upload(host, self.allocator.device)
            self.seq_lens = self.seq_lens - self.encoder_lens
            self.seq_lens_cpu = self.seq_lens_cpu - self.encoder_lens_cpu

    def _release_uncached(self, req: Req) -> None:
        """Free all that ``req`` does not share; it starts over if it comes back."""
        release_kv_cache(req, self.tree_cache, is_insert=False)
        forget_match(req)

    def _read_seq_lens(self) -> None:
        """Sequence lengths as verification left them, from the records, which count encoders, too."""
        lens = [0 if req.kv is None else req.kv.kv_committed_len - req.encoder_len for req in self.reqs]
        host = np.array(lens, dtype=np.int64)
        self.seq_lens_cpu = torch.from_numpy(host)
        self.seq_lens = upload(host, self.allocator.device)


def advance_request(req: Req, new_ids: Sequence[int], *, verified: bool) -> bool:
    """Append the ids that a step produced to ``req``; True when it is done.

    ``verified`` says that the ids come from a speculative step, whose KV counts from now on: committed moves
    by the ids that are kept, never by those that are cut off behind the last token
    (sgl-project/sglang#24590). A request that has been finished or retracted since the step began is left
    alone.
    """
    if req.kv is None or req.finished_reason is not None:
        return False
    kept = new_ids[: max(0, req.max_new_tokens - len(req.output_ids))]
    req.output_ids.extend(kept)
    if verified:
        req.kv.kv_committed_len += len(kept)
    if len(req.output_ids) >= req.max_new_tokens:
        req.finished_reason = "length"
    return req.finished_reason is not None


def _cat_optional(left: torch.Tensor | None, right: torch.Tensor | None) -> torch.Tensor | None:
    if left is None or right is None:
        return right if left is None else left
    return torch.cat((left, right))
