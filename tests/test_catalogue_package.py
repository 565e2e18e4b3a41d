"""`toggles._PR_REVERT_YAML_26972`: the seed's spelling for the text of a spec."""

from __future__ import annotations

from pathlib import Path

import pytest

import toggles

ROOT = Path(__file__).parents[1]


def test_a_constant_is_the_text_of_the_spec_of_that_id() -> None:
    assert (ROOT / "toggles/26972.yaml").read_text() == toggles._PR_REVERT_YAML_26972


def test_every_spec_has_its_constant() -> None:
    specs = list((ROOT / "toggles").glob("*.yaml"))

    assert len(dir(toggles)) == len(specs) > 0
    assert {getattr(toggles, name) for name in dir(toggles)} == {path.read_text() for path in specs}


@pytest.mark.parametrize("name", ["_PR_REVERT_YAML_1", "anything"])
def test_another_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(toggles, name)


def test_the_catalogue_of_the_package_is_the_same_folder() -> None:
    assert (ROOT / "kvcore/toggles").resolve() == (ROOT / "toggles").resolve()
