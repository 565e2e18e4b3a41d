"""The plugins that tests need; pytest wants them named in the outermost conftest."""

from __future__ import annotations

pytest_plugins = ["pytester"]
