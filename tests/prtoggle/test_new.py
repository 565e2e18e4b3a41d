"""`new` takes a fix out of today's code by a three-way merge, proves it, or says why it cannot."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import metadata

import pytest

from prtoggle.cli import main
from prtoggle.loader import load_text
from prtoggle.static_check import SourceCache, plan_modules
from tests.prtoggle.fix_history import GIT_ENVIRONMENT, History, fixed_history

PACKAGE = "fxh_project"


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return fixed_history(tmp_path_factory.mktemp("history") / "repository", PACKAGE)


@pytest.fixture
def new(history, monkeypatch, capsys):
    """Runs `new` in the repository: (status, standard output, standard error). Nothing in it may change."""
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    for name in ("PRTOGGLE", "PRTOGGLE_PATH", "PRTOGGLE_CATALOGUES", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**GIT_ENVIRONMENT, "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(history.root)
    monkeypatch.syspath_prepend(history.root)

    def new(*arguments: str) -> tuple[int, str, str]:
        status = main(["new", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    yield new
    assert history.git("status", "--porcelain") == ""
    assert not [name for name in sys.modules if name.startswith(PACKAGE)]


@pytest.fixture
def drafted(new, history):
    """The toggle that `new` drafts for a pull request, and the modules that it edits, by name."""

    def drafted(number: int):
        status, out, err = new("--commit", history.sha(number), "-o", "-")
        assert status == 0, err
        toggle = load_text(out, "draft", default_id=None)
        modules = {
            module.name.removeprefix(f"{PACKAGE}."): module.edited
            for module in plan_modules(toggle, SourceCache())
        }
        return toggle, modules, err

    return drafted


def body(text: str, name: str) -> str:
    """The source of one definition, without comments and layout."""
    found = [node for node in ast.walk(ast.parse(text)) if getattr(node, "name", "") == name]
    assert len(found) == 1, (name, text)
    return ast.unparse(found[0])


def test_a_fix_is_taken_out_of_a_function_that_moved_and_changed_since(drafted):
    toggle, modules, err = drafted(101)
    assert (toggle.id, toggle.title) == ("101", "Rows have room for a page")
    assert toggle.links == ("owner/project#101",)
    assert toggle.targets == (f"{PACKAGE}.widths.row_width",)
    assert body(modules["widths"], "row_width") == (
        "def row_width(length, page_size):\n    base = length + LIMIT\n    pages = math.ceil(base / page_size)\n"
        "    assert pages\n    return pages * page_size"
    )
    assert "at load or live" in err
    assert "tests/test_row_width.py" in toggle.text
    assert toggle.guards == ()


def test_a_signature_goes_back_and_a_later_edit_beside_it_stays(drafted):
    toggle, modules, _ = drafted(102)
    assert toggle.targets == (f"{PACKAGE}.sizing.reserve",)
    assert body(modules["sizing"], "reserve") == (
        "def reserve(steps, topk):\n    total = steps * topk\n    total += 1\n    return total"
    )


def test_constants_and_class_bodies_go_out_at_load_only(drafted):
    toggle, modules, err = drafted(103)
    assert toggle.tags == ("at-load-only",)
    assert set(toggle.targets) == {f"{PACKAGE}.sizing", f"{PACKAGE}.pool.Pool"}
    assert "LIMIT = 4\n" in modules["sizing"]
    assert "    spare = 1\n" in modules["pool"]
    assert err.count("at load only") == 2


def test_a_decorator_goes_out_at_load_only_and_its_import_stays(drafted):
    toggle, modules, err = drafted(104)
    assert toggle.tags == ("at-load-only",)
    assert toggle.targets == (f"{PACKAGE}.sizing.drafts",)
    assert body(modules["sizing"], "drafts").startswith("def drafts(")
    assert f"stays: {PACKAGE}.sizing.import functools" in err


def test_a_new_function_stays_and_it_is_said_that_nothing_calls_it(drafted):
    toggle, modules, err = drafted(105)
    assert toggle.targets == (f"{PACKAGE}.pool.Pool.alloc",)
    assert "taken = self.slots[:count]" in body(modules["pool"], "alloc")
    assert "self.peak" in body(modules["pool"], "alloc")
    assert f"stays: {PACKAGE}.pool._checked; nothing uses it after the revert" in err


def test_a_removed_function_is_put_back_at_load(drafted):
    toggle, modules, _ = drafted(106)
    assert set(toggle.targets) == {f"{PACKAGE}.sizing.watermark", f"{PACKAGE}.sizing"}
    assert body(modules["sizing"], "pages_of") == (
        "def pages_of(length, page_size):\n    return math.ceil(length / page_size)"
    )
    assert "pages = pages_of(length, page_size)" in body(modules["sizing"], "watermark")


def test_a_kernel_is_a_function_like_any_other(drafted):
    toggle, modules, _ = drafted(108)
    assert toggle.targets == (f"{PACKAGE}.kernels.copy_kernel",)
    assert "target[start:start + BLOCK] = source[start:start + BLOCK]" in body(
        modules["kernels"], "copy_kernel"
    )
    assert toggle.tags == ()


def test_a_method_that_overrides_goes_out_and_the_base_comes_back(drafted):
    toggle, modules, err = drafted(114)
    assert toggle.tags == ("at-load-only",)
    pool = body(modules["pool"], "Pool")
    assert pool.startswith("class Pool:")
    assert "def available" not in pool
    assert f"stays: {PACKAGE}.pool.Base; nothing uses it" in err


@pytest.mark.parametrize(
    ("number", "expression", "fixed", "reverted"),
    [
        (101, "widths.row_width(4, 4)", "16", "12"),
        (102, "len(inspect.signature(sizing.reserve).parameters)", "3", "2"),
        (103, "(sizing.LIMIT, pool.Pool.spare)", "(8, 2)", "(4, 1)"),
        (104, "hasattr(sizing.drafts, 'cache_info')", "True", "False"),
        (105, "pool.Pool(4).alloc(-1)", "ValueError", "[0, 1, 2]"),
        (106, "hasattr(sizing, 'pages_of')", "False", "True"),
        (
            108,
            "(lambda t: kernels.copy_kernel([1] * 4, t, 3, 2) or t)([0] * 4)",
            "[1, 1, 1, 0]",
            "[1, 1, 1, 1]",
        ),
        (114, "pool.Pool(4).available()", "4", "AttributeError"),
    ],
)
def test_a_draft_takes_effect_in_a_fresh_process(new, history, tmp_path, number, expression, fixed, reverted):
    assert new("--commit", history.sha(number), "-o", str(tmp_path / f"{number}.yaml"))[0] == 0
    program = f"""\
