"""`check` says what became of the code under each toggle, and `check --fix` rewrites the specs that are certain."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from importlib import metadata

import pytest

from prtoggle.cli import main
from prtoggle.loader import load_file, load_python_constants
from prtoggle.static_check import SourceCache, plan_modules
from tests.prtoggle.drifting_code import CASES, PACKAGE, SIZES, drift, locked_history
from tests.prtoggle.fix_history import GIT_ENVIRONMENT

BY_NAME = {case.name: case for case in CASES}
HEALED = [case for case in CASES if case.healed]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A history that drifted under its locked toggles; made once, and only read."""
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        prepare(context)
        history = locked_history(tmp_path_factory.mktemp("drift") / "repository")
        context.chdir(history.root)
        context.syspath_prepend(history.root)
        assert main(["check", "--update"]) == 0
        history.commit("Lock")
        drift(history)
    return history


def prepare(patch):
    patch.setattr(metadata, "entry_points", lambda **_: [])
    for name in ("PRTOGGLE", "PRTOGGLE_PATH", "PRTOGGLE_CATALOGUES", "FORCE_COLOR"):
        patch.delenv(name, raising=False)
    for name, value in {**GIT_ENVIRONMENT, "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}.items():
        patch.setenv(name, value)


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    """A copy of the work tree, as the working directory and on sys.path."""
    root = tmp_path / "project"
    shutil.copytree(made.root, root, ignore=shutil.ignore_patterns(".git"))
    prepare(monkeypatch)
    monkeypatch.chdir(root)
    monkeypatch.syspath_prepend(root)
    yield root
    assert not [name for name in sys.modules if name.startswith(PACKAGE)]


@pytest.fixture
def check(project, capsys):
    def check(*arguments: str) -> tuple[int, str, str]:
        status = main(["check", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return check


def files(root):
    return {path.name: path.read_bytes() for path in (root / "toggles").iterdir()}


def results(out: str) -> dict:
    document = json.loads(out)
    assert document["version"] == 1
    return {result["id"]: result for result in document["results"]}


def test_the_history_is_long_enough(made):
    assert int(made.git("rev-list", "--count", "HEAD")) >= 12


def test_each_drift_has_its_class(check):
    status, out, _ = check("--json")
    found = results(out)
    assert status == 1
    assert {name: found[name]["drift"] for name in found} == {case.name: case.drift for case in CASES}
    assert {name for name in found if found[name]["finding"]} == {case.name for case in CASES if case.finding}
    assert {name for name in found if found[name]["fixable"]} == {case.name for case in HEALED}


def test_what_is_not_certain_says_what_to_decide(check):
    _, out, _ = check("--json")
    undecided = [result for result in results(out).values() if result["finding"] and not result["fixable"]]
    assert {result["id"] for result in undecided} == {
        "on",
        "put-back",
        "deleted",
        "emptied",
        "creeping",
        "below",
        "twin",
        "reworked",
    }
    for result in undecided:
        assert result["patches"][0]["drift"]["decision"], result["id"]


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("on", "`width = n + 9` now reads `width = n + LIMIT + 9`"),
        ("creeping", "also takes out what a later commit wrote: `base += LIMIT`"),
        ("below", "also takes out what a later commit wrote: `print(n)`"),
        ("twin", f"2 definitions have the same body: {PACKAGE}.moved.Other.twin, {PACKAGE}.moved.Twins.twin"),
        ("777", "a comment in it names the pull request"),
        ("emptied", "the lines of the fix are gone, and not because it was reverted"),
    ],
)
def test_the_reason_names_lines_and_places(check, name, fact):
    assert fact in check(name)[1]


@pytest.mark.parametrize("name", [case.name for case in HEALED])
def test_fix_rewrites_what_is_certain(check, project, name):
    before = files(project)
    case = BY_NAME[name]
    status, out, _ = check("--fix", "--no-verify", name)
    assert status == 0, out
    assert f"{name}: rewrote toggles/{name}.yaml" in out
    after = files(project)
    assert {file for file in after if after[file] != before[file]} == {f"{name}.yaml", "lock.json"}
    toggle = load_file(project / "toggles" / f"{name}.yaml")
    assert toggle.targets == (f"{PACKAGE}.{case.healed}",)
    (module,) = plan_modules(toggle, SourceCache())
    last = case.healed.rpartition(".")[2]
    (found,) = [node for node in ast.walk(ast.parse(module.edited)) if getattr(node, "name", "") == last]
    assert ast.unparse(found) == case.reverted
    text = (project / "toggles" / f"{name}.yaml").read_text()
    assert (text.startswith(f"# {name}: ä\n"), text.endswith("# the end\n"), "      # why\n" in text) == (
        True,
    ) * 3
    assert "+++ toggles/" in out
    assert results(check("--json", name)[1])[name]["drift"] == "unchanged"


def test_fix_leaves_alone_what_a_person_has_to_decide(check, project):
    before = files(project)
    names = [case.name for case in CASES if case.finding and not case.healed]
    status, out, _ = check("--fix", "--no-verify", *names)
    assert status == 1
    assert files(project) == before
    assert out.count("to decide: ") == len(names)


def test_fix_keeps_only_what_the_guards_still_catch(check, project):
    guard = f"""\
from {PACKAGE}.sizes import near


def test_near():
    assert near(-200) == 2
"""
    (project / "test_near.py").write_text(guard)
    spec = project / "toggles" / "near.yaml"
    spec.write_text("guards: [test_near.py]\n" + spec.read_text())
    status, out, _ = check("--fix", "near")
    assert (status, "near: verify: caught" in out) == (0, True), out
    assert "first = n + 100" in spec.read_text() or "fixed = max(first, 2)" in spec.read_text()

    (project / "test_renamed.py").write_text("def test_nothing():\n    assert True\n")
    spec = project / "toggles" / "renamed.yaml"
    spec.write_text("guards: [test_renamed.py]\n" + spec.read_text())
    before = files(project)
    status, out, _ = check("--fix", "renamed")
    assert status == 1
    assert "renamed: put back as it was, because its guards say vacuous" in out
    assert files(project) == before


def test_update_locks_what_fits_and_keeps_the_rest(check, project):
    before = json.loads((project / "toggles" / "lock.json").read_text())["toggles"]
    status, out, _ = check("--update")
    after = json.loads((project / "toggles" / "lock.json").read_text())["toggles"]
    assert status == 1
    assert after.keys() == before.keys()
    findings = {case.name for case in CASES if case.finding}
    assert {name for name in after if after[name] == before[name]} == findings | {"untouched"}
    assert "not locked: creeping, scope creep" in out
    assert results(check("--json")[1])["signed"]["drift"] == "unchanged"


def test_creep_is_accepted_for_a_toggle_that_is_named(check):
    assert check("--update", "creeping")[0] == 0
    assert results(check("--json", "creeping")[1])["creeping"]["drift"] == "unchanged"


def test_update_drops_toggles_that_are_gone_and_is_otherwise_idempotent(check, project):
    lock = project / "toggles" / "lock.json"
    check("--update")
    first = lock.read_bytes()
    assert "wrote toggles" not in check("--update")[1]
    assert lock.read_bytes() == first
    (project / "toggles" / "signed.yaml").unlink()
    check("--update", "spaced")
    assert "signed" in json.loads(lock.read_text())["toggles"]
    check("--update")
    assert "signed" not in json.loads(lock.read_text())["toggles"]


def test_a_spec_that_was_changed_by_hand_is_not_taken_for_drift(check, project):
    spec = project / "toggles" / "on.yaml"
    spec.write_text(spec.read_text().replace("width = n + 9", "width = n + LIMIT + 9"))
    status, out, _ = check("--json", "on")
    assert (status, results(out)["on"]["drift"], results(out)["on"]["status"]) == (0, "spec changed", "ok")


def test_an_edit_that_finds_another_place_is_not_taken_for_the_fix(check, project):
    text = (project / SIZES).read_text()
    old = "def untouched(n):\n    size = n + 1\n    return size\n"
    assert text.count(old) == 1
    (project / SIZES).write_text(
        text.replace(
            old, "def untouched(n):\n    size = n + 2\n    if size:\n        size = n + 1\n    return size\n"
        )
    )
    status, out, _ = check("--json", "untouched")
    result = results(out)["untouched"]
    assert (status, result["status"], result["finding"], result["fixable"]) == (1, "ok", True, False)


def test_a_look_alike_that_was_there_before_is_not_where_a_function_went(check, project):
    text = (project / SIZES).read_text()
    start = text.index("def untouched(")
    (project / SIZES).write_text(text[:start] + text[text.index("def spaced(") :])
    status, out, _ = check("--json", "untouched")
    result = results(out)["untouched"]
    assert (status, result["drift"], result["fixable"]) == (1, "fix gone", False)
    candidates = [candidate["target"] for candidate in result["patches"][0]["drift"]["candidates"]]
    assert f"{PACKAGE}.sizes.spaced" in candidates


@pytest.mark.parametrize("layout", ["", "src", "python"])
def test_a_source_tree_is_checked_without_sys_path(project, check, monkeypatch, tmp_path, layout):
    tree = tmp_path / "tree" / layout
    tree.parent.mkdir(exist_ok=True)
    shutil.move(project / PACKAGE, tree / PACKAGE)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(project)])
    spec = project / "toggles" / "mover.yaml"
    status, out, _ = check("--spec", str(spec), "--source", str(tmp_path / "tree"), "--json")
    assert (status, results(out)["mover"]["drift"], results(out)["mover"]["fixable"]) == (
        1,
        "target moved",
        True,
    )
    status, out, _ = check("--source", str(tmp_path / "tree"), "--json")
    assert {name: entry["drift"] for name, entry in results(out).items()} == {
        case.name: case.drift for case in CASES
    }


