"""A healed patch goes into the text of its spec, in whatever way the spec is written; nothing else changes."""

from __future__ import annotations

import pytest

from prtoggle.drift.rewriting import rewritten
from prtoggle.drift.spec_text import block, scalar
from prtoggle.errors import SpecError
from prtoggle.loader import load_text
from prtoggle.spec import Edit, Patch

HEALED = Patch("pkg.new.f", (Edit("a = 1\n", "a = 2\n"),))
TWO = Patch("pkg.mod.f", (Edit("a = 1\n", "a = 2\n"), Edit("if b:\n    c = 1\n", "", occurrence=2)))

BLOCK = """\
# head
id: 7
patches:
  # why
  - target: pkg.mod.f   # where
    edits:
      - match: |
          # old
          a = 0
        replacement: ""

      # about the next target
  - target: pkg.mod.g
    value: 3
# foot
"""
FLOW = "patches: [{target: 'pkg.mod:f', edits: [{match: a = 0, append: b = 1}]}, {target: pkg.mod.g, value: 3}] # x\n"
DIFF = """\
patches:
  - target: pkg.mod.f
    diff: |
      @@ -1,2 +1,2 @@
       def f():
      -    a = 0
      +    a = 3
  # the second
  - target: pkg.mod.g
    value: 3
"""
PREAMBLE = """\
patches:
  - preamble: |
      import os
    target: pkg.mod.f
    edits:
      - {match: a = 0, replacement: ''}
  - {target: pkg.mod.g, value: 3}
"""
ONLY_PREAMBLE = """\
patches:
  - target: pkg.mod.f
    preamble: |
      import os
  - target: pkg.mod.g
    value: 3
"""


@pytest.mark.parametrize("healed", [HEALED, TWO])
@pytest.mark.parametrize("text", [BLOCK, FLOW, DIFF, PREAMBLE, ONLY_PREAMBLE])
def test_the_new_spec_says_the_new_patch_and_keeps_the_other(text, healed):
    toggle = load_text(text, "7.yaml", default_id="7")
    done = rewritten(toggle, text, [healed, None])
    back = load_text(done, "7.yaml", default_id="7")
    assert back.patches == (healed, toggle.patches[1])


def test_comments_stay():
    toggle = load_text(BLOCK, "7.yaml", default_id="7")
    done = rewritten(toggle, BLOCK, [HEALED, None])
    for comment in ("# head\n", "  # why\n", "   # where\n", "      # about the next target\n", "# foot\n"):
        assert comment in done
    assert "# old" not in done


def test_nothing_changes_without_a_new_patch():
    toggle = load_text(BLOCK, "7.yaml", default_id="7")
    assert rewritten(toggle, BLOCK, [None, None]) == BLOCK


def test_a_text_that_is_not_the_toggles_is_refused():
    toggle = load_text(BLOCK, "7.yaml", default_id="7")
    with pytest.raises((SpecError, KeyError)):
        rewritten(toggle, BLOCK.replace("value: 3", "value: 4"), [HEALED, None])


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\n",
        "  deeper\nless\n",
        "trailing \nblank\n",
        "no end",
        "\n\nx\n",
        'quote " and \\\n',
        "tab\there\n",
        "ä: #\n",
        "- x\n",
        "\x07\n",
    ],
)
def test_a_block_reads_back(text):
    spec = (
        "patches:\n  - target: pkg.f\n    edits:\n      - "
        + "\n".join(block("match", text + "z = 1\n", 8)).lstrip()
        + '\n        replacement: ""\n'
    )
    assert load_text(spec, "x.yaml", default_id="x").patches[0].edits[0].match == text + "z = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        "yes",
        "12",
        "1e3",
        "a: b",
        "- x",
        "it's",
        '"',
        "#5",
        "x #5",
        "null",
        "fix (again), please",
        "ä",
    ],
)
def test_a_scalar_reads_back(text):
    spec = f"title: {scalar(text)}\npatches: [{{target: pkg.f, value: 1}}]\n"
    assert load_text(spec, "x.yaml", default_id="x").title == text
