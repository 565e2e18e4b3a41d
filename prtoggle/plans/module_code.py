"""The code of a whole module with edits, with everything outside of the edited functions in its place.

        file                 edited text            line numbers in the code that runs
        1  import x          1  import x            1           the file's
        2  def f():          2  def f():            2           in f: those of a virtual file, which is
        3      a             3      a               3           the file with the edits of f alone
        4      b             4      b1              4
                             5      b2              5
        5  def g():          6  def g():            5           the file's again

A statement outside of functions that an edit puts in has the line of what it replaces.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate
from types import CodeType
from typing import TYPE_CHECKING, Any

from prtoggle.code.cells import mention, uses_class_cell
from prtoggle.code.outer_functions import first_line, outer_functions
from prtoggle.code.quiet import parse
from prtoggle.code.virtual_file import VirtualFile, new_name, publish
from prtoggle.plans.births import Birth, Unit
from prtoggle.plans.spots import spot_of
from prtoggle.recompile import moved
from prtoggle.source.source_text import ModuleSource
from prtoggle.source.splices import EditedLines, apply_splices, edited_line_map, moved_splice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prtoggle.definitions import FunctionNode
    from prtoggle.installers.base import Spot
    from prtoggle.plans.slots import Slot
    from prtoggle.source.splices import Splice


@dataclass(frozen=True, slots=True)
class ModuleEdits:
    """A module's original source (newlines normalised) and what all toggles together want of it, merged."""

    name: str
    source: ModuleSource
    splices: tuple[Splice, ...]
    # Who asked for which splice: toggle id -> slot.
    slots: dict[str, Slot]

    @property
    def edited(self) -> str:
        """The edited text."""
        return apply_splices(self.source.text, self.splices)


class Offsets:
    """Translates offsets between the edited text and the original one."""

    def __init__(self, splices: Sequence[Splice]) -> None:
        growth = [len(splice.text) - (splice.end - splice.start) for splice in splices]
        before = list(accumulate(growth, initial=0))
        self.splices = splices
        # The half-open range of the edited text that each splice put in.
        self.inserted = [
            (splice.start + shift, splice.start + shift + len(splice.text))
            for splice, shift in zip(splices, before, strict=False)
        ]
        self._begins = [begin for begin, _ in self.inserted]

    def original(self, offset: int) -> int:
        """The original offset of an edited one; what a splice put in lies at the splice's beginning."""
        at = bisect_right(self._begins, offset) - 1
        if at < 0:
            return offset
        begin, end = self.inserted[at]
        splice = self.splices[at]
        if offset < end or (offset == end == begin):
            return splice.start if offset < end else splice.end
        return splice.end + offset - end


def compile_edited(
    module: ModuleEdits,
    compiled: Callable[[ast.Module], CodeType],
    *,
    tree: ast.Module | None = None,
    like: Birth | None = None,
) -> tuple[CodeType, Birth]:
    """The module's code object and the record of what was edited in it.

    `compiled` makes code of a syntax tree. `tree` is that of the edited text, where probes have been put
    into it; its line numbers are changed. `like` is the record of the same module compiled before: its file
    names are used again.
    """
    tree = parse(module.edited) if tree is None else tree
    edited = ModuleSource(module.source.path, module.edited)
    offsets = Offsets(module.splices)
    found = _units(module, edited, tree, offsets, like)
    first_lines = [first_line(node) for _, node in found]
    files = {unit.filename: _virtual_file(module, edited, unit, node) for unit, node in found}
    align(
        tree, module, edited, offsets, {id(node): unit.start + 1 - first_line(node) for unit, node in found}
    )
    _keep_class_cells(module, found)
    units = [unit for unit, _ in found]
    edited_lines = {(unit.qualname, line): unit for (unit, _), line in zip(found, first_lines, strict=True)}
    code = _with_file_names(compiled(tree), {(unit.qualname, unit.start + 1): unit for unit in units}, files)
    if any(unit.code is None for unit in units):
        # A loader that compiles text only has not seen the aligned lines.
        code = _with_file_names(code, edited_lines, files)
    slots = frozenset(module.slots.values())
    birth = Birth(module.name, module.source, module.edited, units, slots, _outside(module, units))
    birth.spots = _outside_spots(module, edited, offsets, birth.outside)
    return code, birth


