"""The Triton kernels in Triton's interpreter, on the CPU: the parity tests once more, in a process of their own.

The interpreter is chosen when Triton is imported, for the whole process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

HERE = Path(__file__).parent


@pytest.mark.parametrize("module", ["test_parity.py", "test_large_offsets.py", "test_bounds.py"])
def test_interpreted_kernels_agree_with_the_models(module: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "triton"]

    done = subprocess.run(
        [*command, str(HERE / module)],
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=HERE.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
