"""Triton keeps its own copy of a kernel's source; here that copy follows the function it was made from.

A `JITFunction` is launched from `src`, not from `fn.__code__`, and what was compiled from it is found again
at several levels: its own `hash`, the `hash` of every kernel that calls it, `device_caches` (keyed by the
types of arguments, not by source), an autotuner's choices. Triton 3.4 to 3.9 differ in where they keep these,
so each is looked for, and the result is checked after the flip. The interpreter's `InterpretedFunction` runs
a rewritten function out of a class-wide table; its entry is evicted.

Triton itself is never imported here: what is not loaded has no kernels.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

from prtoggle.errors import UnsupportedTargetError
from prtoggle.installers.triton_kernels import classes, kernels_of_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FunctionType

    from prtoggle.installers.base import Follower, Variant

_NEEDED: Final = ("_unsafe_update_src", "src", "hash", "cache_key", "fn")
# Attributes that memoise a launch; all but the first are the fast paths of forks.
_CACHE_NAMES: Final = re.compile(r"device_caches|cache|_?last_call\w*|_\w*_cache|\w+_caches")


def follower_of(holder: object, function: FunctionType, target: str) -> Follower | None:
    """The follower for a kernel, an interpreted kernel or an autotuner; None for every other object.

    `function` is what the kernel was made from: the one whose code the engine exchanges.
    """
    kind = type(holder)
    if issubclass(kind, classes("triton.runtime.jit", "JITCallable", "JITFunction")):
        return KernelFollower(holder, target)
    if issubclass(kind, classes("triton.runtime.interpreter", "InterpretedFunction")):
        return InterpretedFollower(holder, function, target)
    if issubclass(kind, classes("triton.runtime.autotuner", "Autotuner")):
        return AutotunerFollower(holder)
    return None


def forget_global(namespace: dict[str, Any], name: str) -> None:
    """Make every kernel that compiled the value of a module constant in compile anew.

    Without this such a kernel refuses its next launch: it checks that the constants it read are unchanged.
    """
    for kernel in kernels_of_process():
        if (name, id(namespace)) in getattr(kernel, "used_global_vals", ()):
            kernel.hash = None
            kernel.used_global_vals = {}
            _clear_caches(kernel)


class _Flip:
    """While it lasts, Triton reads sources for the sake of a flip, not of a launch; flips hold one lock."""

    depth = 0

    def __enter__(self) -> None:
        _Flip.depth += 1

    def __exit__(self, *_: object) -> None:
        _Flip.depth -= 1


def is_flipping() -> bool:
    """Whether a kernel's source is being exchanged."""
    return _Flip.depth > 0


class KernelFollower:
    """Keeps one `JITFunction` (or other `JITCallable`) equal to what its function's present source gives."""

    def __init__(self, kernel: Any, target: str) -> None:
        self._kernel = kernel
        self._target = target
        missing = [name for name in _NEEDED if not hasattr(type(kernel), name) and name not in vars(kernel)]
        if missing:
            raise UnsupportedTargetError(
                f"{target} is a {type(kernel).__name__} without {', '.join(missing)}: this Triton is not one "
                "of 3.4 to 3.9, and its kernels cannot be exchanged safely. Revert at load (set PRTOGGLE "
                "before the module is imported).",
                target=target,
            )
        self._src: str = kernel.src
        # Triton 3.4 does not keep the lines.
        self._raw_src: list[str] | None = getattr(kernel, "raw_src", None)

    def prepare(self, variant: Variant | None) -> None:
        """Refuse a changed parameter list: argument names and `constexpr` marks were read at decoration."""
        if variant is not None:
            _refuse_changed_header(self._src, variant.lines, self._target)

    def follow(self, variant: Variant | None) -> None:
        """Exchange the source, and let whoever compiled it in compile anew."""
        with _Flip():
            self._follow(variant)

    def _follow(self, variant: Variant | None) -> None:
        src = self._src if variant is None else _kernel_source(variant.lines)
        kernel = self._kernel
        if self._raw_src is not None:
            kernel.raw_src = self._raw_src if variant is None else list(variant.lines)
        if kernel.src == src:
            return
        known = [(other, other.hash) for other in kernels_of_process() if other.hash is not None]
        old_key = _key(kernel)
        for other, _ in known:
            other.hash = None
        kernel._unsafe_update_src(src)  # noqa: SLF001  # the one documented way
        stale = [other for other, key in known if _key(other) != key]
        for other in (kernel, *stale):
            _clear_caches(other)
        self._verify(src, old_key)

    def _verify(self, src: str, old_key: str | None) -> None:
        kernel = self._kernel
        key = _key(kernel)
        if kernel.src != src or ast.dump(kernel.parse()) != ast.dump(ast.parse(src)):
            problem = "its source is still another one"
        elif key is not None and key == old_key:
            problem = f"its cache key is still {key}"
        elif any(_caches(kernel)):
            problem = "it still holds compiled kernels"
        else:
            return
        raise UnsupportedTargetError(
            f"Triton did not take the new source of {self._target}: {problem}. Another tool may manage this "
            "kernel; revert at load instead (set PRTOGGLE before the module is imported).",
            target=self._target,
        )


