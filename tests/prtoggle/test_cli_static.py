"""`list`, `show` and `check` read catalogues and sources, import no target, and read well in a log."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from prtoggle.cli import main

MODULE = """\
raise RuntimeError("this must not be imported")
LIMIT = 3
def f(x):
    y = x + 1
    return y
def g(x, k):
    if x > 3:
        x = 3
    return max(x, k, 4)
"""

GOOD = """\
id: 26972
title: Rows have room for drafts
links: [sgl-project/sglang#26972]
tags: [sizing, spec-decode]
symptom: a row overflows
guards: [tests/toggles/test_26972.py]
masks: [deleted]
patches:
  - target: spx_static.f
    edits:
      - match: y = x + 1
        replacement: y = x
  - target: spx_static.LIMIT
    value: 4
  - target: math.sqrt
    wrap: spx_static:g
"""
DELETED = "patches: [{target: spx_static.g, edits: [{match: x = 3, replacement: ''}]}]\n"
STALE = "title: Gone\npatches: [{target: spx_static.g, edits: [{match: 'return max(x, k)', replacement: return x}]}]\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a catalogue `toggles` and a module that cannot be imported."""
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    for name in ("PRTOGGLE", "PRTOGGLE_PATH", "PRTOGGLE_CATALOGUES", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "pyproject.toml").write_text('[tool.prtoggle]\ncatalogues = ["toggles"]\n')
    (tmp_path / "spx_static.py").write_text(MODULE)
    (tmp_path / "toggles").mkdir()
    (tmp_path / "toggles" / "26972.yaml").write_text(GOOD)
    (tmp_path / "toggles" / "deleted.yaml").write_text(DELETED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    assert "spx_static" not in sys.modules
    assert (tmp_path / "spx_static.py").read_text() == MODULE


@pytest.fixture
def run(project, capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


class TestList:
    def test_the_table_names_everything_and_fits_80_columns(self, run):
        status, out, _ = run("list")
        assert status == 0
        for fact in (
            "26972",
            "Rows have room for drafts",
            "spx_static.f",
            "sizing, spec-decode",
            "test_26972.py",
            "2 toggles",
        ):
            assert fact in out
        assert "\x1b" not in out
        assert max(map(len, out.splitlines()[:-1])) <= 80

    def test_nothing_is_broken_over_lines_off_a_terminal(self, run, project):
        target = f"spx_static.{'long_name.' * 9}f"
        toggle_id = "a-slug-that-is-longer-than-eighteen-letters"
        title = "A title of a good many words " * 4
        (project / "toggles" / f"{toggle_id}.yaml").write_text(
            f"title: {title}\npatches: [{{target: {target}, value: 1}}]\n"
        )
        lines = run("list")[1].splitlines()
        assert any(line.startswith(f"{toggle_id}  {title.rstrip()}") for line in lines)
        assert any(line.strip() == target for line in lines)

    @pytest.mark.parametrize("command", ["list", "check"])
    def test_what_packages_bring_stays_away_in_a_process_with_toggles(
        self, run, project, monkeypatch, command
    ):
        shipped = project / "site" / "spx_cat"
        shipped.mkdir(parents=True)
        (shipped / "9.yaml").write_text(DELETED)
        monkeypatch.syspath_prepend(project / "site")
        points = [metadata.EntryPoint("spx", "spx_cat", "prtoggle.catalogues")]
        monkeypatch.setattr(metadata, "entry_points", lambda **_: points)
        before = run(command)[1]
        monkeypatch.setenv("PRTOGGLE_CATALOGUES", f"{project / 'toggles'}:{shipped}")

        assert run(command)[1] == before
        assert {"list": "2 toggles in", "check": "2 checked"}[command] in before
        assert {"list": "3 toggles in", "check": "3 checked"}[command] in run(command, "--all")[1]

    def test_the_footer_names_the_folders_that_are_shown(self, run, project, monkeypatch):
        shipped = project / "site" / "spx_cat"
        shipped.mkdir(parents=True)
        (shipped / "9.yaml").write_text(DELETED)
        monkeypatch.syspath_prepend(project / "site")
        points = [metadata.EntryPoint("spx", "spx_cat", "prtoggle.catalogues")]
        monkeypatch.setattr(metadata, "entry_points", lambda **_: points)
        own = f"2 toggles in {project / 'toggles'} (pyproject.toml)"
        assert run("list")[1].splitlines()[-1] == f"{own}; 1 more of installed packages with --all"
        everything = f"3 toggles in {project / 'toggles'} (pyproject.toml), {shipped} (entry point spx)"
        assert run("list", "--all")[1].splitlines()[-1] == everything

    def test_json(self, run, project):
        status, out, _ = run("list", "--json")
        document = json.loads(out)
        assert (status, document["version"]) == (0, 1)
        assert [toggle["id"] for toggle in document["toggles"]] == ["26972", "deleted"]
        first = document["toggles"][0]
        assert first["targets"] == ["spx_static.f", "spx_static.LIMIT", "math.sqrt"]
        assert first["guards"] == ["tests/toggles/test_26972.py"]
        assert first["state"] is None
        assert document["folders"] == [{"path": str(project / "toggles"), "origin": "pyproject.toml"}]

    def test_what_is_shadowed_is_said(self, run, project, monkeypatch):
        (project / "own").mkdir()
        (project / "own" / "26972.yaml").write_text(DELETED)
        monkeypatch.setenv("PRTOGGLE_PATH", "own")
        _, out, _ = run("list")
        assert (
            f"26972 in {project / 'toggles' / '26972.yaml'} is shadowed by {project / 'own' / '26972.yaml'}"
            in out
        )

    def test_an_empty_project_is_told_what_to_do(self, run, project):
        (project / "pyproject.toml").unlink()
        status, out, _ = run("list")
        assert status == 0
        assert "PRTOGGLE_PATH" in out

    def test_a_wrong_spec_ends_with_its_place_and_2(self, run, project):
        (project / "toggles" / "bad.yaml").write_text("titel: a\n" + DELETED)
        status, out, err = run("list")
        assert (status, out) == (2, "")
        assert "bad.yaml:1:1: titel: unknown key 'titel'; did you mean title?" in err


class TestShow:
    def test_the_spec_and_the_difference(self, run):
        status, out, _ = run("show", "26972")
        assert status == 0
        for fact in (
            "toggle:     26972  Rows have room for drafts",
            "masks:      deleted",
            "--- spx_static.py (fixed)",
            "+++ spx_static.py (reverted)",
            "-    y = x + 1\n+    y = x\n",
            "spx_static.LIMIT: has the value 4",
            "math.sqrt: every call goes through spx_static:g",
        ):
            assert fact in out

    def test_the_difference_shows_the_pass_that_is_put_in(self, run):
        assert "-        x = 3\n+        pass\n" in run("show", "deleted")[1]

    def test_a_spec_that_does_not_fit_ends_with_1_and_the_nearest_text(self, run, project):
        (project / "toggles" / "7.yaml").write_text(STALE)
        status, out, _ = run("show", "7")
        assert status == 1
        assert "mismatch: spx_static.g" in out
        assert "    return max(x, k, 4)" in out

    def test_an_unknown_id_ends_with_2_and_an_offer(self, run):
        status, _, err = run("show", "26927")
        assert status == 2
        assert "did you mean 26972?" in err


class TestCheck:
    @pytest.mark.parametrize("command", [["check", "deleted"], ["show", "deleted"]])
    def test_modules_of_the_root_are_found_from_a_folder_below(self, run, project, monkeypatch, command):
        (project / "deep" / "er").mkdir(parents=True)
        monkeypatch.chdir(project / "deep" / "er")
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(project)])
        status, out, _ = run(*command)
        assert status == 0, out
        assert "spx_static.py" in out

    def test_fix_says_when_there_is_nothing_to_fix(self, run, project):
        before = {file: file.read_bytes() for file in project.rglob("*") if file.is_file()}
        assert run("check", "--fix")[:2] == (0, "2 checked, nothing to fix\n")
        assert {file: file.read_bytes() for file in project.rglob("*") if file.is_file()} == before

    def test_all_fine(self, run):
        status, out, _ = run("check")
        assert status == 0
        assert "ok  26972" in out
        assert "spx_static.f  spx_static.py:4" in out
        assert "the block at line 8 would be empty, so a pass is put in" in out
        assert "2 checked, 0 with findings" in out

    @pytest.mark.parametrize(
        ("spec", "status", "fact"),
        [
            (STALE, "mismatch", "    return max(x, k, 4)"),
            (STALE.replace("spx_static.g", "spx_static.gg"), "no-target", "did you mean"),
            (STALE.replace("spx_static.g", "spx_sttaic.g"), "no-module", "did you mean spx_static"),
            (STALE.replace("spx_static.g", "math.sqrt"), "unsupported", "use wrap:"),
            (STALE.replace("return max(x, k)", "return max(x, k, 4)").replace("return x", "return old(x)"), "undefined-name", "old"),
            (STALE.replace("return max(x, k)", "return max(x, k, 4)").replace("return x", "return ("), "invalid-edit", "no valid Python"),
            ("patches: [{target: spx_static.f, edits: [{match: y = x, replacement: y = x + 1}]}]\n", "already-reverted", "line 4"),
            ("patches: [{target: spx_static.f, edits: [{match: y = x + 1, replacement: a}, {match: y = x + 1, append: b}]}]\n", "overlap", "edit 2"),
            ("patches: [{target: spx_static.LIMTI, value: 1}]\n", "no-target", "did you mean LIMIT"),
            ("patches: [{target: spx_static.f, wrap: 'spx_gone:g'}]\n", "no-module", "spx_gone"),
            ("masks: [nope]\n" + DELETED, "failed", "masks names nope"),
        ],
    )  # fmt: skip
    def test_a_finding_ends_with_1_and_its_reason(self, run, project, spec, status, fact):
        (project / "toggles" / "7.yaml").write_text(spec)
        code, out, _ = run("check", "7")
        assert code == 1
        assert out.startswith(f"{status}  7")
        assert fact in out
        code, out, _ = run("check", "--json")
        document = json.loads(out)
        assert (code, document["version"]) == (1, 1)
        results = {result["id"]: result for result in document["results"]}
        assert (results["26972"]["status"], results["7"]["status"]) == ("ok", status)
        assert fact in results["7"]["message"]

    def test_a_range_that_leaves_out_what_is_installed_is_no_finding(self, run, project):
        (project / "toggles" / "7.yaml").write_text("applies_to: '>=99'\n" + STALE)
        status, out, _ = run("check", "7")
        assert status == 0
        assert out.startswith("not-applicable  7  Gone")

    def test_a_spec_file_is_checked_instead_of_the_catalogue(self, run, project):
        path = project / "new.yaml"
        path.write_text(STALE)
        status, out, _ = run("check", "--spec", str(path))
        assert status == 1
        assert "1 checked, 1 with findings" in out
        constants = project / "fixes.py"
        constants.write_text(f'_PR_REVERT_YAML_5 = """\n{DELETED}"""\n_PR_REVERT_YAML_6 = """\n{STALE}"""\n')
        status, out, _ = run("check", "--json", "--spec", str(constants))
        assert [result["status"] for result in json.loads(out)["results"]] == ["ok", "mismatch"]

    @pytest.mark.parametrize(
        "arguments", [["check", "nope"], ["check", "--spec", "gone.yaml"], ["check", "--what"]]
    )
    def test_wrong_use_ends_with_2(self, run, arguments):
        status, out, err = run(*arguments)
        assert (status, out) == (2, "")
        assert err

    def test_two_edits_of_one_module_are_checked_together(self, run, project):
        (project / "toggles" / "7.yaml").write_text(
            "patches:\n"
            "- {target: spx_static.f, edits: [{match: y = x + 1, replacement: y = x}]}\n"
            "- {target: spx_static, edits: [{match: y = x + 1, append: y = 2}]}\n"
        )
        status, out, _ = run("check", "7")
        assert status == 1
        assert out.startswith("overlap  7")


def test_checking_does_not_load_what_only_the_engine_needs(project):
    import subprocess

    code = (
        "import sys; from prtoggle.cli import main; status = main(['check', '--json']); "
        "print([name for name in ('wrapt', 'rich', 'torch', 'prtoggle.engine') if name in sys.modules], status)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(root)!r}, '.']; {code}"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[] 0"
