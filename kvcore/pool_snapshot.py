"""A picture of pools and requests, to compare with a later one (I9: a failed operation changes nothing)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from kvcore.allocators.base import ListsFreePages, MapsWindow
from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.prefix_cache.base import OwnsSlots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req, ReqKvInfo


@dataclass(frozen=True, slots=True, eq=False)
class PoolSnapshot:
    """What was free, written and recorded; copies throughout. Costs what the pools hold."""

    req_to_token: torch.Tensor
    req_generation: torch.Tensor
    free_rows: tuple[int, ...]
    free_states: tuple[int, ...]
    free_slots: dict[str, torch.Tensor]
    """By pool, the free page ids in ascending order; the full-to-window mapping under its own name."""
    tree_slots: torch.Tensor
    records: dict[str, tuple[ReqKvInfo | None, int | None, tuple[int, ...] | None]]
    """By request: its lengths, its state, its track buffer."""

    def differences(self, later: PoolSnapshot, *, evicted: bool = False) -> list[str]:
        """What is not the same any more, by name; ``evicted`` allows for slots that the tree gave back."""
        tables = ["req_to_token", "req_generation"] + ([] if evicted else ["tree_slots"])
        values = ("free_rows", "free_states", "records")
        changed = [name for name in tables if not torch.equal(getattr(self, name), getattr(later, name))]
        changed += [name for name in values if getattr(self, name) != getattr(later, name)]
        if not evicted:
            pools = self.free_slots
            changed += [name for name in pools if not torch.equal(pools[name], later.free_slots[name])]
        return changed


def snapshot(
    reqs: Sequence[Req],
    req_to_token_pool: ReqToTokenPool,
    allocator: TokenToKVPoolAllocator,
    tree_cache: PrefixCache | None,
) -> PoolSnapshot:
    """The state of one stack and of ``reqs`` now; copies, so that ``differences`` tells what changed later.

    Costs what the pools hold, and may synchronise the device: for tests and checks.
    """
    states = req_to_token_pool.state_slots
    slots = (
        tree_cache.owned_slots() if isinstance(tree_cache, OwnsSlots) else torch.empty(0, dtype=torch.int64)
    )
    return PoolSnapshot(
        req_to_token=req_to_token_pool.req_to_token.clone(),
        req_generation=req_to_token_pool.req_generation.clone(),
        free_rows=tuple(req_to_token_pool.free_slots),
        free_states=() if states is None else tuple(sorted(states.free_slots())),
        free_slots=_free_slots(allocator),
        tree_slots=slots.sort().values,
        records={
            req.rid: (
                None if req.kv is None else replace(req.kv),
                req.mamba_pool_idx,
                None if req.mamba_ping_pong_track_buffer is None else tuple(req.mamba_ping_pong_track_buffer),
            )
            for req in reqs
        },
    )


def _free_slots(allocator: TokenToKVPoolAllocator) -> dict[str, torch.Tensor]:
    compressed: dict[str, torch.Tensor] = {}
    if isinstance(allocator, DSV4Allocator):
        for pages in allocator.compressed:
            compressed[f"c{pages.ratio} pool"] = pages.allocator.free_page_ids().sort().values
            compressed[f"c{pages.ratio} pages"] = pages.page_of.clone()
        for states in allocator.states:
            compressed[f"c{states.ratio} states"] = states.allocator.free_page_ids().sort().values
    if isinstance(allocator, MapsWindow):
        return compressed | {
            "full pool": allocator.full_attn_allocator.free_page_ids().sort().values,
            "window pool": allocator.swa_attn_allocator.free_page_ids().sort().values,
            "mapping": allocator.full_to_swa_index_mapping.clone(),
        }
    assert isinstance(allocator, ListsFreePages), f"{type(allocator).__name__} does not name its free pages"
    return {"pool": allocator.free_page_ids().sort().values}