class InterpretedFollower:
    """Makes Triton's interpreter (TRITON_INTERPRET=1) rewrite a kernel from its function's present source."""

    def __init__(self, kernel: Any, function: FunctionType, target: str) -> None:
        self._kernel = kernel
        self._function = function
        self._target = target
        if not isinstance(getattr(type(kernel), "rewritten_fn", None), dict):
            raise UnsupportedTargetError(
                f"{target} runs in Triton's interpreter, which here has no table of rewritten functions: "
                "this Triton is not one of 3.4 to 3.9. Revert at load (set PRTOGGLE before the module is "
                "imported).",
                target=target,
            )

    def prepare(self, variant: Variant | None) -> None:
        """Refuse a changed parameter list: the grid's arguments were named at decoration."""
        if variant is not None:
            lines = inspect.getsourcelines(self._function)[0]
            _refuse_changed_header(_kernel_source(lines), variant.lines, self._target)

    def follow(self, variant: Variant | None) -> None:  # noqa: ARG002  # the table is keyed by the function alone
        """Drop the rewritten function; the next launch rewrites what `inspect` then shows."""
        table = type(self._kernel).rewritten_fn
        table.pop(self._function, None)


class AutotunerFollower:
    """Drops an autotuner's choices: another kernel may not even run with the configuration that was best."""

    def __init__(self, tuner: Any) -> None:
        self._tuner = tuner
        self._tuned: dict[object, object] | None = None

    def prepare(self, variant: Variant | None) -> None:
        """Nothing to refuse."""

    def follow(self, variant: Variant | None) -> None:
        """Tune the reverted kernel afresh; the original gets its choices back."""
        choices = getattr(self._tuner, "cache", None)
        if not isinstance(choices, dict):
            return
        if variant is None:
            choices.clear()
            choices.update(self._tuned or {})
            self._tuned = None
            return
        if self._tuned is None:
            self._tuned = dict(choices)
        choices.clear()


def _key(kernel: Any) -> str | None:
    """The cache key that the present sources give; None for a kernel that Triton itself cannot hash now."""
    try:
        return str(kernel.cache_key)
    except Exception:  # noqa: BLE001  # whatever Triton raises here, it raises again at the launch
        # Triton leaves the placeholder of a failed hash behind, which would later pass for a key.
        kernel.hash = None
        return None


def _caches(kernel: Any) -> list[dict[object, object]]:
    values = vars(kernel)
    return [
        value for name, value in values.items() if _CACHE_NAMES.fullmatch(name) and isinstance(value, dict)
    ]


def _clear_caches(kernel: Any) -> None:
    """Drop compiled kernels. A launch in flight keeps the table it took out, which nobody reads again."""
    for cache in _caches(kernel):
        cache.clear()
    for name, value in list(vars(kernel).items()):
        if _CACHE_NAMES.fullmatch(name) and value is not None and not isinstance(value, dict):
            setattr(kernel, name, None)


def _kernel_source(lines: Sequence[str]) -> str:
    """The text from `def` on, dedented the way Triton dedents it, so that the cache key is the born one's."""
    text = textwrap.dedent("".join(lines))
    found = re.search(r"^def\s+\w+\s*\(", text, re.MULTILINE)
    assert found, f"no def in {text!r}"
    return text[found.start() :]


def _refuse_changed_header(old: str, lines: Sequence[str], target: str) -> None:
    headers = []
    for text in (old, _kernel_source(lines)):
        node = ast.parse(text).body[0]
        assert isinstance(node, ast.FunctionDef), f"{target} is no function: {text!r}"
        headers.append(ast.dump(node.args))
    if headers[0] != headers[1]:
        raise _header_error(target)


def _header_error(target: str) -> UnsupportedTargetError:
    return UnsupportedTargetError(
        f"The parameters of {target}, a Triton kernel, differ between fixed and reverted code: Triton read "
        "them when the kernel was decorated, so a loaded kernel keeps those it has. Set PRTOGGLE before the "
        "module is imported, and start a process without it for the fixed kernel.",
        target=target,
    )
