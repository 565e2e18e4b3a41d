"""A Triton kernel's copies of its source follow the function that it was made from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from prtoggle.errors import UnsupportedTargetError
from prtoggle.installers import triton_jit
from tests.prtoggle.kernel_variants import make_module, make_variant

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from prtoggle.installers.base import Follower, Variant

pytest.importorskip("triton")

from tests.prtoggle.triton_language import language

__all__ = ["language"]

KERNELS = """
import triton
import triton.language as tl

LIMIT: tl.constexpr = tl.constexpr(7)


@triton.jit
def helper(v):
    return v + 1


@triton.jit
def kern(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x_ptr + i, mask=m)
    v = helper(v)
    v = v * 2
    tl.store(y_ptr + i, v, mask=m)


@triton.jit
def bystander(x_ptr):
    tl.store(x_ptr, LIMIT)


@triton.autotune(configs=[triton.Config({"B": 16})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def tuned(x_ptr, n, EVEN: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, i * 2, mask=i < n)


def launch(x):
    import torch

    y = torch.empty_like(x)
    kern[(1,)](x, y, x.numel(), B=16)
    return y
"""


@pytest.fixture
def made(tmp_path: Path) -> Callable[[], ModuleType]:
    return lambda: make_module(tmp_path, KERNELS)


@pytest.fixture
def kernels(made: Callable[[], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    # Unset, Triton 3.9 warns that the default is going to change.
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    return made()


@pytest.fixture
def interpreted(made: Callable[[], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return made()


def follower(holder: Any, function: Any) -> Follower:
    found = triton_jit.follower_of(holder, function, f"{function.__module__}.{function.__qualname__}")
    assert found is not None
    return found


def flip(holder: Any, variant: Variant | None) -> Callable[[], None]:
    """Does what the engine does for one function, and returns the way back."""
    function = holder.fn
    original = function.__code__
    follows = follower(holder, function)
    follows.prepare(variant)
    function.__code__ = variant.code
    follows.follow(variant)

    def back() -> None:
        function.__code__ = original
        follows.follow(None)

    return back


SIGNATURE = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "B": "constexpr"}


def compiled_text(
    kernel: Any, signature: dict[str, str] | None = None, constants: dict[str, int] | None = None
) -> str:
    """The kernel as Triton compiles it now for one argument list, without a GPU."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = SIGNATURE if signature is None else signature
    source = ASTSource(
        fn=kernel, signature=signature, constexprs={"B": 16} if constants is None else constants
    )
    return str(triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ttir"])


def test_kernel_has_the_edited_source_and_another_key_until_it_is_restored(kernels: ModuleType) -> None:
    kern = kernels.kern
    src, key, raw = kern.src, kern.cache_key, getattr(kern, "raw_src", None)

    back = flip(kern, make_variant(kern.fn, "v = v * 2", "v = v * 3"))

    assert kern.src == src.replace("v * 2", "v * 3")
    assert kern.cache_key != key

    back()

    assert (kern.src, kern.cache_key, getattr(kern, "raw_src", None)) == (src, key, raw)


def test_kernel_has_the_key_of_one_born_with_the_edited_source(kernels: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / f"{kernels.__name__}.py"
    path.write_text(KERNELS.replace("v = v * 2", "v = v * 3"), encoding="utf-8")
    variant = make_variant(kernels.kern.fn, "v = v * 2", "v = v * 3")
    born: dict[str, Any] = {"__name__": kernels.__name__}
    exec(compile(path.read_text(encoding="utf-8"), variant.code.co_filename, "exec"), born)

    back = flip(kernels.kern, variant)

    assert kernels.kern.cache_key == born["kern"].cache_key
    back()


def test_next_compilation_is_of_the_edited_source(
    kernels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    before = compiled_text(kernels.kern)

    back = flip(kernels.kern, make_variant(kernels.kern.fn, "v = v * 2", "v = v * 3"))
    during = compiled_text(kernels.kern)
    back()

    assert "3.000000e+00" in during
    assert "3.000000e+00" not in before
    assert compiled_text(kernels.kern) == before


def test_edited_helper_changes_the_key_of_its_callers_and_of_no_other_kernel(kernels: ModuleType) -> None:
    kern, bystander = kernels.kern, kernels.bystander
    key, other = kern.cache_key, bystander.cache_key
    kern.device_caches[0] = ({"types": "compiled"},)
    bystander.device_caches[0] = ({"types": "compiled"},)

    back = flip(kernels.helper, make_variant(kernels.helper.fn, "v + 1", "v + 100"))

    assert kern.cache_key != key
    assert not kern.device_caches
    assert bystander.cache_key == other
    assert bystander.device_caches == {0: ({"types": "compiled"},)}

    kern.device_caches[0] = ({"types": "compiled"},)
    back()

    assert kern.cache_key == key
    assert not kern.device_caches


def test_edited_helper_is_what_its_callers_compile(
    kernels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    before = compiled_text(kernels.kern)

    back = flip(kernels.helper, make_variant(kernels.helper.fn, "v + 1", "v + 100"))
    during = compiled_text(kernels.kern)
    back()

    assert "1.000000e+02" in during
    assert compiled_text(kernels.kern) == before


def test_fast_paths_of_other_builds_are_dropped_too(kernels: ModuleType) -> None:
    kernels.kern._last_call = ("arguments", "compiled")

    back = flip(kernels.kern, make_variant(kernels.kern.fn, "v = v * 2", "v = v * 3"))

    assert kernels.kern._last_call is None
    back()


def test_interpreted_kernel_runs_the_edited_source_until_it_is_restored(interpreted: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.float32)
    assert interpreted.launch(x).tolist() == [2, 4, 6, 8]

    back = flip(interpreted.kern, make_variant(interpreted.kern.fn, "v = v * 2", "v = v * 3"))
    assert interpreted.launch(x).tolist() == [3, 6, 9, 12]

    back()
    assert interpreted.launch(x).tolist() == [2, 4, 6, 8]


def test_interpreted_helper_is_what_its_callers_run(interpreted: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.float32)
    assert interpreted.launch(x).tolist() == [2, 4, 6, 8]

    back = flip(interpreted.helper, make_variant(interpreted.helper.fn, "v + 1", "v + 100"))
    assert interpreted.launch(x).tolist() == [200, 202, 204, 206]

    back()
    assert interpreted.launch(x).tolist() == [2, 4, 6, 8]


def test_autotuner_tunes_the_reverted_kernel_afresh_and_gets_its_choices_back(kernels: ModuleType) -> None:
    tuner = kernels.tuned
    kernel = tuner.fn.fn
    tuner.cache[(4,)] = "best"
    follows = follower(tuner, kernel.fn)

    follows.follow(make_variant(kernel.fn, "i * 2", "i * 3"))
    assert tuner.cache == {}

    tuner.cache[(4,)] = "best of the reverted kernel"
    follows.follow(None)
    assert tuner.cache == {(4,): "best"}


@pytest.mark.parametrize(
    ("old", "new"), [("n, B: tl.constexpr", "n, B"), ("x_ptr, y_ptr, n", "y_ptr, x_ptr, n")]
)
@pytest.mark.parametrize("mode", ["kernels", "interpreted"])
def test_changed_parameters_are_refused(
    mode: str, old: str, new: str, request: pytest.FixtureRequest
) -> None:
    module = request.getfixturevalue(mode)
    kern = module.kern
    before = dict(vars(kern))
    variant = make_variant(
        kern.fn,
        f"def kern({'x_ptr, y_ptr, ' if old[0] == 'n' else ''}{old}",
        f"def kern({'x_ptr, y_ptr, ' if old[0] == 'n' else ''}{new}",
    )

    with pytest.raises(UnsupportedTargetError, match=r"parameters of .*kern, a Triton kernel, differ"):
        follower(kern, kern.fn).prepare(variant)

    assert vars(kern) == before


def test_a_kernel_of_an_unknown_triton_is_refused(kernels: ModuleType) -> None:
    class Foreign(type(kernels.kern)):
        src = property()

        def __init__(self, fn: Any) -> None:
            self.fn = fn

    with pytest.raises(UnsupportedTargetError, match="without hash"):
        triton_jit.follower_of(Foreign(kernels.kern.fn), kernels.kern.fn, "mod.kern")


def test_a_flip_that_triton_ignores_is_an_error(kernels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    kern = kernels.kern
    variant = make_variant(kern.fn, "v = v * 2", "v = v * 3")
    follows = follower(kern, kern.fn)
    monkeypatch.setattr(type(kern), "_unsafe_update_src", lambda self, src: None)

    with pytest.raises(UnsupportedTargetError, match="source is still another one"):
        follows.follow(variant)


def test_what_is_no_kernel_has_no_follower(kernels: ModuleType) -> None:
    assert triton_jit.follower_of(kernels.launch, kernels.launch, "mod.launch") is None


def test_changed_constant_makes_its_kernels_compile_anew(kernels: ModuleType) -> None:
    import triton.language as tl

    bystander, kern = kernels.bystander, kernels.kern
    assert bystander.cache_key
    assert bystander.used_global_vals
    other = kern.cache_key
    bystander.device_caches[0] = ({"types": "compiled"},)
    kernels.LIMIT = tl.constexpr(8)

    triton_jit.forget_global(vars(kernels), "LIMIT")

    assert not bystander.device_caches
    assert bystander.hash is None
    assert bystander.used_global_vals == {}
    assert kern.cache_key == other


def test_triton_is_not_imported() -> None:
    import subprocess

    code = (
        "import sys; from prtoggle.installers import triton_jit as t; f = lambda: 0; "
        "assert t.follower_of(f, f, 'x') is None; t.forget_global({}, 'X'); assert 'triton' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