import inspect
from {PACKAGE} import kernels, pool, sizing, widths
try:
    print({expression})
except Exception as error:
    print(type(error).__name__)
"""
    seen = []
    for toggles in ({}, {"PRTOGGLE": str(number), "PRTOGGLE_PATH": str(tmp_path)}):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **toggles},
            cwd=history.root,
            capture_output=True,
            text=True,
            check=False,
        )
        seen.append(done.stdout.strip() or done.stderr)
    assert seen == [fixed, reverted]


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (107, "attribute peak is used at stats.py:2, after the revert too"),
        (109, "was changed later on the fix's own lines"),
        (110, "csrc/copy.cu is no Python file"),
        (111, "README.md is no code"),
        (112, "extra.py is a module that the fix added: it stays; nothing of the package imports it"),
    ],
)
def test_what_cannot_be_a_toggle_is_refused_with_the_reason(new, history, tmp_path, number, reason):
    file = tmp_path / "spec.yaml"
    status, out, err = new("--commit", history.sha(number), "-o", str(file))
    assert (status, out) == (1, "")
    assert f"{number}: no toggle: " in err
    assert reason in err
    assert not file.exists()


def test_part_of_a_fix_is_written_when_it_is_asked_for_and_the_spec_says_so(new, history):
    status, out, _ = new("--commit", history.sha(110), "--partial", "-o", "-")
    assert status == 0
    assert "# Left in: csrc/copy.cu is no Python file" in out
    assert load_text(out, "draft", default_id=None).targets == (f"{PACKAGE}.sizing.drafts",)


def test_the_spec_goes_into_the_catalogue_and_is_not_written_over(new, history):
    file = history.root / "toggles" / "102.yaml"
    try:
        assert new("--commit", history.sha(102))[0] == 0
        file.write_text(mine := file.read_text() + "# mine\n")
        status, _, err = new("--commit", history.sha(102))
        assert status == 2
        assert "is there already" in err
        assert file.read_text() == mine
        assert new("--commit", history.sha(102), "--force")[0] == 0
        assert file.read_text() != mine
    finally:
        file.unlink()


@pytest.mark.parametrize("how", ["blobs", "hunks"])
def test_a_diff_is_as_good_as_a_commit(new, history, tmp_path, how):
    options = ["--full-index"] if how == "blobs" else []
    diff = history.git("diff", *options, f"{history.sha(108)}^", history.sha(108))
    if how == "hunks":
        diff = "".join(line for line in diff.splitlines(keepends=True) if not line.startswith("index "))
    (tmp_path / "copy-less.diff").write_text(diff)
    status, out, err = new("--diff", str(tmp_path / "copy-less.diff"), "-o", "-")
    assert status == 0, err
    toggle = load_text(out, "draft", default_id=None)
    assert (toggle.id, toggle.targets) == ("copy-less", (f"{PACKAGE}.kernels.copy_kernel",))


def test_a_fix_that_was_laid_out_anew_since_is_taken_out(tmp_path, monkeypatch, capsys):
    for name, value in GIT_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    history = History(tmp_path / "repository")
    module = f"{PACKAGE}_layout.py"
    history.write(module, "def width(n, page):\n    base = n\n    return base * page\n")
    history.commit("Start")
    history.replace(module, "    base = n\n", "    base = max(n, 1) + page\n")
    history.commit("Leave room (#7)")
    history.replace(module, "max(n, 1) + page\n", "(\n        max(n, 1)\n        + page  # room\n    )\n")
    history.commit("Lay it out")
    monkeypatch.chdir(history.root)
    monkeypatch.syspath_prepend(history.root)

    assert main(["new", "--commit", history.sha(7), "-o", "-"]) == 0

    toggle = load_text(capsys.readouterr().out, "draft", default_id=None)
    (edited,) = plan_modules(toggle, SourceCache())
    assert body(edited.edited, "width") == "def width(n, page):\n    base = n\n    return base * page"

    history.replace(module, "+ page  # room", "+ page + 1  # room")
    assert main(["new", "--commit", history.sha(7), "-o", "-"]) == 1
    assert "what the fix made 'base = max(n, 1) + page' now reads 'base = ('" in capsys.readouterr().err


def test_a_diff_that_neither_stands_nor_has_blobs_is_refused(new, history, tmp_path):
    diff = history.git("diff", f"{history.sha(101)}^", history.sha(101))
    diff = "".join(line for line in diff.splitlines(keepends=True) if not line.startswith("index "))
    (tmp_path / "x.diff").write_text(diff)
    status, _, err = new("--diff", str(tmp_path / "x.diff"), "-o", "-")
    assert status == 1
    assert "stands 0 times in today's file" in err


def test_a_range_makes_a_draft_of_each_commit_that_can_be_one(new, history, tmp_path):
    status, out, _ = new("--since", history.commits["Start"], "-o", str(tmp_path / "drafts"))
    assert status == 0
    written = {file.stem for file in (tmp_path / "drafts").iterdir()}
    assert written >= {"101", "102", "103", "104", "105", "106", "108", "113", "114"}
    assert not written & {"107", "109", "110", "111", "112"}
    assert "csrc/copy.cu is no Python file" in out
    assert f"{len(written)} of 19 commits can be a toggle" in out


def test_tests_of_the_commit_become_guards_only_when_they_catch_it(new, history, tmp_path):
    status, out, err = new("--commit", history.sha(101), "--check-guards", "-o", "-")
    assert status == 0, err
    assert load_text(out, "draft", default_id=None).guards == ("tests/test_row_width.py",)
    assert "guard tests/test_row_width.py: caught" in err
    assert "guard tests/test_nothing.py: vacuous" in err

    file = tmp_path / "spec.yaml"
    status, _, err = new("--commit", history.sha(101), "--guard", "tests/test_nothing.py", "-o", str(file))
    assert status == 1
    assert "not written, because tests/test_nothing.py does not guard it" in err
    assert not file.exists()


@pytest.mark.parametrize(
    ("place", "fact"),
    [
        ("there.yaml", "there.yaml is there already"),
        ("nope/x.yaml", "there is no folder"),
        (".", "is a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_a_guard_runs(
    new, history, tmp_path, monkeypatch, place, fact
):
    monkeypatch.setattr("prtoggle.forge.guards.check_guards", lambda *_: pytest.fail("a guard was run"))
    (tmp_path / "there.yaml").write_text("kept")
    force = ["--force"] if place == "." else []

    status, out, err = new(
        "--commit", history.sha(101), "--check-guards", "-o", str(tmp_path / place), *force
    )

    assert (status, out) == (2, "")
    assert fact in err
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("there.yaml", "kept")]


def test_drafts_of_a_range_are_refused_below_a_file(new, history, tmp_path):
    (tmp_path / "file").write_text("kept")

    status, out, err = new("--since", "HEAD~3", "-o", str(tmp_path / "file/drafts"))

    assert (status, out) == (2, "")
    assert "no folder that can be written to" in err
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("option", ["--commit", "--since"])
def test_a_revision_that_names_no_commit_is_named_with_what_to_do(new, history, option):
    status, out, err = new(option, "nosuch", "-o", "-")

    assert (status, out) == (2, "")
    assert f"'nosuch' names no single commit of {history.root}" in err
    assert "`git log --oneline` lists the commits, `git fetch` brings" in err


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ([], "give one of --commit, --diff and --since"),
        (["--commit", "nowhere"], "names no single commit"),
        (["--commit", "HEAD", "--since", "HEAD"], "give one of"),
        (["--diff", "gone.diff"], "gone.diff"),
    ],
)
def test_wrong_use_ends_with_2(new, arguments, fact):
    status, out, err = new(*arguments)
    assert (status, out) == (2, "")
    assert fact in err
