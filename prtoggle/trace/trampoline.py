"""The code that stands in a traced function: it hands every call over, and looks like the original.

The function object stays, with its defaults, cells and parameters: whoever holds it calls the trampoline, and
`inspect.signature` tells what it told before.
"""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Final

from prtoggle.recompile import nested_codes

if TYPE_CHECKING:
    from types import CodeType

_KEPT_FLAGS: Final = inspect.CO_NESTED | inspect.CO_ITERABLE_COROUTINE


def trampoline(code: CodeType, number: int, *, bound: bool) -> CodeType:
    """Code for a function of `code`'s name, cells and place in the file that calls `calls.call(number, ...)`.

    It passes the positional arguments as a tuple and the others as a dict. With `bound` it has the parameters
    of `code`, so that defaults are filled in; without, it takes any, for two variants that bind differently.
    """
    signature, positional, named = _parameters(code) if bound else ("*args, **kwargs", "*args,", "**kwargs")
    names = ", ".join(code.co_freevars)
    mention = f"  if 0: {names}\n" if names else ""
    text = (
        f"def around({names}):\n def function({signature}):\n"
        "  from prtoggle.trace.calls import call as _prtoggle_call\n"
        f"{mention}"
        f"  _prtoggle_outcome = _prtoggle_call({number}, ({positional}), {{{named}}})\n"
        "  if _prtoggle_outcome.error is None: return _prtoggle_outcome.result\n"
        # Raised here, and not on the way: tracebacks show none of the frames in between.
        "  try: raise _prtoggle_outcome.error\n"
        "  finally: del _prtoggle_outcome\n"
    )
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.alias)):
            # One line for all of it, that of the definition, and no columns.
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    root = compile(tree, code.co_filename, "exec", dont_inherit=True)
    inner = nested_codes(nested_codes(root)[0])[0]
    assert inner.co_freevars == code.co_freevars, (inner.co_freevars, code.co_freevars)
    flags = inner.co_flags & ~_KEPT_FLAGS | code.co_flags & _KEPT_FLAGS
    return inner.replace(
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        co_flags=flags,
    )


def _parameters(code: CodeType) -> tuple[str, str, str]:
    """The parameter list, and what hands on the positional and the other arguments."""
    count, only_positional = code.co_argcount, code.co_posonlyargcount
    names = code.co_varnames
    positional = list(names[:count])
    keywords = list(names[count : count + code.co_kwonlyargcount])
    rest = list(names[count + code.co_kwonlyargcount :])
    signature = [*positional]
    if only_positional:
        signature.insert(only_positional, "/")
    handed = [f"{name}," for name in positional]
    named = [f"'{name}': {name}" for name in keywords]
    if code.co_flags & inspect.CO_VARARGS:
        signature.append(f"*{rest[0]}")
        handed.append(f"*{rest.pop(0)},")
    elif keywords:
        signature.append("*")
    signature += keywords
    if code.co_flags & inspect.CO_VARKEYWORDS:
        signature.append(f"**{rest[0]}")
        named.append(f"**{rest[0]}")
    return ", ".join(signature), " ".join(handed), ", ".join(named)
