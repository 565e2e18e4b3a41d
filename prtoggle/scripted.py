"""What `torch.jit.script` has compiled: a copy that runs on, whatever becomes of the function.

Three tables of torch's know it: functions in a cache of their own, the methods of modules in the store of
module types, classes by themselves. What was traced cannot be told: a trace does not remember its function.
Torch is never imported here: what is not loaded has scripted nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from prtoggle.errors import UnsupportedTargetError
from prtoggle.peeling import functions_behind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType


def refuse_scripted(function: FunctionType, target: str) -> None:
    """Raise UnsupportedTargetError when a copy of the function was compiled, alone or with its class."""
    state = sys.modules.get("torch.jit._state")
    if state is None:
        return
    scripted: Any = getattr(state, "_jit_caching_layer", ())
    if function in scripted or any(_holds(raw, function, target) for raw in _methods(function.__name__)):
        raise UnsupportedTargetError(
            f"{target} was compiled by torch.jit.script as well, and the compiled copy would not follow. "
            "Revert before it is scripted: set PRTOGGLE before the module is imported.",
            target=target,
        )


def _methods(name: str) -> Iterator[object]:
    """What the scripted classes and modules of the process have under that name."""
    classes: Any = getattr(sys.modules["torch.jit._state"], "_script_classes", {})
    for kind in list(classes):
        yield _in_class(kind, name)
    store: Any = getattr(sys.modules.get("torch.jit._recursive"), "concrete_type_store", None)
    for kind, types in list(getattr(store, "type_store", {}).items()):
        if any(name in made.jit_type.method_names() for made in types):
            yield _in_class(kind, name)
            # A ScriptModule takes its script methods out of the class.
            stub = getattr(kind, "_methods", {}).get(name)
            yield getattr(stub, "original_method", None)


def _in_class(kind: type, name: str) -> object:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _holds(raw: object, function: FunctionType, target: str) -> bool:
    return any(functions_behind(raw, target, lambda found: found is function))
