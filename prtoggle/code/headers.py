"""The `def` line of a function under an edit: what may change on a live function, and what may not."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prtoggle.code.quiet import parse
from prtoggle.code.signature import Evaluator, Extras, edited_extras
from prtoggle.errors import EditError, UnsupportedTargetError
from prtoggle.recompile import future_flags
from prtoggle.source.splices import apply_splices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, FunctionType

    from prtoggle.code.region import Region
    from prtoggle.code.signature import FunctionNode
from prtoggle.source.splices import Splice

AT_LOAD: Final = "arm the toggle before the module is loaded (set PRTOGGLE, or revert before the import)"


@dataclass(slots=True, eq=False)
class Basis:
    """One function as it was found, which every version of it is built from; never changed."""

    target: str
    function: FunctionType
    code: CodeType
    # What the function carried when it was found, and the edits that its text then had: none, but for a
    # function that was loaded with toggles.
    extras: Extras
    splices: tuple[Splice, ...]
    region: Region
    class_namespace: Mapping[str, object]


def definition(basis: Basis, tree: ast.Module) -> FunctionNode:
    """The syntax node of the function in its framed text, by its place: a property's parts share one name.

    Raises EditError when no definition of that name begins there.
    """
    line = basis.region.first_line - basis.region.frame.shift
    if basis.code.co_name == "<lambda>":
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == line]
        if len(found) == 1:
            return found[0]
        raise EditError(
            f"{basis.target}: several lambdas stand in one line, and the edit is not told apart; {AT_LOAD}",
            target=basis.target,
        )
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == basis.code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == line:
                return node
    raise EditError(f"{basis.target}: the edit takes the definition away; {AT_LOAD}", target=basis.target)


def reaches_header(basis: Basis, splices: Sequence[Splice]) -> bool:
    """Whether a splice may lie in the header: no instruction of the running text stands before its line."""
    if not splices:
        return False
    code = basis.code
    if code.co_name == "<lambda>":
        # Its statement may hold more, before it and after it.
        return True
    # The lines of a function that was born edited are those of its edited text.
    text = apply_splices(basis.region.text, basis.splices) if basis.splices else basis.region.text
    start = splices[0].start
    edited = code.co_firstlineno + text.count("\n", 0, start)
    lines = [
        line for _, _, line in code.co_lines() if line is not None and code.co_firstlineno < line <= edited
    ]
    if not lines or min(lines) < edited:
        return not lines
    line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
    return ends_a_header(code, edited, line)


def ends_a_header(code: CodeType, number: int, line: str) -> bool:
    """Whether the header may end in this line, in front of its first instruction: `def f(k=1): return k`."""
    columns = [column for first, _, column, _ in code.co_positions() if first == number]
    if not columns or None in columns:
        return True
    # Columns count bytes, of which no character has less than one: too much is looked at, never too little.
    return ":" in line[: min(column for column in columns if column is not None)]


def header_extras(basis: Basis, edited: str) -> Extras:
    """Defaults and annotations under the edited text.

    Raises UnsupportedTargetError when the edit changes what has been evaluated for good: decorators, or the
    statement around a lambda.
    """
    region = basis.region
    old_tree = parse(region.framed(apply_splices(region.text, basis.splices)))
    new_tree = parse(region.framed(edited))
    old, new = definition(basis, old_tree), definition(basis, new_tree)
    if isinstance(old, ast.Lambda) or isinstance(new, ast.Lambda):
        if _around(old_tree, old) != _around(new_tree, new):
            raise UnsupportedTargetError(
                f"{basis.target}: the edit changes more than the lambda, and the rest has run; {AT_LOAD}",
                target=basis.target,
            )
    elif list(map(ast.dump, old.decorator_list)) != list(map(ast.dump, new.decorator_list)):
        raise UnsupportedTargetError(
            f"{basis.target}: the edit changes a decorator, and decorators are outside of what can be "
            f"exchanged on a loaded module: they have run; {AT_LOAD}",
            target=basis.target,
        )
    if _type_parameters(old) != _type_parameters(new):
        raise UnsupportedTargetError(
            f"{basis.target}: the edit changes the type parameters, which were made when the function was "
            f"defined; {AT_LOAD}",
            target=basis.target,
        )
    evaluator = Evaluator(basis.function, basis.class_namespace, future_flags(basis.code), basis.target)
    return edited_extras(basis.extras, basis.code, old, new, evaluator)


def _type_parameters(node: FunctionNode) -> list[str]:
    return [ast.dump(parameter) for parameter in getattr(node, "type_params", ())]


def _around(tree: ast.Module, node: FunctionNode) -> str:
    """The tree without what is inside the lambda."""
    return ast.dump(tree).replace(ast.dump(node), "", 1)
