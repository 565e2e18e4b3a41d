"""Calls back after every load of a module: the first, one after a failed import, and each `importlib.reload`.

wrapt's post-import hooks fire once and cannot be unregistered. So one hook a module stands here for good,
puts itself back whenever it fires, and asks what is wanted then; wanting nothing is an answer too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import wrapt

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# The questions that are asked after a load, by module name, each once; entries stay.
_questions: dict[str, dict[Callable[[ModuleType], None], None]] = {}


def watch(module: str, loaded: Callable[[ModuleType], None]) -> None:
    """Call `loaded(module)` after each load from now on, not for one that is over; asked twice is once.

    What it raises is raised out of the import, and the module then counts as not imported.
    """
    known = module in _questions
    _questions.setdefault(module, {})[loaded] = None
    if not known:
        _register(module)


def _register(name: str) -> None:
    # wrapt calls a hook at once for a name that sys.modules has. Taking the name out for a moment is safe: in
    # a hook the module's import lock is held, and whoever else imports it waits for that and looks again.
    module = sys.modules.pop(name, None)
    try:
        wrapt.register_post_import_hook(_fired, name)
    finally:
        if module is not None:
            sys.modules[name] = module


def _fired(module: ModuleType) -> None:
    name = module.__name__
    _register(name)
    for loaded in list(_questions[name]):
        loaded(module)
