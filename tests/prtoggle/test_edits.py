"""Edits go into the lines they are about, in the file's own style, and nowhere else."""

from __future__ import annotations

import pytest

from prtoggle.errors import EditError, MatchError, StaleSourceError, UnsupportedTargetError
from prtoggle.line_edits import plan_lines
from prtoggle.spec import Patch
from tests.prtoggle.planned_edits import edited, edits, make_source, plan, replaced

SIMPLE = "def f(x):\n    y = x + 1\n    return y\n"


def test_a_replacement_takes_the_place_of_its_match_and_nothing_else_changes():
    text = "import os\n\n\ndef f(x):\n    y = x + 1  # note\n    return y\n\n\ndef g():\n    return 1\n"
    assert replaced(text, "y = x + 1  # note", "y = x - 1") == text.replace("x + 1  # note", "x - 1")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("prepend", "def f(x):\n    z = 2\n    z += 1\n    y = x + 1\n    return y\n"),
        ("append", "def f(x):\n    y = x + 1\n    z = 2\n    z += 1\n    return y\n"),
    ],
)
def test_prepend_and_append_keep_the_matched_lines(mode, expected):
    assert edited(SIMPLE, "f", edits(("y = x + 1", "z = 2\nz += 1"), mode=mode)) == expected


def test_the_matched_lines_of_an_append_keep_every_byte():
    text = "def f(x):\n    y = x  +  1   # odd   \n    return y\n"
    assert edited(text, "f", edits(("y = x  +  1   # odd", "z = 1"), mode="append")) == (
        "def f(x):\n    y = x  +  1   # odd   \n    z = 1\n    return y\n"
    )


@pytest.mark.parametrize("match", ["        y = x + 1\n", "\n\ny = x + 1\n\n", "\ty = x + 1", "y = x + 1   "])
def test_the_common_indentation_and_outer_blank_lines_of_a_match_are_ignored(match):
    assert replaced(SIMPLE, match, "y = 5") == "def f(x):\n    y = 5\n    return y\n"


def test_the_replacement_keeps_its_relative_indentation():
    assert replaced(SIMPLE, "y = x + 1", "  if x:\n      y = 1\n  else:\n      y = 2") == (
        "def f(x):\n    if x:\n        y = 1\n    else:\n        y = 2\n    return y\n"
    )


def test_a_replacement_that_starts_deeper_than_it_ends_is_not_glued_to_one_level():
    text = "def f(x):\n    if x:\n        x = 1\n    return x\n"
    assert replaced(text, "    x = 1\nreturn x", "    x = 2\n    x += 1\nreturn -x") == (
        "def f(x):\n    if x:\n        x = 2\n        x += 1\n    return -x\n"
    )


def test_a_match_of_another_relative_indentation_is_another_text():
    text = "def f(x):\n    if x:\n        x = 1\n    return x\n"
    with pytest.raises(MatchError):
        plan(text, "f", edits(("x = 1\nreturn x", "return 0")))


