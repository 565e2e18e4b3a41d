"""What `prtoggle bisect` prints when it has searched: the tests as a table, then the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from prtoggle.bisect.verdicts import Verdict
from prtoggle.cli.bisect_progress import LISTED, STYLE, counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from prtoggle.bisect.answer import Answer
    from prtoggle.bisect.range_toggles import Commits, LeftCommit
    from prtoggle.bisect.records import RunRecord

_SET_WIDTH: Final = 28


def print_answer(out: Console, answer: Answer, by_hand: tuple[str, str], commits: Commits | None) -> None:
    """The tests as a table, then the answer, how sure it is, and what was not searched."""
    out.print(_table(answer, out.width))
    for text, style in _sentences(answer, by_hand, commits):
        out.print(text, style=style, soft_wrap=True)


def _table(answer: Answer, width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("test", "reverted", "verdict", "fails", "time"):
        table.add_column(heading, overflow="ellipsis", no_wrap=True, max_width=_SET_WIDTH)
    # One line a test: the cause's own ending is told in full below the table.
    rest = max(16, width - _SET_WIDTH - len("test  cannot say  10/10  1000.0 s  ") - 1)
    table.add_column("how it ended", overflow="ellipsis", no_wrap=True, max_width=rest)
    for number, (toggles, known) in enumerate(answer.finding.asked.items(), 1):
        runs = answer.ledger.runs_of(toggles)
        failed, count = answer.ledger.failures(toggles)
        deciding = next((run for run in runs if run.verdict is known.verdict), None)
        table.add_row(
            str(number),
            listed(answer.space, toggles),
            Text(known.verdict.value, style=STYLE[known.verdict]),
            f"{failed}/{count}",
            f"{sum(run.seconds for run in runs):.1f} s",
            _ending(deciding) if deciding else "not run: they do not go together",
        )
    return table


def _ending(run: RunRecord) -> str:
    # What a run that passed printed last tells nothing.
    told = run.last_line if run.verdict is not Verdict.PASS else ""
    return f"{run.how}: {told}" if told else run.how


Line = tuple[str, str]


def _sentences(answer: Answer, by_hand: tuple[str, str], commits: Commits | None) -> Iterable[Line]:
    yield from _not_searched(answer, commits)
    yield "", ""
    if answer.outcome == "cause":
        yield from _cause(answer, by_hand, commits)
    elif answer.outcome == "unseen":
        yield from _unseen(answer)
    elif answer.outcome == "unsteady":
        yield from _unsteady(answer)
    else:
        yield from _no_cause(answer, commits)
    yield from _doubts(answer)
    yield _cost(answer), ""


def _cause(answer: Answer, by_hand: tuple[str, str], commits: Commits | None) -> Iterable[Line]:
    cause = answer.cause
    own, required = len(answer.own), len(cause) - len(answer.own)
    what = f"{own} fixes together" if own > 1 else "one fix"
    if required:
        what += f", with {required} that {'they require' if own > 1 else 'it requires'}"
    without = "them" if len(cause) > 1 else "it"
    yield f"cause: {what}; {_change(answer)} without {without}", "bold"
    for toggle in cause:
        yield f"  {toggle.id}  {toggle.title or '(no title)'}", "bold cyan"
        sha = commits.shas[toggle.id][:12] if commits else ""
        for name, text in (
            ("required by", ", ".join(answer.required_by(toggle.id))),
            ("commit", sha),
            ("links", ", ".join(toggle.links)),
            ("symptom", " ".join(toggle.symptom.split())),
        ):
            if text:
                yield f"      {name}: {text}", ""
    if answer.symptom:
        yield f"  seen: {answer.symptom}", ""
    if own > 1 and not answer.undecided:
        of_what = "of them" if not required else f"of {', '.join(answer.own)}"
        yield f"  each {of_what} is needed: with any one left in, the verdict is as before", ""
    if required:
        yield (
            "  what is required cannot stay in while the others are out: whether it matters is not known",
            "",
        )
    yield "see it by hand:", ""
    yield f"  {answer.base}:  {by_hand[0]}", ""
    yield f"  {answer.base.opposite}:  {by_hand[1]}", ""


def _unseen(answer: Answer) -> Iterable[Line]:
    ids = ", ".join(toggle.id for toggle in answer.cause)
    yield f"no cause: {_change(answer)} with {ids} reverted, but no process reported that in effect", "yellow"
    if not answer.nobody_reported:
        yield "  no run of that set loaded the code that is reverted, so it made no difference there", ""
    yield "  does the command look at PRTOGGLE itself, or does its verdict change by itself (--repeat)?", ""


def _unsteady(answer: Answer) -> Iterable[Line]:
    ids = ", ".join(toggle.id for toggle in answer.cause)
    last = answer.ledger.closings[-1]
    what, first = (
        (f"{ids} reverted", answer.base.opposite) if last.toggles else ("nothing reverted", answer.base)
    )
    yield f"no cause: {what}, the command {first} at first; after the search: {last.verdict}", "yellow"
    yield f"  so the runs that led to {ids} tell nothing: it keeps state, or fails now and then", ""
    yield f"  the run after the search: {_ending(last)}", ""
    yield "  let each run begin anew (its files, caches, servers), or repeat runs: --repeat", ""


def _change(answer: Answer) -> str:
    return f"the command {answer.base} as it is, and {answer.base.opposite}"


def _no_cause(answer: Answer, commits: Commits | None) -> Iterable[Line]:
    what = "commits that can be toggles" if commits else "toggles"
    outcome = answer.finding.outcome
    if outcome == "unjudged":
        yield "no answer: the command cannot say anything of the build as it is", "yellow"
        return
    if outcome == "agree":
        base = answer.base.value
        yield f"no cause: the command {base} with nothing reverted, and with all reverted", "yellow"
        yield f"  either the cause is not among these {what},", ""
        yield "  or one revert masks what another one does: --unmask looks into smaller sets,", ""
        yield "  or they differ in how they end: --match tells one failure from another", ""
        for end in [end for end in answer.ends if end]:
            last = answer.ledger.runs_of(end)[-1]
            told = f"{last.how}: {last.last_line}" if last.status else last.how
            yield f"  {listed(answer.space, end)} reverted: {told}", ""
        rates = [answer.ledger.failures(end) for end in answer.ends]
        if len(set(rates)) > 1:
            told = ", ".join(f"{failed} of {runs}" for failed, runs in rates)
            yield f"  the ends fail at different rates ({told}); one failing run makes a set fail", "yellow"
    else:
        yield f"no cause: among these {what}, none of the sets that were tested changes the verdict", "yellow"
    yield from _not_together(answer)
    if commits is not None and answer.base is Verdict.PASS:
        yield "  the command passes on the bad build: is it the command that shows the regression?", "yellow"
    ran = answer.ledger.ever(answer.space.order, "reached")
    if not answer.nobody_reported:
        yield f"  {len(ran)} of {len(answer.space.order)} toggles had their code run by the command", ""


def _not_together(answer: Answer) -> Iterable[Line]:
    pairs = answer.not_together
    if not pairs:
        return
    told = ", ".join(" and ".join(pair) for pair in pairs[:LISTED])
    more = f", and {counted(len(pairs) - LISTED, 'pair')} more" if len(pairs) > LISTED else ""
    tested = "; --unmask tests such pairs" if answer.outcome == "agree" else ""
    yield f"  never reverted together, as no far end holds both: {told}{more}{tested}", "yellow"


def _doubts(answer: Answer) -> Iterable[Line]:
    if answer.nobody_reported:
        text = (
            "no process of the command reported to prtoggle: none was a Python with prtoggle and start files"
        )
        yield f"{text}, so no fix was taken out by it", "yellow"
    elif answer.outcome == "cause" and answer.never_reached:
        ids = ", ".join(answer.never_reached)
        text = (
            f"{ids}: reverted, but no run reached the reverted code. Is the command flaky (--repeat), or does"
        )
        yield f"{text} it run where reach is not seen (docs/limitations.md)?", "yellow"
    for toggle_id in answer.undecided:
        yield f"without {toggle_id} the command cannot say, so it may not be part of the cause", "yellow"
    sure = answer.certainty
    if sure is not None:
        text = (
            f"confidence {sure.confidence:.2%}: the failing end failed in {sure.failed} of {sure.runs} runs"
        )
        yield f"{text}, and {counted(sure.passed, 'set')} passed {sure.repeat} of {sure.repeat}", ""
    unresolved = answer.unresolved
    # What holds a set that cannot say can mostly not say because of that one.
    smallest = [toggles for toggles in unresolved if not any(other < toggles for other in unresolved)]
    for toggles, reason in ((toggles, unresolved[toggles]) for toggles in smallest):
        what = listed(answer.space, toggles)
        yield f"cannot say: {what} reverted: {reason.splitlines()[0]}", "yellow"


def _cost(answer: Answer) -> str:
    count = answer.count
    runs = "" if count.runs == count.tests else f" in {counted(count.runs, 'run')}"
    told = f"{counted(count.tests, 'test')}{runs}"
    if count.closing:
        told = f"{told} and {counted(count.closing, 'closing run')}"
    if answer.outcome != "cause":
        return told
    if answer.base.opposite not in answer.ends.values():
        # Sets inside of the ends had to be looked for first, which has no such bound.
        return told
    alone = answer.finding.single and count.tests > count.located
    confirmed = f": {count.located} found it, one more confirmed it" if alone else ""
    return f"{told}{confirmed} (bound {count.formula})"


def _not_searched(answer: Answer, commits: Commits | None) -> Iterable[Line]:
    for item in answer.left_out:
        yield f"not searched: {item.id}: {item.reason}", "yellow"
    if commits is None:
        return
    yield from _told_together("not searched in full", commits.partly)
    yield from _told_together("not searched", commits.left_out)


def _told_together(what: str, commits: Iterable[LeftCommit]) -> Iterable[Line]:
    """A line for each commit; one for many that have the same reason."""
    alike: dict[str, list[LeftCommit]] = {}
    for commit in commits:
        # What a reason begins with is the file or the name that it is about.
        alike.setdefault(commit.reason.partition(" ")[2], []).append(commit)
    for reason, group in alike.items():
        if len(group) > LISTED:
            names = " ".join(commit.sha[:9] for commit in group)
            yield f"{what}: {len(group)} commits (... {reason}): {names}", "yellow"
            continue
        for commit in group:
            yield f"{what}: {commit.sha[:9]} {commit.subject}: {commit.reason}", "yellow"