def _keep_class_cells(module: ModuleEdits, found: Sequence[tuple[Unit, FunctionNode]]) -> None:
    """Let a method that the edits take `super()` from keep its cell: it will need it when it is restored."""
    if all(uses_class_cell(node) for _, node in found):
        return
    original = {
        (qualname, first_line(node)): node for qualname, node in outer_functions(parse(module.source.text))
    }
    for unit, node in found:
        before = original.get((unit.qualname, unit.start + 1))
        if (
            "." in unit.qualname
            and before is not None
            and uses_class_cell(before)
            and not uses_class_cell(node)
        ):
            mention(node, ["__class__"])


def _outside_spots(
    module: ModuleEdits, edited: ModuleSource, offsets: Offsets, outside: Sequence[Splice]
) -> tuple[Spot, ...]:
    """Where the edits outside of functions stand, in the lines that their code has."""
    shown = edited_line_map(module.source.text, module.splices)
    return tuple(
        replace(
            spot,
            lines=tuple(
                sorted({_original_line(module.source, edited, offsets, line) for line in spot.lines})
            ),
        )
        for spot in _spots(shown, outside, module.source.text, 0)
    )


def _units(
    module: ModuleEdits, edited: ModuleSource, tree: ast.Module, offsets: Offsets, like: Birth | None
) -> list[tuple[Unit, FunctionNode]]:
    """The outermost functions that edits touch, with their nodes in the edited tree."""
    found = []
    shown = edited_line_map(module.source.text, module.splices)
    for qualname, node in outer_functions(tree):
        begin, end = _extent(edited, node)
        touching = [
            splice
            for splice, (first, last) in zip(module.splices, offsets.inserted, strict=True)
            if (first < end and last > begin)
            or (first == last and begin < first < end)
            or (first == last == end and _was_inside(module, qualname, splice))
        ]
        if touching:
            unit = _unit(module, qualname, offsets.original(begin), offsets.original(end), touching)
            unit.decorated = bool(node.decorator_list)
            unit.spots = _spots(shown, touching, module.source.text, unit.start + 1 - first_line(node))
            for known in like.units if like is not None else ():
                if (known.qualname, known.start) == (unit.qualname, unit.start):
                    unit.filename = known.filename
            found.append((unit, node))
    return found


def _was_inside(module: ModuleEdits, qualname: str, deletion: Splice) -> bool:
    """Whether what was taken out stood in the function: behind its last line may have been a decorator's."""
    extents = (
        _extent(module.source, node)
        for name, node in outer_functions(parse(module.source.text))
        if name == qualname
    )
    return any(begin <= deletion.start < end for begin, end in extents)


def _spots(
    shown: Sequence[EditedLines], touching: Sequence[Splice], original: str, shift: int
) -> tuple[Spot, ...]:
    return tuple(spot_of(lines, original, shift) for lines in shown if lines.splice in touching)


def _extent(source: ModuleSource, node: FunctionNode) -> tuple[int, int]:
    """The offsets of the function's whole lines, decorators included."""
    return source.starts[first_line(node) - 1], source.starts[node.end_lineno or node.lineno]


