"""Source text of every spelling is edited where it was meant, and every other byte stays."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import prtoggle
from tests.prtoggle.cases.moments import LIVE, live, patch, toggle, world

if TYPE_CHECKING:
    from tests.prtoggle.cases.moments import World

__all__ = ["live", "world"]


class Case(NamedTuple):
    """A module's bytes, an edit of `f` in it, and what `f(1)` gives before and with it."""

    text: str | bytes
    match: str
    new: str
    fixed: Any
    old: Any


SQL = "\nSELECT 1\n  FROM t\n\ty = x + 1\n"
CASES = {
    "column 0 string in a method": Case(
        f'class C:\n    def f(self, x):\n        text = """{SQL}"""\n        return text * x\nf = C().f\n',
        "return text * x", "return text + str(x)", SQL, SQL + "1",
    ),
    "indented string": Case(
        'def f(x):\n    if x:\n        text = """a\n            b\n        """\n    y = x + 1\n    return text, y\n',
        "y = x + 1", "y = x + 50", ("a\n            b\n        ", 2), ("a\n            b\n        ", 51),
    ),
    "a string as the new text": Case(
        "def f(x):\n    if x:\n        y = 'a'\n    return y\n",
        "y = 'a'", 'y = """\ncol0\n    four\n"""', "a", "\ncol0\n    four\n",
    ),
    "match inside the docstring": Case(
        'def f(x):\n    """Works so:\n\n    y = x + 1\n    """\n    y = x + 1\n    return y\n',
        "y = x + 1", "y = x + 50", 2, 51,
    ),
    "match inside an f-string": Case(
        "def f(x):\n    s = f'''\n    y = x + 1\n    '''\n    y = x + 1\n    return s.strip(), y\n",
        "y = x + 1", "y = x + 50", ("y = x + 1", 2), ("y = x + 1", 51),
    ),
    "tabs": Case(
        "def f(x):\n\tif x:\n\t\tif x > 0:\n\t\t\ty = 1\n\t\treturn y\n\treturn 0\n",
        "if x > 0:\n    y = 1", "if x > 0:\n    y = 2\n    if y:\n        y += 1", 1, 3,
    ),
    "two spaces": Case(
        "def f(x):\n  if x:\n    y = 1\n  return y\n", "if x:\n    y = 1", "if x:\n    y = 5\n    y += 1", 1, 6,
    ),
    "deeper first line": Case(
        "def f(x):\n    y = 0\n    if x:\n        y = 1\n    return y\n",
        "        y = 1\n    return y", "        y = 7\n    return y + 1", 1, 8,
    ),
    "windows line ends": Case(
        b"def f(x):\r\n    s = '''a\r\nb'''\r\n    y = x + 1\r\n    return s, y\r\n",
        "y = x + 1", "y = x\ny += 50", ("a\nb", 2), ("a\nb", 51),
    ),
    "old mac line ends": Case(b"def f(x):\r    y = x + 1\r    return y\r", "y = x + 1", "y = x + 50", 2, 51),
    "no end of line at the end": Case(b"def f(x):\n    y = x + 1\n    return y", "return y", "return -y", 2, -2),
    "byte order mark": Case("\ufeffdef f(x):\n    s = 'ß'\n    return s, x\n".encode(), "return s, x", "return s, -x", ("ß", 1), ("ß", -1)),
    "latin-1 cookie": Case(
        "# -*- coding: latin-1 -*-\ndef f(x):\n    s = 'größe'\n    return s, x\n".encode("latin-1"),
        "return s, x", "return s + 'é', x", ("größe", 1), ("größeé", 1),
    ),
    "non-ascii names": Case("def f(x):\n    größe = x + 1\n    return größe\n", "größe = x + 1", "größe = x + 50", 2, 51),
    "astral columns": Case("def f(x):\n    s = '𝄞𝄞'; y = x + 1\n    return s, y\n", "s = '𝄞𝄞'; y = x + 1", "s = '𝄞'; y = x", ("𝄞𝄞", 2), ("𝄞", 1)),
    "form feed": Case("X = 1\n\x0c\ndef f(x):\n    y = x + 1\n    return y\n", "y = x + 1", "y = x + 50", 2, 51),
    "backslash": Case("def f(x):\n    y = x + \\\n        1\n    return y\n", "y = x + \\\n    1", "y = x + \\\n    50", 2, 51),
    "inside brackets": Case(
        "def f(x):\n    t = (\n        (x, x * 2 * 3),\n        4,\n    )\n    return t\n",
        "(x, x * 2 * 3),", "(\n    x,\n    x * 3,\n),", ((1, 6), 4), ((1, 3), 4),
    ),
    "wrapped by a formatter": Case(
        "def f(x):\n    y = max(\n        x,\n        3,\n    )\n    return y\n", "y = max(x, 3)", "y = x", 3, 1,
    ),
    "emptied block": Case("def f(x):\n    y = 9\n    if x:\n        y = 3\n    return y\n", "y = 3", "", 3, 9),
    "emptied function": Case("def f(x):\n    return x\n", "return x", "", 1, None),
    "emptied but for a comment": Case(
        "def f(x):\n    y = 9\n    if x:\n        # why\n        y = 3\n    return y\n", "y = 3", "", 3, 9,
    ),
    "emptied else": Case("def f(x):\n    y = 1\n    if not x:\n        y = 2\n    else:\n        y = 3\n    return y\n", "y = 3", "", 3, 1),
    "emptied finally": Case("def f(x):\n    try:\n        y = 1\n    finally:\n        y = 3\n    return y\n", "        y = 3", "", 3, 1),
    "a comment as the new text": Case("def f(x):\n    y = 9\n    if x:\n        y = 3\n    return y\n", "y = 3", "# gone", 3, 9),
    "literal text": Case(
        'def f(x):\n    s = f"{x!r:>4}|\\n|# no"\n    return s\n', "return s", 'return s + "\\1 {y} \\g<0> %s # \'\'"',
        "   1|\n|# no", "   1|\n|# no" + "\1 {y} \\g<0> %s # ''",
    ),
    "one line": Case("def f(x): return x + 1\n", "def f(x): return x + 1", "def f(x): return x + 50", 2, 51),
    "a comment after the colon": Case("def f(x):  # note:\n    y = x + 1\n    return y\n", "y = x + 1", "y = x + 50", 2, 51),
    "semicolons": Case("def f(x):\n    y = x; y += 1; return y\n", "y = x; y += 1; return y", "y = x; return y", 2, 1),
    "nested quotes": Case("def f(x):\n    s = 'it\\'s \"\"\" not'  # '''\n    y = x + 1\n    return y\n", "y = x + 1", "y = x + 50", 2, 51),
    "match statement": Case(
        "def f(x):\n    match x:\n        case 1:\n            y = 1\n        case _:\n            y = 2\n    return y\n",
        "case 1:\n    y = 1", "case 1:\n    y = 11", 1, 11,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_spelling(world: World, case: Case) -> None:
    world.write({"case.py": case.text if isinstance(case.text, bytes) else case.text.encode()})
    target = "case.C.f" if "class C" in str(case.text) else "case.f"
    module, handle = world.revert(toggle(patch(target, case.match, case.new)))
    during = module.f(1)
    handle.restore()

    assert (during, module.f(1)) == (case.old, case.fixed)


PREAMBLES = {
    "a signature over lines": 'def f(\n    x: "dict[str:int]" = 1,\n    y=None,\n) -> int:\n    """Doc: first line."""\n    z = x\n    return z\n',
    "a comment with a colon": "def f(x=1):  # note: this\n    z = x\n    return z\n",
    "a lambda default": "def f(x=1, k=lambda: 1):\n    z = x\n    return z\n",
    "a docstring only in one line": "def f(x=1):\n    'Doc.'\n    z = x\n    return z\n",
    "decorated": "def same(fn):\n    return fn\n@same\ndef f(x=1):\n    z = x\n    return z\n",
    "a block first": "def f(x=1):\n    if x:\n        z = x\n    return z\n",
}  # fmt: skip


@pytest.mark.parametrize("text", PREAMBLES.values(), ids=PREAMBLES)
def test_a_preamble_comes_first_in_the_body(world: World, text: str) -> None:
    world.write({"case.py": text.encode()})
    module, handle = world.revert(
        toggle(patch("case.f", "z = x", "z = sq(x * 4.0)", preamble="from math import sqrt as sq"))
    )
    doc = module.f.__doc__
    during = module.f(), module.f(0) if "if x" not in text else 0
    handle.restore()

    assert (during, module.f(), module.f.__doc__) == ((2.0, 0), 1, doc)


REFUSED = {
    "twice": ("def f(x):\n    if x > 0:\n        x += 1\n    else:\n        x += 1\n    return x\n", "x += 1", "x += 2", ("3", "5")),
    "drifted": ("def f(x, k=1):\n    y = max(x, k, 4)\n    return y\n", "y = max(x, k)", "y = x", ("y = max(x, k, 4)",)),
    "in the docstring only": ('def f(x):\n    """\n    y = x + 1\n    """\n    return x\n', "y = x + 1", "y = x", ()),
    "in another function only": ("def g(x):\n    y = x + 1\n    return y\ndef f(x):\n    return x\n", "y = x + 1", "y = x", ()),
    "a name that is gone": ("def f(x):\n    y = new(x)\n    return y\ndef new(x):\n    return x\n", "y = new(x)", "y = old_way(x)", ("old_way",)),
    "no longer assigned": ("def f(x):\n    y = x + 1\n    return y\n", "y = x + 1", "pass", ()),
    "no Python": ("def f(x):\n    y = x + 1\n    return y\n", "y = x + 1", "y = (x", ()),
    "swallows what follows": ("def f(x):\n    y = x + 1\n    return y\ndef g():\n    return 1\n", "y = x + 1", 's = """', ()),
    "the second edits what the first wrote": ("def f(x):\n    y = x + 1\n    return y\n", "y = y * 1", "y = -y", ()),
    "reverted already": ("def f(x):\n    y = x\n    return y\n", "y = x + 1", "y = x", ()),
    "half of a line": ("def f(x):\n    y = x + 1\n    return y\n", "x + 1", "x", ()),
    "half of a string": ("def f(x):\n    s = '''\n    a\n    '''\n    return s\n", "    a\n    '''", "b", ()),
}  # fmt: skip


@pytest.mark.parametrize(("text", "match", "new", "words"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_single_meaning_is_refused(
    world: World, text: str, match: str, new: str, words: tuple[str, ...]
) -> None:
    world.write({"case.py": text.encode()})
    if world.moment == LIVE:
        world.load()
    try:
        prtoggle.revert(toggle(patch("case.f", match, new)))
    except prtoggle.PrToggleError as error:
        assert [word for word in ("case", *words) if word not in str(error)] == []  # noqa: PT017
    else:
        pytest.fail("it was taken")
    assert prtoggle.active() == []
    module = world.load()
    want: dict[str, Any] = {}
    exec(text, want)
    assert module.f(1) == want["f"](1)
    assert linecache.getline(module.__file__ or "", 1) == text.splitlines()[0] + "\n"


def test_two_edits_that_want_one_line_are_refused_with_both_named(world: World) -> None:
    world.write({"case.py": "def f(x):\n    y = x + 1\n    z = y\n    return z\n"})
    one, two = (
        toggle(patch("case.f", "y = x + 1", "y = x")),
        toggle(patch("case.f", "y = x + 1\nz = y", "z = x")),
    )
    module, handle = world.revert(one)
    with pytest.raises(prtoggle.EditOverlapError) as caught:
        prtoggle.revert(two)
    assert one.id in str(caught.value)
    assert two.id in str(caught.value)
    assert module.f(1) == 1
    handle.restore()
    assert module.f(1) == 2


def test_flags_of_the_module_hold(world: World) -> None:
    """Annotations of inner functions are objects here and texts there."""
    body = "def f(x):\n    def inner(a: Req):\n        return a\n    y = x + 1\n    return (inner.__annotations__['a'], y)\n"
    world.write(
        {
            "case.py": "Req = int\n" + body,
            "late.py": "from __future__ import annotations\nimport typing\nif typing.TYPE_CHECKING:\n    from nowhere import Req\n"
            + body,
        }
    )
    wanted = toggle(patch("case.f", "y = x + 1", "y = x + 50"), patch("late.f", "y = x + 1", "y = x + 50"))
    if world.moment == LIVE:
        world.load("late")
    module, handle = world.revert(wanted)
    late = world.load("late")
    assert (module.f(1), late.f(1)) == ((int, 51), ("Req", 51))
    handle.restore()
    assert (module.f(1), late.f(1)) == ((int, 2), ("Req", 2))
