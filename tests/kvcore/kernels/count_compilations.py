"""Counts how often the wrappers make Triton compile over batches of 1 to 256; run as a script, without a GPU.

A driver that knows its target but has no device stands in for the GPU; every launch becomes a compilation without a
launch. Prints one JSON object: kernel name -> number of compilations.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from kvcore import kernels
from kvcore.kernels import alloc, dispatch, kv_copy, kv_store, req_to_token

if TYPE_CHECKING:
    import triton


class DeviceFreeDriver:
    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


class CompileOnly:
    """Stands in for a kernel: ``kernel[grid](...)`` compiles for the arguments and launches nothing."""

    def __init__(self, kernel: triton.JITFunction) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        grid = (*grid, 1, 1)[:3]
        return lambda *args, **kwargs: self.kernel.run(*args, grid=grid, warmup=True, **kwargs)


def drive_all_wrappers(batch: int, shift: int) -> None:
    """Call every wrapper with a batch of this size; ``shift`` moves the alignment of sliced inputs."""
    lens = torch.arange(batch + shift)[shift:] % 7
    ends = lens + 70
    base = torch.arange(400_000)
    num_pages = int(((ends + 63) // 64 - (lens + 63) // 64).sum())
    pages = base[shift : shift + num_pages]
    table = torch.zeros(batch + 1, 64 + 13 * batch, dtype=torch.int32)
    kernels.alloc_extend(lens, lens, ends, ends, lens, pages, page_size=64, extend_num_tokens=70 * batch)
    kernels.alloc_decode(ends, lens, pages[:1].numpy(), pages[:1], page_size=64)
    wide = torch.zeros(batch + 1, 100 + batch, dtype=torch.int32)
    new, cached = base[shift : shift + 70 * batch], base[shift : shift + int(lens.sum())]
    kernels.write_req_to_token(wide, lens, lens, lens, ends, ends, cached, new)
    kernels.assign_req_to_token(wide, lens, lens, lens, ends, ends, new)
    kernels.get_last_loc(table, lens, ends)
    kv = torch.zeros(batch, 2, 64, dtype=torch.bfloat16)
    cache = torch.zeros(64 * 8, 2, 64, dtype=torch.bfloat16)
    kernels.store_kv(cache, cache, base[shift : shift + batch], kv, kv)
    kernels.store_kv_paged(cache.view(8, 2, 64, 64), cache.view(8, 2, 64, 64), base[:batch], kv, kv)
    kernels.copy_kv_pages(kernels.BufferTable.of([cache]), base[shift : shift + batch], base[:batch])


def main() -> None:
    driver.set_active(DeviceFreeDriver())
    loaded: dict[str, triton.JITFunction] = {}

    def load(module: str, name: str) -> CompileOnly:
        loaded[name] = dispatch.load_kernel(module, name)
        return CompileOnly(loaded[name])

    for wrapper_module in (alloc, req_to_token, kv_store, kv_copy):
        setattr(wrapper_module, "load_kernel", load)  # noqa: B010  (mypy knows no such attribute)
    with kernels.force_backend("triton"):
        for batch in range(1, 257, 5):
            drive_all_wrappers(batch, batch % 3)
        for batch in (2, 16, 64, 128, 256):
            drive_all_wrappers(batch, 0)
    counts = {name: len(kernel.device_caches[0][0]) for name, kernel in loaded.items()}
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