class TestTabs:
    SOURCE = "class T:\n\tdef f(self, x):\n\t\tif x:\n\t\t\ty = 1\n\t\t\treturn y\n\t\treturn 0\n"

    def test_a_spec_in_spaces_matches_and_is_written_in_tabs(self):
        result = replaced(
            self.SOURCE, "if x:\n    y = 1", "if x > 2:\n    if x:\n        y = 1\n    z = 3", "T.f"
        )
        assert result == (
            "class T:\n\tdef f(self, x):\n\t\tif x > 2:\n\t\t\tif x:\n\t\t\t\ty = 1\n\t\t\tz = 3\n"
            "\t\t\treturn y\n\t\treturn 0\n"
        )

    def test_a_spec_in_two_spaces_matches_too(self):
        result = replaced(self.SOURCE, "if x:\n  y = 1\n  return y", "if x:\n  return 7", "T.f")
        assert result == "class T:\n\tdef f(self, x):\n\t\tif x:\n\t\t\treturn 7\n\t\treturn 0\n"

    def test_a_spec_in_tabs_is_written_in_the_spaces_of_the_file(self):
        text = "def f(x):\n  y = 1\n  return y\n"
        assert replaced(text, "y = 1", "if x:\n\ty = 2\nelse:\n\ty = 3") == (
            "def f(x):\n  if x:\n    y = 2\n  else:\n    y = 3\n  return y\n"
        )

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("def f(x):\n\tif x:\n\t\tif x:\n\t\t\ta = 1\n\t\telse:\n\t\t\ta = 1\n\telse:\n\t\ta = 2\n", 6),
            ("def f(x):\n  if x:\n    if x:\n      a = 1\n    else:\n      a = 1\n  else:\n    a = 2\n", 6),
        ],
    )
    def test_levels_that_only_get_shallower_are_not_scaled(self, text, line):
        unit = "\t" if "\t" in text else "  "
        (splice,) = plan(text, "f", edits((f"{unit * 2}a = 1\nelse:", "pass"), occurrence=1))
        assert text[: splice.start].count("\n") + 1 == line

    @pytest.mark.parametrize(
        ("match", "fits"), [("        a = 1\n    else:", True), ("  a = 1\nelse:", False)]
    )
    def test_shallower_lines_are_counted_in_fours(self, match, fits):
        text = "def f(x):\n\tif x:\n\t\ta = 1\n\telse:\n\t\ta = 2\n"
        patch = edits((match, "    a = 3\nelse:"))
        if fits:
            assert edited(text, "f", patch) == text.replace("a = 1", "a = 3")
        else:
            with pytest.raises(MatchError):
                plan(text, "f", patch)

    def test_blank_lines_of_a_replacement_stay_blank(self):
        assert replaced(SIMPLE, "y = x + 1", "y = x\n\n  \ny += 1") == (
            "def f(x):\n    y = x\n\n\n    y += 1\n    return y\n"
        )

    def test_units_of_four_match_units_of_two(self):
        text = "def f(x):\n  if x:\n    y = 1\n  return x\n"
        assert replaced(text, "if x:\n    y = 1", "if x:\n    if x:\n        y = 1") == (
            "def f(x):\n  if x:\n    if x:\n      y = 1\n  return x\n"
        )


class TestStrings:
    SOURCE = 'class Q:\n    def f(self):\n        text = """\nSELECT 1\n  FROM t\n"""\n        return text\n'

    def test_the_texts_of_strings_next_to_an_edit_stay(self):
        assert replaced(self.SOURCE, "return text", "return text * 2", "Q.f") == self.SOURCE.replace(
            "return text", "return text * 2"
        )

    def test_a_string_is_matched_from_the_line_where_it_begins(self):
        new = 'text = """\nSELECT 2\n    FROM u\n"""'
        assert replaced(self.SOURCE, 'text = """\nSELECT 1\n  FROM t\n"""', new, "Q.f") == (
            f"class Q:\n    def f(self):\n        {new}\n        return text\n"
        )

    def test_a_string_copied_together_with_the_code_round_it_matches(self):
        text = 'def f():\n    text = """\n    SELECT 1\n    """\n    return text\n'
        assert (
            replaced(text, 'text = """\nSELECT 1\n"""', "text = 1")
            == "def f():\n    text = 1\n    return text\n"
        )

    @pytest.mark.parametrize("quotes", ['"""', "'''"])
    def test_a_line_of_a_docstring_is_not_code(self, quotes):
        text = f"def f(x):\n    {quotes}Like:\n\n    y = x + 1\n    {quotes}\n    y = x + 1\n    return y\n"
        result = replaced(text, "y = x + 1", "y = x")
        assert (
            result
            == f"def f(x):\n    {quotes}Like:\n\n    y = x + 1\n    {quotes}\n    y = x\n    return y\n"
        )

    def test_a_text_that_stands_in_a_string_only_is_refused_with_its_line(self):
        text = 'def f(x):\n    """Like:\n\n    y = x + 1\n    """\n    y = x + 2\n    return y\n'
        with pytest.raises(MatchError, match=r"inside a string literal \(line 4\)"):
            plan(text, "f", edits(("y = x + 1", "y = x")))

    def test_quotes_in_comments_and_strings_open_nothing(self):
        text = 'def f(x):\n    a = \'"""\'  # it\'s """\n    y = x\n    b = "\'\'\'"\n    return y\n'
        assert replaced(text, "y = x", "y = 2") == text.replace("y = x", "y = 2")

    def test_a_string_continued_by_a_backslash_is_one_string(self):
        text = "def f(x):\n    a = 'one \\\n    y = x\\\n'\n    y = x\n    return y\n"
        assert replaced(text, "y = x", "y = 2") == text.replace(
            "    y = x\n    return", "    y = 2\n    return"
        )


