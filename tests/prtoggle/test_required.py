"""What goes out with a toggle, and what of that can be out while the toggle is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prtoggle.catalog import Catalog
from prtoggle.required import required_alone, required_by

if TYPE_CHECKING:
    from pathlib import Path

REQUIRES = {
    "base": [],
    "above": ["base"],
    "top": ["above", "side"],
    "side": ["base"],
    "one": ["other", "base"],
    "other": ["one"],
    "lost": ["nowhere"],
}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    for toggle_id, required in REQUIRES.items():
        text = f"requires: {required}\npatches: [{{target: a.b, value: 1}}]\n"
        (tmp_path / f"{toggle_id}.yaml").write_text(text)
    return Catalog.discover(tmp_path, {"PRTOGGLE_PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("toggle_id", "together", "alone"),
    [
        ("base", (), ()),
        ("above", ("base",), ("base",)),
        ("top", ("above", "side", "base"), ("above", "side", "base")),
        ("one", ("other", "base"), ("base",)),
        ("lost", ("nowhere",), ("nowhere",)),
    ],
)
def test_all_that_is_required_goes_out_and_what_requires_the_toggle_itself_not_without_it(
    catalog: Catalog, toggle_id: str, together: tuple[str, ...], alone: tuple[str, ...]
) -> None:
    toggle = catalog.get(toggle_id)

    assert required_by(toggle, catalog) == together
    assert required_alone(toggle, catalog) == alone
