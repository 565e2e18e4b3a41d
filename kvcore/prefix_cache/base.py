"""The interface of a prefix cache, and the values that cross it: lengths in tokens, slots as int64."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from kvcore.prefix_cache.key import RadixKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.allocators.mamba import MambaSlotAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req

__all__ = [
    "EvictParams",
    "EvictResult",
    "InsertResult",
    "LockRef",
    "MatchResult",
    "OwnsSlots",
    "OwnsStates",
    "OwnsWindowSlots",
    "PrefixCache",
    "RadixKey",
    "StateRows",
    "SupportsMamba",
    "SupportsSWA",
]


class LockRef(NamedTuple):
    """A lock on a node's path to the root; give exactly this back to ``dec_lock_ref``."""

    node: Any
    swa_uuid: int | None = None
    """Where the sliding-window part of the lock ends; ``None`` if it reaches the root (or there is none)."""
    swa_released: bool = False
    """The sliding-window part has been given up early."""
    mamba_locked: bool = False
    """The lock also protects the state at ``node``."""


class MatchResult(NamedTuple):
    """The longest cached prefix of a key. Nothing is locked: lock ``last_node`` before anything evicts."""

    device_indices: torch.Tensor
    """int64 [matched], slots of the prefix; owned by the tree."""
    last_node: Any
    """Where the match ended; the root (or ``None`` without a tree) when nothing matched."""
    cache_protected_len: int
    """Tokens of ``device_indices`` that the tree owns."""
    mamba_state_slot: int | None = None
    """State slot at ``last_node`` (mamba trees)."""
    mamba_branching_seqlen: int | None = None
    """Length at which a further state snapshot would help later requests (mamba trees)."""


class InsertResult(NamedTuple):
    """What an insertion found."""

    prefix_len: int
    """Tokens that the tree already held; the inserter's own slots for them are duplicates it has to free."""
    last_node: Any
    mamba_exist: bool = False
    """The node already held a state, so the inserter keeps (and frees) its own."""


class EvictParams(NamedTuple):
    """How much to give back: slots of the full pool, of the window pool, and states."""

    num_tokens: int = 0
    swa_num_tokens: int = 0
    mamba_num: int = 0


class EvictResult(NamedTuple):
    """How much was really given back, in the units of EvictParams."""

    num_tokens_evicted: int = 0
    swa_num_tokens_evicted: int = 0
    mamba_num_evicted: int = 0


class PrefixCache(ABC):
    """Keeps the KV of past requests for later ones, in a tree over token ids (or not at all)."""

    page_size: int
    """Granularity of sharing, in tokens."""
    allocator: TokenToKVPoolAllocator
    req_to_token_pool: ReqToTokenPool

    def request_key(self, req: Req, token_ids: Sequence[int]) -> RadixKey:
        """The key under which ``req`` looks up and keeps ``token_ids``."""
        return RadixKey(token_ids, req.extra_key)

    @abstractmethod
    def match_prefix(self, key: RadixKey) -> MatchResult:
        """Find the longest cached prefix. May split a node and refreshes access times; changes no slot."""

    @abstractmethod
    def cache_finished_req(self, req: Req, *, kv_len: int, is_insert: bool = True) -> None:
        """Take over, or free, ``row[protected:kv_len)`` of a finished request and release its lock."""

    @abstractmethod
    def cache_unfinished_req(self, req: Req, *, chunked: bool = False) -> None:
        """Insert what ``req`` has computed (``req.fill_ids``) and advance its prefix to all of it.

        Must leave ``req.prefix_indices`` covering ``len(req.fill_ids)`` tokens, and
        ``kv.cache_protected_len`` the part of them that the tree owns.
        """

    @abstractmethod
    def evict(self, params: EvictParams) -> EvictResult:
        """Give back at least what is asked, or all that is not locked."""

    @abstractmethod
    def inc_lock_ref(self, node: Any) -> LockRef:
        """Protect ``node`` and its ancestors from eviction."""

    @abstractmethod
    def dec_lock_ref(self, lock: LockRef) -> None:
        """Undo one ``inc_lock_ref``."""

    @abstractmethod
    def evictable_size(self) -> int:
        """Slots of the full pool that eviction could give back."""

    @abstractmethod
    def protected_size(self) -> int:
        """Slots of the full pool that locked nodes hold."""

    @abstractmethod
    def reset(self) -> None:
        """Forget everything, without freeing a slot."""

    @abstractmethod
    def pretty_print(self) -> str:
        """The tree as text, for error reports."""


@runtime_checkable
class SupportsSWA(Protocol):
    """Capability: the cache tracks a sliding window and owns slots of the window pool."""

    sliding_window_size: int

    def swa_evictable_size(self) -> int:
        """Slots of the window pool that eviction could give back."""
        ...

    def swa_protected_size(self) -> int:
        """Slots of the window pool that window locks hold."""
        ...


@runtime_checkable
class SupportsMamba(Protocol):
    """Capability: the cache keeps recurrent states at its nodes."""

    def mamba_evictable_size(self) -> int:
        """State slots that eviction could give back."""
        ...

    def mamba_protected_size(self) -> int:
        """State slots at locked nodes."""
        ...


@runtime_checkable
class StateRows(Protocol):
    """What a tree of states asks of the row pool whose requests hold them. State slots are host integers."""

    @property
    def state_slots(self) -> MambaSlotAllocator | None:
        """Hands out and takes back the state slots of requests and tree alike."""
        ...

    def copy_states(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy the states in ``sources[i]`` to ``targets[i]``; all reads come before any write."""
        ...

    def keep_idx(self, req: Req) -> int:
        """Place in the track buffer of ``req`` of its last snapshot, the one a tree may take."""
        ...

    def donate(self, req: Req, replacement: int) -> int:
        """Take the slot of the last snapshot out of the track buffer, ``replacement`` comes in its place."""
        ...

    def free_mamba_cache(self, req: Req, keep: int | None = None) -> None:
        """Take back the states that ``req`` holds, in its track buffer all but place ``keep``."""
        ...


@runtime_checkable
class OwnsSlots(Protocol):
    """Capability for the invariant checker: a cache whose nodes hold slots. May synchronise the device."""

    def owned_slots(self) -> torch.Tensor:
        """int64, each slot of the full pool that a node holds, tombstones too; one held twice shows twice."""
        ...

    def check(self) -> None:
        """Recompute sizes and locks from the nodes; raises InvariantViolation where a counter disagrees."""
        ...


@runtime_checkable
class OwnsWindowSlots(Protocol):
    """Capability for the invariant checker: a cache whose nodes hold slots of a window pool."""

    def owned_window_slots(self) -> torch.Tensor:
        """int64, those of ``owned_slots`` that the tree expects to have a slot in the window pool."""
        ...


@runtime_checkable
class OwnsStates(Protocol):
    """Capability for the invariant checker: a cache whose nodes hold recurrent states."""

    def owned_states(self) -> list[int]:
        """Every state slot that a node holds; one held twice shows twice."""
        ...
