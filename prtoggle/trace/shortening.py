"""Values as one line of text: what they are, without all that they hold.

No `__repr__` of the program's own classes is called: it could fail, take long or change something.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import sys
from collections import deque
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace.libraries import is_array, is_number, is_tensor, is_torch_setting
from prtoggle.trace.members import members_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_TEXT: Final = 60
#: Text of an exception's message.
_MAX_MESSAGE: Final = 200
_MAX_ITEMS: Final = 6
#: The same for what an argument or a result holds itself: what tells two argument sets apart.
_MAX_OWN_ITEMS: Final = 16
#: Elements of a set that are looked at.
_MAX_SORTED: Final = 1000
_MAX_DEPTH: Final = 3
_MAX_LENGTH: Final = 600
#: Values of tensors and arrays are shown up to this many.
_MAX_NUMBERS: Final = 8
_PLAIN: Final = (type(None), type(Ellipsis), type(NotImplemented), int, float, complex, range, slice)


def shorten(value: object) -> str:
    """The text of `value`: at most some hundred characters, one line, no addresses."""
    try:
        text = _text(value, _MAX_DEPTH)
    except Exception as error:  # noqa: BLE001  # a value that cannot even be looked at is told by its type
        text = f"<{type(value).__qualname__}: {type(error).__name__}>"
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


def _text(value: Any, depth: int) -> str:
    text = _constant(value) or _numbers(value)
    if text is not None:
        return text
    kind = type(value)
    if depth <= 0:
        return f"{kind.__name__}(…)"
    if isinstance(value, BaseException):
        said = (
            _quoted(item, _MAX_MESSAGE) if type(item) is str else _text(item, depth) for item in value.args
        )
        return f"{kind.__name__}({_joined(said, len(value.args))})"
    return _container(value, kind, depth) or _object(value, kind, depth)


def _constant(value: Any) -> str | None:
    """The text of what holds nothing else: numbers, strings, names; None for anything else."""
    kind = type(value)
    text = None
    if kind in _PLAIN or kind is bool:
        text = _cut(repr(value))
    elif kind in (str, bytes, bytearray):
        text = _quoted(value)
    elif isinstance(value, enum.Enum):
        text = f"{kind.__name__}.{value.name}"
    elif isinstance(value, type):
        text = value.__qualname__
    elif isinstance(value, (FunctionType, BuiltinFunctionType, MethodType)):
        text = f"<function {value.__qualname__}>"
    elif isinstance(value, ModuleType):
        text = f"<module {value.__name__}>"
    elif isinstance(value, CodeType):
        text = f"<code {value.co_qualname}>"
    return text


def _container(value: Any, kind: type, depth: int) -> str | None:
    """The text of a container; None for anything else."""
    text = None
    if isinstance(value, Mapping) and kind.__module__ in ("builtins", "collections"):
        pairs = (f"{_text(key, depth - 1)}: {_text(item, depth - 1)}" for key, item in value.items())
        text = _named(kind, dict, f"{{{_joined(pairs, len(value))}}}")
    elif isinstance(value, tuple) and hasattr(kind, "_fields"):
        fields = (f"{name}={_text(item, depth - 1)}" for name, item in zip(kind._fields, value, strict=False))
        text = f"{kind.__name__}({_joined(fields, len(value))})"
    elif isinstance(value, (set, frozenset)):
        text = _named(kind, set, f"{{{_joined(_in_order(value, depth), len(value))}}}")
    elif isinstance(value, tuple):
        end = ",)" if len(value) == 1 else ")"
        text = _named(kind, tuple, f"({_items(value, len(value), depth)}{end}")
    elif isinstance(value, (list, deque)):
        text = _named(kind, list, f"[{_items(value, len(value), depth)}]")
    return text


def _object(value: Any, kind: type, depth: int) -> str:
    members = _telling_members(value)
    if members:
        shown = (f"{name}={_text(item, depth - 1)}" for name, item in members)
        most = _MAX_OWN_ITEMS if depth == _MAX_DEPTH else _MAX_ITEMS
        return f"{kind.__qualname__}({_joined(shown, len(members), most)})"
    # Types of the standard library that are no containers: dates, paths, patterns, numbers.
    is_library = kind.__module__.partition(".")[0] in sys.stdlib_module_names
    text = repr(value) if is_library and kind is not object else f"{kind.__qualname__}()"
    return f"<{kind.__qualname__}>" if " at 0x" in text else _cut(text)


def _telling_members(value: Any) -> list[tuple[str, Any]]:
    """The members of an object; those of a dataclass only where they are not at their defaults."""
    members = members_of(value)
    if not dataclasses.is_dataclass(value):
        return list(members.items())
    return [
        (field.name, members[field.name])
        for field in dataclasses.fields(value)
        if field.name in members and not _is_default(field, members[field.name])
    ]


def _is_default(field: dataclasses.Field[Any], value: object) -> bool:
    default = field.default
    return type(default) in (*_PLAIN, bool, str, tuple) and type(default) is type(value) and default == value


def _named(kind: type, plain: type, text: str) -> str:
    return text if kind is plain else f"{kind.__name__}({text})"


def _in_order(values: Iterable[Any], depth: int) -> list[str]:
    """The texts of a set's elements, sorted: its own order differs from process to process."""
    return sorted(_text(item, depth - 1) for item in itertools.islice(values, _MAX_SORTED))


def _items(values: Iterable[Any], count: int, depth: int) -> str:
    return _joined((_text(item, depth - 1) for item in values), count)


def _joined(texts: Iterable[str], count: int, most: int = _MAX_ITEMS) -> str:
    """The first few texts, and how many more there would be."""
    shown = list(itertools.islice(texts, most))
    more = [f"… {count - len(shown)} more"] if count > len(shown) else []
    return ", ".join([*shown, *more])


def _quoted(value: str | bytes | bytearray, most: int = _MAX_TEXT) -> str:
    if len(value) <= most:
        return repr(value)
    return f"{value[: most - 10]!r}… {len(value) - most + 10} more"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _numbers(value: Any) -> str | None:
    """The text of a tensor or array: shape, dtype, device, and a few values; None for anything else."""
    if is_tensor(value):
        head = (
            f"{type(value).__name__.lower()} {_shape(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        )
        head = f"{head} {value.device}"
        few = 0 < value.numel() <= _MAX_NUMBERS and value.device.type != "meta" and value.is_contiguous()
        return f"<{head} {value.tolist()}>" if few else f"<{head}>"
    if is_array(value):
        head = f"array {_shape(value.shape)} {value.dtype}"
        return f"<{head} {value.tolist()}>" if 0 < value.size <= _MAX_NUMBERS else f"<{head}>"
    if is_number(value):
        return f"{value.dtype}({value.item()!r})"
    return str(value) if is_torch_setting(value) else None


def _shape(shape: Iterable[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"
