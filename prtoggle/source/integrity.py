"""What edits must not do: break the syntax, swallow a neighbour, leave a name undefined."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.errors import EditError, UndefinedNameError
from prtoggle.source.empty_blocks import fill_blocks
from prtoggle.source.names import undefined_names
from prtoggle.source.splices import apply_splices, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.source.source_text import ModuleSource
    from prtoggle.source.splices import Splice

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class EditedModule(NamedTuple):
    """A module's text with all splices done, its syntax tree, and the splices as they went in."""

    text: str
    tree: ast.Module
    splices: tuple[Splice, ...]


def edit_module(source: ModuleSource, tree: ast.Module, splices: Sequence[Splice]) -> EditedModule:
    """The module with the splices of any number of toggles. `tree` is the syntax tree of `source`.

    Blocks that they empty together get a `pass`. Raises EditOverlapError for splices that want the same
    lines, EditError when the result is no valid Python or an edit reaches beyond its own lines,
    UndefinedNameError when it uses a name that nothing defines any more.
    """
    merged = merge(fill_blocks(source, tree, splices))
    text = apply_splices(source.text, merged)
    edited = parse_edited(text, merged)
    _refuse_swallowed(source, tree, edited, merged)
    try:
        names = undefined_names(source, text, merged)
    except SyntaxError as error:
        raise invalid_edit(error, merged) from error
    if names:
        raise UndefinedNameError(
            f"{_targets(merged)}: with {_toggles(merged)} the module {source.path} uses {', '.join(names)}, "
            "which neither it nor the builtins define. Did the fix, or a later change, rename or remove it?",
            target=merged[0].target,
            toggles=_ids(merged),
            names=names,
        )
    return EditedModule(text, edited, merged)


def parse_edited(edited_text: str, splices: Sequence[Splice], target: str = "") -> ast.Module:
    """The syntax tree of the edited text; EditError, naming the toggles, when it is no valid Python."""
    try:
        return ast.parse(edited_text)
    except (SyntaxError, ValueError) as error:
        raise invalid_edit(error, splices, target) from error


def compilable_module(source: ModuleSource, tree: ast.Module, splices: Sequence[Splice]) -> EditedModule:
    """What `edit_module` gives, and raises; EditError too for what the compiler finds: a stray `break`.

    For whoever does not compile the module anyway: the compiler takes longer than all the rest.
    """
    edited = edit_module(source, tree, splices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(edited.text, source.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise invalid_edit(error, edited.splices) from error
    return edited


def invalid_edit(error: SyntaxError | ValueError, splices: Sequence[Splice], target: str = "") -> EditError:
    """The error for edits that leave no valid Python, from what the parser or the compiler said."""
    line = getattr(error, "lineno", None)
    shown = (getattr(error, "text", None) or "").strip()
    place = f" at line {line} of the edited text{f': {shown}' if shown else ''}" if line else ""
    return EditError(
        f"{target or _targets(splices)}: with {_toggles(splices)} the source is no valid Python: "
        f"{getattr(error, 'msg', error)}{place}",
        target=target or splices[0].target,
        toggles=_ids(splices),
    )


def _ids(splices: Sequence[Splice]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(splice.toggle_id for splice in splices))


def _toggles(splices: Sequence[Splice]) -> str:
    ids = _ids(splices)
    return f"toggle {ids[0]}" if len(ids) == 1 else f"toggles {', '.join(ids)}"


def _targets(splices: Sequence[Splice]) -> str:
    return ", ".join(dict.fromkeys(splice.target for splice in splices))


def _refuse_swallowed(
    source: ModuleSource, tree: ast.Module, edited: ast.Module, splices: Sequence[Splice]
) -> None:
    """Every definition that no splice touches has to stand in the edited module, moved by whole lines."""
    there = {
        (name, node.lineno, (node.end_lineno or node.lineno) - node.lineno)
        for name, node in _named(edited, "")
    }
    starts = source.starts
    for name, node in _named(tree, ""):
        begin, end = starts[node.lineno - 1], starts[node.end_lineno or node.lineno]
        if any(splice.start < end and begin < splice.end for splice in splices):
            continue
        if any(splice.start == splice.end and begin < splice.start <= end for splice in splices):
            continue
        moved = node.lineno + sum(_added_lines(source, splice) for splice in splices if splice.end <= begin)
        if (name, moved, (node.end_lineno or node.lineno) - node.lineno) not in there:
            raise EditError(
                f"{_targets(splices)}: with {_toggles(splices)} {name} (line {node.lineno} of {source.path}) "
                "would change too, which no edit is about: a string or bracket of an edit is left open",
                target=splices[0].target,
                toggles=_ids(splices),
            )


def _named(scope: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    """All definitions with their qualified names."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, _SCOPES):
            name = f"{prefix}{node.name}"
            yield name, node
            yield from _named(node, f"{name}.")
        elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _named(node, prefix)


def _added_lines(source: ModuleSource, splice: Splice) -> int:
    return _line_ends(splice.text) - _line_ends(source.text[splice.start : splice.end])


def _line_ends(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")
