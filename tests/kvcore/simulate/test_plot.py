from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from kvcore.errors import ConfigurationError
from kvcore.simulate.plot import check_plot_path, write_plot
from kvcore.simulate.plot.html import render
from kvcore.simulate.plot.panels import make_figure
from kvcore.simulate.series import Sample

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = [
    Sample(0.0, used=0, evictable=0, protected=0, free=100, running=0, waiting=3, hit_rate=0.0),
    Sample(500.0, used=40, evictable=10, protected=20, free=30, running=2, waiting=1, hit_rate=0.25),
    Sample(2000.0, used=0, evictable=60, protected=0, free=40, running=0, waiting=0, hit_rate=0.5),
]


def test_the_stack_of_areas_fills_the_pool_and_time_is_in_seconds() -> None:
    figure = make_figure(SAMPLES, "run")

    occupancy = figure.panels[0]
    assert figure.seconds == [0.0, 0.5, 2.0]
    assert [sum(values) for values in zip(*(c.values for c in occupancy.curves), strict=True)] == [100.0] * 3
    assert [curve.name for curve in occupancy.curves] == ["used", "protected", "evictable", "free"]
    assert [curve.name for panel in figure.panels[1:] for curve in panel.curves] == [
        "running",
        "waiting",
        "hit rate",
    ]


def test_the_html_page_is_well_formed_needs_nothing_and_draws_each_curve() -> None:
    page = render(make_figure(SAMPLES, "a <run> & more"))

    svg = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    root = ET.fromstring(svg)
    assert len(root.findall("polygon")) == 4
    assert len(root.findall("polyline")) == 3
    assert "a &lt;run&gt; &amp; more" in page
    assert not any(word in page for word in ("http", "<script", "@import", "<link"))
    # The first polygon's ceiling at 0.5 s: 40 of 100 slots in a panel of 280 units that begins at 24.
    assert f",{24 + 280 * 0.6:.1f}" in root.findall("polygon")[0].attrib["points"]


@pytest.mark.parametrize("samples", [SAMPLES, SAMPLES[:1], []])
def test_html_is_written_for_any_number_of_samples(tmp_path: Path, samples: list[Sample]) -> None:
    path = tmp_path / "plot.html"
    check_plot_path(path)
    write_plot(path, samples, "run")

    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_png_is_written_through_matplotlib(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "plot.png"
    check_plot_path(path)
    write_plot(path, SAMPLES, "run")

    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_png_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "kvcore.simulate.plot.png.find_spec", lambda name: None if name == "matplotlib" else real(name)
    )

    with pytest.raises(ConfigurationError, match=r"pip install 'prtoggle\[plot\]'"):
        check_plot_path(tmp_path / "plot.png")
    assert list(tmp_path.iterdir()) == []


def test_other_formats_and_missing_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"expected a name that ends in \.html or \.png"):
        check_plot_path(tmp_path / "plot.pdf")
    with pytest.raises(ConfigurationError, match=r"the folder .* does not exist"):
        check_plot_path(tmp_path / "nowhere" / "plot.png")
    assert list(tmp_path.iterdir()) == []
