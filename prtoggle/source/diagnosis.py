"""Why an edit does not match: the nearest text, whether it is reverted already, and where it went."""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.definitions import region_end
from prtoggle.errors import AlreadyRevertedError, AmbiguousMatchError, MatchError
from prtoggle.source.matching import Found, Matches, find_lines, pattern_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.definitions import TargetNode
    from prtoggle.source.matching import Pattern
    from prtoggle.source.source_text import ModuleSource
    from prtoggle.spec import Edit

# Below this similarity two texts have nothing to do with each other.
_SIMILAR = 0.5
_MUCH_WORSE = 0.15
_MOST_WINDOWS = 2
_MOST_LINES = 12
_MORE_LINES = 5
_LONG_REGION = 200


class Place(NamedTuple):
    """What is needed to say where an edit failed."""

    source: ModuleSource
    node: TargetNode
    target: str
    toggle_id: str
    number: int
    edits: tuple[Edit, ...]

    @property
    def edit(self) -> Edit:
        """The edit that failed."""
        return self.edits[self.number]

    @property
    def last_line(self) -> int:
        """The last line of the file that the edit may touch."""
        return region_end(self.node, self.source.lines)

    def intro(self, what: str) -> str:
        """The message's first line: target, edit, toggle, spec place, what happened, file and lines."""
        written = f" ({self.edit.where})" if self.edit.where else ""
        lines = f"{self.source.path}:{self.node.first_line}-{self.last_line}"
        return f"{self.target}: edit {self.number + 1} of toggle {self.toggle_id}{written} {what} {lines}"


def mismatch(place: Place, matches: Matches) -> MatchError:
    """The error for an edit that matched nothing in code, with the likeliest reason and the nearest text."""
    pattern = pattern_of(place.edit.match)
    nearest = nearest_windows(place.source, place.node.first_line, place.last_line, pattern)
    shown = [numbered(place.source, window, pattern) for window in nearest]
    parts = [place.intro("does not match"), "looked for:", *(f"      | {line}" for line in pattern.lines)]
    parts += ["nearest text:", *shown] if shown else ["no text there is similar"]
    lines = [
        (number, place.source.lines[number - 1].strip())
        for first, last in nearest
        for number in range(first, last + 1)
    ]
    reverted = _reverted_line(place)
    kind = MatchError if reverted is None else AlreadyRevertedError
    if reverted is None:
        parts.append(_reason(place, matches, pattern))
    else:
        parts.append(
            f"The replacement's text stands at line {reverted}: this source is already reverted there, or it "
            "never had the fix."
        )
    return kind("\n".join(parts), target=place.target, edit_index=place.number, nearest=lines)


def _reason(place: Place, matches: Matches, pattern: Pattern) -> str:
    size = len(pattern.stripped)
    written = [line.strip() for line in place.source.lines]
    for first in range(place.node.first_line - 1, place.last_line - size + 1):
        if written[first : first + size] == list(pattern.stripped) and not matches.in_strings:
            return f"The same lines stand at line {first + 1}, but indented otherwise against each other."
    if matches.in_strings:
        lines = ", ".join(str(found.first) for found in matches.in_strings)
        return (
            f"The text stands inside a string literal (line {lines}), which is not code. To edit the string, "
            "let match begin at the line where the string begins."
        )
    for number, other in enumerate(place.edits):
        if number != place.number and _holds(other.text, pattern):
            return (
                f"Edit {number + 1} writes this text, but edits are matched against the original source, "
                "never against each other's text: put both changes into one edit."
            )
    moved = find_lines(place.source.lines, 1, len(place.source.lines), pattern).in_code
    if moved:
        homes = ", ".join(f"line {found.first} ({_home(place.source, found.first)})" for found in moved[:3])
        return f"The text stands elsewhere in this file: {homes}. Did the code move? Then change the target."
    return (
        "Compare with the running version and bring match up to date, or give the spec an applies_to range."
    )


def _holds(text: str, pattern: Pattern) -> bool:
    lines = text.splitlines()
    return bool(lines) and bool(find_lines(lines, 1, len(lines), pattern).in_code)


def _reverted_line(place: Place) -> int | None:
    """The line where the text of a replacement stands in the source already."""
    if place.edit.mode != "replacement" or not place.edit.text.strip():
        return None
    pattern = pattern_of(place.edit.text)
    found = find_lines(place.source.lines, place.node.first_line, place.last_line, pattern).in_code
    return found[0].first if found else None


