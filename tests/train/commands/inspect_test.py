"""`heed inspect` from outside: its tables and files, its options, whose files it replaces, and that the run stays as it is.

Usage: inspect_test.py PATH_OF_HEED
"""

import csv
import hashlib
import unittest

import command_line

try:
    import h5py
except ImportError:
    h5py = None


class Inspect(command_line.CommandLine):
    def setUp(self):
        super().setUp()
        self.assertEqual(self.run_heed("train", self.config).returncode, 0)
        self.run = self.folder / "runs" / "tiny"
        self.out = self.run / "inspect"

    def inspect(self, *arguments, code=0):
        result = self.run_heed("inspect", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def digests(self):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in self.run.rglob("*") if path.is_file() and self.out not in path.parents}

    def test_tables_and_files(self):
        before = self.digests()
        text = self.inspect(self.run).stdout
        self.assertIn("64 validation sequences of 8 tokens: loss", text)
        for line in text.splitlines():
            self.assertTrue(len(line) <= 80 or line.startswith("files"), line)  # with a path
        for header in ("head  name", "layer ", "context", "(uniform)"):
            self.assertIn(header, text)
        self.assertEqual(self.digests(), before, "the run is not changed")
        rows = list(csv.DictReader((self.out / "heads.csv").read_text().splitlines()))
        self.assertEqual([(row["layer"], row["head"]) for row in rows], [("0", "0"), ("0", "1")])
        for row in rows:
            self.assertAlmostEqual(float(row["segment"]), 1, places=5)
            self.assertLessEqual(float(row["entropy"]), 2.08)
        first = (self.out / "inspect.h5").read_bytes()
        self.assertEqual(self.inspect(self.run).stdout, text)
        self.assertEqual((self.out / "inspect.h5").read_bytes(), first, "the same bytes again")
        # The run is still one of heed's own: a new run moves it aside, with what was inspected.
        self.assertEqual(self.run_heed("train", self.config).returncode, 0)
        self.assertTrue((self.folder / "runs" / "tiny.1" / "inspect" / "heads.csv").exists())

    @unittest.skipIf(h5py is None, "no h5py")
    def test_hdf5(self):
        self.inspect(self.run, "--sequences", "3")
        with h5py.File(self.out / "inspect.h5") as file:
            patterns, tokens = file["tensors/patterns"][:], file["tensors/tokens"][:]
            self.assertEqual(patterns.shape, (1, 2, 8, 8))
            self.assertEqual(tokens.shape, (3, 8))
            self.assertAlmostEqual(float(abs(patterns.sum(-1) - 1).max()), 0, places=5)
            self.assertEqual(bytes(file["texts/kind"][:]), b"inspection")

    def test_a_text(self):
        self.config.write_text(command_line.ALPHABET)
        (self.folder / "abcd.txt").write_text("abcd" * 100)
        self.assertEqual(self.run_heed("train", self.config).returncode, 0)
        lines = self.inspect(self.run, "--text", "dabca").stdout.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("token"))
        shown = [line.split() for line in lines[start + 1:start + 6]]
        self.assertEqual([words[0] for words in shown], ['"d"', '"a"', '"b"', '"c"', '"a"'])
        self.assertEqual(shown[1][1], '"b"', "the next token")
        self.assertEqual(shown[1][3], '"b"', "the most likely one, in a text that is only abcd")
        self.assertGreater(float(shown[1][4]), 0.9)
        self.assertLess(float(shown[1][2]), 0.1)
        self.assert_error(self.run_heed("inspect", self.run, "--text", "a"), 3, "--text has 1 token", "2 to 8")
        self.assert_error(self.run_heed("inspect", self.run, "--text", "abcdabcda"), 3, "9 tokens", "model.seq_len")
        refused = self.run_heed("inspect", self.run, "--text", "ax")
        self.assert_error(refused, 3, "inspect: --text: ", "'x'")
        self.assertNotIn("--skip-unknown", refused.stderr)
        self.assert_error(self.run_heed("inspect", self.run, "--text", "ab", "--task", "repeat"), 2, "--task")
        (self.folder / "abcd.txt").write_text("dcba" * 100)
        self.assert_error(self.run_heed("inspect", self.run), 3, "is not that of the run", "--text")

    def test_repeated_tokens(self):
        text = self.inspect(self.run, "--task", "repeat", "--sequences", "5").stdout
        self.assertIn("5 sequences of 8 random tokens, repeated after 2 to 4", text)

    def test_another_folder(self):
        (self.run / "checkpoints" / "last.h5").rename(self.folder / "moved.h5")
        self.assert_error(self.run_heed("inspect", "moved.h5"), 2, "--output")
        self.inspect("moved.h5", "--output", "seen")
        self.assertTrue((self.folder / "seen" / "inspect.h5").exists())

    def test_foreign_files_are_not_replaced(self):
        self.out.mkdir()
        for name in ("inspect.h5", "heads.csv", "attention.svg"):
            with self.subTest(name):
                foreign = self.out / name
                foreign.write_text("mine")
                self.assert_error(self.run_heed("inspect", self.run), 2, name, "--output")
                self.assertEqual(foreign.read_text(), "mine")
                self.assertEqual(len(list(self.out.iterdir())), 1)
                foreign.unlink()

    def test_a_checkpoint_of_that_name_is_not_replaced(self):
        self.out.mkdir()
        checkpoint = (self.run / "checkpoints" / "last.h5").read_bytes()
        (self.out / "inspect.h5").write_bytes(checkpoint)
        self.assert_error(self.run_heed("inspect", self.run), 2, "inspect.h5", "--output")
        self.assertEqual((self.out / "inspect.h5").read_bytes(), checkpoint)


if __name__ == "__main__":
    unittest.main()
