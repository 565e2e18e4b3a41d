"""Catalogues are found by precedence; ids are unique in a folder, and the first folder wins."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from prtoggle.catalog import Catalog
from prtoggle.errors import (
    CatalogueError,
    DuplicateToggleError,
    NotApplicableError,
    SpecError,
    UnknownToggleError,
)

SPEC = "patches: [{target: spx.f, value: 1}]\n"


@pytest.fixture
def no_entry_points(monkeypatch):
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])


pytestmark = pytest.mark.usefixtures("no_entry_points")


def write(folder: Path, **specs: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in specs.items():
        (folder / f"{name.replace('__', '-')}.yaml").write_text(text)
    return folder


def project(root: Path, catalogues: str = '["toggles"]') -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text(f"[tool.prtoggle]\ncatalogues = {catalogues}\n")
    return root


def discover(cwd: Path, **environ: str) -> Catalog:
    return Catalog.discover(cwd, environ)


class TestFolders:
    def test_the_nearest_pyproject_names_the_project_s_folders(self, tmp_path):
        root = project(tmp_path / "a")
        write(root / "toggles", x=SPEC)
        inner = root / "deep" / "er"
        inner.mkdir(parents=True)
        catalog = discover(inner)
        assert [(folder.path, folder.origin) for folder in catalog.folders] == [
            (root / "toggles", "pyproject.toml")
        ]
        assert (catalog.ids(), catalog.root) == (["x"], root)

    def test_a_nearer_pyproject_without_catalogues_ends_the_search(self, tmp_path):
        write(project(tmp_path) / "toggles", x=SPEC)
        inner = tmp_path / "inner"
        inner.mkdir()
        (inner / "pyproject.toml").write_text("[project]\nname = 'x'\n")
        assert discover(inner).folders == ()

    def test_precedence_and_what_is_shadowed(self, tmp_path):
        root = project(tmp_path / "p")
        for name in ("path", "inherited"):
            write(tmp_path / name, both=SPEC, **{name: SPEC})
        write(root / "toggles", both=SPEC, own=SPEC)
        catalog = discover(
            root, PRTOGGLE_PATH=str(tmp_path / "path"), PRTOGGLE_CATALOGUES=str(tmp_path / "inherited")
        )
        assert [folder.origin for folder in catalog.folders] == [
            "PRTOGGLE_PATH",
            "PRTOGGLE_CATALOGUES",
            "pyproject.toml",
        ]
        assert catalog.ids() == ["both", "inherited", "own", "path"]
        assert catalog.get("both").source.file == str(tmp_path / "path" / "both.yaml")
        assert [(shadowed.id, shadowed.file.parent, shadowed.by.parent) for shadowed in catalog.shadowed] == [
            ("both", tmp_path / "inherited", tmp_path / "path"),
            ("both", root / "toggles", tmp_path / "path"),
        ]

    def test_one_folder_named_twice_counts_once(self, tmp_path):
        root = project(tmp_path)
        write(root / "toggles", x=SPEC)
        catalog = discover(root, PRTOGGLE_PATH="toggles", PRTOGGLE_CATALOGUES=str(root / "toggles"))
        assert [folder.origin for folder in catalog.folders] == ["PRTOGGLE_PATH"]
        assert catalog.shadowed == ()

    def test_several_folders_and_single_files(self, tmp_path):
        write(tmp_path / "a", x=SPEC)
        write(tmp_path / "b", y=SPEC, z=SPEC)
        catalog = discover(tmp_path, PRTOGGLE_PATH=os.pathsep.join(["a", "", "b/y.yaml"]))
        assert catalog.ids() == ["x", "y"]

    def test_entry_points_name_folders_below_packages_that_are_not_imported(self, tmp_path, monkeypatch):
        package = tmp_path / "site" / "spx_cat"
        write(package / "sub" / "toggles", x=SPEC)
        (package / "__init__.py").write_text("raise RuntimeError\n")
        monkeypatch.syspath_prepend(tmp_path / "site")
        points = [
            metadata.EntryPoint("there", "spx_cat.sub.toggles", "prtoggle.catalogues"),
            metadata.EntryPoint("gone", "spx_gone.toggles", "prtoggle.catalogues"),
        ]
        monkeypatch.setattr(metadata, "entry_points", lambda *, group: points)
        catalog = discover(tmp_path)
        assert [(folder.path, folder.origin) for folder in catalog.folders] == [
            (package / "sub" / "toggles", "entry point there")
        ]
        assert [folder.origin for folder in catalog.missing] == ["entry point gone"]
        assert catalog.ids() == ["x"]
        assert "spx_cat" not in sys.modules

    def test_the_project_s_own_toggles_come_first_when_it_has_a_catalogue(self, tmp_path, monkeypatch):
        write(tmp_path / "site" / "spx_cat", shipped=SPEC)
        monkeypatch.syspath_prepend(tmp_path / "site")
        points = [metadata.EntryPoint("spx", "spx_cat", "prtoggle.catalogues")]
        monkeypatch.setattr(metadata, "entry_points", lambda *, group: points)
        root = project(tmp_path / "p")
        write(root / "toggles", own=SPEC)
        assert [toggle.id for toggle in discover(root).project_toggles()] == ["own"]
        assert [toggle.id for toggle in discover(root).toggles()] == ["own", "shipped"]
        assert [toggle.id for toggle in discover(tmp_path).project_toggles()] == ["shipped"]

    @pytest.mark.parametrize("inherit", [True, False], ids=["inherited", "not inherited"])
    def test_what_a_process_inherits_keeps_its_origin(self, tmp_path, monkeypatch, inherit):
        shipped = write(tmp_path / "site" / "spx_cat", shipped=SPEC)
        monkeypatch.syspath_prepend(tmp_path / "site")
        points = [metadata.EntryPoint("spx", "spx_cat", "prtoggle.catalogues")]
        monkeypatch.setattr(metadata, "entry_points", lambda *, group: points)
        root = project(tmp_path / "p")
        own = write(root / "toggles", own=SPEC)
        elsewhere = write(tmp_path / "elsewhere", other=SPEC)
        folders = os.pathsep.join(map(str, (own, shipped, elsewhere)))
        catalog = discover(root, **({"PRTOGGLE_CATALOGUES": folders} if inherit else {}))

        more = [(elsewhere, "PRTOGGLE_CATALOGUES")] if inherit else []
        assert [(folder.path, folder.origin) for folder in catalog.folders] == [
            (own, "pyproject.toml"),
            (shipped, "entry point spx"),
            *more,
        ]
        assert [folder.path for folder in catalog.project_folders] == [own, *[path for path, _ in more]]
        assert [toggle.id for toggle in catalog.project_toggles()] == ["other", "own"][not inherit :]

    @pytest.mark.parametrize(
        ("catalogues", "fact"),
        [
            (
                '["gone"]',
                r"pyproject.toml: \[tool.prtoggle\] catalogues names .*/gone, which is not there; make",
            ),
            ('"toggles"', "is 'toggles' and has to be a list of folders, such as catalogues ="),
            ("[1]", r"is \[1\] and has to be a list of folders, such as catalogues ="),
            ("[", "cannot be read"),
            ('["."]\ncatalogs = []', "unknown key catalogs; did you mean catalogues"),
        ],
    )
    def test_a_wrong_pyproject(self, tmp_path, catalogues, fact):
        with pytest.raises(CatalogueError, match=fact):
            discover(project(tmp_path, catalogues))

    def test_a_folder_of_the_path_that_is_not_there(self, tmp_path):
        with pytest.raises(
            CatalogueError, match=r"PRTOGGLE_PATH=gone names .*gone, which is not there; make"
        ):
            discover(tmp_path, PRTOGGLE_PATH="gone")

    def test_a_child_in_another_folder_relies_on_what_it_inherits(self, tmp_path):
        write(tmp_path / "cat", x=SPEC)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        catalog = discover(elsewhere, PRTOGGLE_PATH="cat", PRTOGGLE_CATALOGUES=str(tmp_path / "cat"))
        assert catalog.ids() == ["x"]

    def test_without_any_folder(self, tmp_path):
        catalog = discover(tmp_path)
        assert (catalog.folders, catalog.ids(), catalog.toggles(), catalog.root) == ((), [], [], tmp_path)


class TestIds:
    def test_numbers_come_in_their_order_before_slugs(self, tmp_path):
        write(tmp_path, **{"100": SPEC, "9": SPEC, "9__b": SPEC, "alpha": SPEC})
        assert discover(tmp_path, PRTOGGLE_PATH=".").ids() == ["9", "9-b", "100", "alpha"]

    def test_an_unknown_id_offers_near_ones_and_says_where_it_looked(self, tmp_path):
        write(tmp_path, **{"26972": SPEC})
        catalog = discover(tmp_path, PRTOGGLE_PATH=str(tmp_path))
        with pytest.raises(UnknownToggleError) as caught:
            catalog.get(26927)
        assert caught.value.near == ("26972",)
        for fact in ("26927", "did you mean 26972?", str(tmp_path), "PRTOGGLE_PATH"):
            assert fact in str(caught.value)

    def test_a_clash_in_one_folder_names_both_files(self, tmp_path):
        write(tmp_path, a="id: 7\n" + SPEC, b="id: 7\n" + SPEC, c=SPEC)
        catalog = discover(tmp_path, PRTOGGLE_PATH=".")
        with pytest.raises(DuplicateToggleError) as caught:
            catalog.get("c")
        assert "a.yaml" in str(caught.value)
        assert "b.yaml" in str(caught.value)
        assert caught.value.id == "7"

    def test_select_keeps_the_order_and_drops_repeats(self, tmp_path):
        write(tmp_path, a=SPEC, b=SPEC)
        catalog = discover(tmp_path, PRTOGGLE_PATH=".")
        assert [toggle.id for toggle in catalog.select(["b", "a", "b"])] == ["b", "a"]

    def test_one_wrong_spec_does_not_hide_another_toggle(self, tmp_path):
        write(tmp_path, a=SPEC, b="title: 3\n" + SPEC, c="nothing: 3\n" + SPEC)
        catalog = discover(tmp_path, PRTOGGLE_PATH=".")
        assert catalog.get("a").id == "a"
        with pytest.raises(SpecError, match="title"):
            catalog.get("b")
        with pytest.raises(SpecError) as caught:
            catalog.toggles()
        assert [Path(problem.file).name for problem in caught.value.problems] == ["b.yaml", "c.yaml"]

    def test_constants_of_python_files_are_toggles_too(self, tmp_path):
        (tmp_path / "fixes.py").write_text(f'raise RuntimeError\n_PR_REVERT_YAML_26972 = """{SPEC}"""\n')
        (tmp_path / "other.py").write_text("this is no python, and no spec\n")
        catalog = discover(tmp_path, PRTOGGLE_PATH=".")
        assert catalog.ids() == ["26972"]
        assert catalog.get(26972).source.line == 2

    def test_flow_style_ids_are_found(self, tmp_path):
        write(tmp_path, a="{id: 31, patches: [{target: a.b, value: 1}]}")
        assert discover(tmp_path, PRTOGGLE_PATH=".").ids() == ["31"]


class TestVariants:
    RANGES = ("<2", ">=2,<3")

    @pytest.fixture
    def catalog(self, tmp_path):
        for number, text in enumerate(self.RANGES):
            (tmp_path / f"v{number}.yaml").write_text(
                f"id: 7\ntitle: v{number}\napplies_to: '{text}'\n{SPEC}"
            )
        return discover(tmp_path, PRTOGGLE_PATH=str(tmp_path))

    def install(self, monkeypatch, version: str | None):
        def found(name: str) -> str:
            if name == "spx" and version is not None:
                return version
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "version", found)

    @pytest.mark.parametrize(("version", "title"), [("1.9", "v0"), ("2", "v1"), ("2.9.1rc1", "v1")])
    def test_the_installed_version_picks_one(self, catalog, monkeypatch, version, title):
        self.install(monkeypatch, version)
        assert catalog.get(7).title == title

    @pytest.mark.parametrize(
        ("version", "fact"),
        [("3.0", "version 3.0 is installed"), (None, "no installed distribution brings spx: install it")],
    )
    def test_none_for_this_version_is_an_error_when_asked_for(self, catalog, monkeypatch, version, fact):
        self.install(monkeypatch, version)
        with pytest.raises(NotApplicableError, match=fact):
            catalog.get(7)
        assert [toggle.title for toggle in catalog.toggles()] == ["v0"]
        assert [toggle.title for toggle in catalog.variants(7)] == ["v0", "v1"]

    def test_ranges_that_overlap_are_an_error(self, tmp_path, catalog, monkeypatch):
        (tmp_path / "v2.yaml").write_text(f"id: 7\napplies_to: '>=1'\n{SPEC}")
        self.install(monkeypatch, "2.5")
        with pytest.raises(DuplicateToggleError, match=r"several variants for version 2.5"):
            discover(tmp_path, PRTOGGLE_PATH=str(tmp_path)).get(7)


class TestUnreadable:
    """What cannot be read is named; hidden files are none of ours."""

    def make_folder(self, place):
        place.mkdir()

    def make_dangling(self, place):
        place.symlink_to("nowhere")

    def make_loop(self, place):
        place.symlink_to(place.name)

    @pytest.mark.parametrize("suffix", [".yaml", ".py"])
    @pytest.mark.parametrize("kind", ["folder", "dangling", "loop"])
    def test_it_is_a_catalogue_error(self, tmp_path, kind, suffix):
        root = project(tmp_path)
        folder = write(root / "toggles", own=SPEC)
        getattr(self, f"make_{kind}")(folder / f"bad{suffix}")

        with pytest.raises(CatalogueError, match=rf"bad\{suffix}, .*pyproject.toml names, cannot be read: "):
            discover(root).ids()

        (folder / f"bad{suffix}").rename(folder / f".#own{suffix}")
        assert discover(root).ids() == ["own"]
