"""Storing the keys and values of new tokens at their slots.

    token-major cache   [num_slots, H, d]      row s = slot s
    page-major cache    [num_pages, H, P, d]   slot s = page s // P, offset s % P ("HND")

Slots of the reserved page 0 take the writes of padded lanes. Values are copied as they are: a cache of 8-bit
floats is uint8 here, and scales have been applied before.
"""

from __future__ import annotations

import torch

from kvcore.errors import ConfigurationError, SlotOutOfRange
from kvcore.kernels.addressing import paged_row_offsets
from kvcore.kernels.dispatch import load_kernel, runs_on_triton
from kvcore.page_math import ceil_div

_ROW_BLOCK = 512


def store_kv(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    probe: bool | None = None,
) -> None:
    """Write ``k[i]`` and ``v[i]`` to row ``slots[i]`` of token-major caches; other rows keep their bytes.

    Args:
        k_cache, v_cache: [num_slots, H, dk] and [num_slots, H, dv], contiguous; written.
        slots: int32 or int64 [n]; no two equal outside the reserved page.
        k, v: [n, H, dk] and [n, H, dv], same dtype as the caches, each row contiguous.
        probe: check that every slot is in range, which waits for the device. None: check on the CPU only.

    Raises SlotOutOfRange, with nothing written, when the probe fails. Without it the Triton kernel skips such
    slots. Raises ConfigurationError for caches of different lengths and values of another shape or dtype.
    """
    if slots.shape[0] == 0:
        return
    _check_same_rows(k_cache, v_cache)
    _check_rows(k_cache, slots, k)
    _check_rows(v_cache, slots, v)
    if slots.is_cpu if probe is None else probe:
        check_slot_range(slots, k_cache.shape[0])
    if runs_on_triton(k_cache):
        _store_rows_launch(k_cache, v_cache, slots, k, v)
    else:
        store_kv_torch(k_cache, v_cache, slots, k, v)


