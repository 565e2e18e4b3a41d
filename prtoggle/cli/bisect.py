"""`prtoggle bisect -- command ...`: which reverted fix, or set of fixes, changes the command's verdict."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from prtoggle.activation import TOGGLES
from prtoggle.bisect.answer import Answer
from prtoggle.bisect.candidates import EVERYTHING, choose, gather
from prtoggle.bisect.command_files import command_digests
from prtoggle.bisect.conversation import NOTHING
from prtoggle.bisect.hunt import Hunt, Orders
from prtoggle.bisect.json_report import document
from prtoggle.bisect.pools import LocalPool
from prtoggle.bisect.records import Ledger
from prtoggle.bisect.refusals import BisectError
from prtoggle.bisect.state_file import DEFAULT_NAME, Plan, StateFile
from prtoggle.bisect.verdicts import checked_rules
from prtoggle.catalog import Catalog
from prtoggle.cli import console
from prtoggle.cli.bisect_progress import RunLines, counted, print_start
from prtoggle.cli.bisect_view import print_answer
from prtoggle.cli.command_words import RunsCommand
from prtoggle.cli.finite import Finite
from prtoggle.cli.interruption import interruptible
from prtoggle.cli.output_file import OUTPUT, write_output

if TYPE_CHECKING:
    from prtoggle.bisect.candidates import Candidates
    from prtoggle.bisect.conversation import Finding
    from prtoggle.bisect.pools import Pool
    from prtoggle.bisect.range_toggles import Commits

FOUND, NOT_FOUND, INTERRUPTED = 0, 1, 128 + signal.SIGINT
_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options as click has checked them."""

    toggles: str
    excluded: str
    good: str | None
    bad: str | None
    repeat: int
    timeout: float | None
    match: str
    fail_on: str
    skip_on: str
    unmask: bool
    state: Path
    resume: bool
    jobs: int
    executor: str
    ray_cpus: float
    ray_gpus: float
    json_file: Path | None
    logs: Path | None


