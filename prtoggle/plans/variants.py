"""The code of one function with a set of edits: compiled, with its cells, defaults and text.

What only exists where a function is defined is outside: decorators, the name, cells of the enclosing
function. An edit of those is refused here and works when the toggle is armed before the module is loaded.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from prtoggle.code.cells import mention
from prtoggle.code.headers import AT_LOAD, Basis, definition, header_extras, reaches_header
from prtoggle.code.quiet import compiling, parse
from prtoggle.code.virtual_file import VirtualFile, new_name, publish
from prtoggle.errors import EditError, UndefinedNameError, UnsupportedTargetError
from prtoggle.installers.base import Variant
from prtoggle.plans.spots import spot_of
from prtoggle.source.names import undefined_in_code
from prtoggle.source.source_text import split_lines
from prtoggle.source.splices import apply_splices, edited_line_map

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

    from prtoggle.code.region import Region
    from prtoggle.installers.base import Observer, Spot
from prtoggle.source.splices import Splice

_KIND_NAMES: Final = {
    inspect.CO_ASYNC_GENERATOR: "asynchronous generator",
    inspect.CO_COROUTINE: "coroutine",
    inspect.CO_GENERATOR: "generator",
}
KINDS: Final = sum(_KIND_NAMES)


def build(
    basis: Basis, splices: Sequence[Splice], toggle_ids: Sequence[str], observer: Observer | None = None
) -> Variant:
    """The function with all of `splices` made, whose offsets count in its region; none gives it unedited.

    Raises EditError when the edited text does not compile to this function, UnsupportedTargetError when the
    edit reaches what is outside of its code. Nothing is changed.
    """
    region = basis.region
    edited = apply_splices(region.text, splices)
    name = new_name(basis.target, toggle_ids) if splices else region.path
    code = _compiled(basis, region.framed(edited), name, toggle_ids)
    dropped: list[str] = []
    if code.co_freevars != basis.code.co_freevars:
        dropped = [free for free in basis.code.co_freevars if free not in code.co_freevars]
        code = _with_cells(basis, edited, code, name, dropped)
    _refuse_other_kind(basis, code)
    if splices:
        # The fixed code is what it was, whatever names are there at the moment.
        _refuse_undefined(basis, code, splices, toggle_ids)
    extras = basis.extras
    if reaches_header(basis, splices) or reaches_header(basis, basis.splices):
        extras = header_extras(basis, edited)
    lines = tuple(split_lines(edited))
    if splices:
        ids = tuple(toggle_ids)
        publish(VirtualFile(name, region.path, ids, region.lines, region.start, region.end, lines), code)
    spots = _spots(region, splices) if observer is not None else ()
    probed = _probed(basis, edited, code, dropped, spots, observer) if observer is not None else None
    return Variant(basis.target, code, probed, *extras, lines, spots)


def _compiled(basis: Basis, source: str | ast.Module, name: str, toggle_ids: Sequence[str]) -> CodeType:
    try:
        with compiling():
            code = basis.region.compile(source, name)
    except SyntaxError as error:
        raise EditError(
            f"{basis.target}: with {_names(toggle_ids)} the source is not valid Python: {error.msg}: "
            f"{(error.text or '').strip()}",
            target=basis.target,
            toggles=toggle_ids,
        ) from error
    if code is None:
        raise EditError(
            f"{basis.target}: {_names(toggle_ids)} takes the definition away, renames it, or puts something "
            f"before it; on a loaded module that cannot be done: {AT_LOAD}",
            target=basis.target,
            toggles=toggle_ids,
        )
    return code


def _names(toggle_ids: Sequence[str]) -> str:
    return f"toggle {' + '.join(toggle_ids)}"


def _with_cells(basis: Basis, edited: str, code: CodeType, name: str, dropped: Sequence[str]) -> CodeType:
    """The edited function with exactly the cells that the live one has, in their order."""
    added = [free for free in code.co_freevars if free not in basis.code.co_freevars]
    if added:
        what = "super() or __class__" if added == ["__class__"] else ", ".join(added)
        raise UnsupportedTargetError(
            f"{basis.target}: the edit newly uses {what} of the enclosing scope, for which the running "
            f"function has no cell; {AT_LOAD}",
            target=basis.target,
        )
    tree = parse(basis.region.framed(edited))
    _mention(basis, tree, dropped)
    kept = _compiled(basis, tree, name, ())
    assert kept.co_freevars == basis.code.co_freevars, (kept.co_freevars, basis.code.co_freevars)
    return kept


def _mention(basis: Basis, tree: ast.Module, names: Sequence[str]) -> None:
    node = definition(basis, tree)
    if isinstance(node, ast.Lambda):
        raise UnsupportedTargetError(
            f"{basis.target}: the edit no longer uses {', '.join(names)}, and a lambda cannot keep the cell; "
            f"{AT_LOAD}",
            target=basis.target,
        )
    mention(node, names)


def _refuse_other_kind(basis: Basis, code: CodeType) -> None:
    """Python 3.13 deprecates, and a later one will refuse, to exchange a function for one of another kind."""
    changed = (code.co_flags ^ basis.code.co_flags) & KINDS
    if changed and sys.version_info >= (3, 13):
        raise UnsupportedTargetError(
            f"{basis.target}: the edit makes a {_kind(code)} of a {_kind(basis.code)}, which this version of "
            f"Python does not allow for a function that exists already; {AT_LOAD}",
            target=basis.target,
        )


def _kind(code: CodeType) -> str:
    return next((name for flag, name in _KIND_NAMES.items() if code.co_flags & flag), "plain function")


def _refuse_undefined(
    basis: Basis, code: CodeType, splices: Sequence[Splice], toggle_ids: Sequence[str]
) -> None:
    function, text = basis.function, basis.region.text
    # A function that was loaded with edits runs names that the unedited text does not have, and back.
    changed = None
    if not basis.splices:
        changed = "\n".join([part for at in splices for part in (at.text, text[at.start : at.end])])
    missing = undefined_in_code(basis.code, code, function.__globals__, changed)
    if missing:
        raise UndefinedNameError(
            f"{basis.target}: {_names(toggle_ids)} uses {', '.join(missing)}, which neither module "
            f"{function.__module__} nor the builtins define",
            target=basis.target,
            toggles=toggle_ids,
            names=missing,
        )


def _spots(region: Region, splices: Sequence[Splice]) -> tuple[Spot, ...]:
    """Where each splice shows, in lines of the virtual file."""
    found = edited_line_map(region.text, splices)
    return tuple(spot_of(line, region.text, region.start) for line in found)


def _probed(
    basis: Basis,
    edited: str,
    code: CodeType,
    dropped: Sequence[str],
    spots: Sequence[Spot],
    observer: Observer,
) -> CodeType | None:
    """The form that tells when an edited statement is reached; None where the code itself can be watched."""
    installed = None
    if spots and observer.needs_probes(spots):
        region = basis.region
        tree = parse(region.framed(edited))
        if dropped:
            _mention(basis, tree, dropped)
        back = -region.frame.shift
        observer.instrument(tree, [_shifted(spot, back) for spot in spots])
        installed = _compiled(basis, tree, code.co_filename, ())
    observer.compiled(code, installed or code, spots, basis.function.__module__, basis.target)
    return installed


def _shifted(spot: Spot, by: int) -> Spot:
    return replace(spot, lines=tuple(line + by for line in spot.lines))