class TestLineEnds:
    def test_crlf_is_kept_and_written(self):
        text = "def f(x):\r\n    y = x + 1\r\n    return y\r\n"
        assert replaced(text, "y = x + 1", "y = x\ny += 2\n") == (
            "def f(x):\r\n    y = x\r\n    y += 2\r\n    return y\r\n"
        )

    def test_a_file_without_a_last_line_end_keeps_it_so(self):
        assert replaced("def f(x):\n    return x", "return x", "return 1") == "def f(x):\n    return 1"

    def test_an_append_at_the_end_of_such_a_file_starts_a_line(self):
        text = "def f(x):\n    y = x"
        assert (
            edited(text, "f", edits(("y = x", "return y"), mode="append"))
            == "def f(x):\n    y = x\n    return y"
        )

    def test_a_form_feed_is_no_line_end(self):
        text = "X = 1\n\x0cdef f(x):\n    y = x\n    return y\n"
        assert replaced(text, "y = x", "y = 2") == "X = 1\n\x0cdef f(x):\n    y = 2\n    return y\n"

    def test_a_unicode_line_separator_is_no_line_end(self):
        text = "def f(x):\n    s = 'a\u2028b'\n    y = x\n    return y\n"
        assert replaced(text, "y = x", "y = 2") == text.replace("y = x", "y = 2")


class TestLayout:
    def test_a_reflowed_statement_is_found_by_its_structure(self):
        text = "def f(x, k):\n    extra = max(\n        x,  # the rest\n        k,\n    )\n    return extra\n"
        result = replaced(text, "extra = max(x, k)", "extra = x")
        assert result == "def f(x, k):\n    extra = x\n    return extra\n"
        (splice,) = plan(text, "f", edits(("extra = max(x, k)", "extra = x")))
        assert splice.note == "lines 2-5 are laid out differently from match"

    @pytest.mark.parametrize(
        "statement",
        [
            "return (\n        x\n        + k\n    )",
            "return x \\\n        + k",
            "return (x + k)",
            "return x+k  # sum",
        ],
    )
    def test_parentheses_continuations_and_spacing_make_no_difference(self, statement):
        assert (
            replaced(f"def f(x, k):\n    {statement}\n", "return x + k", "return 0")
            == "def f(x, k):\n    return 0\n"
        )

    def test_a_one_element_tuple_is_not_its_element(self):
        with pytest.raises(MatchError):
            plan("def f(x):\n    return (\n        x,\n    )\n", "f", edits(("return x", "return 0")))

    def test_a_reflowed_statement_that_stands_twice_is_ambiguous(self):
        text = "def f(x, k):\n    if x:\n        return max(\n            x, k)\n    return max(\n        x, k)\n"
        with pytest.raises(MatchError, match="lines 3 and 5"):
            plan(text, "f", edits(("return max(x, k)", "return 0")))

    def test_a_statement_that_shares_its_line_is_not_cut_out(self):
        with pytest.raises(MatchError):
            plan("def f(x):\n    a = 1; b = 2\n    return a\n", "f", edits(("b = 2", "b = 3")))

    def test_a_match_may_end_inside_an_expression(self):
        text = "def f(a, b):\n    t = g(\n        (a, a * 2 * b),\n        b,\n    )\n    return t\ndef g(*a): return a\n"
        assert replaced(text, "(a, a * 2 * b),", "(\n    a,\n    b,\n),") == (
            "def f(a, b):\n    t = g(\n        (\n            a,\n            b,\n        ),\n        b,\n    )\n"
            "    return t\ndef g(*a): return a\n"
        )

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
    def test_the_replacement_is_taken_literally(self):
        text = "def f(x):\n    s = 'a'\n    return s\n"
        new = r"""return s + "\1 {y} \g<0> %s # ''" """.strip()
        assert replaced(text, "return s", new) == f"def f(x):\n    s = 'a'\n    {new}\n"


