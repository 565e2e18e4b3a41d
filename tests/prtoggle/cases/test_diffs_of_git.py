"""Diffs as git prints them are done where they say, and refused where they do not fit."""

from __future__ import annotations

import subprocess
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import prtoggle
from tests.prtoggle.cases.moments import LIVE, patch, toggle, world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.prtoggle.cases.moments import World

__all__ = ["world"]

TEXT = """\
import os


class W:
    def g(self, x):
        a = x
        b = a + 1
        return b

    def f(self, x):
        a = x
        b = a + 1
        c = b + 1
        return c


def tail():
    return 1
"""
OLD = TEXT.replace("        c = b + 1\n        return c", "        return b * 10")


def git_diff(folder: Path, before: str, after: str, *options: str) -> str:
    """What git prints for that change of `case.py`."""
    for name, text in (("a", before), ("b", after)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "case.py").write_text(text)
    done = subprocess.run(
        ["git", "diff", "--no-index", *options, "a/case.py", "b/case.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.replace("a/a/", "a/").replace("b/b/", "b/")


@pytest.mark.parametrize("options", [(), ("-U0",), ("-U1",), ("-U20",), ("--patience",), ("-W",)], ids=str)
@pytest.mark.parametrize("mode", ["diff", "fix_diff"])
def test_a_diff_of_the_file_reverts_the_fix(
    world: World, tmp_path: Path, mode: str, options: tuple[str, ...]
) -> None:
    world.write({"case.py": TEXT})
    before, after = (TEXT, OLD) if mode == "diff" else (OLD, TEXT)
    text = git_diff(tmp_path, before, after, *options)
    assert "@@" in text
    module, handle = world.revert(toggle(patch("case.W.f", **{mode: text})))
    assert (module.W().f(1), module.W().g(1)) == (20, 2)
    handle.restore()
    assert (module.W().f(1), module.W().g(1)) == (3, 2)


HUNKS = {
    "of the dedented function": "@@ -1,5 +1,5 @@\n def f(self, x):\n     a = x\n-    b = a + 1\n+    b = a + 100\n     c = b + 1\n     return c\n",
    "line numbers off": "--- a/case.py\n+++ b/case.py\n@@ -40,4 +41,4 @@ class W:\n         a = x\n-        b = a + 1\n+        b = a + 100\n         c = b + 1\n         return c\n",
    "without counts": "@@ -12 +12 @@\n-        b = a + 1\n+        b = a + 100\n",
    "windows line ends": "@@ -11,3 +11,3 @@\r\n         a = x\r\n-        b = a + 1\r\n+        b = a + 100\r\n         c = b + 1\r\n",
}  # fmt: skip


@pytest.mark.parametrize("text", HUNKS.values(), ids=HUNKS)
def test_a_hunk(world: World, text: str) -> None:
    world.write({"case.py": TEXT})
    module, handle = world.revert(toggle(patch("case.W.f", diff=text)))
    assert (module.W().f(1), module.W().g(1)) == (102, 2)
    handle.restore()
    assert (module.W().f(1), module.W().g(1)) == (3, 2)


REFUSED = {
    "another context": "@@ -10,4 +10,4 @@\n     def f(self, x):\n         a = y\n-        b = a + 1\n+        b = a + 100\n         c = b + 1\n",
    "another removed line": "@@ -10,4 +10,4 @@\n     def f(self, x):\n         a = x\n-        b = a + 2\n+        b = a + 100\n         c = b + 1\n",
    "of another function": "@@ -5,4 +5,4 @@\n     def g(self, x):\n         a = x\n-        b = a + 1\n+        b = a + 100\n         return b\n",
    "fuzz": "@@ -11,4 +11,4 @@\n         a = x\n-        b = a + 1\n+        b = a + 100\n         c = b + 1\n         return d\n",
    "no hunk": "diff --git a/case.py b/case.py\nindex 1..2 100644\n--- a/case.py\n+++ b/case.py\n",
    "nothing but context": "@@ -11,2 +11,2 @@\n         a = x\n         b = a + 1\n",
    "cut off": "@@ -11,9 +11,9 @@\n         a = x\n-        b = a + 1\n",
    "binary": "diff --git a/case.py b/case.py\nBinary files a/case.py and b/case.py differ\n",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(world: World, text: str) -> None:
    world.write({"case.py": TEXT})
    if world.moment == LIVE:
        world.load()
    with pytest.raises(prtoggle.PrToggleError):
        prtoggle.revert(toggle(patch("case.W.f", diff=text)))
    assert prtoggle.active() == []
    assert (world.load().W().f(1), world.load().W().g(1)) == (3, 2)


def test_a_hunk_that_fits_two_places_with_wrong_numbers_is_refused(world: World) -> None:
    world.write({"case.py": dedent("""
        def f(x):
            if x:
                x += 1
                x += 2
            else:
                x += 1
                x += 2
            return x
    """)})  # fmt: skip
    if world.moment == LIVE:
        world.load()
    with pytest.raises(prtoggle.PrToggleError, match="4"):
        prtoggle.revert(
            toggle(
                patch("case.f", diff="@@ -90,2 +90,2 @@\n         x += 1\n-        x += 2\n+        x += 3\n")
            )
        )
    assert world.load().f(1) == 4


def test_a_diff_of_several_files_counts_for_its_own_file(world: World, tmp_path: Path) -> None:
    world.write({"case.py": TEXT})
    own = git_diff(tmp_path, OLD, TEXT)
    other = own.replace("case.py", "elsewhere/another.py")
    module, handle = world.revert(toggle(patch("case.W.f", fix_diff=other + own)))
    assert module.W().f(1) == 20
    handle.restore()
    assert module.W().f(1) == 3


MAIL = """\
From 1a2b3c Mon Sep 17 00:00:00 2001
From: Somebody <somebody@example.org>
Subject: [PATCH {0}/2] Take it out

---
 case.py | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

"""


def test_patches_as_git_mails_them_are_read_one_after_the_other(world: World, tmp_path: Path) -> None:
    other = TEXT.replace("return 1", "return 2")
    first, second = (git_diff(tmp_path, TEXT, text) for text in (other, OLD))
    mails = f"{MAIL.format(1)}{first}-- \n2.40.0\n\n{MAIL.format(2)}{second}-- \n2.40.0\n\n"
    world.write({"case.py": TEXT.encode()})

    module, handle = world.revert(
        toggle({"target": "case.W.f", "diff": mails.replace(first, first.replace("case.py", "other.py"))})
    )
    assert module.W().f(0) == 10
    assert module.tail() == 1
    handle.restore()
    assert module.W().f(0) == 2


def test_what_follows_a_hunk_without_a_signature_is_still_refused(world: World, tmp_path: Path) -> None:
    text = git_diff(tmp_path, TEXT, OLD) + "-- \nmore\n"
    world.write({"case.py": TEXT.encode()})
    with pytest.raises(prtoggle.PrToggleError, match="outside of every hunk"):
        world.revert(toggle({"target": "case.W.f", "diff": text}))
    assert world.load().W().f(0) == 2


def test_a_hunk_of_a_file_is_not_placed_by_counting_from_its_target(world: World, tmp_path: Path) -> None:
    """It was made where the file had two lines more: line 6 of the class would be the other method's."""
    twice = TEXT.replace("        c = b + 1\n        return c", "        return b")
    longer = "#\n#\n" + twice
    text = git_diff(tmp_path, longer, longer.replace("b = a + 1", "b = a - 1", 1), "-U1")
    world.write({"case.py": twice.encode()})
    with pytest.raises(prtoggle.AmbiguousMatchError, match="fits 2 places"):
        world.revert(toggle({"target": "case.W", "diff": text}))
    assert world.load().W().g(0) == 1
