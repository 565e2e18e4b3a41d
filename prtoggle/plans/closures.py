"""Functions that an edited function made while it was edited: they hold its inner code, and outlive it.

Reverting does not reach back: what was made before goes on as it was made. But a function that was loaded
reverted has, by the time it is restored, made whatever the import makes: decorated functions, handlers,
callbacks. These follow.
"""

from __future__ import annotations

import ast
import gc
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.code.quiet import parse
from prtoggle.errors import RestoreError
from prtoggle.installers.in_place import installed_code
from prtoggle.installers.triton_kernels import is_kernels
from prtoggle.plans.variants import KINDS
from prtoggle.recompile import nested_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prtoggle.installers.base import Variant
    from prtoggle.plans.sites import Site, Slots


class Move(NamedTuple):
    """One such function, the code it runs, and the code that it is to run."""

    function: FunctionType
    before: CodeType
    after: CodeType


def inner_moves(site: Site, slots: Slots) -> list[Move]:
    """What the functions that the site's function has made are to run when it shows `slots`.

    Raises RestoreError for one that has no counterpart then. Searches the heap if there are inner functions.
    """
    after = site.version(slots)
    pairs = [pair for code in _forms(site.live.shown) for pair in _pairs(code, after.code)]
    if not pairs:
        return []
    kept = _made_alike(site.framed(site.shown), site.framed(slots))
    moves = []
    for item in gc.get_referrers(*(code for code, _ in pairs)):
        counterparts = [
            inner for code, inner in pairs if type(item) is FunctionType and item.__code__ is code
        ]
        if counterparts:
            moves.append(Move(item, item.__code__, _alike(item, counterparts[0], site, kept)))
    return moves


def _made_alike(before: str, after: str) -> set[str]:
    """The names of the functions that both texts define with the same decorators, defaults and annotations.

    Those were evaluated when the function was made, and exchanging its code does not change them.
    """
    headers, other = _headers(before), _headers(after)
    return {name for name, header in headers.items() if other.get(name) == header}


def _headers(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Lambda):
            found.setdefault("<lambda>", []).append(ast.dump(node.args))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            evaluated = [*node.decorator_list, node.args, *filter(None, [node.returns])]
            found.setdefault(node.name, []).extend(map(ast.dump, evaluated))
    return found


def _alike(function: FunctionType, code: CodeType | None, site: Site, kept: set[str]) -> CodeType:
    """`code`, if the function can run it: the same parameters, the same cells."""
    now = function.__code__
    if is_kernels(function):
        raise RestoreError(
            f"{site.basis.target} made the Triton kernel {function.__qualname__} while it was reverted, "
            "which keeps the source that it was made with; end the process, or leave the toggle on",
            target=site.basis.target,
        )
    if (
        code is not None
        and now.co_name in kept
        and code.co_freevars == now.co_freevars
        and code.co_varnames[: code.co_argcount] == now.co_varnames[: now.co_argcount]
        and (code.co_argcount, code.co_kwonlyargcount) == (now.co_argcount, now.co_kwonlyargcount)
        and (code.co_flags ^ now.co_flags) & KINDS == 0
    ):
        return code
    raise RestoreError(
        f"{site.basis.target} made {function.__qualname__} while it was reverted, and makes no such function "
        "otherwise, so that this one cannot be put back; end the process, or leave the toggle on",
        target=site.basis.target,
    )


def _forms(variant: Variant) -> list[CodeType]:
    installed = installed_code(variant)
    return [variant.code] if installed is variant.code else [variant.code, installed]


def _pairs(code: CodeType, other: CodeType | None) -> Iterator[tuple[CodeType, CodeType | None]]:
    """Each code object inside `code` with its counterpart in `other`: of the same name, in order."""
    counterparts: dict[str, list[CodeType]] = {}
    for inner in nested_codes(other) if other is not None else ():
        counterparts.setdefault(inner.co_qualname, []).append(inner)
    for inner in nested_codes(code):
        same = counterparts.get(inner.co_qualname)
        counterpart = same.pop(0) if same else None
        yield inner, counterpart
        yield from _pairs(inner, counterpart)
