"""Unified diffs, as git prints them, are placed exactly or refused."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

import pytest

from prtoggle.edits import plan_patch
from prtoggle.errors import AlreadyRevertedError, AmbiguousMatchError, MatchError, SpecError
from prtoggle.source.diff_text import parse_diff
from prtoggle.spec import Patch
from prtoggle.target import ResolvedTarget
from tests.prtoggle.planned_edits import edited, make_source

SOURCE = """\
import os
X = 1
class W:
    def g(self):
        return 0
    def f(self, x):
        a = x
        b = a + 1
        return b
"""


def file_diff(old: str, new: str, path: str = "hc.py", context: int = 3) -> str:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=context
    )
    return f"diff --git a/{path} b/{path}\nindex 1111111..2222222 100644\n" + "".join(lines)


def diff(text: str) -> Patch:
    return Patch("hc.f", diff=text)


def fix_diff(text: str) -> Patch:
    return Patch("hc.f", fix_diff=text)


class TestPlaces:
    def test_a_diff_of_the_whole_file(self):
        new = SOURCE.replace("a + 1", "a + 100")
        assert edited(SOURCE, "W.f", diff(file_diff(SOURCE, new))) == new

    def test_a_diff_of_the_dedented_function(self):
        text = (
            "@@ -1,4 +1,5 @@\n def f(self, x):\n     a = x\n-    b = a + 1\n+    b = a\n+    if b:\n+        b += 1\n"
            "     return b\n"
        ).replace("+1,5", "+1,6")
        assert edited(SOURCE, "W.f", diff(text)) == SOURCE.replace(
            "        b = a + 1\n", "        b = a\n        if b:\n            b += 1\n"
        )

    def test_a_fix_diff_is_reversed(self):
        old = SOURCE.replace("b = a + 1", "b = a")
        assert edited(SOURCE, "W.f", fix_diff(file_diff(old, SOURCE))) == old

    def test_line_numbers_may_be_off(self):
        text = file_diff(SOURCE, SOURCE.replace("a + 1", "a + 100")).replace(
            "@@ -5,5 +5,5", "@@ -905,5 +907,5"
        )
        assert edited(SOURCE, "W.f", diff(text)) == SOURCE.replace("a + 1", "a + 100")

    def test_only_the_hunks_of_the_target_count(self):
        new = SOURCE.replace("import os", "import sys").replace("return b", "return -b")
        result = edited(SOURCE, "W.f", diff(file_diff(SOURCE, new, context=1)))
        assert result == SOURCE.replace("return b", "return -b")

    def test_only_the_target_s_file_counts(self):
        new = SOURCE.replace("return b", "return -b")
        text = file_diff("Y = 1\n", "Y = 2\n", "docs/conf.py") + file_diff(SOURCE, new, "src/hc.py")
        assert edited(SOURCE, "W.f", diff(text)) == new

    def test_several_hunks_in_one_function(self):
        body = "".join(f"    a{i} = {i}\n" for i in range(30))
        text = f"def f():\n{body}    return a3\n"
        new = text.replace("a2 = 2", "a2 = 0").replace("a27 = 27", "a27 = 0\n    a28 = 1")
        assert edited(text, "f", diff(file_diff(text, new))) == new

    def test_missing_newlines_at_the_end_of_the_file(self):
        text = "def f(x):\n    return x"
        git = (
            "@@ -1,2 +1,2 @@\n def f(x):\n-    return x\n\\ No newline at end of file\n+    return -x\n"
            "\\ No newline at end of file\n"
        )
        assert edited(text, "f", diff(git)) == "def f(x):\n    return -x"

    def test_crlf_files_and_diffs(self):
        source, new = SOURCE.replace("\n", "\r\n"), SOURCE.replace("a + 1", "a + 9").replace("\n", "\r\n")
        assert edited(source, "W.f", diff(file_diff(SOURCE, SOURCE.replace("a + 1", "a + 9")))) == new
        assert edited(source, "W.f", diff(file_diff(source, new))) == new

    def test_context_lines_whose_blank_was_stripped(self):
        text = "def f(x):\n    a = x\n\n    return a\n"
        git = "@@ -1,4 +1,4 @@\n def f(x):\n     a = x\n\n-    return a\n+    return -a\n"
        assert edited(text, "f", diff(git)) == text.replace("return a", "return -a")

    def test_lines_that_look_like_headers(self):
        text = "def f(x):\n    --x\n    ++x\n    return x\n"
        git = "@@ -1,4 +1,3 @@\n def f(x):\n-    --x\n     ++x\n     return x\n"
        assert edited(text, "f", diff(git)) == text.replace("    --x\n", "")
        git = "--- a/hc.py\n+++ b/hc.py\n@@ -1,4 +1,2 @@\n def f(x):\n-    --x\n-    ++x\n     return x\n"
        assert edited(text, "f", diff(git)) == "def f(x):\n    return x\n"

    def test_the_stated_line_decides_where_the_text_leaves_a_choice(self):
        text = "def f(x):\n    if x:\n        x += 1\n    if x:\n        x += 1\n    return x\n"
        git = "@@ -4,2 +4,2 @@\n     if x:\n-        x += 1\n+        x += 2\n"
        assert edited(text, "f", diff(git)) == text[: text.rindex("x += 1")] + "x += 2\n    return x\n"

    def test_of_two_functions_with_the_same_lines_the_stated_one_is_meant(self):
        text = "def f(x):\n    y = x\n    return y\n\ndef g(x):\n    y = x\n    return y\n"
        new = text[: text.rindex("y = x")] + "y = 0\n    return y\n"
        assert edited(text, "g", diff(file_diff(text, new, context=1))) == new
        with pytest.raises(MatchError, match="none of the 1 hunks"):
            edited(text, "f", diff(file_diff(text, new, context=0)))
        both = text.replace("y = x", "y = 0")
        assert edited(text, "f", diff(file_diff(text, both, context=0))) == text.replace("y = x", "y = 0", 1)

    def test_an_added_line_before_the_first_statement(self):
        git = "@@ -6,2 +6,3 @@\n     def f(self, x):\n+        x = 0\n         a = x\n"
        assert edited(SOURCE, "W.f", diff(git)) == SOURCE.replace(
            "        a = x\n", "        x = 0\n        a = x\n"
        )

    def test_a_block_that_a_diff_empties_gets_a_pass(self):
        text = "def f(x):\n    if x:\n        x = 1\n    return x\n"
        git = "@@ -2,3 +2,2 @@\n     if x:\n-        x = 1\n     return x\n"
        assert edited(text, "f", diff(git)) == text.replace("x = 1", "pass")

    def test_a_whole_module_as_the_target(self):
        new = SOURCE.replace("X = 1", "X = 2").replace("return 0", "return 5")
        assert edited(SOURCE, "", diff(file_diff(SOURCE, new))) == new


class TestRefusals:
    def refused(
        self, patch: Patch, kind: type[MatchError], match: str, text: str = SOURCE, name: str = "W.f"
    ):
        source = make_source(text)
        with pytest.raises(kind, match=match) as caught:
            plan_patch(source, ast.parse(text), ResolvedTarget("hc", name, Path("hc.py")), patch, "7")
        assert f"hc.{name}" in str(caught.value)
        assert source.text == text
        return caught.value

    def test_context_that_is_not_there(self):
        git = "@@ -6,4 +6,4 @@\n     def f(self, x):\n         a = x\n-        b = a + 2\n+        b = a\n         return b\n"
        error = self.refused(diff(git), MatchError, "hunk 1 of toggle 7")
        assert (8, "b = a + 1") in error.nearest

    def test_no_fuzz_not_even_at_the_edges(self):
        git = "@@ -6,3 +6,3 @@\n     def f(self, y):\n         a = x\n-        b = a + 1\n+        b = a\n"
        self.refused(diff(git), MatchError, "hunk 1")

    def test_two_places(self):
        text = "def f(x):\n    if x:\n        x += 1\n    if x:\n        x += 1\n    return x\n"
        git = "@@ -90,2 +90,2 @@\n     if x:\n-        x += 1\n+        x += 2\n"
        error = self.refused(diff(git), AmbiguousMatchError, "lines 2, 4", text, "f")
        assert error.lines == (2, 4)

    def test_already_applied(self):
        git = "@@ -7,3 +7,3 @@\n         a = x\n-        b = a\n+        b = a + 1\n         return b\n"
        self.refused(diff(git), AlreadyRevertedError, "already applied")

    def test_another_function(self):
        self.refused(
            diff(file_diff(SOURCE, SOURCE.replace("return 0", "return 1"), context=1)),
            MatchError,
            "none of the 1 hunks",
        )

    def test_another_file(self):
        self.refused(diff(file_diff("Y = 1\n", "Y = 2\n", "docs/conf.py")), MatchError, r"docs/conf\.py")

    def test_a_hunk_that_straddles_the_target(self):
        new = SOURCE.replace("return 0", "return 1").replace("a = x", "a = -x")
        self.refused(
            diff(file_diff(SOURCE, new)), MatchError, r"also changes line 5 .* outside of the target"
        )

    def test_a_hunk_without_context_that_removes_nothing(self):
        self.refused(
            diff("@@ -7,0 +8,1 @@\n+        x = 0\n"), MatchError, "neither context nor removed lines"
        )


class TestText:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "no hunk"),
            ("Binary files a/x and b/x differ\n", "no hunk"),
            ("@@ -1,4 +1,4 @@\n a\n-b\n+c\n", "not as many"),
            ("@@ -1,1 +1,1 @@\n-b\n+c\n d\n", "outside of every hunk"),
            ("@@ -1 @@\n-b\n", "hunk's header reads"),
            ("@@@ -1,1 -1,1 +1,1 @@@\n--b\n++c\n", "combined diff"),
            ("@@ -1,1 +1,1 @@\n b\n", "changes nothing"),
        ],
    )
    def test_what_is_no_unified_diff_is_refused(self, text, message):
        with pytest.raises(SpecError, match=message):
            parse_diff(text)

    def test_reversing_twice_gives_the_diff_back(self):
        (file,) = parse_diff(file_diff(SOURCE, SOURCE.replace("a + 1", "a + 9").replace("import os\n", "")))
        assert file.reversed().reversed() == file
        assert [hunk.new for hunk in file.reversed().hunks] == [hunk.old for hunk in file.hunks]

    def test_renames_name_both_files(self):
        text = (
            "diff --git a/old.py b/new.py\nsimilarity index 90%\nrename from old.py\nrename to new.py\n"
            "--- a/old.py\n+++ b/new.py\n@@ -1 +1 @@ def g():\n-a\n+b\n"
        )
        (file,) = parse_diff(text)
        assert (file.old_path, file.new_path, file.hunks[0].heading) == ("old.py", "new.py", "def g():")
