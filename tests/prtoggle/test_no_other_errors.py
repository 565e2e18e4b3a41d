"""Whatever text comes in, what comes out is a result or one of our own errors."""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prtoggle.edits import edit_module, plan_patch
from prtoggle.errors import PrToggleError, SpecError
from prtoggle.loader import load_text, written_id
from prtoggle.source.diff_text import parse_diff
from prtoggle.source.indentation import Style, fit_block, string_lines
from prtoggle.spec import Edit, Patch
from prtoggle.target import ResolvedTarget, parse_target
from prtoggle.versions import parse_range
from tests.prtoggle.planned_edits import make_source

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")

YAML_PIECES = st.sampled_from(
    ["id: 1", "patches:", "- target: a.b", "  edits:", "- match: x", "replacement: ''", "{", "}", "[", "]", "&a", "*a", "!!set",
     "<<: *a", "? x", "|", ">", "\t", "'", '"', "---", "...", "%YAML 1.1", "null", "2001-01-01", "=", "  ", "\x00", "é", "\ud800"]
)  # fmt: skip
CODE_PIECES = st.sampled_from(
    ["x = 1", "return x", "if x:", "else:", '"""', "'''", "'", "(", ")", "\\", "# note", "    ", "\t", "\n", "\r\n", "\r", "\x0c",
     "é", "f'{x}'", "def f(x):", "@deco", "pass", ";", "\x00", "lambda: 0"]
)  # fmt: skip
DIFF_PIECES = st.sampled_from(
    ["--- a/hc.py", "+++ b/hc.py", "@@ -1,2 +1,2 @@", "@@ -1 +1 @@", "@@ -1,0 +1 @@", " x = 1", "-x = 1", "+x = 2", "", " ",
     "\\ No newline at end of file", "diff --git a/x b/x", "rename from x", "@@", "@@@ -1 @@@", "--- /dev/null"]
)  # fmt: skip
SOURCE = "def f(x):\n    x = 1\n    if x:\n        return x\n    return '''\nx = 1\n'''\n\ndef g(): pass\n"


def code(max_size: int) -> st.SearchStrategy[str]:
    return st.lists(CODE_PIECES, min_size=1, max_size=max_size).map("".join)


@given(st.lists(YAML_PIECES, max_size=12), st.sampled_from(["\n", "\n  ", " "]))
def test_specs(pieces, glue):
    text = glue.join(pieces)
    with contextlib.suppress(SpecError):
        toggle = load_text(text, "x.yaml", default_id="x")
        assert written_id(text, "x") in (toggle.id, None)


@given(st.lists(DIFF_PIECES, max_size=10))
def test_diffs(pieces):
    text = "\n".join(pieces)
    with contextlib.suppress(SpecError):
        files = parse_diff(text)
        assert all(file.hunks for file in files)
        source = make_source(SOURCE)
        with contextlib.suppress(PrToggleError):
            plan_patch(
                source,
                ast.parse(SOURCE),
                ResolvedTarget("hc", "f", Path("hc.py")),
                Patch("hc.f", diff=text),
                "1",
            )


@given(
    code(4),
    code(6),
    st.sampled_from(["replacement", "prepend", "append"]),
    st.sampled_from(["", "import os"]),
)
def test_edits(match, text, mode, preamble):
    source, tree = make_source(SOURCE), ast.parse(SOURCE)
    with contextlib.suppress(PrToggleError):
        patch = Patch("hc.f", (Edit(match, text, mode),), preamble=preamble)  # type: ignore[arg-type]
        splices = plan_patch(source, tree, ResolvedTarget("hc", "f", Path("hc.py")), patch, "1")
        edited = edit_module(source, tree, splices)
        assert ast.dump(edited.tree.body[-1]) == ast.dump(tree.body[-1])


@given(code(8), st.sampled_from(["\t", " "]))
def test_fitting_keeps_what_is_not_indentation(text, char):
    fitted = fit_block(text, Style("", char, 1 if char == "\t" else 4), "\n")
    assert fitted.split() == text.split()
    assert max(string_lines(text), default=0) <= len(text)


@given(st.text(max_size=12))
def test_targets_and_ranges(text):
    with contextlib.suppress(SpecError):
        assert parse_target(text).names
    with contextlib.suppress(SpecError):
        assert parse_range(text)