class TestDeletions:
    def test_an_emptied_block_gets_a_pass_and_a_note(self):
        text = "def f(x):\n    if x > 3:\n        x = 3\n    return x\n"
        (splice,) = plan(text, "f", edits(("x = 3", "")))
        assert splice.note == "the block at line 3 would be empty, so a pass is put in"
        assert replaced(text, "x = 3", "") == "def f(x):\n    if x > 3:\n        pass\n    return x\n"

    @pytest.mark.parametrize(
        ("text", "match", "expected"),
        [
            ("def f(x):\n    return x\n", "return x", "def f(x):\n    pass\n"),
            ('def f(x):\n    """Doc."""\n    return x\n', "return x", 'def f(x):\n    """Doc."""\n'),
            ("def f(x):\n    # why\n    return x\n", "return x", "def f(x):\n    # why\n    pass\n"),
            (
                "def f(x):\n    if x:\n        a = 1\n    else:\n        a = 2\n    return 1\n",
                "a = 2",
                "def f(x):\n    if x:\n        a = 1\n    else:\n        pass\n    return 1\n",
            ),
            (
                "def f(x):\n    if x:\n        a = 1\n    elif f:\n        a = 2\n    return 1\n",
                "elif f:\n    a = 2",
                "def f(x):\n    if x:\n        a = 1\n    return 1\n",
            ),
            (
                "def f(x):\n    if x:\n        a = 1\n    else:\n        a = 2\n    return 1\n",
                "else:\n    a = 2",
                "def f(x):\n    if x:\n        a = 1\n    return 1\n",
            ),
            (
                "def f(x):\n    try:\n        a = 1\n    except E:\n        b = 1\n    finally:\n        c = 1\nE = OSError",
                "c = 1",
                "def f(x):\n    try:\n        a = 1\n    except E:\n        b = 1\n    finally:\n        pass\nE = OSError",
            ),
            (
                "def f(x):\n    match x:\n        case 1:\n            a = 1\n        case _:\n            b = 1\n",
                "a = 1",
                "def f(x):\n    match x:\n        case 1:\n            pass\n        case _:\n            b = 1\n",
            ),
            ("def f(x):\n    # why\n    return x\n", "# why\nreturn x", "def f(x):\n    pass\n"),
            ("def f(x):\n    for i in x:\n        i()", "i()", "def f(x):\n    for i in x:\n        pass"),
        ],
    )
    def test_blocks_of_every_kind(self, text, match, expected):
        assert replaced(text, match, "") == expected

    def test_two_deletions_that_empty_a_block_together(self):
        text = "def f(x):\n    if x:\n        a = 1\n        b = 2\n    return x\n"
        assert edited(text, "f", edits(("a = 1", ""), ("b = 2", ""))) == (
            "def f(x):\n    if x:\n        pass\n    return x\n"
        )

    def test_a_comment_is_no_statement(self):
        text = "def f(x):\n    if x:\n        x = 1\n    return x\n"
        assert replaced(text, "x = 1", "# nothing") == (
            "def f(x):\n    if x:\n        # nothing\n        pass\n    return x\n"
        )

    def test_a_whole_statement_with_its_block_goes_without_a_pass(self):
        text = "def f(x):\n    if x:\n        x = 1\n    return x\n"
        assert replaced(text, "if x:\n    x = 1", "") == "def f(x):\n    return x\n"


