"""What is drawn, without saying how: three panels over one time axis."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvcore.errors import ConfigurationError
from kvcore.page_math import align_up

if TYPE_CHECKING:
    from pathlib import Path

    from kvcore.simulate.series import Sample

PLOT_FORMATS = (".html", ".png")


@dataclass(frozen=True, slots=True)
class Curve:
    """One named quantity over time; the values belong to the panel's time axis."""

    name: str
    color: str
    values: list[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves that share an axis; ``stacked`` ones are areas on top of each other."""

    title: str
    curves: list[Curve]
    stacked: bool
    top: float
    """Upper end of the axis; the lower end is 0."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The panels from top to bottom and their common time axis, in seconds of the trace."""

    title: str
    seconds: list[float]
    panels: list[Panel]


def make_figure(samples: list[Sample], title: str) -> Figure:
    """Occupancy of the pool, requests, and hit rate."""
    # Okabe and Ito's colours, which people with any colour vision can tell apart.
    occupancy = [
        Curve("used", "#0072b2", [s.used for s in samples]),
        Curve("protected", "#009e73", [s.protected for s in samples]),
        Curve("evictable", "#e69f00", [s.evictable for s in samples]),
        Curve("free", "#d9d9d9", [s.free for s in samples]),
    ]
    requests = [
        Curve("running", "#0072b2", [s.running for s in samples]),
        Curve("waiting", "#d55e00", [s.waiting for s in samples]),
    ]
    hits = [Curve("hit rate", "#009e73", [100.0 * s.hit_rate for s in samples])]
    pool = max((s.used + s.protected + s.evictable + s.free for s in samples), default=1)
    most = max((max(s.running, s.waiting) for s in samples), default=1)
    panels = [
        Panel("slots", occupancy, stacked=True, top=float(pool)),
        Panel("requests", requests, stacked=False, top=float(align_up(most + 1, 4))),
        Panel("prompt tokens from the prefix cache, % so far", hits, stacked=False, top=100.0),
    ]
    return Figure(title, [s.now_ms / 1000.0 for s in samples], panels)


def check_plot_path(path: Path) -> None:
    """Raise ConfigurationError unless ``write_plot`` can write ``path``; to be called before a long run."""
    suffix = path.suffix.lower()
    if suffix not in PLOT_FORMATS:
        raise ConfigurationError(f"--plot {path}: expected a name that ends in {' or '.join(PLOT_FORMATS)}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"--plot {path}: the folder {path.parent} does not exist")
    if os.path.isdir(path):  # noqa: PTH112  (False, where a Path raises, for a name that is too long)
        raise ConfigurationError(f"--plot {path}: is a folder; give the name of a file")
    there = os.path.exists(path)  # noqa: PTH110
    try:
        path.open("ab").close()
    except OSError as error:
        raise ConfigurationError(f"--plot {path}: cannot be written: {error.strerror}") from error
    if not there:
        path.unlink()
    if suffix == ".png":
        # The extra is optional, so it is imported only where it is asked for.
        from kvcore.simulate.plot import png  # noqa: PLC0415

        png.require_matplotlib()


def write_plot(path: Path, samples: list[Sample], title: str) -> None:
    """Draw the samples into ``path``, in the format that its suffix names."""
    figure = make_figure(samples, title)
    if path.suffix.lower() == ".png":
        from kvcore.simulate.plot import png  # noqa: PLC0415

        png.write(path, figure)
    else:
        from kvcore.simulate.plot import html  # noqa: PLC0415

        path.write_text(html.render(figure), encoding="utf-8")
