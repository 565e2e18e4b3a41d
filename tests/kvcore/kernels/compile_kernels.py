"""Compiles every kernel to machine code without a GPU; run as a script, by test_compilation.py.

Prints one JSON object per kernel, dtype pair and architecture. Its own process, because Triton's interpreter and its
compiler exclude each other.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvcore.kernels import alloc_triton, kv_copy_triton, kv_store_triton, req_to_token_triton

ARCHITECTURES = (80, 90)


class Case(NamedTuple):
    kernel: triton.JITFunction
    signature: dict[str, str]
    constants: dict[str, int]


def cases(lens: str, slots: str) -> list[Case]:
    """All kernels, with lengths and slots of the two dtypes, and 16-bit values."""
    blocks = {"BLOCK": 1024, "REQUEST_BLOCK": 256}
    table = {"req_to_token": "*i32", "row_stride": "i32", "rows": slots}
    copy = {"pointers": "*i64", "row_words": "*i64", "slots": slots, "staged": "*i64"}
    copy |= {"num_slots": "i32", "max_row_words": "i32", "num_rows": "i32"}
    strides = ["a_cache_stride", "b_cache_stride", "a_stride", "b_stride", "a_width", "b_width", "a_tiles"]
    return [
        Case(
            alloc_triton.alloc_extend_kernel,
            {"prefix_lens": lens, "seq_lens": lens, "last_loc": slots, "free_pages": "*i64", "out": "*i64"},
            {"PAGE_SIZE": 64, **blocks},
        ),
        Case(
            alloc_triton.alloc_decode_kernel,
            {"seq_lens": lens, "last_loc": slots, "free_pages": "*i64", "out": "*i64", "num_requests": "i32"},
            {"PAGE_SIZE": 64, "BLOCK": 256},
        ),
        Case(
            req_to_token_triton.write_req_to_token_kernel,
            {**table, "prefix_lens": lens, "seq_lens": lens, "prefix_slots": slots, "out_cache_loc": slots},
            blocks,
        ),
        Case(
            req_to_token_triton.assign_req_to_token_kernel,
            {**table, "start_lens": lens, "end_lens": lens, "slots": slots},
            blocks,
        ),
        Case(
            req_to_token_triton.get_last_loc_kernel,
            {**table, "prefix_lens": lens, "last_loc": "*i32", "num_requests": "i32"},
            {"BLOCK": 256},
        ),
        Case(
            kv_store_triton.store_rows_kernel,
            {
                "a_cache": "*bf16",
                "b_cache": "*bf16",
                "slots": slots,
                "a": "*bf16",
                "b": "*bf16",
                **dict.fromkeys([*strides, "num_slots"], "i32"),
            },
            {"BLOCK": 512},
        ),
        Case(
            kv_store_triton.store_paged_kernel,
            {
                "cache": "*u8",
                "first_elements": "*i64",
                "values": "*u8",
                **dict.fromkeys(["value_stride", "width", "head_dim", "head_stride"], "i32"),
                "num_elements": "i64",
            },
            {"BLOCK": 512},
        ),
        Case(kv_copy_triton.gather_rows_kernel, copy, {"BLOCK": 256}),
        Case(kv_copy_triton.scatter_rows_kernel, copy, {"BLOCK": 256}),
    ]


def main() -> None:
    for lens, slots, arch in itertools.product(("*i32", "*i64"), ("*i32", "*i64"), ARCHITECTURES):
        for kernel, signature, constants in cases(lens, slots):
            constexprs = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
            full = {name: signature.get(name, "constexpr") for name in kernel.arg_names}
            compiled = triton.compile(ASTSource(kernel, full, constexprs), target=GPUTarget("cuda", arch, 32))
            report = {
                "kernel": kernel.__name__,
                "lens": lens,
                "slots": slots,
                "arch": arch,
                "cubin_bytes": len(compiled.asm["cubin"]),
                "ttir": compiled.asm["ttir"] if arch == ARCHITECTURES[0] else "",
            }
            sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
