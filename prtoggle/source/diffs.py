"""Places the hunks of a unified diff in a module's source: exactly, or not at all.

Every context and removed line has to stand in the file as the diff shows it. Two ways of writing are known:
as git prints it (the file's own indentation and numbering), and against the dedented source of the function.
Line numbers only decide where the text alone leaves a choice, and only when they are right.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.errors import AlreadyRevertedError, AmbiguousMatchError, MatchError
from prtoggle.source.diagnosis import nearest_windows, numbered
from prtoggle.source.diff_text import FileDiff, Hunk, change_runs, parse_diff
from prtoggle.source.indentation import leading
from prtoggle.source.matching import pattern_of
from prtoggle.source.splices import Rank, Splice, merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.definitions import TargetNode
    from prtoggle.source.source_text import ModuleSource
    from prtoggle.spec import Patch


class Spot(NamedTuple):
    """A place of a hunk: its first old line is line `first` of the file, indented by `prefix` more."""

    first: int
    prefix: str


class _Context(NamedTuple):
    source: ModuleSource
    nodes: Sequence[TargetNode]
    target: str
    toggle_id: str

    def holds(self, first: int, last: int) -> bool:
        """Whether a change of lines `first` to `last` lies within one of the target's definitions."""
        return any(node.first_line <= first and last <= node.last_line for node in self.nodes)

    def touches(self, first: int, last: int) -> bool:
        return any(node.first_line <= last and first <= node.last_line for node in self.nodes)


def plan_diff(
    source: ModuleSource, nodes: Sequence[TargetNode], target: str, patch: Patch, toggle_id: str
) -> tuple[Splice, ...]:
    """The splices that turn the source into what the patch's `diff` (or its reversed `fix_diff`) shows.

    Of a diff over several files and functions only the hunks that change lines of the target count. Raises
    MatchError when a hunk of the target's file has no place or straddles the target's end,
    AmbiguousMatchError when it has several, AlreadyRevertedError when the result stands there already.
    """
    context = _Context(source, nodes, target, toggle_id)
    files = parse_diff(patch.fix_diff if patch.fix_diff is not None else patch.diff or "")
    if patch.fix_diff is not None:
        files = [file.reversed() for file in files]
    file = _file_of(context, files)
    splices: list[Splice] = []
    for index, hunk in enumerate(file.hunks):
        splices += _place_hunk(context, file, hunk, index)
    if not splices:
        raise MatchError(
            f"{target}: none of the {len(file.hunks)} hunks of toggle {toggle_id} for {file.name} changes "
            f"its lines ({_ranges(nodes)} of {source.path}): name the function that the diff changes",
            target=target,
        )
    return merge(splices)


def _ranges(nodes: Sequence[TargetNode]) -> str:
    return ", ".join(f"{node.first_line}-{node.last_line}" for node in nodes)


def _file_of(context: _Context, files: Sequence[FileDiff]) -> FileDiff:
    """The part of the diff that is about the target's file."""
    path = PurePath(context.source.path).parts
    scored = [(max(_overlap(path, name) for name in (file.old_path, file.new_path)), file) for file in files]
    best = max(score for score, _ in scored)
    chosen = [file for score, file in scored if score == best]
    if best > 0 and len(chosen) == 1:
        return chosen[0]
    if len(files) == 1 and not files[0].new_path.endswith(".py") and not files[0].old_path.endswith(".py"):
        return files[0]
    names = ", ".join(file.name for file in files)
    raise MatchError(
        f"{context.target}: the diff of toggle {context.toggle_id} is about {names}; "
        f"{'several of these' if best else 'none of these'} may be {context.source.path}. "
        "Leave only the part for the target's file in the diff.",
        target=context.target,
    )


def _overlap(path: tuple[str, ...], name: str) -> int:
    """How many trailing parts the diff's path and the file's path share; 0 unless one may be the other.

    A repository keeps its packages below folders of its own (python/, src/), an installation below others: so
    the paths agree from the end up to where one of the two is outside of the package.
    """
    other = PurePath(name).parts if name else ()
    shared = 0
    while shared < min(len(path), len(other)) and path[-1 - shared] == other[-1 - shared]:
        shared += 1
    return shared


def _place_hunk(context: _Context, file: FileDiff, hunk: Hunk, index: int) -> list[Splice]:
    """The splices of one hunk; empty when all it changes lies outside of the target."""
    spots = find_spots(context.source.lines, hunk.old)
    inside = [spot for spot in spots if _changes_touch(context, hunk, spot)]
    if not spots:
        raise _no_place(context, file, hunk, index)
    exact = [spot for spot in inside if spot.first in _stated(context, file, hunk, spot)]
    # The same lines may stand in another function, and the line numbers may say that it is the one.
    elsewhere = any(spot not in inside and spot == (hunk.old_start, "") for spot in spots)
    if not inside or (elsewhere and not exact):
        return []
    if len(inside) > 1 and len(exact) != 1:
        raise _several(context, inside, index)
    return _splices_at(context, hunk, (exact or inside)[0], index)


def find_spots(lines: Sequence[str], old: Sequence[str]) -> list[Spot]:
    """All places where the lines `old` stand: exactly, but for one run of blanks before all of them.

    A hunk without any line to find (no context, nothing removed) has no place.
    """
    anchor = next((index for index, text in enumerate(old) if text.strip()), None)
    if anchor is None:
        return []
    spots = []
    for number in range(anchor, len(lines) - (len(old) - anchor) + 1):
        line = lines[number].rstrip("\r\n")
        if not line.endswith(old[anchor]):
            continue
        prefix = line[: len(line) - len(old[anchor])]
        if prefix.strip() or (prefix and leading(line)[: len(prefix)] != prefix):
            continue
        start = number - anchor
        block = (entry.rstrip("\r\n") for entry in lines[start : start + len(old)])
        if all(_same(line, text, prefix) for line, text in zip(block, old, strict=True)):
            spots.append(Spot(start + 1, prefix))
    return spots


