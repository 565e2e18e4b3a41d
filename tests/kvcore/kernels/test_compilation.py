"""Compiling without a GPU: to machine code for two architectures, with 64-bit addresses, and once for all batches."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

HERE = Path(__file__).parent
KERNELS = {
    "alloc_decode_kernel",
    "alloc_extend_kernel",
    "assign_req_to_token_kernel",
    "gather_rows_kernel",
    "get_last_loc_kernel",
    "scatter_rows_kernel",
    "store_paged_kernel",
    "store_rows_kernel",
    "write_req_to_token_kernel",
}


def run_script(name: str, cache: Path) -> list[Any]:
    """Run a script of this folder as a process that compiles for real; its lines of JSON."""
    environ = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    root = HERE.parents[2]
    environ |= {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, str(HERE / name)], env=environ, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return run_script("compile_kernels.py", tmp_path_factory.mktemp("triton"))


def test_every_kernel_file_is_covered() -> None:
    """A new ``@triton.jit`` kernel has to be named here."""
    sources = (HERE.parents[2] / "kvcore" / "kernels").glob("*_triton.py")
    definition = re.compile(r"^def (\w+_kernel)\(", re.MULTILINE)
    defined = {name for source in sources for name in definition.findall(source.read_text())}

    assert defined == KERNELS


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_kernels_compile_to_machine_code(compiled: list[Any], kernel: str, arch: int) -> None:
    found = [report for report in compiled if (report["kernel"], report["arch"]) == (kernel, arch)]

    assert len(found) == 4  # int32 and int64 lengths and slots
    assert all(report["cubin_bytes"] > 1000 for report in found)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_no_address_is_multiplied_in_32_bits(compiled: list[Any], kernel: str) -> None:
    """32-bit products have a constant factor (program id times block, page arithmetic); all others are int64."""
    for report in compiled:
        if report["kernel"] != kernel or not report["ttir"]:
            continue
        constants = set(re.findall(r"(%\w+) = arith\.constant", report["ttir"]))
        products = re.findall(r"arith\.muli (%\w+), (%\w+) : (\S+)", report["ttir"])
        narrow = [(left, right) for left, right, kind in products if "i32" in kind]

        assert all(constants & set(factors) for factors in narrow), report["ttir"]


def test_one_compilation_serves_all_batches(tmp_path: Path) -> None:
    (counts,) = run_script("count_compilations.py", tmp_path)

    assert counts == dict.fromkeys(KERNELS, 1)
