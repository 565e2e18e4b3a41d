"""Tensors and arrays as inputs of both variants: copied, compared and told, with random numbers and compilers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle
from tests.prtoggle.traced_modules import trace, traced

if TYPE_CHECKING:
    from types import ModuleType

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

__all__ = ["modules"]


def test_tensors_are_told_by_shape_dtype_device_and_first_difference(modules: Modules) -> None:
    text = "def f(x, at):\n    x[at] += 1\n    return x.sum(1)\n"
    module, account = traced(modules, text, ("x[at] += 1", "x[at, 1:] += 1"))
    x = torch.zeros(4, 3, dtype=torch.int64)

    module.f(x, 2)

    assert x[2].tolist() == [1, 1, 1]
    assert account.differences[0]["arguments"] == [["x", "<tensor [4, 3] int64 cpu>"], ["at", "2"]]
    assert account.places == [("result[2]", "3", "2"), ("x[2, 0]", "1", "0")]


@pytest.mark.parametrize(
    ("reverted", "place"),
    [
        ("x.float()", ("result.dtype", "torch.float64", "torch.float32")),
        ("x[:1]", ("result.shape", "[2]", "[1]")),
        ("x.clone().fill_(7.0)", ("result[0] (and 1 more elements)", "1.0", "7.0")),
    ],
)
def test_two_tensors_differ_by_more_than_values(
    modules: Modules, reverted: str, place: tuple[str, str, str]
) -> None:
    module, account = traced(modules, "def f(x):\n    return x * 1\n", ("return x * 1", f"return {reverted}"))

    module.f(torch.ones(2, dtype=torch.float64))

    assert account.places == [place]


@pytest.mark.parametrize(
    "value",
    [float("nan"), complex("nan"), torch.tensor([float("nan"), 1]), np.array([np.nan, 1]), np.float32("nan")],
    ids=repr,
)
def test_not_a_number_is_itself(modules: Modules, value: object) -> None:
    module, account = traced(modules, "def f(x):\n    return [x]\n", ("return [x]", "return [x] * 1"))

    module.f(value)

    assert account.outcome() == (1, 0, 0)


def test_arrays_are_told_by_their_first_difference(modules: Modules) -> None:
    module, account = traced(modules, "def f(x):\n    x += 1\n", ("x += 1", "x[0] += 1"))
    x = np.zeros((2, 2))

    module.f(x)

    assert x.tolist() == [[1, 1], [1, 1]]
    assert account.places == [("x[1, 0] (and 1 more elements)", "1.0", "0.0")]


def test_views_of_one_tensor_stay_views_of_one(modules: Modules) -> None:
    text = "def f(view, whole):\n    view += 1\n    return int(whole.sum())\n"
    module, account = traced(modules, text, ("view += 1", "view.add_(1)"))
    whole = torch.zeros(4)

    assert module.f(whole[1:3], whole) == 2
    assert account.outcome() == (1, 0, 0)


def test_inputs_that_are_too_large_are_counted(modules: Modules) -> None:
    module, account = traced(modules, "def f(x):\n    return 1\n", ("return 1", "return 2"), max_copy=100_000)

    assert [module.f(torch.zeros(100_000)), module.f(torch.zeros(1000)), module.f(bytearray(200_000))] == [
        1,
        1,
        1,
    ]

    counts = account.counts()
    assert counts["not_compared"] == {
        "argument x: the inputs are larger than the 100000 bytes that --max-copy allows": 2
    }
    assert counts["differing"] == 1


def test_a_tensor_that_many_arguments_look_at_is_paid_once(modules: Modules) -> None:
    module, account = traced(modules, "def f(x):\n    return 1\n", ("return 1", "return 2"), max_copy=100_000)
    whole = torch.zeros(20_000)

    module.f([whole[at:] for at in range(10)])

    assert account.outcome() == (0, 1, 0)


@pytest.mark.parametrize(
    ("draw", "generator"),
    [("random.random()", "random"), ("numpy.random.rand()", "numpy.random"), ("torch.rand(2)", "torch")],
    ids=["random", "numpy", "torch"],
)
def test_both_variants_draw_the_same_numbers_and_the_program_draws_its_own(
    modules: Modules, draw: str, generator: str
) -> None:
    text = f"import random, numpy, torch\n\n\ndef f():\n    x = {draw}\n    return x\n"

    def drawn(module: ModuleType) -> list[Any]:
        random.seed(1)
        np.random.seed(1)  # the process-wide generator is what is at stake
        torch.manual_seed(1)
        return [module.f(), module.f(), module.f()]

    module = modules.load(text)
    untraced = drawn(module)
    account = trace(make_toggle(f"{module.__name__}.f", ("return x", f"{draw}\nreturn x")))

    assert list(map(str, drawn(module))) == list(map(str, untraced))
    # The results are the same; what the program draws after the call would not be.
    place = f"random numbers of {generator}"
    assert account.places == [(place, "drawn so far", "drawn otherwise")] * 3
    assert account.outcome() == (0, 3, 0)


def test_compiled_callers_go_on_and_the_function_is_compared(modules: Modules) -> None:
    module = modules.load(
        "import torch\n\n\ndef g(x):\n    return x * 2\n\n\ndef f(x):\n    return g(x) + 1\n"
    )
    account = trace(make_toggle(f"{module.__name__}.g", ("return x * 2", "return x * 3")))
    compiled = torch.compile(module.f, backend="eager")

    assert compiled(torch.ones(2)).tolist() == [3, 3]
    assert compiled(torch.zeros(2)).tolist() == [1, 1]

    assert account.outcome() == (1, 1, 0)


def test_a_tensor_within_a_graph_of_gradients_is_not_compared(modules: Modules) -> None:
    module, account = traced(modules, "def f(x):\n    return 1\n", ("return 1", "return 2"))

    assert module.f(torch.ones(1, requires_grad=True) * 2) == 1

    (reason,) = account.counts()["not_compared"]
    assert "Only Tensors created explicitly by the user" in reason
    assert account.outcome() == (0, 0, 1)


MEMORIES = {
    "tensor": lambda: torch.zeros(16),
    "tensor that is a view": lambda: torch.zeros(32)[16:],
    "array": lambda: np.zeros(16),
    "array that is a view": lambda: np.zeros(32)[16:],
}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(
    ("reverted", "differing"),
    [("p[i * 4 : i * 4 + 4]", 1), ("p[i * 4 + 4 : (i + 2) * 4]", 0), ("p[4:][i * 4 :][:4]", 0)],
)
def test_a_view_of_other_elements_is_another_result(
    modules: Modules, memory: str, reverted: str, differing: int
) -> None:
    """Equal values at other slots: whoever writes into them writes somewhere else."""
    text = "def f(p, i):\n    return p[i * 4 + 4 : i * 4 + 8]\n"
    module, account = traced(modules, text, ("return p[i * 4 + 4 : i * 4 + 8]", f"return {reverted}"))

    module.f(MEMORIES[memory](), 1)

    assert account.outcome() == (1 - differing, differing, 0), account.places
    assert [place for place, *_ in account.places] == ["result (which elements it is a view of)"] * differing


@pytest.mark.parametrize(
    ("reverted", "place"),
    [
        ("x.t().contiguous().t()", [("result.stride()", "[3, 1]", "[1, 2]")]),
        ("x.clone().as_strided((2, 3), (3, 1))", []),
    ],
)
def test_strides_are_told_apart(modules: Modules, reverted: str, place: list[tuple[str, str, str]]) -> None:
    module, account = traced(
        modules, "def f(x):\n    return x.clone()\n", ("return x.clone()", f"return {reverted}")
    )

    module.f(torch.arange(6).reshape(2, 3))

    assert account.places == place
    assert account.outcome() == (0 if place else 1, 1 if place else 0, 0)


def test_the_strides_of_one_row_say_nothing(modules: Modules) -> None:
    module, account = traced(
        modules, "def f(x):\n    return x.clone()\n", ("return x.clone()", "return x.t().clone().t()")
    )

    module.f(torch.arange(3).reshape(1, 3))

    assert account.outcome() == (1, 0, 0), account.places