@click.command("bisect", cls=RunsCommand)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--toggles", default=EVERYTHING, help="all, or a comma list of ids and tag:NAME.")
@click.option("--except", "excluded", default="", metavar="LIST", help="Ids and tag:NAME that stay out.")
@click.option("--good", metavar="REV", help="Search the commits after REV instead of a catalogue.")
@click.option("--bad", metavar="REV", help="With --good: up to REV, the build that is here; default: HEAD.")
@click.option("--repeat", type=click.IntRange(1), default=1, help="Runs of each set, for flaky commands.")
@click.option("--timeout", type=Finite(0, min_open=True), help="Seconds that one run may take.")
@click.option(
    "--match", default="", metavar="REGEX", help="A run fails when its output matches, else passes."
)
@click.option("--fail-on", default="", metavar="LIST", help="Endings that fail: statuses, timeout, signal.")
@click.option("--skip-on", default="", metavar="LIST", help="Endings that cannot say, beside 125 and others.")
@click.option("--unmask", is_flag=True, help="Search although the ends agree: one revert may hide another.")
@click.option("--state", type=_FILE, default=Path(DEFAULT_NAME), help=f"Kept here; default {DEFAULT_NAME}.")
@click.option("--resume", is_flag=True, help="Go on with the runs that the state file holds.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, help="Runs at a time.")
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", help="Where runs happen.")
@click.option("--ray-cpus", type=Finite(0), default=1.0, help="CPUs that Ray reserves for a run.")
@click.option("--ray-gpus", type=Finite(0), default=0.0, help="GPUs that Ray reserves for a run.")
@click.option("--json", "json_file", type=OUTPUT, help="Write the answer to FILE.")
@click.option("--logs", type=click.Path(file_okay=False, path_type=Path), help="Keep the runs' outputs here.")
@click.pass_context
def bisect_command(context: click.Context, /, command: tuple[str, ...], **options: Any) -> int:
    """Find the reverted fix, or the smallest set of them, that changes what COMMAND comes to.

    COMMAND runs with nothing reverted, with all reverted, then with halves of what is left. Status 0 passes,
    125 cannot say, any other fails. Exits with 0 when a cause was found, with 1 when none was.
    """
    settings = Settings(**options)
    _refuse_wrong_use(settings, command)
    candidates, commits = _candidates(settings, command)
    rules = checked_rules(settings.match, settings.fail_on, settings.skip_on)
    plan = Plan(
        command,
        str(Path.cwd()),
        settings.repeat,
        settings.timeout,
        asdict(rules),
        settings.unmask,
        candidates.digests(),
        candidates.source_digests(),
        command_digests(command),
    )
    state = StateFile(settings.state, plan)
    state.check()
    space = candidates.space
    ledger = Ledger(settings.repeat, {NOTHING, *space.tops()}, candidates.texts.refusal)
    for record in state.resume() if settings.resume else ():
        ledger.add(record)
    pool = _pool(settings)
    if settings.logs is not None:
        settings.logs.mkdir(parents=True, exist_ok=True)
    specs = {toggle_id: toggle.text for toggle_id, toggle in candidates.toggles.items()}
    orders = Orders(command, specs, rules, settings.timeout, settings.logs)
    out = console(stderr=True)
    done = len(ledger.records) + len(ledger.closings)
    print_start(out, candidates, commits, settings.state, done)
    with RunLines(out, space, settings.repeat, done) as lines:
        hunt = Hunt(space, ledger, orders, pool, settings.jobs, settings.unmask, (state.add, lines.show))
        finding = _hunted(hunt)
    if finding is None:
        done = len(ledger.records) + len(ledger.closings)
        out.print(f"stopped after {counted(done, 'run')}. Go on with", style="yellow")
        out.print(f"    {_resume_command(context, command)}", soft_wrap=True)
        return INTERRUPTED
    answer = Answer(finding, space, candidates.toggles, ledger, candidates.left_out)
    by_hand = answer.by_hand(command, _kept_specs(answer) if commits else "")
    if settings.json_file is not None:
        text = json.dumps(document(answer, command, by_hand, commits), indent=2)
        write_output(settings.json_file, text + "\n")
    print_answer(console(), answer, by_hand, commits)
    return FOUND if answer.outcome == "cause" else NOT_FOUND


def _refuse_wrong_use(settings: Settings, command: tuple[str, ...]) -> None:
    """Raise for what cannot be meant, before anything is read or run."""
    if os.environ.get(TOGGLES):
        raise BisectError(
            f"{TOGGLES}={os.environ[TOGGLES]} is set: bisect decides what is reverted in each run. Unset it, "
            "and name the toggles with --toggles."
        )
    if settings.bad and not settings.good:
        raise click.UsageError("--bad needs --good")
    if settings.good and (settings.toggles != EVERYTHING or settings.excluded):
        raise click.UsageError("--good takes its toggles from commits: leave --toggles and --except out")
    if settings.executor == "ray" and settings.logs is not None:
        raise click.UsageError("--logs cannot be kept on other machines: leave it out with --executor ray")
    if settings.executor == "local" and shutil.which(command[0]) is None:
        raise BisectError(f"cannot start {command[0]}: there is no such command; nothing was run")


def _candidates(settings: Settings, command: tuple[str, ...]) -> tuple[Candidates, Commits | None]:
    if settings.good is None:
        excluded = [item.strip() for item in settings.excluded.split(",") if item.strip()]
        return choose(Catalog.discover(), settings.toggles, excluded), None
    from prtoggle.bisect.range_toggles import commits_between  # noqa: PLC0415 (needs git, unidiff and merge3)
    from prtoggle.forge.git_history import Repository  # noqa: PLC0415

    commits = commits_between(Repository(Path()), settings.good, settings.bad or "HEAD", command)
    return gather(commits.toggles), commits


def _pool(settings: Settings) -> Pool:
    if settings.executor == "local":
        return LocalPool()
    from prtoggle.bisect.ray_pool import RayPool  # noqa: PLC0415 (an extra)

    return RayPool(Path.cwd(), cpus=settings.ray_cpus, gpus=settings.ray_gpus)


def _hunted(hunt: Hunt) -> Finding | None:
    """The finding; None when somebody stopped the search. No run is left when this returns."""
    with interruptible():
        try:
            return hunt.run()
        except KeyboardInterrupt:
            return None
        finally:
            hunt.pool.close()


def _resume_command(context: click.Context, command: tuple[str, ...]) -> str:
    """The command line of this search with --resume."""
    words = ["prtoggle", "bisect"]
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not isinstance(parameter, click.Option) or not given or name == "resume":
            continue
        value = [] if parameter.is_flag else [str(context.params[name])]
        words += [max(parameter.opts, key=len), *value]
    return shlex.join([*words, "--resume", "--", *command])


def _kept_specs(answer: Answer) -> str:
    """A folder that stays, with the specs of the cause for whoever tries it by hand; "" without a cause."""
    if answer.outcome != "cause":
        return ""
    folder = Path(tempfile.mkdtemp(prefix="prtoggle-cause-"))
    for toggle in answer.cause:
        (folder / f"{toggle.id}.yaml").write_text(toggle.text, encoding="utf-8")
    return str(folder)