def _unit(module: ModuleEdits, qualname: str, begin: int, end: int, touching: Sequence[Splice]) -> Unit:
    source = module.source
    start, stop = source.line_of(begin) - 1, source.line_of(max(begin, end - 1))
    begin = source.starts[start]
    inside = all(begin <= splice.start and splice.end <= source.starts[stop] for splice in touching)
    splices: dict[Slot, tuple[Splice, ...]] | None = None
    if inside:
        splices = {}
        for splice in touching:
            slot = module.slots[splice.toggle_id]
            splices[slot] = (*splices.get(slot, ()), moved_splice(splice, -begin))
    slots = frozenset(module.slots[splice.toggle_id] for splice in touching)
    ids = sorted(slot.id for slot in slots)
    return Unit(qualname, start, stop, new_name(f"{module.name}.{qualname}", ids), splices, slots)


def _outside(module: ModuleEdits, units: Sequence[Unit]) -> list[Splice]:
    """The splices that change statements outside of functions."""
    starts = module.source.starts
    return [
        splice
        for splice in module.splices
        if not any(starts[unit.start] <= splice.start and splice.end <= starts[unit.end] for unit in units)
    ]


def _virtual_file(module: ModuleEdits, edited: ModuleSource, unit: Unit, node: FunctionNode) -> VirtualFile:
    own = edited.lines[first_line(node) - 1 : node.end_lineno]
    ids = tuple(sorted(slot.id for slot in unit.slots))
    source = module.source
    return VirtualFile(unit.filename, source.path, ids, source.lines, unit.start, unit.end, own)


def align(
    tree: ast.Module,
    module: ModuleEdits,
    edited: ModuleSource,
    offsets: Offsets,
    shifts: Mapping[int, int],
) -> None:
    """Give the nodes of the edited tree the lines of the original text, in place.

    `shifts` says by node id how far the nodes of an edited function move together.
    """
    source = module.source
    if edited.text.count("\n") == source.text.count("\n") and not any(shifts.values()):
        return
    lines = [
        0,
        *(_original_line(source, edited, offsets, number) for number in range(1, len(edited.lines) + 1)),
    ]
    pending: list[tuple[ast.AST, int | None]] = [(tree, None)]
    while pending:
        node, shift = pending.pop()
        shift = shifts.get(id(node), shift)
        if isinstance(
            node, (ast.stmt, ast.expr, ast.excepthandler, ast.arg, ast.keyword, ast.alias, ast.pattern)
        ):
            _place(node, lines, shift)
        pending += [(child, shift) for child in ast.iter_child_nodes(node)]


def _original_line(source: ModuleSource, edited: ModuleSource, offsets: Offsets, number: int) -> int:
    offset = edited.starts[number - 1]
    for splice, (begin, end) in zip(offsets.splices, offsets.inserted, strict=True):
        if begin <= offset < end:
            replaced = source.line_of(splice.start), source.line_of(max(splice.start, splice.end - 1))
            return min(replaced[0] + number - edited.line_of(begin), replaced[1])
    return source.line_of(offsets.original(offset))


def _place(node: Any, lines: Sequence[int], shift: int | None) -> None:
    end = node.end_lineno or node.lineno
    if shift is not None:
        node.lineno, node.end_lineno = node.lineno + shift, end + shift
        return
    node.lineno, node.end_lineno = lines[node.lineno], lines[end]
    # Lines that were squeezed into the ones they replace may end before they begin.
    begin = node.lineno, node.col_offset
    node.end_lineno, node.end_col_offset = max(begin, (node.end_lineno, node.end_col_offset))


def _with_file_names(
    code: CodeType, units: Mapping[tuple[str, int], Unit], files: Mapping[str, VirtualFile]
) -> CodeType:
    """The module's code with each edited function in its virtual file; fills `Unit.code`."""
    consts: list[object] = []
    for const in code.co_consts:
        if type(const) is not CodeType:
            consts.append(const)
            continue
        unit = units.get((const.co_qualname, const.co_firstlineno))
        if unit is None or unit.code is not None:
            consts.append(_with_file_names(const, units, files))
        else:
            unit.code = moved(const, unit.start + 1 - const.co_firstlineno, unit.filename)
            publish(files[unit.filename], unit.code)
            consts.append(unit.code)
    return code.replace(co_consts=tuple(consts))