def store_kv_torch(
    k_cache: torch.Tensor, v_cache: torch.Tensor, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> None:
    """The torch form of ``store_kv``, without its checks."""
    k_cache[slots] = k
    v_cache[slots] = v


def store_mla_kv(
    kv_cache: torch.Tensor,
    slots: torch.Tensor,
    k_nope: torch.Tensor,
    k_rope: torch.Tensor,
    *,
    probe: bool | None = None,
) -> None:
    """Write ``k_nope[i]`` and ``k_rope[i]`` side by side to row ``slots[i]`` of a latent cache.

    ``kv_cache`` is [num_slots, 1, lora + rope], ``k_nope`` [n, 1, lora], ``k_rope`` [n, 1, rope], otherwise
    as in ``store_kv``.
    """
    if slots.shape[0] == 0:
        return
    lora = k_nope.shape[-1]
    _check_rows(kv_cache[..., :lora], slots, k_nope)
    _check_rows(kv_cache[..., lora:], slots, k_rope)
    if slots.is_cpu if probe is None else probe:
        check_slot_range(slots, kv_cache.shape[0])
    if runs_on_triton(kv_cache):
        _store_rows_launch(kv_cache[..., :lora], kv_cache[..., lora:], slots, k_nope, k_rope)
    else:
        store_mla_kv_torch(kv_cache, slots, k_nope, k_rope)


def store_mla_kv_torch(
    kv_cache: torch.Tensor, slots: torch.Tensor, k_nope: torch.Tensor, k_rope: torch.Tensor
) -> None:
    """The torch form of ``store_mla_kv``, without its checks."""
    lora = k_nope.shape[-1]
    kv_cache[..., :lora][slots] = k_nope
    kv_cache[..., lora:][slots] = k_rope


def store_kv_paged(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    probe: bool | None = None,
) -> None:
    """Write ``k[i]`` and ``v[i]`` to slot ``slots[i]`` of page-major caches [num_pages, H, P, d].

    Otherwise as in ``store_kv``.
    """
    if slots.shape[0] == 0:
        return
    _check_same_rows(k_cache, v_cache)
    _check_rows(k_cache[:, :, 0], slots, k)
    _check_rows(v_cache[:, :, 0], slots, v)
    if slots.is_cpu if probe is None else probe:
        check_slot_range(slots, k_cache.shape[0] * k_cache.shape[2])
    if runs_on_triton(k_cache):
        _store_paged_launch(k_cache, slots, k)
        _store_paged_launch(v_cache, slots, v)
    else:
        store_kv_paged_torch(k_cache, v_cache, slots, k, v)


def store_kv_paged_torch(
    k_cache: torch.Tensor, v_cache: torch.Tensor, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> None:
    """The torch form of ``store_kv_paged``, without its checks."""
    num_heads, page_size = k_cache.shape[1:3]
    # A cache is a list of head vectors, [num_pages * H * P, d]; those of one slot lie page_size apart.
    page_vectors = num_heads * page_size
    first = paged_row_offsets(slots, page_size=page_size, page_elements=page_vectors, row_elements=1)
    vectors = first[:, None] + torch.arange(0, page_vectors, page_size, device=slots.device)
    k_cache.view(-1, k_cache.shape[3])[vectors] = k
    v_cache.view(-1, v_cache.shape[3])[vectors] = v


def check_slot_range(slots: torch.Tensor, num_slots: int) -> None:
    """Raise SlotOutOfRange unless every slot lies in ``0..num_slots-1``; waits for the device."""
    low, high = slots.aminmax()
    if int(low) < 0 or int(high) >= num_slots:
        raise SlotOutOfRange(
            f"slots reach from {int(low)} to {int(high)}, the cache has 0..{num_slots - 1}; "
            "look for a row that was read past its allocated length, or an unmapped window slot"
        )


def _check_same_rows(k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
    """A kernel knows one number of rows: it would write behind the end of the shorter cache."""
    if k_cache.shape[0] != v_cache.shape[0]:
        raise ConfigurationError(
            f"keys and values share their slots, found caches of {k_cache.shape[0]} and "
            f"{v_cache.shape[0]} rows"
        )


def _check_rows(cache: torch.Tensor, slots: torch.Tensor, values: torch.Tensor) -> None:
    """Raise ConfigurationError unless ``values`` are contiguous rows [n, ...] of the cache's dtype."""
    expected = (slots.shape[0], *cache.shape[1:])
    num_heads, head_dim = values.shape[1:]
    contiguous = values.stride(2) == 1 and (num_heads == 1 or values.stride(1) == head_dim)
    if values.shape != expected or values.dtype != cache.dtype or not contiguous:
        raise ConfigurationError(
            f"values to store are {expected} of {cache.dtype} with contiguous rows, found "
            f"{tuple(values.shape)} of {values.dtype} with strides {values.stride()}; cast or copy them first"
        )


def _store_rows_launch(
    a_cache: torch.Tensor, b_cache: torch.Tensor, slots: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> None:
    a_width, b_width = a.shape[1] * a.shape[2], b.shape[1] * b.shape[2]
    a_tiles = ceil_div(a_width, _ROW_BLOCK)
    kernel = load_kernel("kv_store_triton", "store_rows_kernel")
    kernel[slots.shape[0], a_tiles + ceil_div(b_width, _ROW_BLOCK)](
        a_cache,
        b_cache,
        slots.contiguous(),
        a,
        b,
        a_cache.stride(0),
        b_cache.stride(0),
        a.stride(0),
        b.stride(0),
        a_width,
        b_width,
        a_tiles,
        a_cache.shape[0],
        BLOCK=_ROW_BLOCK,
    )


def _store_paged_launch(cache: torch.Tensor, slots: torch.Tensor, values: torch.Tensor) -> None:
    num_heads, page_size, head_dim = cache.shape[1:]
    first_elements = paged_row_offsets(
        slots, page_size=page_size, page_elements=cache.stride(0), row_elements=head_dim
    )
    kernel = load_kernel("kv_store_triton", "store_paged_kernel")
    kernel[slots.shape[0], ceil_div(num_heads * head_dim, _ROW_BLOCK)](
        cache,
        first_elements,
        values,
        values.stride(0),
        num_heads * head_dim,
        head_dim,
        page_size * head_dim,
        cache.numel(),
        BLOCK=_ROW_BLOCK,
    )
