"""What lands in site-packages, from a wheel and from an editable install, and what an interpreter start makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = ("pyproject.toml", "README.md", "LICENSE", "prtoggle", "kvcore", "toggles")
START_FILES = ("prtoggle.pth", "prtoggle.start", "_prtoggle_start.py")
OURS = (
    "print(sorted(name for name in sys.modules if 'prtoggle' in name or 'wrapt' in name or 'yaml' in name))"
)


class Environment(NamedTuple):
    """A virtual environment of its own; `run` starts its interpreter in a folder that holds nothing of ours."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    @property
    def site_packages(self) -> Path:
        return next(self.folder.glob("lib/python*/site-packages"))

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **variables}
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )


def make_environment(folder: Path) -> Environment:
    """Makes an environment that sees this one's dependencies, but not what start files this one has."""
    venv.create(folder, with_pip=False, symlinks=True)
    made = Environment(folder)
    # A path in a .pth file is added as it is: the start files in that folder are not run.
    folders = [path for path in sys.path if Path(path).name == "site-packages"]
    made.site_packages.joinpath("dependencies.pth").write_text("".join(f"{path}\n" for path in folders))
    return made


def pip(*arguments: str | Path) -> None:
    # Without build isolation: the tests reach for no package index.
    command = [sys.executable, "-m", "pip", *arguments]
    environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout that a test may change; the link kvcore/toggles stays a link."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(source, folder / name)
    for name in START_FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, checkout)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def from_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = make_environment(tmp_path_factory.mktemp("from-wheel"))
    pip("--python", made.python, "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    return made


@pytest.fixture(scope="module")
def editable(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = make_environment(tmp_path_factory.mktemp("editable"))
    arguments = (
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--force-reinstall",
        "-e",
        checkout,
    )
    pip("--python", made.python, *arguments)
    return made


@pytest.fixture
def wheel_copy(from_wheel: Environment, tmp_path: Path) -> Environment:
    """The environment with the wheel, for tests that damage it."""
    shutil.copytree(from_wheel.folder, tmp_path / "copy", symlinks=True)
    return Environment(tmp_path / "copy")


def test_a_wheel_has_the_start_files_at_its_root_and_the_catalogue_under_kvcore(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    specs = {f"kvcore/toggles/{path.name}" for path in (ROOT / "toggles").glob("*.yaml")}

    assert {*START_FILES, "prtoggle/py.typed", "kvcore/py.typed", "kvcore/toggles/__init__.py"} <= names
    assert specs <= names
    top_level = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert top_level == {*START_FILES, "prtoggle", "kvcore"}


@pytest.mark.parametrize("installed", ["from_wheel", "editable"])
def test_a_start_without_the_variable_imports_what_a_bare_interpreter_does(
    installed: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    ours: Environment = request.getfixturevalue(installed)
    bare = make_environment(tmp_path / "bare")
    listing = "import sys; print(*sorted(sys.modules), sep='\\n')"
    loaded = set(ours.run("-c", listing).stdout.split()) - set(bare.run("-c", listing).stdout.split())

    # From 3.15 on the interpreter imports the module that a .start file names before it can be asked not to.
    assert loaded <= ({"_prtoggle_start"} if sys.version_info >= (3, 15) else set())


@pytest.mark.parametrize("installed", ["from_wheel", "editable"])
@pytest.mark.parametrize("variables", [{}, {"PRTOGGLE": ""}], ids=["unset", "empty"])
def test_both_installs_start_silently_when_nothing_is_asked_for(
    installed: str, variables: dict[str, str], request: pytest.FixtureRequest
) -> None:
    done = request.getfixturevalue(installed).run("-c", f"import sys; {OURS}", **variables)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[]\n" if sys.version_info < (3, 15) else "['_prtoggle_start']\n"


@pytest.mark.parametrize("installed", ["from_wheel", "editable"])
def test_both_installs_honour_the_variable(installed: str, request: pytest.FixtureRequest) -> None:
    done = request.getfixturevalue(installed).run("-c", "print('ran')", PRTOGGLE="no-such-toggle")

    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such-toggle" in done.stderr


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-s"], ["-P"]], ids=lambda flags: flags[0])
def test_isolating_flags_do_not_hide_the_variable(from_wheel: Environment, flags: list[str]) -> None:
    assert from_wheel.run(*flags, "-c", "print('ran')", PRTOGGLE="no-such-toggle").returncode == 2


@pytest.mark.parametrize("gone", ["prtoggle", "_prtoggle_start.py"])
def test_a_half_removed_install_is_harmless_unless_a_toggle_is_asked_for(
    wheel_copy: Environment, gone: str
) -> None:
    path = wheel_copy.site_packages / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    unset = wheel_copy.run("-c", "print('ran')")
    asked = wheel_copy.run("-c", "print('ran')", PRTOGGLE="26972")

    assert (unset.returncode, unset.stdout, unset.stderr) == (0, "ran\n", "")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "Nothing was reverted" in asked.stderr
    assert "Reinstall prtoggle" in asked.stderr


def test_an_editable_install_serves_the_checkouts_specs(editable: Environment, checkout: Path) -> None:
    spec = checkout / "toggles/99999.yaml"
    # The folder that the entry point names is found the way the catalogue finds it: kvcore is not imported.
    script = (
        "import importlib.util, pathlib, toggles;"
        "(kvcore,) = importlib.util.find_spec('kvcore').submodule_search_locations;"
        "print(toggles._PR_REVERT_YAML_99999, pathlib.Path(kvcore, 'toggles/99999.yaml').read_text())"
    )
    try:
        texts = []
        for text in ("title: first\n", "title: second\n"):
            spec.write_text(text)
            texts.append(editable.run("-c", script).stdout)
    finally:
        spec.unlink()

    assert texts == ["title: first\n title: first\n\n", "title: second\n title: second\n\n"]


def test_the_start_file_of_newer_interpreters_names_a_function_that_is_there() -> None:
    module, _, function = (ROOT / "prtoggle.start").read_text().strip().partition(":")

    assert callable(getattr(__import__(module), function))


def test_the_pth_file_is_one_line() -> None:
    assert (ROOT / "prtoggle.pth").read_text().count("\n") == 1
