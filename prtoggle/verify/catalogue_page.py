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
    toggles: Sequence[Toggle], matrix: Matrix, fingerprint: str, also_caught: Mapping[str, Sequence[str]]
) -> str:
    """The whole page as text, ending in a newline."""
    return "\n".join(_lines(toggles, matrix, fingerprint, also_caught)) + "\n"


def _lines(
    toggles: Sequence[Toggle], matrix: Matrix, fingerprint: str, also_caught: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    yield "# The catalogue"
    yield ""
    yield "<!-- Made by `python -m prtoggle verify --matrix --catalogue docs/catalogue.md`; do not edit. -->"
    yield f"<!-- fingerprint: {fingerprint} -->"
    yield ""
    yield f"{len(toggles)} historical fixes, each with guards that fail when it is taken out."
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


def _cell(text: str) -> str:
    """Text that may stand in a table cell."""
    return " ".join(text.split()).replace("|", "\\|")
