"""Undoes what the interpreter of older Tritons leaves behind, which no kernel can be compiled with.

Triton 3.4 puts the interpreter's operations into `triton.language` at an interpreted launch and leaves them
there: a kernel that is compiled in that process afterwards fails, with or without a toggle.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def _owners() -> list[object]:
    modules = [
        module for name, module in sys.modules.items() if name.split(".")[:2] == ["triton", "language"]
    ]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith("triton.language")
    }
    return [*modules, *classes]


# Taken when tests are collected, before any of them has launched a kernel.
_CLEAN = [(owner, dict(vars(owner))) for owner in _owners()]


def _clean() -> None:
    for owner, namespace in _CLEAN:
        for name, value in namespace.items():
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)
        # A module may have gained a submodule.
        for name in vars(owner).keys() - namespace.keys() if isinstance(owner, type) else ():
            delattr(owner, name)


@pytest.fixture(autouse=True)
def language() -> Iterator[None]:
    """`triton.language` as it was when it was imported, before the test and after it."""
    _clean()
    yield
    _clean()
