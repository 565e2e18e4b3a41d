from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from kvcore.simulate import cli
from kvcore.simulate.cli import main
from kvcore.simulate.trace import BUNDLED_TRACE

if TYPE_CHECKING:
    from pathlib import Path

    from kvcore.server_args import ServerArgs

SMALL = ["--limit", "6", "--context-len", "512", "--pool-size", "8192"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)], catch_exceptions=False)


def only_base_headroom(args: ServerArgs) -> int:
    return 4 + (args.max_speculative_num_draft_tokens or 0)


def test_a_clean_run_ends_with_a_table_and_status_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRTOGGLE", raising=False)
    result = run(*SMALL)

    assert (result.exit_code, result.stderr) == (0, "")
    rows = dict(line.strip("│").split("│") for line in result.stdout.splitlines() if "│" in line)
    table = {name.strip(): value.strip() for name, value in rows.items()}
    assert table["requests"] == "6 (6 finished, 0 aborted)"
    assert table["active toggles"] == "none (PRTOGGLE is not set)"
    assert table["invariant checks"].endswith("all clean")
    assert {"prompt tokens", "output tokens", "peak slots", "retractions", "allocations"} <= set(table)
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_violation_ends_with_one_message_and_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvcore.simulate.stack.get_req_to_token_extra_context_len", only_base_headroom)
    monkeypatch.setenv("PRTOGGLE", "26972")
    result = run(*SMALL)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("violation in prepare_for_decode, step ")
    assert "RowOverflow" in result.stderr
    assert "  active toggles: 26972\n" in result.stderr


def test_json_holds_settings_and_counters() -> None:
    result = run(*SMALL, "--json", "--cache", "radix", "--topk", 1)

    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (report["version"], report["status"]) == (1, "clean")
    assert (report["config"]["cache"], report["config"]["topk"]) == ("radix", 1)
    assert report["result"]["finished"] == 6
    assert 0.0 < report["result"]["hit_rate"] < 1.0


@pytest.mark.parametrize(
    ("asked", "listed"), [(None, []), ("", []), ("26972", ["26972"]), (" 26972, 31616 ", ["26972", "31616"])]
)
def test_json_lists_the_ids_of_the_toggles(
    asked: str | None, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRTOGGLE", raising=False)
    if asked is not None:
        monkeypatch.setenv("PRTOGGLE", asked)
    result = run(*SMALL, "--json")

    assert json.loads(result.stdout)["toggles"] == listed


def test_json_of_a_violation_goes_to_stdout_and_the_message_to_stderr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvcore.simulate.stack.get_req_to_token_extra_context_len", only_base_headroom)
    monkeypatch.setenv("PRTOGGLE", "26972")
    result = run(*SMALL, "--json")

    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (report["version"], report["status"]) == (1, "violation")
    assert report["toggles"] == ["26972"]
    assert report["violation"]["operation"] == "prepare_for_decode"
    assert report["violation"]["cause"] in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--page-size", "0"], "--page-size must be at least 1, found 0"),
        (["--page-size", "many"], "'many' is not a valid integer"),
        (["--spec", "magic"], "'magic' is not one of"),
        (["--check", "never"], "'never' is not one of"),
        (["--spec", "none", "--topk", "4"], "--topk means nothing with --spec none"),
        (["--trace", "nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        (["--limit", "0"], "0 is not in the range"),
        (["--device", "toaster"], "--device toaster"),
        (["--plot", "plot.pdf"], "ends in .html or .png"),
        (["--seed", "-1"], "--seed must be at least 0"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_use_ends_with_status_2_and_says_what_is_wrong(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_broken_trace_is_named_with_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "broken.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]}\n{]\n')
    result = run("--trace", trace)

    assert result.exit_code == 2
    assert f"{trace}:2: not a JSON object" in result.stderr


def test_a_plot_is_written_after_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    result = run(*SMALL, "--plot", path)

    assert result.exit_code == 0
    assert "radix" not in path.read_text(encoding="utf-8")
    assert "chunk cache, page size 16" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "why"),
    [("folder.html", "is a folder"), ("n" * 300 + ".html", "cannot be written: File name too long")],
)
def test_a_plot_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder.html").mkdir()
    result = run(*SMALL, "--plot", tmp_path / name)

    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_a_pool_beyond_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    monkeypatch.setattr("kvcore.simulate.run.build_stack", too_large)
    result = run(*SMALL)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "the pools do not fit into memory" in result.stderr
    assert "--pool-size" in result.stderr


def test_a_bar_appears_on_a_terminal_only_and_only_in_long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def bar_of(*, terminal: bool, after_s: float) -> str:
        monkeypatch.setattr(cli, "_PROGRESS_AFTER_S", after_s)
        monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
        monkeypatch.delenv("NO_COLOR" if terminal else "FORCE_COLOR", raising=False)
        return run(*SMALL).stderr

    assert "simulating" in bar_of(terminal=True, after_s=0.0)
    assert bar_of(terminal=True, after_s=1000.0) == ""
    assert bar_of(terminal=False, after_s=0.0) == ""


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "kvcore", "simulate", "--trace", str(BUNDLED_TRACE), *SMALL, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["result"]["requests"] == 6
