"""A name or the edited lines alone do not say where a function went: `check` asks, and rewrites nothing."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from prtoggle.drift.classes import Drift
from prtoggle.drift.judged import Locks, judge, lock_toggle
from prtoggle.drift.likeness import is_test_module
from prtoggle.drift.source_tree import SourceTree
from prtoggle.drift.surroundings import Surroundings
from prtoggle.loader import load_file

SAVE = "def save(p):\n    n = len(p)\n    n = max(n, 1)\n    return n\n"
LONG = "def save(p):\n    n = len(p)\n    p.sort()\n    n = max(n, 1)\n    p.pop()\n    return n\n"


def spec(target: str, match: str, text: str, mode: str = "replacement") -> str:
    block = indent(text, " " * 10)
    return (
        f"patches:\n  - target: {target}\n    edits:\n      - match: {match!r}\n        {mode}: |\n{block}\n"
    )


@pytest.fixture
def became(tmp_path):
    """What became of the code under a spec that was locked to one tree, in another."""

    def became(text: str, before: dict[str, str], today: dict[str, str]):
        (tmp_path / "toggles").mkdir()
        file = tmp_path / "toggles" / "7.yaml"
        file.write_text(text)
        locks = Locks()
        for name, files in (("before", before), ("today", today)):
            for path, content in {"pk/__init__.py": "", **files}.items():
                place = tmp_path / name / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(dedent(content))
        toggle = load_file(file)
        lock_toggle(toggle, Surroundings(SourceTree(tmp_path / "before")), locks)
        judged = judge(toggle, None, Surroundings(SourceTree(tmp_path / "today")), locks)
        assert file.read_text() == text
        return judged

    return became


@pytest.mark.parametrize(
    ("before", "today"),
    [
        (
            SAVE,
            {
                "pk/m.py": "",
                "pk/net.py": 'def retries(cfg):\n    n = cfg["n"]\n    n = max(n, 1)\n    for _ in range(n):\n        pass\n    return n\n',
            },
        ),
        (SAVE, {"pk/m.py": "def z(q):\n    n = q * 7\n    n = max(n, 1)\n    return n * 2\n"}),
        (SAVE, {"pk/m.py": "class Net:\n    def save(self, cfg, b):\n        n = cfg\n        n = max(n, 1)\n        return b\n"}),
        (SAVE, {"pk/m.py": "def tally(p):\n    n = len(p)\n    print(n)\n    n = max(n, 1)\n    return n\n"}),
        (LONG, {"pk/m.py": LONG.replace("save", "store").replace("p.pop()", "p.pop(0)")}),
        (LONG, {"pk/m.py": "", "pk/n.py": LONG.replace("(p)", "(q)").replace("p.", "q.").replace("(p", "(q").replace("q.pop()", "q.pop(0)")}),
        (SAVE, {"pk/m.py": "", "pk/n.py": "def save(rows, limit):\n    n = len(p)\n    n = max(n, 1)\n    return n\n"}),
        (SAVE, {"pk/m.py": "", "pk/tests/__init__.py": "", "pk/tests/ref.py": SAVE}),
        (SAVE, {"pk/m.py": "", "pk/test_ref.py": SAVE}),
    ],
)  # fmt: skip
def test_thin_evidence_is_for_a_person_to_judge(became, before, today):
    judged = became(spec("pk.m.save", "n = max(n, 1)", "pass"), {"pk/m.py": before}, today)
    (drift,) = judged.drifts
    assert drift.is_finding
    assert drift.healed is None
    assert not judged.healed
    assert drift.decision


@pytest.mark.parametrize(
    ("today", "drift"),
    [
        ({"pk/m.py": LONG.replace("save", "store").replace("    return", "    assert n\n    return")}, Drift.RENAMED),
        ({"pk/m.py": LONG.replace("save", "store").replace("p.pop()", "p.pop(0)  # owner/project#7")}, Drift.RENAMED),
        (
            {"pk/m.py": "", "pk/n.py": "def save(p):\n    n = len(p)\n    n = max(n, 1)\n    return n + 1\n"},
            Drift.GONE,
        ),
        ({"pk/m.py": "", "pk/n.py": LONG.replace("p.pop()", "p.pop(0)")}, Drift.MOVED),
        ({"pk/m.py": "", "pk/n.py": LONG.replace("p.pop()", "p.pop(0)").replace("(p)", "(p, q=1)", 1)}, Drift.MOVED),
    ],
)  # fmt: skip
def test_all_of_the_text_a_mention_or_the_name_with_its_parameters_is_evidence(became, today, drift):
    judged = became(spec("pk.m.save", "n = max(n, 1)", "pass"), {"pk/m.py": LONG}, today)
    (found,) = judged.drifts
    if drift is Drift.GONE:
        # The name with a part of the text: named, and left to a person.
        assert found.healed is None
        assert "pk.n.save" in found.why
    else:
        assert (found.drift, found.healed is not None) == (drift, True)


@pytest.mark.parametrize(
    ("module", "wanted"),
    [("pk.tests.ref", True), ("pk.test_ref", True), ("pk.ref_test", True), ("pk.latest.ref", False)],
)
def test_a_test_folder_is_no_new_home(module, wanted):
    assert is_test_module(module) is wanted


def test_a_module_that_cannot_be_parsed_is_not_said_to_lack_the_fix(became):
    judged = became(
        spec("pk.m.save", "n = max(n, 1)", "pass"), {"pk/m.py": SAVE}, {"pk/m.py": "def save(p:\n"}
    )
    assert judged.drifts[0].drift is Drift.UNREADABLE
    assert judged.is_finding
    assert judged.check.status == "unsupported"
    assert "no valid Python" in judged.check.patches[0].message
    assert not judged.healed


@pytest.mark.parametrize(
    ("today", "drift", "healed"),
    [
        ({"pk/m.py": "from pk.c import L\n", "pk/c.py": "L = 5\n"}, Drift.MOVED, "pk.c.L"),
        ({"pk/m.py": "from .c import L\n", "pk/c.py": "L = 5\n"}, Drift.MOVED, "pk.c.L"),
        ({"pk/m.py": "from pk.c import L\n", "pk/c.py": "L = 6\n"}, Drift.MOVED, ""),
        ({"pk/m.py": "", "pk/c.py": "L = 5\n"}, Drift.GONE, ""),
        ({"pk/m.py": ""}, Drift.GONE, ""),
    ],
)
def test_a_constant_is_looked_for_where_its_module_has_it_from(became, today, drift, healed):
    judged = became(spec("pk.m.L", "L = 5", "L = 1"), {"pk/m.py": "L = 5\n"}, today)
    (found,) = judged.drifts
    assert (found.drift, found.healed.target if found.healed else "") == (drift, healed)
    assert bool(found.decision) is not bool(healed)


RETURNS = "def f(x):\n    y = x + 1\n    return y\n"
TRIES = "def f(x):\n    try:\n        y = int(x)\n    except ValueError:\n        y = 0\n    return y\n"
LOOPS = "def f(x):\n    for i in range(3):\n        x += 1\n    return x\n"
OPENS = "def f(x):\n    with a(x):\n        x += 1\n    return x\n"
TWO = "def f(x):\n    y = x + 1\n    z = 2\n    return y + z\n"
LATER = "    y += 10\n"


@pytest.mark.parametrize(
    ("before", "edit", "old", "new", "crept"),
    [
        (RETURNS, ("y = x + 1", "if x > 2:\n    return x", "append"), "    return", LATER + "    return", "y += 10"),
        (RETURNS, ("y = x + 1", "for i in x:\n    if i:\n        raise a", "append"), "    return", LATER + "    return", "y += 10"),
        (RETURNS, ("y = x + 1", "for i in x:\n    if i:\n        break", "append"), "    return", LATER + "    return", ""),
        (RETURNS, ("return y", "return x", "replacement"), "    return", "    y *= 3\n    return", "y *= 3"),
        (TWO, ("z = 2", "y = x", "append"), "    z = 2", "    y *= 3\n    z = 2", "y *= 3"),
        (RETURNS, ("return y", "return x", "replacement"), "    return", "    print(y)\n    return", ""),
        (TRIES, ("except ValueError:", "except OSError:", "replacement"), "        y = 0\n", "        y = 0\n        print(x)\n", "print(x)"),
        (LOOPS, ("for i in range(3):", "for i in range(1):", "replacement"), "    return", "        x += 100\n    return", "x += 100"),
        (OPENS, ("with a(x):", "with b(x):", "replacement"), "    return", "        x += 100\n    return", "x += 100"),
    ],
)  # fmt: skip
def test_later_lines_that_the_edit_would_keep_from_counting_are_named(became, before, edit, old, new, crept):
    today = before.replace(old, new)
    assert today != before
    judged = became(spec("pk.m.f", *edit), {"pk/m.py": before}, {"pk/m.py": today})
    (found,) = judged.drifts
    assert (found.drift is Drift.SCOPE_CREEP) is bool(crept), found
    assert crept in found.why


MATCHES = "def f(x):\n    match x:\n        case 1:\n            y = 1\n        case _:\n            y = 0\n    return y\n"
BRANCHES = "def f(x):\n    if x:\n        y = 1\n    else:\n        y = 2\n    return y\n"
ELIFS = "def f(x):\n    if x > 3:\n        y = 1\n    elif x:\n        y = 2\n    return y\n"
FORELSE = (
    "def f(x):\n    for i in x:\n        if i:\n            break\n    else:\n        x = 0\n    return x\n"
)
HANDLES = "def f(x):\n    try:\n        g(x)\n    except KeyError:\n        x = 1\n    except OSError:\n        x = 2\n    return x\n"
CHOOSES = "def f(x):\n    return (\n        g(x)\n        and h(x)\n    )\n"
COLLECTS = "def f(x):\n    return [\n        i\n        for i in x\n    ]\n"
SAVED = "import sys\ndef f(x):\n    y = x + 1\n    return y\n"


@pytest.mark.parametrize(
    ("before", "edit", "old", "new", "crept"),
    [
        (MATCHES, ("match x:", "match 5:"), "        case _", "        case 2:\n            y = 3\n        case _", "case 2: / y = 3"),
        (MATCHES, ("case 1:", "case str():"), "            y = 1\n", "            y = 1\n            print(y)\n", "print(y)"),
        (MATCHES, ("case 1:", "case 1 | 2:"), "            y = 0\n", "            y = 0\n            print(y)\n", "print(y)"),
        (BRANCHES, ("if x:", "if True:"), "y = 2\n", "y = 2\n        y += 40\n", "y += 40"),
        (BRANCHES, ("y = 1", "y = 7"), "y = 2\n", "y = 2\n        y += 40\n", ""),
        (ELIFS, ("if x > 3:", "if x > 2:"), "y = 2\n", "y = 2\n        y += 40\n", "y += 40"),
        (FORELSE, ("for i in x:", "for i in []:"), "        x = 0\n", "        x = 0\n        x += 40\n", "x += 40"),
        (HANDLES, ("except KeyError:", "except LookupError:"), "x = 2\n", "x = 2\n        print(x)\n", "print(x)"),
        (HANDLES, ("g(x)", "pass"), "x = 2\n", "x = 2\n        print(x)\n", "print(x)"),
        (CHOOSES, ("g(x)", "x"), "        and h(x)\n", "        and h(x)\n        and x.ok\n", "and x.ok"),
        (COLLECTS, ("for i in x", "for i in []"), "        for i in x\n", "        for i in x\n        if ok(i)\n", "if ok(i)"),
        (COLLECTS, ("for i in x", "for i in []"), "        for i in x\n", "        for i in x\n        for j in i\n", "for j in i"),
        (RETURNS, ("y = x + 1", "y = x + 1\nassert y < 3"), "    return", LATER + "    return", "y += 10"),
        (SAVED, ("y = x + 1", "y = x + 1\nif y:\n    sys.exit(1)"), "    return", LATER + "    return", "y += 10"),
        (SAVED, ("y = x + 1", "y = x + 1\nos._exit(1)"), "    return", LATER + "    return", "y += 10"),
        (RETURNS, ("y = x + 1", "y = x + 1\nwhile True:\n    pass"), "    return", LATER + "    return", "y += 10"),
        (RETURNS, ("y = x + 1", "y = x + 1\nwhile True:\n    break"), "    return", LATER + "    return", ""),
        (RETURNS, ("y = x + 1", "y = 0"), "    y = x", "    x = x + 100\n    y = x", "x = x + 100"),
        (RETURNS, ("y = x + 1", "y = 0"), "    y = x", "    z = x * 2\n    x = z\n    y = x", "z = x * 2 / x = z"),
        (RETURNS, ("y = x + 1", "y = 0"), "    y = x", "    x = g(x)\n    y = x", "x = g(x)"),
        (RETURNS, ("y = x + 1", "y = x"), "    y = x", "    x = x + 100\n    y = x", ""),
    ],
)  # fmt: skip
def test_creep_is_told_below_every_header_and_behind_every_way_out(became, before, edit, old, new, crept):
    today = before.replace(old, new)
    assert today != before
    qualified = spec("pk.m.f", *edit)
    judged = became(qualified, {"pk/m.py": before}, {"pk/m.py": today})
    (found,) = judged.drifts
    assert (found.drift is Drift.SCOPE_CREEP) is bool(crept), found
    assert crept in found.why
    assert found.healed is None


MOVES = "def f(x):\n    x = max(x, 0)\n    y = x * 2\n    print(1)\n    return y\n"


@pytest.mark.parametrize(
    ("today", "passed"),
    [
        ("def f(x):\n    y = x * 2\n    x = max(x, 0)\n    print(1)\n    return y\n", "y = x * 2"),
        ("def f(x):\n    print(1)\n    x = max(x, 0)\n    y = x * 2\n    return y\n", ""),
        ("def f(x):\n    x = max(x, 0)\n    print(1)\n    y = x * 2\n    return y\n", ""),
        ("def f(x):\n    return y\n    x = max(x, 0)\n    y = x * 2\n    print(1)\n", "return y"),
    ],
)
def test_a_fix_that_was_moved_past_what_reads_it_is_for_a_person(became, today, passed):
    judged = became(spec("pk.m.f", "x = max(x, 0)", "pass"), {"pk/m.py": MOVES}, {"pk/m.py": today})
    (found,) = judged.drifts
    assert judged.is_finding is bool(passed)
    assert found.healed is None
    if passed:
        assert found.drift is Drift.EDITED_ON
        assert f"moved past `{passed}`" in found.why
        assert found.decision
    else:
        assert found.drift is Drift.EDITED_NEAR
        assert found.why in (
            "the function was edited; the edit changes the lines that it changed",
            "the lines beside the edit changed; its own lines did not",
        )


@pytest.mark.parametrize(
    ("today", "target"),
    [
        ({"pk/m.py": "def save(p):\n    return 0\n", "pk/old.py": LONG}, ""),
        ({"pk/m.py": "import pk.old\ndef save(p):\n    return 0\n", "pk/old.py": LONG}, ""),
        ({"pk/m.py": "def save(p):\n    return save(0)\n", "pk/old.py": LONG}, ""),
        ({"pk/m.py": "from pk.old import save as old\ndef save(p):\n    return old(p)\n", "pk/old.py": LONG}, "pk.old.save"),
        ({"pk/m.py": "from pk import old\ndef save(p):\n    return old.save(p)\n", "pk/old.py": LONG}, "pk.old.save"),
        ({"pk/m.py": "def save(p):\n    return inner(p)\n" + LONG.replace("save", "inner")}, "pk.m.inner"),
        ({"pk/m.py": "def save(p):\n    return 0\n" + LONG.replace("save", "inner")}, ""),
    ],
)  # fmt: skip
def test_a_copy_is_the_target_only_where_the_target_calls_it(became, today, target):
    judged = became(spec("pk.m.save", "n = max(n, 1)", "pass"), {"pk/m.py": LONG}, today)
    (found,) = judged.drifts
    assert judged.is_finding
    assert (found.healed.target if found.healed else "") == target
    assert bool(found.decision) is not bool(target)


def test_a_fix_that_stands_elsewhere_in_its_function_was_not_taken_out(became):
    before = "def f(x):\n    x = max(x, 0)\n    for i in range(3):\n        x += 1\n    return x\n"
    today = "def f(x):\n    for i in range(3):\n        x = max(x, 0)\n        x += 1\n    return x\n"
    text = 'patches:\n  - target: pk.m.f\n    edits:\n      - match: x = max(x, 0)\n        replacement: ""\n'
    judged = became(text, {"pk/m.py": before}, {"pk/m.py": today})
    (found,) = judged.drifts
    assert (found.drift, found.healed) == (Drift.EDITED_ON, None)
    assert found.why == "the fix's own lines stand elsewhere in the function now"
    assert found.decision
