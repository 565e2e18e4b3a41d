"""Where kernels run, and that nobody pays for Triton who does not use it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from kvcore import kernels
from kvcore.kernels.dispatch import runs_on_triton

CPU_TENSOR = torch.zeros(1)


def test_cpu_tensors_run_on_torch_unless_forced() -> None:
    assert not runs_on_triton(CPU_TENSOR)
    with kernels.force_backend("triton"):
        assert runs_on_triton(CPU_TENSOR)
        with kernels.force_backend("torch"):
            assert not runs_on_triton(CPU_TENSOR)
        assert runs_on_triton(CPU_TENSOR)
    assert not runs_on_triton(CPU_TENSOR)


def test_a_forced_backend_ends_with_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), kernels.force_backend("triton"):
        raise ZeroDivisionError

    assert not runs_on_triton(CPU_TENSOR)


@pytest.mark.gpu
def test_cuda_tensors_run_on_triton() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")

    assert runs_on_triton(CPU_TENSOR.cuda())


def test_triton_is_not_imported_for_cpu_tensors() -> None:
    program = (
        "import sys, torch; from kvcore import kernels; from kvcore.allocators import PagedAllocator\n"
        "pool = PagedAllocator(64, 4, device='cpu'); lens = torch.tensor([5]); zero = torch.tensor([0])\n"
        "assert pool.alloc_extend(zero, zero, lens, lens, zero - 1, 5) is not None\n"
        "print('triton' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
