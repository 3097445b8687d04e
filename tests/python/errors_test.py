"""Each error of the Python package is a HeedError of one line that names the file.

Usage: errors_test.py PATH_OF_HEED. Skipped (77) without h5py; what only a checksum finds is left out without xxhash.
"""

import importlib.util
import os
import shutil
import struct
import unittest
from unittest import mock

import package  # first: it finds the others

import h5py
import heed

NEEDS_XXHASH = unittest.skipIf(importlib.util.find_spec("xxhash") is None, "Python has no xxhash")
TEXT = 'source = "text"\npath = "text.txt"'


class Errors(package.Package):
    CONFIG = package.TINY.replace('source = "ngram"\nvocab_size = 6\norder = 2', TEXT)

    def setUp(self):
        super().setUp()
        self.trained = self.train(self.CONFIG, package.words(600))
        self.last = self.trained / "checkpoints/last.h5"

    def assert_refused(self, call, path, *parts):
        with self.assertRaises(heed.HeedError) as caught:
            call()
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        self.assertTrue(message.startswith(f"{path}: ") or path is None, message)
        for part in parts:
            self.assertIn(part, message)

    def change(self, path, offset, data):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def test_missing(self):
        nothing = self.folder / "nothing"
        for load in (heed.load_checkpoint, heed.load_run, heed.load_sweep, heed.load_inspection, heed.load_token_file):
            self.assert_refused(lambda load=load: load(nothing), nothing, "there is no such file or folder")
        self.assert_refused(lambda: heed.load_run(self.trained).checkpoint("first"), self.trained,
                            "it has no checkpoint 'first'; there are: best, last")  # fmt: skip
        self.assert_refused(lambda: heed.load_inspection(self.trained), self.trained / "inspect", "heed inspect RUN")
        self.last.unlink()
        self.assert_refused(lambda: heed.load_checkpoint(self.trained), self.trained, "it has no checkpoints/last.h5")
        (self.trained / "metrics.csv").unlink()
        self.assert_refused(lambda: heed.load_run(self.trained), self.trained / "metrics.csv", "there is no such file")

    def test_another_kind_of_file(self):
        text, foreign = self.folder / "text.txt", self.folder / "foreign.h5"
        with h5py.File(foreign, "w") as file:
            file["x"] = 1
        for path in (text, foreign):
            self.assert_refused(lambda path=path: heed.load_checkpoint(path), path, "it is no checkpoint of heed")
            self.assert_refused(lambda path=path: heed.load_token_file(path), path, "it is no token file of heed")
        self.assert_refused(lambda: heed.load_token_file(self.last), self.last, "it is no token file of heed")
        for load, what in (heed.load_run, "run folder"), (heed.load_sweep, "finished sweep"):
            self.assert_refused(lambda load=load: load(self.folder), self.folder, f"it is no {what} of heed")
            self.assert_refused(lambda load=load: load(text), text, f"it is no {what} of heed")
        self.assert_refused(lambda: heed.load_sweep(self.trained), self.trained, "heed.load_run() reads a run")
        self.run_ok("inspect", self.trained, "--sequences", 1)
        inspection = self.trained / "inspect/inspect.h5"
        self.assert_refused(lambda: heed.load_checkpoint(inspection), inspection, "heed.load_inspection() reads inspections")
        shutil.copy(self.last, inspection)
        self.assert_refused(lambda: heed.load_inspection(self.trained), inspection, "it is no inspection of heed")

    def test_a_cut_off_checkpoint(self):
        size = self.last.stat().st_size
        for length, part in (size - 1, "bytes follow its first block"), (300, "it is cut off after 300 bytes"), (0, "no checkpoint"):
            os.truncate(self.last, length)
            self.assert_refused(lambda: heed.load_checkpoint(self.last), self.last, part)

    def test_another_version_of_a_checkpoint(self):
        with mock.patch("heed.files.xxhash", None):
            self.change(self.last, 16, struct.pack("<Q", 2))
            self.assert_refused(lambda: heed.load_checkpoint(self.last), self.last,
                                "its format has version 2, this package reads version 1")  # fmt: skip

    @NEEDS_XXHASH
    def test_a_changed_checkpoint(self):
        self.change(self.last, self.last.stat().st_size // 2, b"heed")
        self.assert_refused(lambda: heed.load_checkpoint(self.last), self.last, "its content was changed after it was written")
        self.change(self.last, 30, b"heed")
        self.assert_refused(lambda: heed.load_checkpoint(self.last), self.last, "the checksum of its first 512 bytes")

    def test_hdf5_in_a_checkpoint_that_cannot_be_read(self):
        with mock.patch("heed.files.xxhash", None):
            self.change(self.last, 512, bytes(64))
            self.assert_refused(lambda: heed.load_checkpoint(self.last), self.last, "cannot be read: ")

    def test_tables_and_summaries(self):
        metrics, summary = self.trained / "metrics.csv", self.trained / "summary.json"
        written = metrics.read_text()
        metrics.write_text(written + "6,1\n")
        self.assert_refused(lambda: heed.load_run(self.trained), metrics, "line 7 has 2 cells, the table has 9 columns")
        metrics.write_text("")
        self.assert_refused(lambda: heed.load_run(self.trained), metrics, "it is empty")
        metrics.write_text(written)
        for text, part in ("{", "it is no JSON"), ("[]", "it is no summary of heed"):
            summary.write_text(text)
            self.assert_refused(lambda: heed.load_run(self.trained), summary, part)

    def test_configs(self):
        config = self.trained / "config.toml"
        for text, part in (("[model]\nd_model = 1_6\nx", "line 3"), ("[model]\nd_model = six\n", "line 2"), ("", "no table [model]")):
            config.write_text(text)
            self.assert_refused(lambda: heed.load_run(self.trained), config, part)

    def token_file(self):
        path = self.folder / "tokens.h5"
        self.run_ok("data", "prepare", "text.txt", path)
        return path

    def test_token_files(self):
        path = self.token_file()
        size = path.stat().st_size
        for length, part in (size - 1, f"it has {size - 1} bytes, {size} were written"), (2000, "it is cut off after 2000"):
            os.truncate(path, length)
            self.assert_refused(lambda: heed.load_token_file(path), path, part)
        self.change(path, 15, b"2")
        self.assert_refused(lambda: heed.load_token_file(path), path, "another version: make it again with heed data prepare")

    @NEEDS_XXHASH
    def test_changed_token_files(self):
        path = self.token_file()
        written = path.read_bytes()
        for offset, part in (20, "the checksum of its header"), (200, "its list of ranges"), (len(written) - 1, "its content"):
            path.write_bytes(written)
            self.change(path, offset, bytes([written[offset] ^ 1]))
            self.assert_refused(lambda: heed.load_token_file(path), path, part)
        path.write_bytes(written)
        begin = int.from_bytes(written[64:72], "little")  # of the tokens
        self.change(path, begin, bytes([written[begin] ^ 1]))
        file = heed.load_token_file(path)
        self.assert_refused(lambda: file.tokens("train", 300, 1), path, "the checksum of tokens block 0")

    def test_tokenizers(self):
        from heed.tokenizer import parse_tokenizer

        with h5py.File(self.last) as file:
            data = bytes(file["texts/tokenizer"][:])
        with mock.patch("heed.files.xxhash", None):
            cases = {data[:9]: "too short", b"x" + data[1:]: "does not begin as one", data[:-10] + data[-8:]: "ends after the end",
                     data[:8] + b"\x07" + data[9:]: "of kind 7", data[:-8] + b"x" + data[-8:]: "follow the last token"}  # fmt: skip
            for changed, part in cases.items():
                self.assert_refused(lambda changed=changed: parse_tokenizer(changed, self.last), self.last, part)

    def test_without_the_program_or_if_it_refuses(self):
        checkpoint, target = heed.load_checkpoint(self.last), self.folder / "model"
        with mock.patch.dict(os.environ, {"HEED": "nothing/heed"}):
            self.assert_refused(lambda: checkpoint.to_hugging_face(target), None, "HEED = nothing/heed: there is no such program")
        with mock.patch.dict(os.environ, {"PATH": ""}), mock.patch("heed.program._CHECKOUT", self.folder):
            os.environ.pop("HEED", None)
            self.assert_refused(lambda: checkpoint.to_hugging_face(target), None, "the program heed was not found: set HEED")
        with mock.patch.dict(os.environ, {"HEED": package.HEED}):
            self.assert_refused(lambda: checkpoint.to_hugging_face(target, ema=True), None, "optim.ema_decay")
            self.assertEqual(checkpoint.to_hugging_face(target), target)
            self.assertTrue((target / "config.json").is_file() and (target / "model.safetensors").is_file())

    def test_without_torch(self):
        if importlib.util.find_spec("torch") is None:
            checkpoint = heed.load_checkpoint(self.last)
            self.assert_refused(checkpoint.to_torch, None, "to_torch() needs PyTorch: pip install torch")


if __name__ == "__main__":
    unittest.main()
