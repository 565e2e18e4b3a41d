"""Specs load from YAML and Python constants; what is wrong is reported with file, line, column and key."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from prtoggle.errors import SpecError
from prtoggle.loader import load, load_file, load_mapping, load_python_constants, load_text, written_id
from prtoggle.spec import MISSING, Edit, Patch, Toggle, normalise_id

MINIMAL = """\
patches:
  - target: kvcore.allocation_sizing.get_req_to_token_extra_context_len
    edits:
      - match: |
          if gate:
              extra = 1
        replacement: ""
"""

FULL = """\
id: 26972
title: one line
links: [sgl-project/sglang#26972]
tags: [sizing, spec-decode]
symptom: >
  what one
  sees
guards: [tests/toggles/test_26972.py]
requires: [31616]
conflicts: [other-toggle]
masks: ["7"]
applies_to: ">=0.5.16,<0.5.18"
env: {CACHE: "off", LEVEL: 3}
patches:
  - target: pkg.module.Class.method
    preamble: import math
    edits:
      - {match: a = 1, prepend: b = 2}
      - {match: a = 1, append: c = 3, occurrence: 2}
  - {target: "pkg.module:function", diff: "@@ -1 +1 @@\\n-a\\n+b\\n"}
  - {target: pkg.module.other, fix_diff: "@@ -1 +1 @@\\n-a\\n+b\\n"}
  - {target: pkg.module.CONSTANT, value: [1, {a: null}]}
  - {target: pkg.module.NONE, value: null}
  - {target: pkg.module.sqrt, wrap: "my.reverts:Old.behaviour"}
"""


def problems(text: str) -> list[tuple[int, int, str, str]]:
    with pytest.raises(SpecError) as caught:
        load_text(text, "x.yaml", default_id="7")
    assert all(str(problem) in str(caught.value) for problem in caught.value.problems)
    first = caught.value.problems[0]
    assert (caught.value.file, caught.value.line, caught.value.column, caught.value.key_path) == first[:4]
    return [
        (problem.line, problem.column, problem.key_path, problem.message) for problem in caught.value.problems
    ]


class TestLoading:
    def test_the_minimal_form(self):
        toggle = load_text(MINIMAL, "26972.yaml", default_id="26972")
        (patch,) = toggle.patches
        assert (toggle.id, patch.mode, toggle.text) == ("26972", "edits", MINIMAL)
        assert patch.edits == (Edit("if gate:\n    extra = 1\n", ""),)
        assert str(patch.edits[0].where) == "26972.yaml:4"

    def test_the_full_form(self):
        toggle = load_text(FULL, "x.yaml", default_id=None)
        assert (toggle.id, toggle.title, toggle.symptom) == ("26972", "one line", "what one sees")
        assert (toggle.requires, toggle.conflicts, toggle.masks) == (("31616",), ("other-toggle",), ("7",))
        assert toggle.env == {"CACHE": "off", "LEVEL": "3"}
        modes = [patch.mode for patch in toggle.patches]
        assert modes == ["edits", "diff", "fix_diff", "value", "value", "wrap"]
        assert [edit.mode for edit in toggle.patches[0].edits] == ["prepend", "append"]
        assert [edit.occurrence for edit in toggle.patches[0].edits] == [None, 2]
        assert toggle.patches[3].value == [1, {"a": None}]
        assert toggle.patches[4].value is None
        assert toggle.patches[5].value is MISSING
        assert toggle.targets[1] == "pkg.module:function"

    @pytest.mark.parametrize(
        ("written", "toggle_id"),
        [("26972", "26972"), ("'26972'", "26972"), ("007", "007"), ("26972-a_b", "26972-a_b")],
    )
    def test_ids_are_text_as_written(self, written, toggle_id):
        assert load_text(f"id: {written}\n{MINIMAL}", "x.yaml", default_id=None).id == toggle_id

    def test_a_file_gives_its_name_to_a_spec_without_an_id(self, tmp_path):
        path = tmp_path / "26972-rows.yaml"
        path.write_text(MINIMAL)
        assert load(path).id == load(str(path)).id == load_file(path).id == "26972-rows"

    def test_text_and_path_are_told_apart(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("7.yml").write_text(MINIMAL)
        assert load("7.yml").id == "7"
        assert load(MINIMAL).id == load(MINIMAL).id
        assert load(MINIMAL).id.startswith("text-")
        assert load("{id: 8, patches: [{target: a.b, value: 1}]}").id == "8"
        with pytest.raises(FileNotFoundError, match=r"8\.yml is not there"):
            load("8.yml")

    def test_a_file_with_a_byte_order_mark(self, tmp_path):
        path = tmp_path / "7.yaml"
        path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
        assert load(path).id == "7"

    def test_plain_mappings_are_read_by_the_same_rules(self):
        toggle = load_mapping(
            {"patches": [{"target": "a.b", "edits": [{"match": "x", "replacement": ""}]}]}, default_id="7"
        )
        assert toggle.patches == (Patch("a.b", (Edit("x", ""),)),)
        with pytest.raises(
            SpecError, match=r"patches\[0\]\.edits\[0\]: replacement and append exclude each other"
        ):
            load_mapping(
                {
                    "id": 7,
                    "patches": [
                        {"target": "a.b", "edits": [{"match": "x", "replacement": "", "append": "y"}]}
                    ],
                }
            )

    def test_toggles_are_values(self):
        one, two = (load_text(FULL, "x.yaml", default_id=None) for _ in range(2))
        assert one == two
        assert hash(one) == hash(two)
        assert pickle.loads(pickle.dumps(one)) == one
        assert pickle.loads(pickle.dumps(one)).patches[0].value is MISSING


class TestProblems:
    @pytest.mark.parametrize(
        ("text", "line", "column", "key", "fact"),
        [
            ("id: 1\n" + MINIMAL + "id: 2\n", 9, 1, "id", "duplicate key 'id': it stands at line 1 already"),
            ("title: a\n\ttags: [b]\n" + MINIMAL, 2, None, "", "begins with a tab"),
            ("patches:\n  - target: a.b\n    edits:\n\t- match: x\n", 4, 1, "", "begins with a tab"),
            (MINIMAL + "titel: a\n", 8, 1, "titel", "unknown key 'titel'; did you mean title?"),
            (MINIMAL + "whatever: a\n", 8, 1, "whatever", "known are id, title"),
            ("patches: [{target: a.b, value: 1, valeu: 2}]\n", 1, 35, "patches[0].valeu", "did you mean value?"),
            (MINIMAL + "title: 5\n", 8, 8, "title", "expected text; found '5' (whole number); put it in quotes"),
            (MINIMAL + "title:\n", 8, 7, "title", "found nothing"),
            (MINIMAL + "tags: sizing\n", 8, 7, "tags", "expected a list; found 'sizing' (text)"),
            (MINIMAL + "tags: [on]\n", 8, 8, "tags[0]", "found 'on' (yes or no)"),
            (MINIMAL + "requires: [a b]\n", 8, 12, "requires[0]", "not a toggle id"),
            (MINIMAL + "requires: [[a]]\n", 8, 12, "requires[0]", "expected the id of a toggle"),
            (MINIMAL + "env: [A]\n", 8, 6, "env", "expected a mapping of variables"),
            (MINIMAL + "? [a]\n: 1\n", 8, 3, "", "a key has to be a plain text"),
            ("patches: [{target: a.b, edits: [5]}]\n", 1, 33, "patches[0].edits[0]", "expected a mapping with match"),
            (MINIMAL + "applies_to: new\n", 8, 13, "applies_to", "no version condition"),
            (MINIMAL + "env: {A=B: c}\n", 8, 7, "env.A=B", "not the name of an environment variable"),
            (MINIMAL + "env: {A: [c]}\n", 8, 10, "env.A", "found a list"),
            ("id: 1.5\n" + MINIMAL, 1, 5, "id", "expected a number or a slug"),
            ("id: a b\n" + MINIMAL, 1, 5, "id", "not a toggle id"),
            ("title: a\n", 1, 1, "patches", "is missing"),
            ("patches: []\n", 1, 10, "patches", "found an empty list"),
            ("patches: {}\n", 1, 10, "patches", "found an empty mapping"),
            ("- 1\n", 1, 1, "", "expected a mapping"),
            ("", 1, 1, "", "is empty"),
            ("# only a comment\n", 1, 1, "", "is empty"),
            ("a: [1\n", 2, 1, "", ""),
            ("a: 1\n---\nb: 2\n", 2, 1, "", "single document"),
            ("a: \x01\n", 1, 4, "", "not allowed"),
            ("a: 1\nb: \ud800\n", 2, 4, "", "half of a surrogate pair"),
            ("a: " + "[" * 900 + "]" * 900, 1, 1, "", "nested too deeply"),
            ("patches: [{value: 1}]\n", 1, 11, "patches[0]", "target is missing"),
            ("patches: [{target: a b, value: 1}]\n", 1, 20, "patches[0].target", "'a b' is not a target"),
            ("patches: [{target: a.b}]\n", 1, 11, "patches[0]", "one of edits, diff, fix_diff, value, wrap is missing"),
            ("patches: [{target: a.b, value: 1, wrap: 'a:b'}]\n", 1, 41, "patches[0]", "value and wrap exclude"),
            ("patches: [{target: a.b, wrap: a.b}]\n", 1, 11, "patches[0]", "package.module:name"),
            ("patches: [{target: a.b, value: 1, preamble: x}]\n", 1, 45, "patches[0].preamble", "goes with edits only"),
            ("patches: [{target: a.b, edits: []}]\n", 1, 32, "patches[0].edits", "found an empty list"),
            ("patches: [{target: a.b, diff: ''}]\n", 1, 31, "patches[0].diff", "is empty"),
            ("patches: [{target: a.b, value: !!python/name:os.system }]\n", 1, 32, "patches[0].value", "cannot be read"),
            ("patches: [{target: a.b, value: &a [*a]}]\n", 1, 32, "patches[0].value[0]", "contains itself"),
            ("patches: [{target: a.b, value: {b: 1, b: 2}}]\n", 1, 39, "patches[0].value.b", "duplicate key"),
            ("patches: [{target: a.b, edits: [{replacement: x}]}]\n", 1, 33, "patches[0].edits[0]", "match is missing"),
            ("patches: [{target: a.b, edits: [{match: x}]}]\n", 1, 33, "patches[0].edits[0]", 'write replacement: ""'),
            ("patches: [{target: a.b, edits: [{match: ' ', append: x}]}]\n", 1, 41, "patches[0].edits[0].match", "is empty"),
            ("patches: [{target: a.b, edits: [{match: x, append: ''}]}]\n", 1, 52, "patches[0].edits[0].append", "is empty"),
            (
                "patches: [{target: a.b, edits: [{match: x, append: y, occurrence: 0}]}]\n",
                1, 67, "patches[0].edits[0].occurrence", "from 1",
            ),
            ("patches: [{target: a.b, edits: [{match: x, replacement: x}]}]\n", 1, 33, "patches[0].edits[0]", "change nothing"),
            (
                "patches: [{target: a.b, edits: [{match: x, append: y, prepend: z}]}]\n",
                1, 52, "patches[0].edits[0]", "prepend and append exclude each other",
            ),
        ],
    )  # fmt: skip
    def test_the_place_is_named(self, text, line, column, key, fact):
        found = problems(text)
        assert len(found) == 1, found
        assert found[0][0] == line
        assert column is None or found[0][1] == column
        assert found[0][2] == key
        assert fact in found[0][3]

    def test_all_problems_of_a_file_are_reported_together_in_order(self):
        text = "title: 3\nid: [1]\nextra: 1\npatches:\n  - target: a b\n    value: 1\n  - 5\n"
        assert [(line, key) for line, _, key, _ in problems(text)] == [
            (1, "title"),
            (2, "id"),
            (3, "extra"),
            (5, "patches[0].target"),
            (7, "patches[1]"),
        ]

    def test_a_file_name_that_is_no_id(self, tmp_path):
        path = tmp_path / "my spec.yaml"
        path.write_text(MINIMAL)
        with pytest.raises(SpecError, match="'my spec' is not an id itself"):
            load(path)
        assert path.read_text() == MINIMAL

    def test_text_without_an_id_and_without_a_name(self):
        with pytest.raises(SpecError, match="id: is missing, and there is no file name to take it from"):
            load_mapping({"patches": [{"target": "a.b", "value": 1}]})

    def test_a_file_that_is_not_utf_8(self, tmp_path):
        path = tmp_path / "7.yaml"
        path.write_bytes(b"title: a\nsymptom: \xe9\n")
        with pytest.raises(SpecError, match=r"7\.yaml:2:10: is not UTF-8"):
            load(path)

    def test_aliases_cannot_blow_a_spec_up(self):
        levels = "".join(f"  - &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
        found = problems(f"tags:\n  - &a0 x\n{levels}{MINIMAL}")
        assert len(found) == 29


class TestConstants:
    def write(self, tmp_path: Path, text: str) -> Path:
        path = tmp_path / "pr_fix_toggle.py"
        path.write_text("raise RuntimeError('never run')\n" + text)
        return path

    def test_constants_are_read_and_not_run(self, tmp_path):
        path = self.write(
            tmp_path,
            f'_PR_REVERT_YAML_26972 = """\n{MINIMAL}"""\n_PR_REVERT_YAML_7: str = """\\\nid: 8\n{MINIMAL}"""\nOTHER = 1\n',
        )
        one, two = load_python_constants(path)
        assert (one.id, two.id) == ("26972", "8")
        assert [str(toggle.patches[0].where) for toggle in (one, two)] == [f"{path}:4", f"{path}:14"]
        lines = path.read_text().splitlines()
        assert [lines[toggle.patches[0].where.line - 1] for toggle in (one, two)] == [
            MINIMAL.splitlines()[1]
        ] * 2

    def test_problems_have_the_line_of_the_python_file(self, tmp_path):
        path = self.write(tmp_path, '_PR_REVERT_YAML_1 = """\ntitle: 5\npatches: []\n"""\n')
        with pytest.raises(SpecError) as caught:
            load_python_constants(path)
        assert [(problem.line, problem.column) for problem in caught.value.problems] == [(3, 8), (4, 10)]

    def test_one_constant_loads_as_one_toggle(self, tmp_path):
        assert load(self.write(tmp_path, f'_PR_REVERT_YAML_26972 = """{MINIMAL}"""\n')).id == "26972"

    def test_none_or_several_do_not(self, tmp_path):
        with pytest.raises(SpecError, match=r"has to hold one _PR_REVERT_YAML_ constant .* found: none"):
            load(self.write(tmp_path, ""))

    @pytest.mark.parametrize("value", ["make()", "f'{x}'", "3", "b'x'"])
    def test_a_constant_that_is_computed_is_refused(self, tmp_path, value):
        with pytest.raises(SpecError, match="_PR_REVERT_YAML_1 has to be a plain string"):
            load_python_constants(self.write(tmp_path, f"_PR_REVERT_YAML_1 = {value}\n"))

    def test_a_file_that_is_no_python(self, tmp_path):
        with pytest.raises(SpecError, match="no valid Python"):
            load_python_constants(self.write(tmp_path, "def\n"))


class TestIds:
    @pytest.mark.parametrize("value", [26972, "26972", "a", "26972-part_two", "A1"])
    def test_numbers_and_slugs(self, value):
        assert normalise_id(value) == str(value)

    @pytest.mark.parametrize(
        "value", [True, -1, 1.5, "", "a b", "a,b", "-a", "a-", "a--b", "#1", None, "é", "a\n"]
    )
    def test_nothing_else(self, value):
        with pytest.raises(SpecError, match="not a toggle id"):
            normalise_id(value)

    @pytest.mark.parametrize(
        "text",
        [
            FULL,
            MINIMAL,
            f"title: a\nid:   '9-x'  # note\n{MINIMAL}",
            f'"id": 12\n{MINIMAL}',
            f"symptom: |\n  id: 3\n{MINIMAL}",
        ],
    )
    def test_the_quick_look_at_an_id_agrees_with_the_reader(self, text):
        assert written_id(text, "stem") == load_text(text, "x", default_id="stem").id

    def test_the_quick_look_knows_when_it_does_not_know(self):
        assert written_id("{id: 3, patches: []}", "stem") is None
        assert written_id("id: [3]\n", "stem") is None


class TestValues:
    def test_direct_values_are_checked_like_specs(self):
        for build, fact in [
            (lambda: Edit("", "x"), "match is empty"),
            (lambda: Edit("x", " ", "append"), "append is empty"),
            (lambda: Edit("  x\n    y\n", "\nx\n  y  "), "the same text as match"),
            (lambda: Edit("x", "y", "swap"), "not 'swap'"),  # type: ignore[arg-type]
            (lambda: Edit("x", "y", occurrence=0), "counts from 1"),
            (lambda: Patch("a.b"), "found none"),
            (lambda: Patch("a.b", diff="x", value=1), "diff and value"),
            (lambda: Patch("a.b", value=1, preamble="x"), "preamble, which goes with edits only"),
            (lambda: Patch("a b", value=1), "not a target"),
            (lambda: Patch("a.b", wrap="a.b"), "package.module:name"),
            (lambda: Toggle("1", ()), "has no patches"),
            (lambda: Toggle("a b", (Patch("a.b", value=1),)), "not a toggle id"),
        ]:
            with pytest.raises(SpecError, match=fact):
                build()

    def test_a_preamble_alone_is_an_edit(self):
        assert Patch("a.b", preamble="import x").mode == "edits"

    def test_ids_given_as_numbers_become_text(self):
        assert Toggle(26972, (Patch("a.b", value=1),)).id == "26972"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["PRTOGGLE", "PRTOGGLE_PATH", "prtoggle_report"])
def test_a_variable_of_prtoggles_own_is_refused(name: str) -> None:
    text = f"env: {{{name}: ''}}\npatches:\n  - target: a.b\n    value: 1\n"
    with pytest.raises(SpecError, match=rf":1:7: env\.{name}: is a variable of prtoggle's own"):
        load_text(text, "made.yaml", default_id="made")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("1e3", r"1e3 has no single meaning: YAML 1.1 reads the text '1e3', others 1000.0; write 1000.0, or \"1e3\" for the text"),
        ("1.5e3", "write 1500.0, or"),
        ("0o7", "reads the text '0o7', others 7; write 7, or"),
        ("010", "reads 8, others 10; write 8 or 10, or"),
        ("08", "reads the text '08', others 8"),
        ("1:30", "reads 90, others the text '1:30'; write 90, or"),
        ("yes", "reads true, others the text 'yes'; write true, or"),
        ("Off", "reads false, others the text 'Off'"),
        ("None", "reads the text 'None', others null; write null, or"),
        ("[1, {a: 010}]", "reads 8, others 10"),
        ("{on: 1}", "reads true, others the text 'on'"),
    ],
)  # fmt: skip
def test_a_value_that_yaml_1_1_alone_reads_so_is_refused(written: str, words: str) -> None:
    with pytest.raises(SpecError, match=words.replace("1.1", r"1\.1")) as raised:
        load_text(f"patches:\n  - target: a.b\n    value: {written}\n", "made.yaml", default_id="made")
    assert (raised.value.line, raised.value.key_path) == (3, "patches[0].value")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1", 1), ("-1", -1), ("+1", 1), ("0", 0), ("0x1F", 31), ("0b101", 5), ("1_000", 1000), ("1.5", 1.5),
        (".5", 0.5), ("1.5e+3", 1500.0), (".inf", float("inf")), ("-.inf", float("-inf")), ("true", True),
        ("True", True), ("FALSE", False), ("null", None), ("~", None), ("word", "word"), ("1.2.3", "1.2.3"),
        ("127.0.0.1:80", "127.0.0.1:80"), ("a-b", "a-b"), ("'1e3'", "1e3"),
        ('"010"', "010"), ("'yes'", "yes"), ("[1, 2.5, x, null]", [1, 2.5, "x", None]), ("1st", "1st"),
        ("+", "+"), ("...x", "...x"), ("Nonesuch", "Nonesuch"), ("|\n      010", "010\n"),
    ],
)  # fmt: skip
def test_a_value_that_all_read_alike_is_that(written: str, read: object) -> None:
    text = f"patches:\n  - target: a.b\n    value: {written}\n"
    assert load_text(text, "made.yaml", default_id="made").patches[0].value == read


def test_a_target_is_spelt_as_python_spells_names() -> None:
    text = "patches:\n  - target: a.\ufb01nd\n    value: 1\n"
    assert load_text(text, "made.yaml", default_id="made").targets == ("a.find",)
