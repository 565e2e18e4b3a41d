"""The figure as one HTML page with inline SVG: no script, nothing fetched, opens anywhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvcore.simulate.plot.panels import Figure, Panel

_WIDTH, _LEFT, _RIGHT = 960, 90, 20
_PANEL_HEIGHT, _STACKED_HEIGHT, _GAP = 130, 280, 46
_TICKS = 5

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: {width}px; }}
body {{ color: #222; background: #fff; }}
h1 {{ font-size: 18px; font-weight: 600; }}
svg {{ width: 100%; height: auto; }}
text {{ font: 12px system-ui, sans-serif; fill: #333; }}
.grid {{ stroke: #e4e4e4; stroke-width: 1; }}
</style>
</head>
<body>
<h1>{title}</h1>
<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">
{body}
</svg>
</body>
</html>
"""


def render(figure: Figure) -> str:
    """The whole page as text. Curves are steps: a value holds until the next sample."""
    body: list[str] = []
    top = 24.0
    for panel in figure.panels:
        height = _STACKED_HEIGHT if panel.stacked else _PANEL_HEIGHT
        body.extend(_panel(panel, figure.seconds, top, height))
        top += height + _GAP
    body.extend(_time_axis(figure.seconds, top - _GAP + 16.0))
    title = escape(figure.title, quote=True)
    return _PAGE.format(title=title, width=_WIDTH, height=round(top + 10.0), body="\n".join(body))


def _panel(panel: Panel, seconds: list[float], top: float, height: int) -> list[str]:
    x_end = _WIDTH - _RIGHT
    parts = [f'<text x="{_LEFT}" y="{top - 8:.0f}" font-weight="bold">{escape(panel.title)}</text>']
    for tick in range(_TICKS):
        value = panel.top * tick / (_TICKS - 1)
        y = top + height - height * tick / (_TICKS - 1)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{x_end}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    xs = _as_steps(_time_positions(seconds))[1:]
    floor = [0.0] * len(xs)
    for curve in panel.curves:
        values = _as_steps(curve.values)[:-1]
        if panel.stacked:
            ceiling = [low + value for low, value in zip(floor, values, strict=True)]
            outline = _points(xs, ceiling, panel.top, top, height)
            outline += _points(xs, floor, panel.top, top, height)[::-1]
            parts.append(f'<polygon points="{" ".join(outline)}" fill="{curve.color}"/>')
            floor = ceiling
        else:
            line = " ".join(_points(xs, values, panel.top, top, height))
            parts.append(f'<polyline points="{line}" fill="none" stroke="{curve.color}" stroke-width="1.5"/>')
    return parts + _legend(panel, top)


def _legend(panel: Panel, top: float) -> list[str]:
    parts = []
    for place, curve in enumerate(panel.curves):
        x = _WIDTH - _RIGHT - 95 * (len(panel.curves) - place)
        parts.append(f'<rect x="{x}" y="{top - 18:.0f}" width="12" height="12" fill="{curve.color}"/>')
        parts.append(f'<text x="{x + 17}" y="{top - 8:.0f}">{escape(curve.name)}</text>')
    return parts


def _time_axis(seconds: list[float], y: float) -> list[str]:
    last = seconds[-1] if seconds else 0.0
    parts = []
    for tick in range(_TICKS):
        x = _LEFT + (_WIDTH - _RIGHT - _LEFT) * tick / (_TICKS - 1)
        second = _number(last * tick / (_TICKS - 1))
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{second} s</text>')
    return parts


def _time_positions(seconds: list[float]) -> list[float]:
    span = (seconds[-1] if seconds else 0.0) or 1.0
    return [_LEFT + (_WIDTH - _RIGHT - _LEFT) * second / span for second in seconds]


def _as_steps(numbers: list[float]) -> list[float]:
    """Each number twice; dropping the first of one list and the last of the other makes corners of them."""
    return [number for number in numbers for _ in range(2)]


def _points(xs: list[float], values: list[float], highest: float, top: float, height: int) -> list[str]:
    scale = height / highest
    return [f"{x:.1f},{top + height - value * scale:.1f}" for x, value in zip(xs, values, strict=True)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
