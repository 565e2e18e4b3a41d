"""Kernels of the allocation stack: one host wrapper each, Triton on CUDA tensors, torch on all others."""

from __future__ import annotations

from kvcore.kernels.alloc import alloc_decode, alloc_extend
from kvcore.kernels.dispatch import force_backend
from kvcore.kernels.kv_copy import BufferTable, copy_kv_pages
from kvcore.kernels.kv_store import store_kv, store_kv_paged, store_mla_kv
from kvcore.kernels.req_to_token import assign_req_to_token, get_last_loc, write_req_to_token

__all__ = [
    "BufferTable",
    "alloc_decode",
    "alloc_extend",
    "assign_req_to_token",
    "copy_kv_pages",
    "force_backend",
    "get_last_loc",
    "store_kv",
    "store_kv_paged",
    "store_mla_kv",
    "write_req_to_token",
]
