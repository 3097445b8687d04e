"""Runs the commands of the README and the tutorial, in their order, each for two steps.

Usage: run_test.py PATH_OF_HEED ROOT
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import markdown_pages

HEED = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
COMMAND = re.compile(r"\./heed ((?:train|ablate|plot|report|inspect|generate|eval) [^#|]*)(?:# .*)?")
SHORT = {"train": ["train.stop_after=2"], "ablate": ["train.stop_after=2", "seeds=2"]}
NEEDS_A_GPU = "train.device=cuda"
TEXTS = ("YOUR.txt", "text.txt")


def commands_of(page):
    """(line, words) of each command that this machine can run."""
    for line, text in markdown_pages.split_code((ROOT / page).read_text())[1]:
        match = COMMAND.fullmatch(text)
        if match and NEEDS_A_GPU not in text and "CONFIG" not in text:
            yield line, shlex.split(match[1])


def shortened(words):
    """The words of a command, with two steps instead of all; a resumed run is as short as it began."""
    short = [] if "--resume" in words else SHORT.get(words[0], [])
    replaced = tuple(setting.split("=")[0] + "=" for setting in short)
    kept = [word for word in words if not (replaced and word.startswith(replaced)) and not word.startswith("train.steps=")]
    return kept + short


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "configs").symlink_to(ROOT / "configs")
        # English, with every character that a prompt of the pages may have.
        text = "".join(chr(code) for code in range(32, 127)) + "\n"
        text += "".join((ROOT / page).read_text() for page in markdown_pages.pages(ROOT))
        for name in TEXTS:
            (self.folder / name).write_text(text)

    def check(self, page, least):
        count = 0
        for line, words in commands_of(page):
            count += 1
            result = subprocess.run(
                [HEED, *shortened(words)], cwd=self.folder, capture_output=True, text=True, timeout=300
            )
            with self.subTest(f"{page}:{line}: {' '.join(words)}"):
                self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(count, least)

    def test_readme(self):
        self.check("README.md", 6)

    def test_tutorial(self):
        self.check("docs/tutorial.md", 14)


if __name__ == "__main__":
    unittest.main()
