"""Splices of several toggles combine in any order, or are refused with both names."""

from __future__ import annotations

import itertools
from itertools import chain

import pytest

from prtoggle.errors import EditOverlapError
from prtoggle.source.splices import Rank, Splice, apply_splices, edited_line_map, merge
from tests.prtoggle.planned_edits import edits, plan

TEXT = "def f(x):\n    a = 1\n    b = 2\n    c = 3\n    return a\n"


def of(toggle_id: str, match: str, text: str, mode: str = "replacement") -> list[Splice]:
    return list(plan(TEXT, "f", edits((match, text), mode=mode), toggle_id=toggle_id))


def test_toggles_on_separate_lines_give_one_text_in_any_order():
    parts = [
        of("1", "a = 1", "a = 7"),
        of("2", "b = 2", ""),
        of("3", "c = 3", "d = 4", "append"),
        of("4", "b = 2\n", "z = 0", "prepend"),
    ]
    parts.pop()
    results = {
        apply_splices(TEXT, merge(chain.from_iterable(order))) for order in itertools.permutations(parts)
    }
    assert results == {"def f(x):\n    a = 7\n    c = 3\n    d = 4\n    return a\n"}


def test_texts_at_one_offset_follow_each_other_by_what_they_are_about():
    parts = [
        of("1", "a = 1", "after_a = 1", "append"),
        of("2", "b = 2", "before_b = 1", "prepend"),
        of("3", "b = 2", "b = 3"),
    ]
    with pytest.raises(EditOverlapError):
        merge(chain.from_iterable(parts))
    expected = "def f(x):\n    a = 1\n    after_a = 1\n    before_b = 1\n    b = 2\n    c = 3\n    return a\n"
    for order in itertools.permutations(parts[:2]):
        assert apply_splices(TEXT, merge(chain.from_iterable(order))) == expected


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("b = 2", "b = 3", "replacement"), ("b = 2", "b = 4", "replacement")),
        (("a = 1\nb = 2", "", "replacement"), ("b = 2\nc = 3", "", "replacement")),
        (("a = 1\nb = 2\nc = 3", "x = 1", "replacement"), ("b = 2", "y = 1", "append")),
        (("b = 2", "x = 1", "append"), ("b = 2", "b = 3", "replacement")),
        (("b = 2", "x = 1", "append"), ("b = 2", "y = 1", "append")),
        (("b = 2", "x = 1", "prepend"), ("b = 2", "y = 1", "prepend")),
    ],
)
def test_toggles_that_want_the_same_lines_are_refused_both_named(one, two):
    splices = of("26972", *one) + of("31616", *two)
    for order in (splices, splices[::-1]):
        with pytest.raises(EditOverlapError) as caught:
            merge(order)
        assert sorted(caught.value.toggles) == ["26972", "31616"]
        assert "26972" in str(caught.value)
        assert "31616" in str(caught.value)
        assert "hc.f" in str(caught.value)


def test_two_edits_of_one_toggle_may_not_overlap_either():
    with pytest.raises(EditOverlapError, match="Edits of one toggle"):
        plan(TEXT, "f", edits(("b = 2", "b = 3"), ("a = 1\nb = 2", "b = 4")))


def test_before_and_after_one_line_go_together():
    both = of("1", "b = 2", "x = 1", "prepend") + of("2", "b = 2", "y = 1", "append")
    assert "    x = 1\n    b = 2\n    y = 1\n" in apply_splices(TEXT, merge(both))


def test_the_same_splice_twice_counts_once():
    splices = of("1", "b = 2", "x = 1", "append")
    assert merge(splices * 2) == tuple(splices)


def test_preambles_of_several_toggles_follow_their_ids():
    parts = [list(plan(TEXT, "f", edits(preamble=f"import m{n}"), toggle_id=str(n))) for n in (2, 1)]
    assert apply_splices(TEXT, merge(chain.from_iterable(parts))).splitlines()[1:3] == [
        "    import m1",
        "    import m2",
    ]


class TestLineMap:
    @pytest.mark.parametrize(
        ("match", "text", "mode", "lines"),
        [
            ("b = 2", "b = 3", "replacement", (3, 3)),
            ("b = 2", "if x:\n    b = 3\n# end", "replacement", (3, 4)),
            ("b = 2", "x = 1\ny = 1", "prepend", (3, 4)),
            ("b = 2", "x = 1\ny = 1", "append", (4, 5)),
            ("b = 2", "", "replacement", (3, 3)),
            ("c = 3\nreturn a", "", "replacement", (3, 3)),
        ],
    )
    def test_a_splice_shows_at_these_lines_of_the_edited_text(self, match, text, mode, lines):
        (where,) = edited_line_map(TEXT, merge(of("1", match, text, mode)))
        assert (where.first, where.last) == lines

    def test_earlier_splices_move_later_ones(self):
        splices = merge(of("1", "a = 1", "a = 1\na = 2\na = 3") + of("2", "c = 3", "c = 4"))
        assert [(where.first, where.last) for where in edited_line_map(TEXT, splices)] == [(2, 4), (6, 6)]

    def test_a_deletion_shows_at_the_statement_that_follows(self):
        text = "def f(x):\n    a = 1\n\n    # note\n    return a\n"
        splices = plan(text, "f", edits(("a = 1", "")))
        assert [(where.first, where.last) for where in edited_line_map(text, splices)] == [(4, 4)]
        assert splices[0].is_deletion


def test_a_replacement_is_no_deletion_and_comments_are_no_code():
    assert not of("1", "b = 2", "b = 3")[0].is_deletion
    assert of("1", "b = 2", "# gone")[0].is_deletion
    assert not of("1", "b = 2", "x = 1", "append")[0].is_deletion
    assert of("1", "b = 2", "x = 1", "append")[0].rank is Rank.APPEND
