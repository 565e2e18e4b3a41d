"""Draws a simulation over virtual time, as PNG or as a self-contained HTML page."""

from __future__ import annotations

from kvcore.simulate.plot.panels import check_plot_path, write_plot

__all__ = ["check_plot_path", "write_plot"]
