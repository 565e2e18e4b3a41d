"""Which variant of a toggle is for the version that is installed. Looks at metadata, imports no target."""

from __future__ import annotations

import functools
import re
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from prtoggle.errors import DuplicateToggleError, NotApplicableError
from prtoggle.versions import admits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.spec import Toggle


def applicable(variants: Sequence[Toggle], *, strict: bool = True) -> Toggle:
    """The one of the variants of an id whose version range holds the installed version of its target.

    Raises NotApplicableError when none does (unless not `strict`: then the first variant stands for all), and
    DuplicateToggleError when several do.
    """
    fitting = [toggle for toggle in variants if applies(toggle)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        if not strict:
            return variants[0]
        raise _not_applicable(variants)
    files = [str(toggle.source) for toggle in fitting]
    version = installed_version(fitting[0])
    raise DuplicateToggleError(
        f"toggle {fitting[0].id} has several variants for version {version}: {' and '.join(files)}. Their "
        "applies_to ranges have to exclude each other.",
        id=fitting[0].id,
        files=files,
    )


def applies(toggle: Toggle) -> bool:
    """Whether the toggle is for the installed version; false when that version is not known."""
    if not toggle.applies_to:
        return True
    version = installed_version(toggle)
    return version is not None and admits(toggle.applies_to, version)


def installed_version(toggle: Toggle) -> str | None:
    """The version of the distribution that brings the toggle's first target; None when there is none."""
    package = _package(toggle)
    return _version(package) or next(
        filter(None, map(_version, _distributions(tuple(sys.path)).get(package, ()))), None
    )


def why_no_version(toggle: Toggle) -> str:
    """Why `installed_version` gives none, and what to do about it."""
    return (
        f"no installed distribution brings {_package(toggle)}: install it (`pip install -e .` for a work "
        "tree), or leave applies_to out of the spec"
    )


def _package(toggle: Toggle) -> str:
    """The top-level package of the toggle's first target."""
    return re.split(r"[.:]", toggle.targets[0], maxsplit=1)[0]


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@functools.cache
def _distributions(path: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Top-level package to distributions, for one state of `sys.path`: reading all metadata takes a while."""
    assert path == tuple(sys.path), path
    return {package: tuple(names) for package, names in metadata.packages_distributions().items()}


def _not_applicable(variants: Sequence[Toggle]) -> NotApplicableError:
    first = variants[0]
    version = installed_version(first)
    ranges = " or ".join(toggle.applies_to for toggle in variants)
    if version is None:
        return NotApplicableError(
            f"toggle {first.id} applies to {ranges}, but the version is not known: {why_no_version(first)}",
            id=first.id,
        )
    return NotApplicableError(
        f"toggle {first.id} applies to {ranges}, but version {version} is installed: add a variant of the "
        "spec for this version",
        id=first.id,
        version=version,
    )
