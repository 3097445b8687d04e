"""Token files and tokenizers: the ids of the Python package are those of heed.

Usage: tokens_test.py PATH_OF_HEED. Skipped (77) without h5py.
"""

import json
import random
import unittest

import package  # first: it finds the others

import heed
import numpy as np

SPLITS = ("train", "validation", "test")
LINES = """
[model]
num_layers = 1
num_heads = 2
d_model = 16
seq_len = 32
[data]
source = "text"
path = "text.txt"
split = "lines"
tokenizer = "{tokenizer}"
{more}
[train]
steps = 1
batch_size = 4
plot = false
final_eval = "none"
"""


def text_of(count, seed):
    """Words in several scripts, runs of spaces and line feeds, words of more than 256 bytes."""
    draw = random.Random(seed)
    parts = ("attend ", "the ", "attention", " ", "  ", "\n", "\n\n", "é", "\u4e2d\u6587 ", "\U0001f642", "ab\tc\n", "x" * 300, "ab" * 200)
    weights = [8] * (len(parts) - 2) + [1, 1]
    return "".join(draw.choices(parts, weights, k=count))


class Tokens(package.Package):
    def prepared(self, data, *options):
        (self.folder / "text.txt").write_bytes(data)
        self.run_ok("data", "prepare", "text.txt", "tokens.h5", *options)
        return heed.load_token_file(self.folder / "tokens.h5")

    def assert_as_heed(self, data, *options):
        file = self.prepared(data, *options, "--val-fraction", 0.2, "--test-fraction", 0.1)
        ids = np.concatenate([file.tokens(split) for split in SPLITS])
        self.assertEqual(file.tokenizer.encode(data), ids.tolist())
        self.assertEqual(file.tokenizer.decode_bytes(ids), data)
        return file

    def test_char(self):
        text = text_of(800, 1)
        file = self.assert_as_heed(text.encode(), "--tokenizer", "char")
        self.assertEqual(file.tokenizer.kind, "char")
        self.assertEqual(file.tokenizer.decode(file.tokenizer.encode(text)), text)
        with self.assertRaisesRegex(heed.HeedError, "^character 'Q' at position 2 is not in the vocabulary of "):
            file.tokenizer.encode("atQ")

    def test_byte(self):
        self.assert_as_heed(bytes(random.Random(1).choices(range(256), k=3000)), "--tokenizer", "byte")

    def test_bpe(self):
        file = self.assert_as_heed(text_of(2500, 2).encode(), "--tokenizer", "bpe", "--vocab-size", 300)
        self.assertEqual(file.tokenizer.vocab_size, 300)
        self.assertLess(sum(file.sizes.values()), 2500 * 3, "it merges")

    def test_words_of_256_bytes(self):
        """A line feed or space just before, at and after the limit."""
        data = b"".join(b"!" * n + end for n in range(250, 260) for end in (b"\n", b" ", b"\n\n"))
        data += b"!" * 1000 + b"!\n" * 20000  # so that "!\n" is a token
        file = self.assert_as_heed(data, "--tokenizer", "bpe", "--vocab-size", 262)
        self.assertIn(b"!\n", file.tokenizer.pieces)

    def test_end_token(self):
        """Of texts that are split by lines. The ids of heed are those that `heed inspect --text` stores."""
        text = package.words(3000).decode()
        for tokenizer, more in ("char", ""), ("byte", ""), ("bpe", "vocab_size = 262"):
            run = self.train(LINES.format(tokenizer=tokenizer, more=more), text.encode(), tokenizer)
            line = "the head and\nheed"
            self.run_ok("inspect", run, "--text", line)
            inspection = heed.load_inspection(run)
            ours = heed.load_checkpoint(run).tokenizer
            self.assertEqual(ours.end_token, ours.vocab_size - 1)
            ids = ours.encode(line)  # heed puts the end of a line before them
            self.assertEqual(inspection.arrays["tokens"].tolist(), [[ours.end_token, *ids]], tokenizer)
            self.assertEqual(ours.decode(ids), line)

    def test_tokenizer_file(self):
        """GPT-2's kind, which only decodes here."""
        alphabet = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
        (self.folder / "model").mkdir()
        vocabulary = {piece: id for id, piece in enumerate([*alphabet, "th", "the"])}
        (self.folder / "model/vocab.json").write_text(json.dumps(vocabulary))
        (self.folder / "model/merges.txt").write_text("#version: 0.2\nt h\nth e\n")
        data = package.words(500)
        file = self.prepared(data, "--tokenizer", "file", "--tokenizer-file", "model", "--val-fraction", 0)
        self.assertEqual(file.tokenizer.kind, "file")
        self.assertEqual(file.tokenizer.decode_bytes(file.tokens()), data)
        with self.assertRaisesRegex(heed.HeedError, 'kind "file" only decodes here'):
            file.tokenizer.encode("the")

    def test_ranges_of_a_token_file(self):
        """More than two blocks of 65536 tokens; a validation split that begins inside a block."""
        data = np.arange(150000, dtype=np.uint32).astype(np.uint8).tobytes()
        file = self.prepared(data, "--tokenizer", "byte", "--val-fraction", 0.1)
        self.assertEqual(file.sizes, {"train": 135000, "validation": 15000, "test": 0})
        self.assertEqual(file.source["source_bytes"], 150000)
        self.assertEqual(file.source["source_name"], "text.txt")
        expected = np.frombuffer(data, np.uint8)
        for start, count in (0, 5), (65530, 10), (65536, 65536), (134990, 10), (10, 0):
            self.assertEqual(file.tokens("train", start, count).tolist(), expected[start : start + count].tolist())
        self.assertEqual(file.tokens("validation").tolist(), expected[135000:].tolist())
        self.assertEqual((file.tokens().dtype, len(file.tokens("test"))), (np.int32, 0))
        with self.assertRaisesRegex(heed.HeedError, "tokens 14999 to 15001 are not in validation, which has 15000"):
            file.tokens("validation", 14999, 2)
        with self.assertRaisesRegex(heed.HeedError, "no split 'val'; there are train, validation, test"):
            file.tokens("val")

    def test_ids_outside_the_vocabulary(self):
        tokenizer = heed.Tokenizer("byte", [bytes([byte]) for byte in range(256)])
        self.assertEqual(tokenizer.decode([0xC3, 0xA9, 0xC3]), "é\ufffd")
        for id in (-1, 256):
            with self.assertRaisesRegex(heed.HeedError, f"token {id} is outside the vocabulary, it must be 0 to 255"):
                tokenizer.decode([id])


if __name__ == "__main__":
    unittest.main()
