"""The figure as a PNG file, through matplotlib (the extra ``plot``)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kvcore.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from kvcore.simulate.plot.panels import Figure, Panel


def require_matplotlib() -> None:
    """Raise ConfigurationError with the command that installs it when matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise ConfigurationError(
            "a PNG plot needs matplotlib, which is not installed; run `pip install 'prtoggle[plot]'`, "
            "or name a file that ends in .html, which needs nothing"
        )


def write(path: Path, figure: Figure) -> None:
    """Draw without a display: the figure object is used directly, pyplot's global state is left alone."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - optional extra
    from matplotlib.figure import Figure as MatplotlibFigure  # noqa: PLC0415

    canvas = FigureCanvasAgg(MatplotlibFigure(figsize=(10, 8), layout="constrained"))
    heights = [2.0 if panel.stacked else 1.0 for panel in figure.panels]
    rows = canvas.figure.subplots(len(figure.panels), 1, sharex=True, gridspec_kw={"height_ratios": heights})
    canvas.figure.suptitle(figure.title)
    for axes, panel in zip(rows, figure.panels, strict=True):
        _draw(axes, figure.seconds, panel)
    rows[-1].set_xlabel("seconds of the trace")
    canvas.figure.savefig(path, dpi=120)


def _draw(axes: Any, seconds: list[float], panel: Panel) -> None:
    names = [curve.name for curve in panel.curves]
    colors = [curve.color for curve in panel.curves]
    values = [curve.values for curve in panel.curves]
    if panel.stacked:
        axes.stackplot(seconds, values, labels=names, colors=colors, step="post")
    else:
        for curve in panel.curves:
            axes.plot(seconds, curve.values, label=curve.name, color=curve.color, drawstyle="steps-post")
    axes.set_ylim(0.0, panel.top)
    axes.set_title(panel.title, loc="left", fontsize="medium")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    # Above the axes, where it hides nothing.
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(names), frameon=False)
