"""Caches of compiled code on disk that are keyed on the contents of files.

An edit in memory changes no file: such a cache may hand out what an earlier run compiled from the fixed
source. Whoever reads the report of a run has to know which of them were on.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping


def caches_on(
    environ: Mapping[str, str] | None = None, modules: Container[str] | None = None
) -> Iterator[str]:
    """Names the caches that the loaded compilers use: where they lie, and how to turn them off."""
    variables = os.environ if environ is None else environ
    loaded = sys.modules if modules is None else modules
    if "triton" in loaded and variables.get("TRITON_ALWAYS_COMPILE") != "1":
        folder = variables.get("TRITON_CACHE_DIR", f"{variables.get('TRITON_HOME', '~')}/.triton/cache")
        yield f"Triton, {folder} (off with TRITON_ALWAYS_COMPILE=1)"
    if "torch._inductor" in loaded and variables.get("TORCHINDUCTOR_FORCE_DISABLE_CACHES") != "1":
        folder = variables.get("TORCHINDUCTOR_CACHE_DIR", "in the folder for temporary files")
        yield f"TorchInductor, {folder} (off with TORCHINDUCTOR_FORCE_DISABLE_CACHES=1)"
