"""Kernels of the allocation stack: one host wrapper each, Triton on CUDA tensors, torch on all others."""

from __future__ import annotations

from kvcore.kernels.alloc import alloc_decode, alloc_extend
from kvcore.kernels.dispatch import force_backend
from kvcore.kernels.req_to_token import assign_req_to_token, get_last_loc, write_req_to_token

__all__ = [
    "alloc_decode",
    "alloc_extend",
    "assign_req_to_token",
    "force_backend",
    "get_last_loc",
    "write_req_to_token",
]
