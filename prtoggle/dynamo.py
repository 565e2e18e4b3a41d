"""What torch.compile made of a function before a flip must not outlive it.

Dynamo guards the code of plain global functions, but not of bound methods, classmethods and submodules'
`forward` that it inlined into a compiled caller (pytorch/pytorch#197860): such a caller would go on running
the old body without a word. Each exchange also counts towards the recompile limit, past which a function is
frozen. A reset after each flip ends both.
"""

from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType

_MODULE = "torch._dynamo"


def _loaded() -> ModuleType | None:
    """`torch._dynamo` once it is loaded completely; until then nothing can have been compiled."""
    module = sys.modules.get(_MODULE)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module


def forget_compiled() -> bool:
    """Make dynamo trace anew at the next call; returns whether there was a dynamo to reset.

    Imports nothing. Waits for a compilation that is under way in another thread. Files that Inductor keeps
    on disk stay: they are keyed by the traced graph, which differs when the code does.
    """
    dynamo = _loaded()
    if dynamo is None:
        return False
    dynamo.reset()
    return True


def is_table_of_functions(holder: object) -> bool:
    """Whether a dict is of a table that torch keeps of functions it looked at; it calls none from there."""
    if type(holder) is not dict or "torch" not in sys.modules:
        return False
    tables = [item for item in gc.get_referrers(holder) if type(item) is weakref.WeakKeyDictionary]
    modules = [item for name, item in list(sys.modules.items()) if tables and name.startswith("torch.")]
    return any(
        value is table
        for module in modules
        if isinstance(module, ModuleType)
        for value in list(vars(module).values())
        for table in tables
    )