def test_a_spec_that_is_a_python_constant_is_rewritten_in_its_file(check, project):
    names = ("mover", "near")
    constants = "".join(
        f'_PR_REVERT_YAML_{name} = """\\\n{(project / "toggles" / f"{name}.yaml").read_text()}"""\n'
        for name in names
    )
    (project / "specs").mkdir()
    shutil.copy(project / "toggles" / "lock.json", project / "specs")
    file = project / "specs" / "constants.py"
    file.write_text(f"# Specs.\n{constants}OTHER = 1\n")
    status, out, _ = check("--fix", "--no-verify", "--spec", str(file))
    assert status == 0, out
    text = file.read_text()
    assert (text.startswith("# Specs.\n"), text.endswith("OTHER = 1\n")) == (True, True)
    assert {toggle.id: toggle.targets for toggle in load_python_constants(file)} == {
        "mover": (f"{PACKAGE}.moved.mover",),
        "near": (f"{PACKAGE}.sizes.near",),
    }
    assert check("--spec", str(file))[0] == 0


def test_line_ends_of_the_source_and_of_the_spec_make_no_difference(check, project):
    for file in [*(project / PACKAGE).glob("*.py"), *(project / "toggles").glob("*.yaml")]:
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    found = results(check("--json")[1])
    assert {name: entry["drift"] for name, entry in found.items()} == {
        case.name: case.drift for case in CASES
    }
    assert check("--fix", "--no-verify", "near", "kernel", "mover")[0] == 0
    for name in ("near", "kernel", "mover"):
        data = (project / "toggles" / f"{name}.yaml").read_bytes()
        assert data.count(b"\n") == data.count(b"\r\n")
        assert results(check("--json", name)[1])[name]["drift"] == "unchanged"


