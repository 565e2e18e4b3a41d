"""What cannot be traced, told from the specs and sources alone, before anything is started."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from prtoggle.code.outer_functions import first_line, function_around, outer_functions
from prtoggle.edits import plan_patch
from prtoggle.source.splices import apply_splices, merge, moved_splice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.definitions import FunctionNode
    from prtoggle.source.source_text import ModuleSource
    from prtoggle.source.splices import Splice
    from prtoggle.spec import Patch, Toggle
    from prtoggle.static_check import SourceCache

_INSTEAD = "use `prtoggle run`, which takes the fix out of the whole command"


def refusals(toggles: Sequence[Toggle], cache: SourceCache) -> list[str]:
    """Why the toggles cannot be traced, one message for each patch in the way; empty when they can.

    Their edits are known to fit. What only shows when a module is loaded is refused then.
    """
    return [
        f"toggle {toggle.id}, {patch.target}: {why}; {_INSTEAD}"
        for toggle in toggles
        for patch in toggle.patches
        for why in dict.fromkeys(_reasons(toggle, patch, cache))
    ]


def _reasons(toggle: Toggle, patch: Patch, cache: SourceCache) -> Iterator[str]:
    if not patch.changes_source:
        what = "gives a name another value" if patch.mode == "value" else "wraps whatever the name stands for"
        yield f"a {patch.mode}: patch {what}; there is no second variant of a function to run"
        return
    if "<locals>" in patch.target:
        yield "the function is made anew by each call of the one around it, and not known beforehand"
        return
    target = cache.resolve(patch.target)
    source, tree = cache.get(target)
    splices = plan_patch(source, tree, target, patch, toggle.id)
    functions = {(name, first_line(node)): node for name, node in outer_functions(tree)}
    by_function: dict[tuple[str, int], list[Splice]] = {}
    for splice in splices:
        place = function_around(source, tree, splice)
        if place is None:
            line = source.line_of(splice.start)
            yield (
                f"an edit changes line {line}, outside of functions, where it works only while the module is "
                "loaded"
            )
            continue
        name = place[0].removesuffix(".fset").removesuffix(".fdel")
        by_function.setdefault((name, place[1]), []).append(splice)
    for place, inside in by_function.items():
        yield from _function_reasons(source, functions[place], inside)


def _function_reasons(source: ModuleSource, node: FunctionNode, splices: Sequence[Splice]) -> Iterator[str]:
    begin = source.starts[first_line(node) - 1]
    end = source.starts[node.end_lineno or node.lineno]
    edited = apply_splices(
        source.text[begin:end], merge([moved_splice(splice, -begin) for splice in splices])
    )
    for variant in (node, _parsed(edited)):
        if variant is not None and _is_stepwise(variant):
            yield (
                "it is a generator or a coroutine: a call only makes one, and what it does comes later, "
                "step by step"
            )
    other = _parsed(edited)
    if other is not None and list(map(ast.dump, other.decorator_list)) != list(
        map(ast.dump, node.decorator_list)
    ):
        yield "an edit changes a decorator, which works only while the module is loaded"
    if any(_is_kernel(decorator) for decorator in node.decorator_list):
        yield "it is compiled to a kernel from its source, and never called as a Python function"


def _parsed(text: str) -> FunctionNode | None:
    """The first definition in the text of one function, whatever its indentation."""
    head = "if 1:\n" if text[:1].isspace() else ""
    try:
        tree = ast.parse(head + text)
    except SyntaxError:
        return None
    return next(
        (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))), None
    )


def _is_stepwise(node: FunctionNode) -> bool:
    """Whether a call of the function makes a generator, a coroutine, or both."""
    if isinstance(node, ast.AsyncFunctionDef):
        return True
    pending: list[ast.AST] = list(node.body)
    while pending:
        part = pending.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(part)
    return False


def _is_kernel(decorator: ast.expr) -> bool:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(call) in ("triton.jit", "triton.autotune", "triton.heuristics")
