"""Imports point one way: docs/architecture.md says which, this holds it."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("prtoggle", "kvcore")
#: The highest room of prtoggle that is loaded into the program under test; those below it are tools.
INJECTED_UP_TO = "activation"
INJECTED_DEPENDENCIES = {"wrapt", "yaml"}


def layers(package: str) -> dict[str, int]:
    """Maps the rooms of a package to the line that they stand on in docs/architecture.md, from 0."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    block = re.search(rf"^```layers {package}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block, f"docs/architecture.md has no block of layers for {package}"
    lines = block.group(1).splitlines()
    return {room: rank for rank, line in enumerate(lines) for room in line.split()}


def modules(package: str) -> dict[str, Path]:
    """Maps dotted module names to files, for every source file of a package; the catalogue is data."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "toggles" not in parts:
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def runtime_imports(path: Path, module: str) -> Iterator[str]:
    """Yields the absolute name of everything a file imports at run time, at any depth of nesting."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def edges(package: str) -> set[tuple[str, str]]:
    """Returns (importer, imported) for the modules of a package among themselves."""
    known = modules(package)
    found = set()
    for module, path in known.items():
        for name in runtime_imports(path, module):
            imported = name if name in known else name.rpartition(".")[0]
            if imported in known and imported != module:
                found.add((module, imported))
    return found


def room(module: str) -> str:
    """Returns the part of a dotted module name that docs/architecture.md lists."""
    return module.split(".")[1] if "." in module else "__init__"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_room_and_every_room_a_line(package: str) -> None:
    rooms = {room(module) for module in modules(package)} - {"__init__", "__main__"}
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    described = {
        name for row in re.findall(r"^\|[^|]*\|([^|]*)\|", page, re.MULTILINE) for name in row.split("`")
    }

    assert rooms == set(layers(package)), "the list in docs/architecture.md names each room, and no other"
    assert rooms <= described, "give the room a line in the table below the list"


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_import_only_rooms_above_them(package: str) -> None:
    rank = layers(package)
    wrong = [
        f"{importer} imports {imported}"
        for importer, imported in edges(package)
        if room(imported) in rank and room(importer) in rank and rank[room(imported)] > rank[room(importer)]
    ]

    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_have_no_cycle(package: str) -> None:
    # A package's __init__ re-exports; importing a sibling through it is a cycle only if __init__ needs it too.
    graph: dict[str, set[str]] = {module: set() for module in modules(package)}
    for importer, imported in edges(package):
        graph[importer].add(imported)

    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(("package", "other"), [PACKAGES, PACKAGES[::-1]])
def test_the_two_packages_never_import_each_other(package: str, other: str) -> None:
    wrong = [
        module
        for module, path in modules(package).items()
        if any(name.split(".")[0] == other for name in runtime_imports(path, module))
    ]

    assert not wrong


def test_the_injected_part_imports_only_the_standard_library_and_two_packages() -> None:
    rank = layers("prtoggle")
    allowed = INJECTED_DEPENDENCIES | {"prtoggle"} | set(sys.stdlib_module_names)
    wrong = {
        f"{module} imports {name}"
        for module, path in modules("prtoggle").items()
        if rank.get(room(module), 0) <= rank[INJECTED_UP_TO]
        for name in runtime_imports(path, module)
        if name.split(".")[0] not in allowed
    }

    assert not wrong


def test_one_room_knows_yaml() -> None:
    knowing = {
        module
        for module, path in modules("prtoggle").items()
        if any(name.split(".")[0] == "yaml" for name in runtime_imports(path, module))
    }

    assert {room(module) for module in knowing} == {"yaml_nodes"}


@pytest.mark.parametrize("module", ["kvcore.allocation_sizing", "kvcore.page_math"])
def test_sizing_is_plain_integers(module: str) -> None:
    imported = {name.split(".")[0] for name in runtime_imports(modules("kvcore")[module], module)}

    assert not imported & {"torch", "triton", "numpy"}


def test_nothing_outside_the_simulation_imports_it() -> None:
    inside = ("kvcore.simulate", "kvcore.__main__")
    wrong = [
        importer
        for importer, imported in edges("kvcore")
        if imported.startswith("kvcore.simulate") and not importer.startswith(inside)
    ]

    assert not wrong
