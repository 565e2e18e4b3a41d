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
        ({"pk/m.py": LONG.replace("save", "store").replace("p.pop()", "p.pop(0)")}, Drift.RENAMED),
        (
            {"pk/m.py": "", "pk/n.py": "def save(p):\n    n = len(p)\n    n = max(n, 1)\n    return n + 1\n"},
            Drift.GONE,
        ),
        ({"pk/m.py": "", "pk/n.py": LONG.replace("p.pop()", "p.pop(0)")}, Drift.MOVED),
    ],
)
def test_a_text_that_is_nearly_the_same_is_evidence(became, today, drift):
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
