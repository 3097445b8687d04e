"""The examples of docs/python.md run as they are, on short runs of the commands of the page; a line `print(x)  # text` prints
that text.

Usage: page_test.py PATH_OF_HEED. Skipped (77) without h5py; without PyTorch, what needs it.
"""

import contextlib
import importlib.util
import io
import os
import re
import unittest
from unittest import mock

import package  # first: it finds the others

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PRINTED = re.compile(r"^print\(.*\)(?:  # (.+))?$", re.M)
SHORT = {
    ("train", "configs/ngram.toml"): ("train.stop_after=2", "train.eval_interval=1", "train.plot=false", "train.final_eval=subset"),
    ("ablate", "configs/sweeps/far_heads.toml"): ("seeds=2", "train.stop_after=2", "train.final_eval=subset", "train.plot=false"),
}


class Page(package.Package):
    def test_examples(self):
        page = (package.ROOT / "docs/python.md").read_text()
        (self.folder / "configs").symlink_to(package.ROOT / "configs")
        (self.folder / "text.txt").write_bytes(package.words(300) + page.encode())
        for command in re.findall(r"^    \./heed (.+)$", page, re.M):
            words = command.split()
            self.run_ok(*words, *SHORT.get(tuple(words), ()))
        examples = EXAMPLE.findall(page)
        self.assertEqual(len(examples), 7)
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder)
        for example in examples:
            if "import torch" in example and importlib.util.find_spec("torch") is None:
                print("page_test: one example skipped, Python has no torch")
                continue
            with self.subTest(example), mock.patch.dict(os.environ, {"HEED": package.HEED}):
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(example, "docs/python.md", "exec"), {})
                for line in PRINTED.finditer(example):
                    if line[1]:
                        self.assertIn(line[1] + "\n", output.getvalue())


if __name__ == "__main__":
    unittest.main()
