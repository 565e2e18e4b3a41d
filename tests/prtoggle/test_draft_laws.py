"""Laws of merging and drafting, on generated programs: what is taken out is the fix, all of it and nothing else."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from prtoggle.drift.carried import carry_over
from prtoggle.drift.edit_maker import same_code
from prtoggle.drift.merging import merge_lines
from prtoggle.edits import apply_splices, merge, plan_patch
from prtoggle.forge.draft import make_draft
from prtoggle.forge.fix import Fix, FixedFile
from prtoggle.source.source_text import read_source

LINES = st.lists(st.sampled_from([f"{name}\n" for name in "abcde"]), max_size=8)

STATEMENTS = [
    "a = 1",
    "a = 2",
    "b = a + 1",
    "b = f(a, b)",
    "g(b)",
    "if a:",
    "for c in b:",
    "with g(a):",
    "return a",
    "c = [\n",
    "s = '''\n",
]


@st.composite
def bodies(draw, indent: str = "    ", depth: int = 0) -> list[str]:
    """The lines of a block: statements of one and of several lines, blocks within blocks, few distinct texts."""
    lines: list[str] = []
    for statement in draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=5)):
        if statement.endswith(":"):
            inner = draw(bodies(indent + "    ", depth + 1)) if depth < 2 else [f"{indent}    pass"]
            lines += [indent + statement, *inner]
        elif statement == "c = [\n":
            lines += [f"{indent}c = [", f"{indent}    a,", f"{indent}    b,", f"{indent}]"]
        elif statement == "s = '''\n":
            lines += [f"{indent}s = '''x", "  y", "'''"]
        else:
            lines.append(indent + statement)
    return lines


@st.composite
def programs(draw) -> list[list[str]]:
    """The bodies of the functions of a module: two of them, and a method."""
    return [draw(bodies()), draw(bodies()), draw(bodies("        "))]


def module(parts: list[list[str]], limit: int) -> str:
    first, second, method = ("\n".join(part) for part in parts)
    return (
        f"LIMIT = {limit}\nf = g = max\n\n\ndef first(a, b):\n{first}\n\n\ndef second(a, b):\n{second}\n\n\n"
        f"class Pool:\n    size = {limit}\n\n    def method(self, a, b):\n{method}\n"
    )


def drafted(before: str, after: str, today: str) -> tuple[bool, str]:
    """Whether there is a draft of the fix, and today's text with the draft's edits in it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fxl_module.py"
        file.write_text(today)
        fix = Fix((FixedFile("fxl_module.py", "fxl_module.py", before, after),), (), ())
        draft = make_draft(fix, Path(folder), {})
        source = read_source(file)
        tree = ast.parse(today)
        splices = [
            splice
            for item in draft.patches
            for splice in plan_patch(source, tree, item.target, item.patch, "law")
        ]
        return draft.possible, apply_splices(today, merge(splices))


@given(programs(), programs(), st.integers(1, 2))
def test_a_fix_that_nobody_touched_since_goes_out_completely(before_parts, after_parts, limit):
    # Shared parts make small fixes as likely as big ones.
    before, after = module(before_parts, limit), module([after_parts[0], before_parts[1], after_parts[2]], 1)
    possible, text = drafted(before, after, after)
    if same_code(before, after):
        assert not possible
    else:
        assert possible
        assert same_code(text, before)


@given(programs(), programs(), bodies())
def test_a_later_edit_of_another_function_stays_as_it_is(before_parts, after_parts, later):
    before, after = module(before_parts, 1), module([after_parts[0], *before_parts[1:]], 1)
    today = module([after_parts[0], later, before_parts[2]], 1)
    possible, text = drafted(before, after, today)
    if not same_code(before, after):
        assert possible
        assert same_code(text, module([before_parts[0], later, before_parts[2]], 1))


@given(programs(), programs(), programs())
def test_a_draft_changes_nothing_but_functions_of_the_fix(before_parts, after_parts, today_parts):
    before, after = module(before_parts, 1), module([after_parts[0], *before_parts[1:]], 1)
    today = module(today_parts, 1)
    possible, text = drafted(before, after, today)
    if not possible:
        return
    old, new = ast.parse(today).body, ast.parse(text).body
    assert [ast.dump(node) for node in old[3:]] == [ast.dump(node) for node in new[3:]]


@given(LINES, LINES)
def test_merging_into_the_unchanged_text_gives_the_other_side(base, theirs):
    merged = merge_lines(base, base, theirs)
    assert merged.clean
    assert merged.lines == theirs
    assert bool(merged.taken) == (base != theirs)


@given(LINES, LINES)
def test_what_both_sides_did_is_there_already(base, theirs):
    merged = merge_lines(base, theirs, theirs)
    assert (merged.lines, merged.taken, merged.clean) == (theirs, 0, True)


@given(LINES, LINES, LINES)
def test_a_merge_invents_no_line_and_loses_none_that_only_one_side_has(base, ours, theirs):
    merged = merge_lines(base, ours, theirs)
    assert {line.strip() for line in merged.lines} <= {line.strip() for line in (*base, *ours, *theirs)}
    if merged.clean:
        mine = {line for line in ours if line not in base}
        assert mine <= set(merged.lines)


@given(bodies(), bodies())
def test_an_edit_is_carried_over_to_the_same_program_or_not_at_all(fixed, reverted):
    texts = ["\n".join(["def f(a, b):", *body]) + "\n" for body in (fixed, reverted)]
    reflowed = ast.unparse(ast.parse(texts[0])) + "\n"
    done = carry_over(*texts, reflowed)
    assert done is None or same_code(done, texts[1])
