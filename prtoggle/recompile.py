"""Source text to code objects, and the proof that two code objects are the same.

A function is compiled alone, inside a synthetic nest of its enclosing classes and functions, at its own
columns; that costs what the function costs, not what its module costs. The nest is a guess, so its result
is only used after the unedited text, compiled in the same nest, gave the very code that is running. Nothing
is executed here.
"""

from __future__ import annotations
import __future__

import re
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# The compiler flags that a `from __future__ import` leaves in a code object.
FUTURE_FLAGS: Final = sum(
    flag
    for name in __future__.all_feature_names
    if (flag := getattr(__future__, name).compiler_flag) > 0xFFFF
)

# Values that know where they were defined.
_NAMED: Final = frozenset({FunctionType, BuiltinFunctionType, type})
_IMPORT: Final = re.compile(r"\s*(?:from|import)\s")
_WORD: Final = re.compile(r"\w+")


def same_code(a: CodeType, b: CodeType) -> bool:
    """Whether both are the same program at the same lines and columns; file names are not compared."""
    return (
        a == b
        and a.co_linetable == b.co_linetable
        and a.co_exceptiontable == b.co_exceptiontable
        and a.co_qualname == b.co_qualname
        and a.co_flags == b.co_flags
        and a.co_freevars == b.co_freevars
        and all(map(same_code, nested_codes(a), nested_codes(b)))
    )


def nested_codes(code: CodeType) -> list[CodeType]:
    """The code objects among the constants of `code`, in order."""
    return [const for const in code.co_consts if type(const) is CodeType]


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """The code object, and every one inside of it, at any depth."""
    yield code
    for inner in nested_codes(code):
        yield from all_codes(inner)


def docstring(code: CodeType) -> str | None:
    """The docstring that a function made from `code` gets; None without one."""
    # Which constant it is, and how it is marked, differs between versions: a function knows.
    cells = tuple(CellType() for _ in code.co_freevars)
    return FunctionType(code, {}, None, None, cells).__doc__


def last_line(code: CodeType) -> int:
    """The last source line that the code or a function inside it has an instruction for."""
    last = code.co_firstlineno
    for _, _, line in code.co_lines():
        if line is not None and line > last:
            last = line
    return max([last, *map(last_line, nested_codes(code))])


def block_end(lines: Sequence[str], start: int, inside: int) -> int:
    """The index after the block that starts at index `start` and surely reaches beyond index `inside` - 1.

    Found by indentation alone: right whenever `lines[start:end]` compiles by itself, because then no string
    or bracket is open at the end.
    """
    indent = _indent_width(lines[start])
    end = inside
    while end < len(lines):
        text = lines[end].lstrip()
        if text and text[0] != "#" and len(lines[end]) - len(text) <= indent:
            break
        end += 1
    while end > inside and (not (text := lines[end - 1].strip()) or text[0] == "#"):
        end -= 1
    return end


def _indent_width(line: str) -> int:
    return len(line) - len(line.lstrip())


class Nest(NamedTuple):
    """The header lines that stand for everything around one function, to be put before its own lines."""

    header: str
    # How many lines `header` has: line n of the file is line n - first + 1 + `height` of the nested text.
    height: int
    flags: int


def nest_for(code: CodeType, indent: str, imported: Iterable[str]) -> Nest | None:
    """The nest for the function that `code` was compiled from, or None when its shape does not allow one.

    `indent` is the white space before the function's first line, `imported` names that the module binds by
    an import: a call on such a name compiles differently.
    """
    *scopes, _ = code.co_qualname.split(".")
    headers = []
    names = list(imported)
    if names:
        headers.append(f"import {', '.join(names)}\n")
    if not (scopes or indent or code.co_freevars):
        return Nest("".join(headers), len(headers), future_flags(code))
    kinds = [_scope_kind(scopes, position) for position in range(len(scopes))]
    depth = 0
    last_function = max((at for at, kind in enumerate(kinds) if kind == "def"), default=-1)
    free = [name for name in code.co_freevars if name != "__class__"]
    if free and last_function < 0:
        return None
    for position, (scope, kind) in enumerate(zip(scopes, kinds, strict=True)):
        if kind == "class":
            headers.append(f"{indent[:depth]}class {scope}:\n")
        elif kind == "def":
            parameters = ", ".join(free) if position == last_function else ""
            headers.append(f"{indent[:depth]}def {scope}({parameters}):\n")
        else:
            continue
        depth += 1
    if depth > len(indent):
        return None
    if indent and not depth:
        headers.append("if 1:\n")
    return Nest("".join(headers), len(headers), future_flags(code))