class TestPreamble:
    def put(self, text: str, preamble: str = "import math", qualname: str = "f") -> str:
        return edited(text, qualname, edits(preamble=preamble))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (SIMPLE, "def f(x):\n    import math\n    y = x + 1\n    return y\n"),
            (
                'def f(x):\n    """Doc."""\n    return x\n',
                'def f(x):\n    """Doc."""\n    import math\n    return x\n',
            ),
            ('def f(x):\n    """Doc."""\n', 'def f(x):\n    """Doc."""\n    import math\n'),
            ('def f(x):\n    """Doc."""', 'def f(x):\n    """Doc."""\n    import math'),
            (
                'def f(\n    x: "dict[str:int]",\n) -> int:  # note:\n    """Doc: a."""\n    return x\n',
                'def f(\n    x: "dict[str:int]",\n) -> int:  # note:\n    """Doc: a."""\n    import math\n    return x\n',
            ),
            ("def f(x): return x\n", "def f(x): \n    import math\n    return x\n"),
            ("def f(x): a = x; return a\n", "def f(x): \n    import math\n    a = x; return a\n"),
            ('def f(x): "Doc."; return x\n', 'def f(x): \n    "Doc."; \n    import math\n    return x\n'),
            ('def f(x): "Doc."\n', 'def f(x): \n    "Doc."\n    import math\n'),
            ('def f(x):\n    """D."""; y = x\n', 'def f(x):\n    """D."""; \n    import math\n    y = x\n'),
            ("def f(x): 'é'; return x\n", "def f(x): \n    'é'; \n    import math\n    return x\n"),
            (
                "def f(x):\n    @staticmethod\n    def g(): pass\n    return g\n",
                "def f(x):\n    import math\n    @staticmethod\n    def g(): pass\n    return g\n",
            ),
        ],
    )
    def test_it_is_first_in_the_body_after_the_docstring(self, text, expected):
        assert self.put(text) == expected

    def test_in_a_module_it_follows_docstring_and_future_imports(self):
        text = '"""Doc."""\n\nfrom __future__ import annotations\n\nX = 1\n'
        assert self.put(text, qualname="") == (
            '"""Doc."""\n\nfrom __future__ import annotations\n\nimport math\nX = 1\n'
        )

    def test_it_goes_with_edits_of_the_same_function(self):
        result = edited(SIMPLE, "f", edits(("y = x + 1", "y = math.pi"), preamble="import math"))
        assert result == "def f(x):\n    import math\n    y = math.pi\n    return y\n"

    @pytest.mark.parametrize(
        ("text", "match", "new", "expected"),
        [
            (
                "def f(x): return x\n",
                "def f(x): return x",
                "def f(x): return 2",
                "def f(x): \n    import math\n    return 2\n",
            ),
            (
                SIMPLE,
                "def f(x):\n    y = x + 1",
                "def f(x, z=1):\n    y = z",
                "def f(x, z=1):\n    import math\n    y = z\n    return y\n",
            ),
        ],
    )
    def test_it_goes_into_an_edit_that_rewrites_the_header(self, text, match, new, expected):
        assert edited(text, "f", edits((match, new), preamble="import math")) == expected

    def test_a_lambda_has_no_body_for_it(self):
        with pytest.raises(UnsupportedTargetError, match="no body for a preamble"):
            plan("key = lambda r: r\n", "key", edits(preamble="import math"))


class TestSeveralDefinitions:
    BRANCHES = "if 1:\n    def f(x):\n        y = x\n        return y\nelse:\n    def f(x):\n        y = x\n        return -y\n"

    def test_an_edit_goes_into_every_branch_that_holds_it(self):
        assert replaced(self.BRANCHES, "y = x", "y = 0") == self.BRANCHES.replace("y = x", "y = 0")

    def test_it_goes_into_the_only_branch_that_holds_it(self):
        assert replaced(self.BRANCHES, "return -y", "return 0") == self.BRANCHES.replace(
            "return -y", "return 0"
        )

    def test_the_line_of_the_running_code_picks_the_branch(self):
        splices = plan(self.BRANCHES, "f", edits(("y = x", "y = 0")), line=6)
        assert [splice.start for splice in splices] == [self.BRANCHES.rindex("        y = x")]

    def test_it_is_an_error_when_no_branch_holds_it(self):
        with pytest.raises(MatchError):
            plan(self.BRANCHES, "f", edits(("y = x + 2", "y = 0")))

    @pytest.mark.parametrize("line", [1, 3, 99])
    def test_a_line_where_nothing_is_defined_means_a_changed_file(self, line):
        with pytest.raises(StaleSourceError, match=f"begins at line {line} of hc.py") as caught:
            plan(self.BRANCHES, "f", edits(("y = x", "y = 0")), line=line)
        assert "hc.f" in str(caught.value)


