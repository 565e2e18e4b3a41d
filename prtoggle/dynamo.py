"""What torch.compile made of a function before a flip must not outlive it.

Dynamo guards the code of plain global functions, but not of bound methods, classmethods and submodules'
`forward` that it inlined into a compiled caller (pytorch/pytorch#197860): such a caller would go on running
the old body without a word. Each exchange also counts towards the recompile limit, past which a function is
frozen. A reset after each flip ends both.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prtoggle.errors import UnsupportedTargetError

if TYPE_CHECKING:
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


def refuse_scripted(holder: object, target: str) -> None:
    """Raise UnsupportedTargetError when `holder` is TorchScript: its body is no Python code any more.

    Asked for each object met while decorators are peeled. Imports nothing.
    """
    script = sys.modules.get("torch.jit._script")
    library = sys.modules.get("torch._C")
    kinds = (
        getattr(script, "ScriptModule", None),
        getattr(library, "ScriptFunction", None),
        getattr(library, "ScriptMethod", None),
    )
    for kind in kinds:
        if kind is not None and issubclass(type(holder), kind):
            raise UnsupportedTargetError(
                f"{target} is a {type(holder).__name__} of torch.jit: it was compiled from its source when it "
                "was defined, and the Python body does not run any more. Revert it at load (set PRTOGGLE "
                "before the module is imported), or run with PYTORCH_JIT=0.",
                target=target,
            )