def ambiguous(place: Place, found: Sequence[Found]) -> AmbiguousMatchError:
    """The error for an edit that matches at several places, all of which are shown."""
    numbers = [item.first for item in found]
    listed = f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    shown = [f"{number:>5} | {place.source.lines[number - 1].rstrip()}" for number in numbers]
    return AmbiguousMatchError(
        "\n".join(
            [
                place.intro(f"matches {len(found)} times, at lines {listed} of"),
                *shown,
                f"Add neighbouring lines to match, or pick a place with occurrence: 1 to {len(found)}.",
            ]
        ),
        target=place.target,
        edit_index=place.number,
        lines=numbers,
    )


def out_of_range(place: Place, found: Sequence[Found]) -> MatchError:
    """The error for an occurrence beyond the places that there are."""
    numbers = ", ".join(str(item.first) for item in found)
    times = "once" if len(found) == 1 else f"{len(found)} times"
    return MatchError(
        f"{place.intro(f'asks for occurrence {place.edit.occurrence}, but the text stands {times}')} "
        f"(line {numbers})",
        target=place.target,
        edit_index=place.number,
        nearest=[(item.first, place.source.lines[item.first - 1].strip()) for item in found],
    )


def ends_in_string(place: Place, found: Found) -> MatchError:
    """The error for an append whose text would become part of a string literal."""
    return MatchError(
        f"{place.intro('cannot be appended')}\nmatch ends at line {found.last}, inside a string literal: let "
        "it end where the string ends",
        target=place.target,
        edit_index=place.number,
        nearest=[(found.last, place.source.lines[found.last - 1].strip())],
    )


def nearest_windows(source: ModuleSource, first: int, last: int, pattern: Pattern) -> list[tuple[int, int]]:
    """The line ranges within `first` to `last` that look most like the pattern, best first; at most two.

    Blanks do not count, and a range may have a few lines more than the pattern: a formatter breaks lines.
    """
    size = max(1, min(len(pattern.lines), last - first + 1))
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2("".join("".join(pattern.stripped).split()))
    lines = ["".join(line.split()) for line in source.lines[first - 1 : last]]
    longer = _MORE_LINES if len(lines) <= _LONG_REGION else 0
    bounded: list[tuple[float, int, int]] = []
    for start, line in enumerate(lines):
        for length in range(size, min(size + longer, len(lines) - start) + 1) if line else ():
            matcher.set_seq1("".join(lines[start : start + length]))
            if matcher.real_quick_ratio() >= _SIMILAR and matcher.quick_ratio() >= _SIMILAR:
                bounded.append((matcher.quick_ratio(), -length, -start))
    scored: list[tuple[float, int, int]] = []
    best = 0.0
    # The likeliest first: a range whose bound is much worse than the best likeness need not be compared.
    for bound, length, start in sorted(bounded, reverse=True):
        if bound >= best - _MUCH_WORSE:
            matcher.set_seq1("".join(lines[-start : -start - length]))
            scored.append((matcher.ratio(), length, start))
            best = max(best, scored[-1][0])
    chosen: list[tuple[int, int]] = []
    for ratio, length, start in sorted(scored, reverse=True):
        if ratio < max(_SIMILAR, max(scored)[0] - _MUCH_WORSE) or len(chosen) == _MOST_WINDOWS:
            break
        window = (first - start, first - start - length - 1)
        if all(window[1] < other[0] or window[0] > other[1] for other in chosen):
            chosen.append(window)
    return chosen


def numbered(source: ModuleSource, window: tuple[int, int], pattern: Pattern) -> str:
    """The lines of a window with their numbers; those that the pattern does not hold are marked."""
    known = set(pattern.stripped)
    shown = []
    for number in range(window[0], min(window[1], window[0] + _MOST_LINES - 1) + 1):
        line = source.lines[number - 1].rstrip()
        mark = " " if line.strip() in known else ">"
        shown.append(f"{mark}{number:>4} | {line}")
    if window[1] - window[0] >= _MOST_LINES:
        shown.append("       ...")
    return "\n".join(shown)


def _home(source: ModuleSource, line: int) -> str:
    """The qualified name of the definition that holds `line`."""
    names: list[str] = []
    scope: ast.AST = ast.parse(source.text)
    while True:
        for node in ast.walk(scope):
            if (
                isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                and node is not scope
                and node.lineno <= line <= (node.end_lineno or node.lineno)
            ):
                names.append(node.name)
                scope = node
                break
        else:
            return ".".join(names) or "module level"
