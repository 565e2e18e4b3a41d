"""Plain YAML scalars that mean one thing to YAML 1.1, by which specs are read, and another to everybody else.

`1e3` is a text there, `010` is 8, `1:30` is 90 and `yes` is true. In a `value:` that would be a toggle of
another value than was meant, so such a scalar has to be written otherwise.
"""

from __future__ import annotations

import ast
import math
import re
from typing import Final

_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)")
_WORDS: Final[dict[str, object]] = {
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **dict.fromkeys(["null", "Null", "NULL", "~", ""], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
}


def other_reading(text: str, read: object) -> str | None:
    """What is wrong with a plain scalar that YAML 1.1 reads as `read`; None when all read the same.

    Python and YAML 1.2 are asked; where Python knows the literal, its reading counts.
    """
    if isinstance(read, str) and not re.match(r"[-+.0-9]|None$", text):
        return None
    meant = _of_python(text) if re.match(r"[-+.0-9]|None$|True$|False$", text) else text
    if isinstance(meant, str):
        meant = _of_yaml_1_2(text)
    if _is_same(read, meant):
        return None
    ways = list(dict.fromkeys(_written(value) for value in (read, meant) if not isinstance(value, str)))
    return (
        f"{text} has no single meaning: YAML 1.1 reads {_named(read)}, others {_named(meant)}; write "
        f'{" or ".join(ways)}, or "{text}" for the text'
    )


def _of_python(text: str) -> object:
    """The number or None that Python reads, else the text."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return found if found is None or isinstance(found, (bool, int, float)) else text


def _of_yaml_1_2(text: str) -> object:
    """What the core schema of YAML 1.2 reads."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return float(text) if _FLOAT.fullmatch(text) else text


def _is_same(one: object, other: object) -> bool:
    return type(one) is type(other) and (one == other or repr(one) == repr(other))


def _named(value: object) -> str:
    return f"the text {value!r}" if isinstance(value, str) else _written(value)


def _written(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)
