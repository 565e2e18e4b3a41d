"""Turns the patches of a spec into splices of a module's source: text only, nothing is read or imported.

Every edit is matched against the original text, inside the lines of its target:

    first_line                                       last_line
    | def f(x):                                              |
    |     ...  [ matched lines, whole )  ...                 |
               ^ anchor start          ^ anchor end

A replacement takes the place of the anchor; prepended and appended text goes in at its ends and leaves the
matched lines as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from prtoggle.definitions import TargetNode, locate, made_from
from prtoggle.errors import AmbiguousMatchError, EditError, MatchError, StaleSourceError
from prtoggle.missing import missing_target
from prtoggle.source.diagnosis import Place, ambiguous, ends_in_string, mismatch, out_of_range
from prtoggle.source.diffs import plan_diff
from prtoggle.source.empty_blocks import fill_blocks
from prtoggle.source.indentation import fit_block, string_lines, style_of
from prtoggle.source.integrity import EditedModule, compilable_module, edit_module, parse_edited
from prtoggle.source.looks import refuse_looks
from prtoggle.source.matching import Found, find_lines, find_statements, pattern_of
from prtoggle.source.names import undefined_names
from prtoggle.source.preamble import place_preamble
from prtoggle.source.source_text import ModuleSource, decode_source, newline_of, read_source
from prtoggle.source.splices import EditedLines, Rank, Splice, apply_splices, edited_line_map, merge

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from prtoggle.spec import Edit, Patch
    from prtoggle.target import ResolvedTarget

__all__ = [
    "EditedLines",
    "EditedModule",
    "ModuleSource",
    "Splice",
    "apply_splices",
    "compilable_module",
    "decode_source",
    "edit_module",
    "edited_line_map",
    "fill_blocks",
    "merge",
    "parse_edited",
    "plan_nodes",
    "plan_patch",
    "read_source",
    "undefined_names",
]


def plan_patch(
    source: ModuleSource,
    tree: ast.Module,
    target: ResolvedTarget,
    patch: Patch,
    toggle_id: str,
    *,
    firstlineno: int | None = None,
) -> tuple[Splice, ...]:
    """The splices that do `patch` (of a mode that changes source text) to `source`, parsed as `tree`.

    A name that is defined in several branches is edited in every definition in which an edit matches exactly
    once; `firstlineno` narrows the choice to the definition that the running code was made from. Raises
    TargetError when the module does not define the name, MatchError and its leaves when an edit has no single
    place, StaleSourceError when no definition begins at `firstlineno`.
    """
    nodes = locate(tree, target.qualname)
    if not nodes:
        raise missing_target(tree, target)
    if firstlineno is not None:
        nodes = [node for node in nodes if _begins_at(node, firstlineno)]
        if not nodes:
            raise StaleSourceError(
                f"{target.text}: the running code begins at line {firstlineno} of {source.path}, but the "
                "file does not define it there: it was changed since the import. Start a new process.",
                target=target.text,
                file=source.path,
            )
    try:
        return plan_nodes(source, nodes, target.text, patch, toggle_id)
    except MatchError as error:
        origins = [origin for node in nodes for origin in made_from(tree, node)]
        for origin in origins:
            try:
                splices = plan_nodes(source, [origin], target.text, patch, toggle_id)
            except MatchError:
                continue
            return tuple(replace(splice, note=splice.note or origin.note) for splice in splices)
        raise error from None


def _begins_at(node: TargetNode, line: int) -> bool:
    if node.kind in ("assignment", "module"):
        return node.first_line <= line <= node.last_line
    return line in (node.first_line, getattr(node.node, "lineno", 0))


def plan_nodes(
    source: ModuleSource, nodes: Sequence[TargetNode], target: str, patch: Patch, toggle_id: str
) -> tuple[Splice, ...]:
    """The same for definitions that are known already; `target` is the name for messages."""
    if patch.mode in ("diff", "fix_diff"):
        splices: Sequence[Splice] = plan_diff(source, nodes, target, patch, toggle_id)
        for node in nodes:
            splices = fill_blocks(source, node.node, splices)
        return _merged(source, splices, target, toggle_id)
    if patch.mode != "edits":
        raise EditError(f"{target}: a {patch.mode} patch changes an object, not source text", target=target)
    planned: dict[int, list[Splice]] = {number: [] for number in range(len(nodes))}
    for index in range(len(patch.edits)):
        for number, splice in _plan_edit(source, nodes, target, patch.edits, index, toggle_id):
            planned[number].append(splice)
    done: list[Splice] = []
    for number, node in enumerate(nodes):
        own = planned[number]
        if patch.preamble.strip() and (own or not patch.edits):
            own = _with_preamble(source, node, number, own, patch.preamble, target, toggle_id)
        done += fill_blocks(source, node.node, own)
    return _merged(source, done, target, toggle_id)


def _merged(
    source: ModuleSource, splices: Sequence[Splice], target: str, toggle_id: str
) -> tuple[Splice, ...]:
    refuse_looks(source, splices, target, toggle_id)
    return merge(splices)


def _plan_edit(
    source: ModuleSource,
    nodes: Sequence[TargetNode],
    target: str,
    edits: tuple[Edit, ...],
    index: int,
    toggle_id: str,
) -> list[tuple[int, Splice]]:
    """One edit in every definition that holds it once: (number of the definition, splice). Never empty."""
    done = []
    failed: list[MatchError] = []
    for number, node in enumerate(nodes):
        place = Place(source, node, target, toggle_id, index, edits)
        try:
            done.append((number, _splice(place, _find(place))))
        except MatchError as error:
            failed.append(error)
    for failure in failed:
        if isinstance(failure, AmbiguousMatchError) or not done:
            raise failure
    return done


def _find(place: Place) -> Found:
    """The one place of an edit in one definition: by its lines, else by its structure."""
    edit, node = place.edit, place.node
    pattern = pattern_of(edit.match)
    matches = find_lines(place.source.lines, node.first_line, place.last_line, pattern)
    found = list(matches.in_code) or find_statements(place.source.lines, node.node, pattern)
    if not found:
        raise mismatch(place, matches)
    if edit.occurrence is not None:
        if edit.occurrence > len(found):
            raise out_of_range(place, found)
        return found[edit.occurrence - 1]
    if len(found) > 1:
        raise ambiguous(place, found)
    return found[0]


def _splice(place: Place, found: Found) -> Splice:
    if place.edit.mode == "append" and ends_inside_string(place.source.lines, place.node.first_line, found):
        raise ends_in_string(place, found)
    starts = place.source.starts
    extent = starts[found.first - 1], starts[found.last]
    return make_splice(
        place.source.lines, found, extent, place.edit, place.toggle_id, place.target, place.number
    )


def make_splice(
    lines: Sequence[str],
    found: Found,
    extent: tuple[int, int],
    edit: Edit,
    toggle_id: str,
    target: str,
    index: int,
) -> Splice:
    """The splice that does `edit` at the file's lines that were found, which lie at `extent` of the text."""
    start, end = extent
    newline = _line_end(lines[found.first - 1]) or newline_of(lines)
    text = _fitted(lines, found, edit.text, newline)
    open_end = not _line_end(lines[found.last - 1])
    note = f"lines {found.first}-{found.last} are laid out differently from match" if found.reflowed else None
    if edit.mode == "replacement":
        text = text.removesuffix(newline) if open_end else text
        return Splice(start, end, text, toggle_id, target, index, Rank.REPLACEMENT, (start, end), note)
    if edit.mode == "prepend":
        return Splice(start, start, text, toggle_id, target, index, Rank.PREPEND, (start, end), note)
    text = newline + text.removesuffix(newline) if open_end else text
    return Splice(end, end, text, toggle_id, target, index, Rank.APPEND, (start, end), note)


