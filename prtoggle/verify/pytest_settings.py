"""Which settings file pytest would take in a project's root, whatever tests it is given.

pytest looks for one from the common folder of its arguments upwards. A guard beside a settings file of its
own would be judged by other settings alone than together with guards from elsewhere.
"""

from __future__ import annotations

import configparser
import tomllib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: In the order in which pytest prefers them in one folder, each with the sections that make it one; a file
#: without any is one by its name.
_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "pytest.toml": (),
    ".pytest.toml": (),
    "pytest.ini": (),
    ".pytest.ini": (),
    "pyproject.toml": ("tool.pytest",),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}


def settings_arguments(root: Path, empty: Path) -> tuple[str, ...]:
    """What makes pytest take the settings of `root`; `empty` is where to put a file without any."""
    found = _settings_file(root.absolute())
    if found is not None:
        return ("-c", str(found))
    empty.write_text("[pytest]\n", encoding="utf-8")
    return ("-c", str(empty), f"--rootdir={root.absolute()}", f"--confcutdir={root.absolute()}")


def _settings_file(root: Path) -> Path | None:
    """The file, in the root or above it; where there is none a `pyproject.toml` without such a section."""
    fallback = None
    for folder in (root, *root.parents):
        for name, sections in _FILES.items():
            path = folder / name
            if path.is_file():
                if not sections or _has_one(path, sections):
                    return path
                if name == "pyproject.toml":
                    fallback = fallback or path
    return fallback


def _has_one(path: Path, sections: tuple[str, ...]) -> bool:
    """Whether the file has one of these sections. What cannot be read has: pytest will say what is wrong."""
    try:
        if path.suffix == ".toml":
            tables = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
            return bool(tables.get("pytest"))
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read(path, encoding="utf-8")
    except (OSError, ValueError, configparser.Error):
        return True
    return any(parser.has_section(section) for section in sections)
