"""Take one historical fix out of a live Python process, and put it back.

    with prtoggle.reverted(26972):
        ...

Names are loaded when they are first used, so that importing the package costs nothing: the pytest plugin and
the start file live in every process. With PRTOGGLE set that is before pytest starts, which would warn that
it cannot rewrite our assertions any more; there is nothing in them for it: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prtoggle.api import active, revert, reverted
    from prtoggle.errors import (
        ActivationError,
        AlreadyRevertedError,
        AmbiguousMatchError,
        CatalogueError,
        ConflictError,
        DuplicateToggleError,
        EditError,
        EditOverlapError,
        MatchError,
        NotApplicableError,
        PrToggleError,
        RestoreError,
        SpecError,
        StaleSourceError,
        TargetError,
        TargetModuleError,
        UndefinedNameError,
        UnknownToggleError,
        UnsupportedTargetError,
    )
    from prtoggle.handle import Handle
    from prtoggle.loader import load
    from prtoggle.spec import Toggle

__version__ = "0.1.0"

__all__ = [
    "ActivationError",
    "AlreadyRevertedError",
    "AmbiguousMatchError",
    "CatalogueError",
    "ConflictError",
    "DuplicateToggleError",
    "EditError",
    "EditOverlapError",
    "Handle",
    "MatchError",
    "NotApplicableError",
    "PrToggleError",
    "RestoreError",
    "SpecError",
    "StaleSourceError",
    "TargetError",
    "TargetModuleError",
    "Toggle",
    "UndefinedNameError",
    "UnknownToggleError",
    "UnsupportedTargetError",
    "__version__",
    "active",
    "load",
    "revert",
    "reverted",
]

_HOMES = {
    "active": "prtoggle.api",
    "revert": "prtoggle.api",
    "reverted": "prtoggle.api",
    "Handle": "prtoggle.handle",
    "load": "prtoggle.loader",
    "Toggle": "prtoggle.spec",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name, "prtoggle.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