class TestAssignedNames:
    FACTORY = "def make(k):\n    def scaled(x):\n        return x * k\n    return scaled\ntriple = make(3)\n"

    def test_the_assignment_itself_comes_first(self):
        assert replaced("key = lambda r: r[1]\n", "key = lambda r: r[1]", "key = lambda r: r[0]", "key") == (
            "key = lambda r: r[0]\n"
        )
        assert replaced(
            self.FACTORY, "triple = make(3)", "triple = make(4)", "triple"
        ) == self.FACTORY.replace("3)", "4)")

    def test_a_closure_is_edited_where_its_factory_defines_it(self):
        (splice,) = plan(self.FACTORY, "triple", edits(("return x * k", "return x")))
        assert splice.note == "defined as make.<locals>.scaled"
        assert replaced(self.FACTORY, "return x * k", "return x", "triple") == self.FACTORY.replace(
            "x * k", "x"
        )

    def test_an_alias_is_edited_where_its_function_is(self):
        text = "def f(x):\n    return x\ng = f\n"
        assert replaced(text, "return x", "return -x", "g") == text.replace("return x", "return -x")

    def test_a_text_that_is_nowhere_is_reported_for_the_name_asked_for(self):
        with pytest.raises(MatchError, match=r"hc\.triple: edit 1"):
            plan(self.FACTORY, "triple", edits(("return nothing", "return x")))


class TestWithoutATree:
    """`plan_lines` decides alone only where no syntax tree could change the result."""

    def quick(self, patch, text=SIMPLE):
        return plan_lines(make_source(text).lines, 1, text.count("\n"), "hc.f", patch, "1")

    def test_one_exact_place_is_enough(self):
        patch = edits(("y = x + 1", "y = x"), ("return y", "return -y"))
        assert self.quick(patch) == plan(SIMPLE, "f", patch)

    @pytest.mark.parametrize(
        ("text", "patch"),
        [
            (SIMPLE, edits(preamble="import math")),
            (SIMPLE, edits(("y = x + 1", "y = x"), preamble="import math")),
            (SIMPLE, Patch("hc.f", diff="@@ -1 +1 @@\n-a\n+b\n")),
            (SIMPLE, edits(("y = x + 2", "y = x"))),
            (SIMPLE, edits(("y = x + 1", "y = x"), occurrence=2)),
            ("def f(x):\n    x()\n    x()\n", edits(("x()", "y = x"))),
            ("def f(x):\n    if x:\n        x()\n", edits(("x()", ""))),
            ("def f(x):\n    if x:  # why\n        x()\n", edits(("x()", ""))),
            ('def f(x):\n    y = """\n    """\n', edits(('y = """', "x = 1"), mode="append")),
        ],
    )
    def test_everything_else_is_left_to_the_tree(self, text, patch):
        assert self.quick(patch, text) is None


class TestBrokenResults:
    @pytest.mark.parametrize(
        "new",
        ["return (", "else:", "  return x\n return y", "return x = 2", 'text = """', "return\x00"],
    )
    def test_an_edit_that_breaks_the_syntax_is_refused(self, new):
        with pytest.raises(EditError, match=r"hc\.f: with toggle 1 "):
            edited(SIMPLE, "f", edits(("y = x + 1", new)))

    def test_a_deletion_that_takes_half_a_header_is_refused(self):
        with pytest.raises(EditError, match="no valid Python"):
            replaced("def f(\n    x,\n):\n    a = 1\n", "    x,\n):\n    a = 1", "")

    def test_an_edit_that_swallows_a_neighbour_is_refused(self):
        text = 'def f(x):\n    return x\n\ndef g():\n    return 2  # """\n\ndef h():\n    return 3\n'
        with pytest.raises(EditError, match="left open"):
            edited(text, "f", edits(("return x", 'return """')))

    def test_a_value_patch_is_no_edit_of_text(self):
        with pytest.raises(EditError, match="value patch changes an object"):
            plan(SIMPLE, "f", Patch("hc.f", value=3))
