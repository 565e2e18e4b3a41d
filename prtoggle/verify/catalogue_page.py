"""The catalogue as a Markdown page, with the matrix as a table; generated, so that it cannot fall behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.verify.matrix import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prtoggle.spec import Toggle
    from prtoggle.verify.matrix import Matrix

_MARKS = {
    Cell.CAUGHT: "caught",
    Cell.MASKED: "masked",
    Cell.MISSED: "**missed**",
    Cell.FINDING: "**finding**",
    Cell.ERROR: "**error**",
}


def catalogue_page(
    toggles: Sequence[Toggle],
    matrix: Matrix,
    fingerprint: str,
    also_caught: Mapping[str, Sequence[str]],
    suite: Sequence[str] = (),
) -> str:
    """The whole page as text, ending in a newline; `suite`: the tests asked for `also_caught`."""
    return "\n".join(_lines(toggles, matrix, fingerprint, also_caught, suite)) + "\n"


def _lines(
    toggles: Sequence[Toggle],
    matrix: Matrix,
    fingerprint: str,
    also_caught: Mapping[str, Sequence[str]],
    suite: Sequence[str],
) -> Iterator[str]:
    yield "# The catalogue"
    yield ""
    yield "<!-- Made by `python -m prtoggle verify --matrix --catalogue docs/catalogue.md`; do not edit. -->"
    yield f"<!-- fingerprint: {fingerprint} -->"
    yield ""
    caught = sum(matrix.cells[row, row] is Cell.CAUGHT for row in matrix.ids)
    if caught == len(toggles):
        yield f"{len(toggles)} historical fixes, each with guards that fail when it is taken out."
    else:
        yield f"{caught} of {len(toggles)} historical fixes have guards that fail when it is taken out."
    yield from _about_the_last_column(suite)
    yield ""
    yield "| id | title | links | tags | guards | also caught by |"
    yield "|---|---|---|---|---|---|"
    for toggle in toggles:
        guards = "<br>".join(f"`{guard}`" for guard in toggle.guards)
        noticed = ", ".join(f"`{test}`" for test in also_caught.get(toggle.id, ())) or "-"
        links = "<br>".join(_cell(link) for link in toggle.links)
        tags = ", ".join(toggle.tags)
        yield f"| `{toggle.id}` | {_cell(toggle.title)} | {links} | {tags} | {guards} | {noticed} |"
    yield ""
    yield "## Every toggle against every guard"
    yield ""
    yield "With the toggle of the left column reverted, the guards of all toggles ran."
    yield "`caught`: its own guards fail."
    yield "The last column names the toggles whose guards fail too, as `masks` declares."
    yield ""
    yield "| reverted | own guards | other guards that fail |"
    yield "|---|---|---|"
    for row in matrix.ids:
        others = [
            f"`{column}` ({_MARKS[matrix.cells[row, column]]})"
            for column in matrix.ids
            if column != row and matrix.cells[row, column] is not Cell.QUIET
        ]
        yield f"| `{row}` | {_MARKS[matrix.cells[row, row]]} | {', '.join(others) or '-'} |"


def _about_the_last_column(suite: Sequence[str]) -> Iterator[str]:
    """Which tests were asked: an empty cell says no more than that these do not notice."""
    if not suite:
        yield "Who else notices was not asked (`--also TESTS`): the last column is empty."
        return
    folders: dict[str, list[str]] = {}
    for tests in suite:
        folder, _, name = tests.rpartition("/")
        folders.setdefault(folder, []).append(name)
    yield "The last column names the other test files that fail without the fix, of these:"
    yield ""
    for folder, names in folders.items():
        yield f"* {f'`{folder}`: ' if folder else ''}{', '.join(f'`{name}`' for name in names)}"


def _cell(text: str) -> str:
    """Text that may stand in a table cell."""
    return " ".join(text.split()).replace("|", "\\|")