def _fitted(lines: Sequence[str], found: Found, text: str, newline: str) -> str:
    """The edit's text in the style of the place that was found."""
    line = text.rstrip("\n")
    if line and not line[0].isspace() and "\n" not in line and "\r" not in line:
        return f"{found.base}{line}{newline}"
    nearby = lines[max(0, found.first - 20) : found.last + 20]
    return fit_block(text, style_of(found.base, nearby, found.ratio), newline)


def ends_inside_string(lines: Sequence[str], first_line: int, found: Found) -> bool:
    """Whether the line after the place that was found begins inside a string literal."""
    return found.last + 1 - first_line in string_lines("".join(lines[first_line - 1 : found.last + 1]))


def _line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _with_preamble(
    source: ModuleSource,
    node: TargetNode,
    number: int,
    splices: list[Splice],
    preamble: str,
    target: str,
    toggle_id: str,
) -> list[Splice]:
    insertions = place_preamble(source, node, preamble)
    covering = [
        splice for splice in splices for item in insertions if splice.start < item.offset < splice.end
    ]
    if not covering:
        return splices + [
            Splice(
                item.offset, item.offset, item.text, toggle_id, target, -1, Rank.PREAMBLE, (item.offset,) * 2
            )
            for item in insertions
        ]
    # The patch rewrites the header and the first statement together: the preamble goes into its own text.
    done = list(merge(splices))
    edited = ModuleSource(source.path, apply_splices(source.text, done), source.encoding)
    node = locate(parse_edited(edited.text, done, target), node.qualname)[number]
    for item in reversed(place_preamble(edited, node, preamble)):
        done = _insert_into(done, item.offset, item.text)
    return done


def _insert_into(splices: list[Splice], offset: int, text: str) -> list[Splice]:
    """Put `text` at `offset` of the edited text, which lies in the text of one of the splices."""
    shift = 0
    for position, splice in enumerate(splices):
        inner = offset - (splice.start + shift)
        if 0 <= inner <= len(splice.text):
            joined = splice.text[:inner] + text + splice.text[inner:]
            return [*splices[:position], replace(splice, text=joined), *splices[position + 1 :]]
        shift += len(splice.text) - (splice.end - splice.start)
    raise AssertionError(f"offset {offset} lies in none of {splices}")