def _same(line: str, text: str, prefix: str) -> bool:
    return line == prefix + text or (not text.strip() and not line.strip())


def _old_lines(hunk: Hunk, spot: Spot) -> list[tuple[int, int]]:
    """The file's lines that each change of the hunk replaces, or stands between for an insertion."""
    ranges = []
    for begin, end, _ in change_runs(hunk):
        ranges.append((spot.first + begin, spot.first + end - 1))
    return ranges


def _changes_touch(context: _Context, hunk: Hunk, spot: Spot) -> bool:
    return any(_touches(context, first, last) for first, last in _old_lines(hunk, spot))


def _touches(context: _Context, first: int, last: int) -> bool:
    if last < first:
        # An insertion before line `first` belongs to the target when it goes in between two of its lines, or
        # right after its last one.
        return any(node.first_line < first <= node.last_line + 1 for node in context.nodes)
    return context.touches(first, last)


def _stated(context: _Context, file: FileDiff, hunk: Hunk, spot: Spot) -> set[int]:
    """The file lines that the hunk's header may mean: counted in the file, or in the target's own source.

    A diff that names a Python file and has the indentation of its lines counts in the file.
    """
    if not spot.prefix and file.name.endswith(".py"):
        return {hunk.old_start}
    lines = {hunk.old_start} if not spot.prefix else set()
    return lines | {node.first_line + hunk.old_start - 1 for node in context.nodes}


def _splices_at(context: _Context, hunk: Hunk, spot: Spot, index: int) -> list[Splice]:
    source = context.source
    splices = []
    for begin, end, added in change_runs(hunk):
        first, last = spot.first + begin, spot.first + end - 1
        if not _touches(context, first, last):
            raise _straddles(context, hunk, index, first)
        if begin < end and not context.holds(first, last):
            raise _straddles(context, hunk, index, first)
        newline = source.newline
        text = "".join((spot.prefix + line if line.strip() else line) + newline for line in added)
        start = source.starts[first - 1]
        stop = source.starts[last] if begin < end else start
        ends_file = stop == len(source.text) and not source.text.endswith(("\n", "\r"))
        if ends_file:
            text = text.removesuffix(newline) if begin < end else newline + text.removesuffix(newline)
        rank = Rank.REPLACEMENT if begin < end else Rank.PREPEND
        splices.append(
            Splice(start, stop, text, context.toggle_id, context.target, index, rank, (start, stop))
        )
    return splices


def _no_place(context: _Context, file: FileDiff, hunk: Hunk, index: int) -> MatchError:
    intro = f"{context.target}: hunk {index + 1} of toggle {context.toggle_id}"
    if not any(text.strip() for text in hunk.old):
        return MatchError(
            f"{intro} has neither context nor removed lines, so it has no certain place in "
            f"{context.source.path}: make the diff with context",
            target=context.target,
            edit_index=index,
        )
    if any(_changes_touch(context, hunk, spot) for spot in find_spots(context.source.lines, hunk.new)):
        return AlreadyRevertedError(
            f"{intro} is already applied: {context.source.path} shows what the hunk leads to, not what it "
            "begins from. Is the diff the right way round (diff: running to reverted, fix_diff: the fix)?",
            target=context.target,
            edit_index=index,
        )
    pattern = pattern_of("\n".join(hunk.old))
    nearest = [
        window
        for node in context.nodes
        for window in nearest_windows(
            context.source, node.first_line, min(node.last_line, len(context.source.lines)), pattern
        )
    ]
    shown = [numbered(context.source, window, pattern) for window in nearest[:2]]
    return MatchError(
        "\n".join(
            [
                f"{intro} for {file.name} does not match {context.source.path}, line by line; looked for:",
                *(f"      | {line}" for line in hunk.old),
                *(["nearest text:", *shown] if shown else ["no text there is similar"]),
                "A hunk that is not about this target can be left out of the diff.",
            ]
        ),
        target=context.target,
        edit_index=index,
        nearest=[
            (number, context.source.lines[number - 1].strip())
            for first, last in nearest
            for number in range(first, last + 1)
        ],
    )


def _several(context: _Context, spots: Sequence[Spot], index: int) -> AmbiguousMatchError:
    lines = [spot.first for spot in spots]
    return AmbiguousMatchError(
        f"{context.target}: hunk {index + 1} of toggle {context.toggle_id} fits {len(lines)} places of "
        f"{context.source.path}, at lines {', '.join(map(str, lines))}, and its line numbers do not pick "
        "one: make the diff with more context (diff -U10)",
        target=context.target,
        edit_index=index,
        lines=lines,
    )


def _straddles(context: _Context, hunk: Hunk, index: int, line: int) -> MatchError:
    heading = f" ({hunk.heading})" if hunk.heading else ""
    return MatchError(
        f"{context.target}: hunk {index + 1}{heading} of toggle {context.toggle_id} also changes line {line} "
        f"of {context.source.path}, outside of the target ({_ranges(context.nodes)}). Name the class "
        "or the module as the target, or cut the hunk down to the target's lines.",
        target=context.target,
        edit_index=index,
    )
