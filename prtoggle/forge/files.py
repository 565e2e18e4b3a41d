"""The Python files around a module that are read for uses of its names: its package, and the whole tree."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from prtoggle.drift.candidates import cached_source, package_files
from prtoggle.forge.fix import is_test
from prtoggle.forge.git_history import GitError, Repository
from prtoggle.forge.standing import Surroundings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prtoggle.forge.ages import LineAges
    from prtoggle.forge.places import Place


def files_around(folder: Path, root: Path) -> list[Path]:
    """The files of a package's folder, and of all that git knows below the root, without other tests."""
    own = [path for _, path in package_files(folder)]
    known = set(own)
    return own + [
        path
        for path in _tracked(root)
        if path not in known and not is_test(path.relative_to(root).as_posix()) and path.is_file()
    ]


def texts_of(files: Iterable[Path]) -> list[str]:
    """The texts of those that can be read."""
    sources = [cached_source(path) for path in files]
    return [source.text for source in sources if source is not None]


def _tracked(root: Path) -> list[Path]:
    """Python files that git tracks or does not ignore; none outside of a repository."""
    try:
        listed = Repository(root).git("ls-files", "-co", "--exclude-standard", "-z", "--", "*.py")
    except GitError:
        return []
    return [root / name for name in sorted(set(listed.split("\0"))) if name]


def surroundings_of(place: Place, root: Path, ages: LineAges) -> Surroundings:
    """What the comparison has to know of the module's surroundings, looked up when it is asked for."""

    def is_module(name: str) -> bool:
        top, *rest = name.split(".")
        base = place.folder if place.folder.name == top else place.folder / top
        file = base.joinpath(*rest)
        return file.is_dir() or file.with_name(f"{file.name}.py").is_file()

    def texts() -> list[str]:
        return texts_of(files_around(place.folder, root))

    def others() -> list[str]:
        return texts_of(path for path in files_around(place.folder, root) if path != place.file)

    is_package = place.file.name == "__init__.py"
    older = lru_cache(ages.texts_with)
    return Surroundings(place.module, is_package, is_module, lru_cache(texts), lru_cache(others), older)
