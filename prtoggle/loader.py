"""YAML text, files and Python constants into toggles."""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prtoggle.errors import SpecError, SpecProblem
from prtoggle.spec import Toggle, normalise_id
from prtoggle.spec_reader import Located, SpecReader
from prtoggle.yaml_nodes import Places, Tree, compose

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from prtoggle.spec_reader import Kind

YAML_SUFFIXES: Final = (".yaml", ".yml")
CONSTANT: Final = re.compile(r"_PR_REVERT_YAML_(\w+)")


def load(source: str | os.PathLike[str]) -> Toggle:
    """One toggle from a file or from YAML text.

    A path object is a file. A string with a line break, or one that begins with "{", is YAML text; any other
    string is the path of a file. A .py file has to hold exactly one _PR_REVERT_YAML_ constant. Text without
    an id gets one from its contents. Raises SpecError, or FileNotFoundError for a file that is not there.
    """
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        digest = hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()[:8]
        return load_text(source, "<text>", default_id=f"text-{digest}")
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there; a spec is given as a path, or as YAML text of at least two lines"
        )
    if path.suffix != ".py":
        return load_file(path)
    toggles = load_python_constants(path)
    if len(toggles) != 1:
        found = ", ".join(toggle.id for toggle in toggles) or "none"
        raise SpecError(
            f"{path} has to hold one _PR_REVERT_YAML_ constant to be loaded as one toggle; found: {found}"
        )
    return toggles[0]


def load_file(path: str | os.PathLike[str]) -> Toggle:
    """The toggle of a YAML file; its name without suffix is the id of a spec that gives none."""
    return load_text(read_text(Path(path)), str(path), default_id=Path(path).stem)


def load_text(text: str, file: str, *, default_id: str | None, line: int = 1, column: int = 1) -> Toggle:
    """The toggle of YAML text that begins at `line` and `column` of `file`. Raises SpecError."""
    reader = SpecReader(file, default_id)
    places = Places(line, column)
    try:
        root = compose(text, file, places)
        if root is not None:
            return reader.read(Tree(places, reader).located(root, ""), text)
        problem = SpecProblem(file, line, column, "", "is empty: a spec lists at least one patch")
    except UnicodeEncodeError as error:
        before = text[: error.start]
        at = (line + before.count("\n"), error.start - before.rfind("\n"))
        problem = SpecProblem(file, *at, "", "half of a surrogate pair is no character")
    except RecursionError:
        problem = SpecProblem(file, line, column, "", "is nested too deeply")
    raise SpecError.of([problem])


def load_mapping(
    spec: Mapping[str, object], *, default_id: str | None = None, file: str = "<mapping>"
) -> Toggle:
    """The toggle of a plain mapping that is laid out like the YAML. Raises SpecError."""
    return SpecReader(file, default_id).read(_from_plain(dict(spec)), "")


def load_python_constants(path: str | os.PathLike[str]) -> list[Toggle]:
    """The toggles of all `_PR_REVERT_YAML_<id> = "..."` constants of a module, which is not run.

    Raises SpecError for a constant that is no plain string, or whose YAML is wrong (at its line of the file).
    """
    return [
        load_constant(constant, Path(path)) for constant in find_constants(read_text(Path(path)), str(path))
    ]


def find_constants(text: str, file: str) -> list[ast.Assign | ast.AnnAssign]:
    """The assignments of `_PR_REVERT_YAML_` constants at the top level of a module's text."""
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        problem = SpecProblem(
            file, error.lineno or 0, error.offset or 0, "", f"is no valid Python: {error.msg}"
        )
        raise SpecError.of([problem]) from None
    return [node for node in body if isinstance(node, (ast.Assign, ast.AnnAssign)) and constant_id(node)]


def constant_id(node: ast.Assign | ast.AnnAssign) -> str:
    """The id in the name of a `_PR_REVERT_YAML_<id>` constant, "" for any other assignment."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    found = CONSTANT.fullmatch(target.id) if isinstance(target, ast.Name) else None
    return found[1] if found else ""


def load_constant(node: ast.Assign | ast.AnnAssign, path: Path) -> Toggle:
    """The toggle of one constant that `find_constants` found in the file."""
    value, name = node.value, f"_PR_REVERT_YAML_{constant_id(node)}"
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        problem = SpecProblem(
            str(path), node.lineno, node.col_offset + 1, "", f"{name} has to be a plain string"
        )
        raise SpecError.of([problem])
    # The text of a literal that begins with a backslash and a line break starts a line later.
    first = read_text(path).splitlines()[value.lineno - 1].rstrip()
    skipped = 1 if first.endswith("\\") else 0
    column = 1 if skipped or value.value.startswith("\n") else value.col_offset + 4
    return load_text(
        value.value, str(path), default_id=constant_id(node), line=value.lineno + skipped, column=column
    )


def written_id(text: str, default_id: str) -> str | None:
    """The id of a YAML spec without reading all of it; None when only a full reading can tell."""
    if text.lstrip().startswith("{"):
        return None
    found = re.search(r"^([\"']?)id\1[ \t]*:[ \t]*([^\n#]*)", text, re.MULTILINE)
    written = found[2].strip().strip("\"'") if found else default_id
    try:
        return normalise_id(written)
    except SpecError:
        return None


def read_text(path: Path) -> str:
    """The UTF-8 text of a file. Raises SpecError, with the place, when it is something else."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = SpecProblem(
            str(path), line, column, "", f"is not UTF-8: {error.reason} {data[error.start]:#04x}"
        )
        raise SpecError.of([problem]) from None


def _from_plain(value: object) -> Located:
    if isinstance(value, dict):
        keys = tuple(Located("text", 0, 0, str(key)) for key in value)
        return Located(
            "mapping", 0, 0, keys=keys, items=tuple(map(_from_plain, value.values())), plain=lambda: value
        )
    if isinstance(value, (list, tuple)):
        return Located("list", 0, 0, items=tuple(map(_from_plain, value)), plain=lambda: value)
    kinds: Iterator[tuple[type, Kind]] = iter(
        [
            (str, "text"),
            (bool, "yes or no"),
            (int, "whole number"),
            (float, "number"),
            (type(None), "nothing"),
        ]
    )
    kind: Kind = next((name for kind, name in kinds if isinstance(value, kind)), "tagged value")
    return Located(kind, 0, 0, "" if value is None else str(value), plain=lambda: value)