def test_annotations_stand_at_the_patch_in_the_spec(check):
    status, out, _ = check("on", "untouched", "--format", "github")
    assert status == 1
    (line,) = out.splitlines()
    assert line.startswith("::error file=toggles/on.yaml,line=3,title=prtoggle on%3A edited on the fix::")
    assert "what do these lines have to be without the fix?" in line


def test_each_patch_with_a_finding_has_a_place_of_its_own(check, project):
    patches = "".join(
        f"  - target: {PACKAGE}.sizes.{name}\n    edits:\n      - match: {match}\n        replacement: pass\n"
        for name, match in (
            ("on", "width = n + 9"),
            ("untouched", "size = n + 1"),
            ("deleted", "return size"),
        )
    )
    (project / "two parts").mkdir()
    (project / "two parts/both.yaml").write_text(f"patches:\n{patches}")

    _, out, _ = check("--spec", "two parts/both.yaml", "--format", "github")
    first, second = out.splitlines()
    assert first.startswith("::error file=two parts/both.yaml,line=2,title=prtoggle both%3A mismatch::")
    assert second.startswith("::error file=two parts/both.yaml,line=10,title=prtoggle both%3A no-target::")

    results = json.loads(check("--spec", "two parts/both.yaml", "--format", "sarif")[1])["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [place["artifactLocation"]["uri"] for place in places] == ["two%20parts/both.yaml"] * 2


def test_sarif_has_a_rule_and_a_place_for_each_finding(check):
    status, out, _ = check("--format", "sarif")
    assert status == 1
    run = json.loads(out)["runs"][0]
    assert len(run["results"]) == sum(case.finding for case in CASES)
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {
        result["ruleId"] for result in run["results"]
    }
    moved = next(result for result in run["results"] if "toggle mover:" in result["message"]["text"])
    assert moved["ruleId"] == "target-moved"
    place = moved["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("toggles/mover.yaml", 3)


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        (lambda text: text.replace("size = n + 18", "size = n + 19"), "edited by hand or merged"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "has version 2"),
        (lambda text: text[:-20], "is no lock file"),
    ],
)
def test_a_damaged_lock_file_is_refused(check, project, damage, fact):
    lock = project / "toggles" / "lock.json"
    lock.write_text(damage(lock.read_text()))
    before = lock.read_bytes()
    status, out, err = check("--update")
    assert (status, out) == (2, "")
    assert fact in err
    assert lock.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [["--fix", "--update"], ["--fix", "--json"], ["--fix", "--source", "."], ["--format", "xml"]],
)
def test_wrong_use_ends_with_2(check, arguments):
    status, out, err = check(*arguments)
    assert status == 2
    assert err or json.loads(out)["error"]["type"] == "UsageError"
    assert bool(out) is ("--json" in arguments)