def future_flags(code: CodeType) -> int:
    """The compiler flags of the `from __future__` imports that `code` was compiled under."""
    flags: int = code.co_flags & FUTURE_FLAGS
    return flags


def _scope_kind(scopes: Sequence[str], position: int) -> str:
    if scopes[position] == "<locals>":
        return "locals"
    inside_function = position + 1 < len(scopes) and scopes[position + 1] == "<locals>"
    return "def" if inside_function else "class"


def guess_imported(code: CodeType, namespace: Mapping[str, Any]) -> list[str]:
    """The global names used by `code` (and functions in it) that most likely were bound by an import.

    A wrong guess costs time only: the nested code then differs from the running one, and is not used.
    """
    home = namespace.get("__name__")
    found: dict[str, None] = {}
    for name in _names(code):
        value = namespace.get(name)
        kind = type(value)
        if kind is ModuleType or (kind in _NAMED and value is not None and value.__module__ != home):
            found[name] = None
    return list(found)


def scan_imported(code: CodeType, lines: Iterable[str]) -> list[str]:
    """The names used by `code` that stand in an import statement anywhere in the module: slower, better."""
    words: set[str] = set()
    open_bracket = False
    for line in lines:
        if open_bracket or _IMPORT.match(line):
            text = line.partition("#")[0]
            words.update(_WORD.findall(text))
            open_bracket = ("(" in text or open_bracket) and ")" not in text
            open_bracket = open_bracket or text.rstrip().endswith("\\")
    return [name for name in dict.fromkeys(_names(code)) if name in words]


def _names(code: CodeType) -> Iterator[str]:
    for inner in all_codes(code):
        yield from inner.co_names


def compile_module(source: str | ast.Module, filename: str, flags: int = 0) -> CodeType:
    """Compile without inheriting this file's own `__future__` imports. Raises SyntaxError."""
    code: CodeType = compile(source, filename, "exec", flags, dont_inherit=True)
    return code


def codes_named(root: CodeType, qualname: str) -> list[CodeType]:
    """All code objects under `root` that were compiled from a definition of that qualified name, in order."""
    found = []
    for code in nested_codes(root):
        if code.co_qualname == qualname:
            found.append(code)
        if _may_hold(code, qualname):
            found += codes_named(code, qualname)
    return found


def _may_hold(code: CodeType, qualname: str) -> bool:
    # "<generic parameters of f>" is the scope that Python 3.12 puts around `def f[T]`.
    return qualname.startswith(code.co_qualname + ".") or "<generic parameters" in code.co_name


def codes_at(root: CodeType, qualname: str, first_line: int) -> list[CodeType]:
    """The code objects under `root` of that qualified name and first line: several only for lambdas."""
    return [code for code in codes_named(root, qualname) if code.co_firstlineno == first_line]


def moved(code: CodeType, lines: int, filename: str | None = None) -> CodeType:
    """The same code, and what is nested in it, `lines` further down (and in the file of that name)."""
    name = code.co_filename if filename is None else filename
    if not lines and name == code.co_filename:
        return code
    consts = code.co_consts
    if any(type(const) is CodeType for const in consts):
        consts = tuple(moved(const, lines, name) if type(const) is CodeType else const for const in consts)
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_filename=name, co_consts=consts)
