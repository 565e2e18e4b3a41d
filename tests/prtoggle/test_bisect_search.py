"""What the search finds, and in how many tests: laws over made-up commands, without a process."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prtoggle.bisect.conversation import NOTHING, Finding, Known, judged_together, replay, upcoming
from prtoggle.bisect.search import search
from prtoggle.bisect.space import Space
from prtoggle.bisect.verdicts import Verdict

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN
SIXTY = tuple(f"t{number}" for number in range(60))


def find(space: Space, command, *, reach=None, unmask: bool = False) -> tuple[Finding, list[frozenset[str]]]:
    """The finding for a command (a function of the reverted set), and the sets that it was run with."""
    ran: list[frozenset[str]] = []
    known: dict[frozenset[str], Known] = {}

    def lookup(toggles):
        if toggles not in known:
            ran.append(toggles)
            known[toggles] = Known(command(toggles), NOTHING if reach is None else toggles & reach)
        return known[toggles]

    found = replay(lambda: search(space, unmask=unmask), lookup)
    assert isinstance(found, Finding)
    return found, ran


def fails_with(*culprits: str):
    return lambda toggles: FAIL if set(culprits) <= toggles else PASS


def check_minimal(found: Finding, space: Space, command) -> None:
    """The cause was tested, changes the verdict, and does not without any of its members."""
    base = command(NOTHING)
    assert command(found.cause) is base.opposite
    assert found.cause in found.asked
    assert list(found.members) == space.ordered(found.cause)
    for member, verdict in found.members.items():
        rest = space.without(found.cause, [member])
        assert rest in found.asked
        assert command(rest) is verdict is not base.opposite


@pytest.mark.parametrize("base", [PASS, FAIL])
def test_one_cause_of_sixty_is_located_within_the_bound_and_confirmed_by_at_most_one_more_test(base):
    for culprit in SIXTY:
        command = lambda toggles, it=culprit: base.opposite if it in toggles else base  # noqa: E731
        found, ran = find(Space(SIXTY), command)
        assert (found.outcome, found.cause, found.single) == ("cause", {culprit}, True)
        assert found.located <= math.log2(60) + 3
        assert len(ran) <= found.located + 1 <= 9
        check_minimal(found, Space(SIXTY), command)


def test_one_cause_takes_ceil_of_log2_and_two_ends_for_every_size():
    for size in range(1, 34):
        ids = SIXTY[:size]
        most = max(find(Space(ids), fails_with(culprit))[0].located for culprit in ids)
        assert most <= 2 + math.ceil(math.log2(size))


def ddmin_tests(ids: tuple[str, ...], fails) -> int:
    """How many different sets plain delta debugging tests (Zeller and Hildebrandt 2002), ends included."""
    seen = {NOTHING, frozenset(ids)}

    def failing(part) -> bool:
        seen.add(frozenset(part))
        return fails(frozenset(part))

    left, pieces = list(ids), 2
    while len(left) >= 2:
        parts = [left[len(left) * i // pieces : len(left) * (i + 1) // pieces] for i in range(pieces)]
        rests = [[item for item in left if item not in part] for part in parts]
        part = next((part for part in parts if failing(part)), None)
        rest = None if part else next((rest for rest in rests if failing(rest)), None)
        if part:
            left, pieces = part, 2
        elif rest:
            left, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(left):
            break
        else:
            pieces = min(2 * pieces, len(left))
    return len(seen)


def test_a_pair_of_sixty_takes_at_most_22_tests_and_on_average_fewer_than_ddmin():
    ours, theirs = [], []
    for pair in random.Random(1).sample(list(itertools.combinations(SIXTY, 2)), 300):
        found, ran = find(Space(SIXTY), fails_with(*pair))
        assert found.cause == set(pair)
        assert not found.single
        check_minimal(found, Space(SIXTY), fails_with(*pair))
        ours.append(len(ran))
        theirs.append(ddmin_tests(SIXTY, lambda toggles, them=frozenset(pair): them <= toggles))

    assert max(ours) <= 22 < max(theirs)
    assert sum(ours) < 0.7 * sum(theirs)


@given(st.sets(st.integers(0, 19), min_size=1, max_size=5), st.integers(0, 7), st.sampled_from([PASS, FAIL]))
def test_any_set_that_works_together_is_found_exactly(culprits, more, base):
    ids = SIXTY[: max(culprits) + 1 + more]
    cause = {f"t{number}" for number in culprits}

    def command(toggles):
        return base.opposite if cause <= toggles else base

    found, ran = find(Space(ids), command)
    assert found.cause == cause
    assert len(ran) == len(set(ran)), "a set is tested once"
    assert len(ran) <= (len(cause) + 1) * (math.ceil(math.log2(len(ids))) + 2) + 2
    check_minimal(found, Space(ids), command)


@given(st.data())
def test_whatever_the_command_does_an_answer_was_tested_and_is_minimal(data):
    """Arbitrary verdicts: masking, cancelling, cannot say. Nothing monotone is promised."""
    ids = SIXTY[: data.draw(st.integers(1, 7))]
    verdicts = {
        frozenset(chosen): data.draw(st.sampled_from([PASS, FAIL, UNKNOWN] if chosen else [PASS, FAIL]))
        for size in range(len(ids) + 1)
        for chosen in itertools.combinations(ids, size)
    }
    found, ran = find(Space(ids), verdicts.__getitem__, unmask=data.draw(st.booleans()))
    if found.outcome == "cause":
        check_minimal(found, Space(ids), verdicts.__getitem__)
    else:
        base = verdicts[NOTHING]
        assert all(verdicts[toggles] is not base.opposite for toggles in ran)
        assert frozenset(ids) in ran
    assert len(ran) == len(set(ran))


@given(st.data())
def test_tested_sets_are_closed_under_requires_and_free_of_conflicts(data):
    ids = SIXTY[: data.draw(st.integers(2, 9))]
    requires = {
        toggle_id: data.draw(st.sets(st.sampled_from(ids[:place]), max_size=2)) if place else set()
        for place, toggle_id in enumerate(ids)
    }
    free = Space(ids, requires)
    pairs = [frozenset(pair) for pair in itertools.combinations(ids, 2)]
    conflicts = {
        pair
        for pair in data.draw(st.sets(st.sampled_from(pairs), max_size=4))
        if not any(pair <= free.close([toggle_id]) for toggle_id in ids)
    }
    space = Space(data.draw(st.permutations(ids)), requires, conflicts)
    culprit = data.draw(st.sampled_from(ids))
    command = fails_with(culprit)
    found, ran = find(space, command)

    for toggles in ran:
        assert space.close(toggles) == toggles
        assert not [pair for pair in conflicts if pair <= toggles]
    assert found.cause == space.close([culprit])
    check_minimal(found, space, command)


@given(st.data())
def test_the_far_ends_are_largest_sets_and_hold_every_toggle(data):
    ids = SIXTY[: data.draw(st.integers(1, 8))]
    pairs = [frozenset(pair) for pair in itertools.combinations(ids, 2)]
    conflicts = data.draw(st.sets(st.sampled_from(pairs), max_size=6)) if pairs else set()
    space = Space(ids, {}, conflicts)
    tops = space.tops()

    assert frozenset().union(*tops) == set(ids)
    assert len(tops) == len(set(tops)) <= len(ids)
    for top in tops:
        assert space.compatible(top)
        assert not [other for other in set(ids) - top if space.compatible(top | {other})]


def test_toggles_that_exclude_each_other_are_each_at_an_end():
    space = Space(SIXTY, {}, {frozenset(("t3", "t50"))})
    for culprit in ("t3", "t50"):
        found, ran = find(space, fails_with(culprit))
        assert found.cause == {culprit}
        assert not any({"t3", "t50"} <= toggles for toggles in ran)
    assert len(find(space, lambda _toggles: PASS)[1]) == 3


def test_a_culprit_that_only_the_second_end_holds_is_found_at_once():
    space = Space(SIXTY, {}, {frozenset(("t0", "t59"))})
    found, ran = find(space, fails_with("t59"))
    assert found.cause == {"t59"}
    assert len(ran) == 4


def test_ends_that_agree_are_no_cause_after_two_tests():
    for verdict in (PASS, FAIL):
        found, ran = find(Space(SIXTY), lambda _toggles, it=verdict: it)
        assert (found.outcome, found.cause, ran) == ("agree", NOTHING, [NOTHING, frozenset(SIXTY)])


def masked(toggles):
    """t7 makes it fail; t40 hides that."""
    return FAIL if "t7" in toggles and "t40" not in toggles else PASS


def test_a_masked_cause_is_found_when_asked_for_and_the_ends_are_told_to_agree_otherwise():
    assert find(Space(SIXTY), masked)[0].outcome == "agree"
    found, ran = find(Space(SIXTY), masked, unmask=True)
    assert found.cause == {"t7"}
    assert len(ran) <= 2 * 60


#: t0 to t2 require the next one, t4 and t5 exclude each other, and so do t6 and t2: no end holds t0 and t5.
APART = Space(
    SIXTY[:8],
    {"t0": ["t1"], "t1": ["t2"]},
    {frozenset(("t4", "t5")), frozenset(("t6", "t2"))},
)


def test_a_pair_that_no_end_holds_is_tested_on_request():
    pairs = [frozenset(pair) for pair in itertools.combinations(APART.order, 2)]
    possible = [pair for pair in pairs if APART.compatible(APART.close(pair))]
    assert APART.apart() == [pair for pair in APART.apart() if pair in possible]
    assert {pair for pair in possible if not any(pair <= top for top in APART.tops())} == set(APART.apart())
    assert APART.apart()
    for pair in possible:
        found, _ = find(APART, fails_with(*pair), unmask=True)
        assert found.cause == APART.close(pair)
        check_minimal(found, APART, fails_with(*pair))
        if pair in APART.apart():
            assert find(APART, fails_with(*pair))[0].outcome == "agree"


@pytest.mark.parametrize(("size", "left"), [(3, 0), (10, 70)])
def test_the_pairs_that_no_end_holds_are_tested_as_long_as_they_are_few(size, left):
    """One of `size` goes with one of `size` others: each end is a pair."""
    sides = SIXTY[:size], SIXTY[size : 2 * size]
    clashes = {frozenset(pair) for side in sides for pair in itertools.combinations(side, 2)}
    space = Space(SIXTY[: 2 * size], {}, clashes)
    found, ran = find(space, lambda _toggles: PASS, unmask=True)

    assert found.outcome == "nothing"
    assert len(space.apart()) == size * size - size
    untested = [pair for pair in space.apart() if not judged_together(found.asked, pair)]
    assert untested == [pair for pair in space.apart() if pair not in ran]
    assert len(untested) == left


def test_a_mask_inside_of_the_search_does_not_mislead_it():
    def command(toggles):
        hidden = "t7" in toggles and "t8" in toggles and "t59" not in toggles
        return FAIL if "t7" in toggles and not hidden else PASS

    found, _ = find(Space(SIXTY), command)
    check_minimal(found, Space(SIXTY), command)


def test_a_build_that_cannot_be_judged_as_it_is_ends_the_search():
    found, ran = find(Space(SIXTY), lambda toggles: PASS if toggles else UNKNOWN)
    assert (found.outcome, ran) == ("unjudged", [NOTHING])


@pytest.mark.parametrize("spoiler", ["t0", "t29", "t30", "t59"])
def test_a_toggle_that_spoils_every_run_with_it_is_searched_around(spoiler):
    counts = []
    for culprit in SIXTY:
        if culprit == spoiler:
            continue
        found, ran = find(
            Space(SIXTY),
            lambda toggles, it=culprit: UNKNOWN if spoiler in toggles else FAIL if it in toggles else PASS,
        )
        assert found.cause == {culprit}
        counts.append(len(ran))
    assert max(counts) <= 20


def test_when_everything_but_a_spoiler_is_innocent_that_is_said_in_few_tests():
    found, ran = find(Space(SIXTY), lambda toggles: UNKNOWN if "t9" in toggles else PASS)
    assert found.outcome == "nothing"
    assert frozenset(SIXTY) - {"t9"} in ran
    assert len(ran) <= 2 + 2 * 6 + 1


def find_with_blame(command, spoilers: set[str]) -> tuple[Finding, int]:
    """The finding where each run that cannot say names one of the toggles that spoil it, and its tests."""
    known: dict[frozenset[str], Known] = {}

    def lookup(toggles):
        if toggles not in known:
            bad = sorted(toggles & spoilers)
            verdict = UNKNOWN if bad else command(toggles)
            known[toggles] = Known(verdict, blamed=frozenset(bad[:1]))
        return known[toggles]

    found = replay(lambda: search(Space(SIXTY)), lookup)
    assert isinstance(found, Finding)
    return found, len(known)


def test_toggles_that_a_run_names_as_not_in_effect_cost_one_test_each():
    spoilers = {"t1", "t20", "t35", "t58"}
    for culprit in SIXTY:
        found, tests = find_with_blame(fails_with(culprit), spoilers)
        if culprit in spoilers:
            # Every toggle was judged together with the others or alone, so that nothing is left to try.
            assert (found.outcome, tests) == ("nothing", 2 + 2 * len(spoilers))
        else:
            assert found.cause == {culprit}
            assert tests <= 9 + len(spoilers)


def test_a_toggle_that_was_blamed_wrongly_is_still_found():
    known = {}

    def lookup(toggles):
        spoilt = {"t7", "t8"} <= toggles
        verdict = UNKNOWN if spoilt else FAIL if "t7" in toggles else PASS
        known[toggles] = Known(verdict, blamed=frozenset(("t7",)) if spoilt else NOTHING)
        return known[toggles]

    found = replay(lambda: search(Space(SIXTY)), lookup)
    assert isinstance(found, Finding)
    assert found.cause == {"t7"}
    assert len(known) == 4


def test_a_member_without_which_the_command_cannot_say_is_told_to_be_undecided():
    def command(toggles):
        if len(toggles & {"t1", "t2"}) == 1:
            return UNKNOWN
        return FAIL if "t1" in toggles else PASS

    found, _ = find(Space(SIXTY[:4]), command)
    assert found.cause == {"t1", "t2"}
    assert found.members == {"t1": UNKNOWN, "t2": UNKNOWN}


def test_toggles_whose_code_never_ran_are_not_looked_at_first():
    reach = frozenset(SIXTY[40:44])
    for culprit in sorted(reach):
        found, ran = find(Space(SIXTY), fails_with(culprit), reach=reach)
        assert found.cause == {culprit}
        assert len(ran) <= 2 + 2 + 1


def test_a_cause_that_no_report_saw_is_found_all_the_same():
    found, ran = find(Space(SIXTY), fails_with("t3", "t20"), reach=frozenset(SIXTY[40:]))
    assert found.cause == {"t3", "t20"}
    assert len(ran) <= 30


def test_what_a_toggle_requires_goes_with_it_and_comes_first_in_the_order():
    space = Space(("a", "b", "c"), {"a": ["c"], "c": ["b"]})
    assert space.ordered("abc") == ["b", "c", "a"]
    assert space.close("a") == {"a", "b", "c"}
    assert space.without(frozenset("abc"), "b") == NOTHING
    assert space.without(frozenset("abc"), "c") == {"b"}
    found, _ = find(space, fails_with("a"))
    assert found.cause == {"a", "b", "c"}
    assert found.members == dict.fromkeys("bca", PASS)


def test_toggles_that_require_each_other_are_one_cause():
    space = Space(("a", "b", "c"), {"a": ["b"], "b": ["a"]})
    assert find(space, fails_with("a"))[0].cause == {"a", "b"}


@given(st.integers(1, 8), st.sets(st.integers(0, 30), min_size=1, max_size=3))
def test_what_is_tested_ahead_of_time_holds_what_is_needed_next(count, culprits):
    """Whatever `count` is, the tests that the answer rests on are the same, and the answer is."""
    space = Space(SIXTY[:31])
    command = fails_with(*(f"t{number}" for number in culprits))
    known: dict[frozenset[str], Known] = {}
    while not isinstance(wanted := upcoming(lambda: search(space), known.get, count), Finding):
        assert 1 <= len(wanted) <= count
        assert wanted[0] == upcoming(lambda: search(space), known.get, 1)[0]
        for toggles in wanted:
            known[toggles] = Known(command(toggles))
    alone, ran = find(space, command)
    assert (wanted.cause, list(wanted.asked)) == (alone.cause, ran)
    assert set(ran) <= known.keys()
