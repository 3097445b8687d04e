"""What a number of `heed eval` is of: the run's own data, splits and model, or a text that is named as another one.

Usage: eval_test.py PATH_OF_HEED
"""

import json
import os
import random
import shutil
import unittest

import command_line

LINES = """
[model]
num_layers = 2
num_heads = 2
d_model = 32
seq_len = 16
[data]
source = "text"
path = "text.txt"
split = "lines"
val_lines = 12
[optim]
learning_rate = 0.01
[train]
steps = 40
batch_size = 12
device = "cpu"
plot = false
"""

SETTABLE = ("data.path", "train.device", "train.precision", "train.batch_size", "train.micro_batch_size")


def random_lines(seed):
    """Lines that no model can predict: only a line that was trained on has a low loss."""
    drawn = random.Random(seed)
    return ["".join(drawn.choice("abcdefghijklmnop") for _ in range(8)) + "\n" for _ in range(60)]


class Evaluation(command_line.CommandLine):
    def setUp(self):
        super().setUp()
        self.text = self.folder / "text.txt"
        self.lines = random_lines(5)
        self.write(self.lines)
        self.config.write_text(LINES)
        self.run_folder = self.folder / "runs" / "tiny"

    def write(self, lines):
        self.text.write_text("".join(lines))

    def train(self, *arguments):
        result = self.run_heed("train", self.config, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((self.run_folder / "summary.json").read_text())["val_loss"]

    def loss(self, label, *arguments):
        """The loss that the line with this label gives; there is no other line with a loss."""
        result = self.run_heed("eval", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = [line for line in result.stdout.splitlines() if " loss " in line]
        self.assertEqual(len(found), 1, result.stdout)
        self.assertTrue(found[0].startswith(label + " "), result.stdout)
        return float(found[0].split("loss ")[1].split()[0])

    def assert_refused(self, *arguments, code, parts):
        result = self.run_heed("eval", self.run_folder, *arguments)
        self.assert_error(result, code, *parts)
        self.assertEqual(result.stdout, "", "no number is printed")

    def test_the_data_of_the_run(self):
        val_loss = self.train()
        self.assertAlmostEqual(self.loss("validation", self.run_folder), val_loss, places=5)
        shutil.move(self.text, self.folder / "moved.txt")
        self.assert_refused(code=3, parts=("text.txt", "No such file"))
        self.assertAlmostEqual(self.loss("validation", self.run_folder, "data.path=moved.txt"), val_loss, places=5)
        self.assertAlmostEqual(
            self.loss("validation", self.run_folder, "data.path=moved.txt", "batch_size=60"), val_loss, places=5)

    def test_averaged_weights(self):
        """The loss with --ema is that of the average in the run's summary and metrics."""
        val_loss = self.train("ema_decay=0.9")
        average = json.loads((self.run_folder / "summary.json").read_text())["val_loss_ema"]
        self.assertNotAlmostEqual(average, val_loss, places=3)
        self.assertAlmostEqual(self.loss("validation", self.run_folder), val_loss, places=5)
        self.assertAlmostEqual(self.loss("validation", self.run_folder, "--ema"), average, places=5)
        header, *rows = (self.run_folder / "metrics.csv").read_text().splitlines()
        last = dict(zip(header.split(","), rows[-1].split(",")))
        self.assertAlmostEqual(float(last["final_val_loss"]), val_loss, places=5)
        self.assertAlmostEqual(float(last["final_val_loss_ema"]), average, places=5)
        self.assertIn(", step 40, averaged weights\n", self.run_heed("eval", self.run_folder, "--ema").stdout)
        texts = [self.run_heed("generate", self.run_folder, "--prompt", "a", "--seed", 1, *more) for more in ([], ["--ema"])]
        for text in texts:
            self.assertEqual(text.returncode, 0, text.stderr)
        self.assertNotEqual(texts[0].stdout, texts[1].stdout)
        inspected = self.run_heed("inspect", self.run_folder, "--ema")
        self.assertEqual(inspected.returncode, 0, inspected.stderr)
        self.assertIn("averaged weights", inspected.stdout)

    def test_averaged_weights_that_are_missing(self):
        self.train("steps=2")
        self.assert_refused("--ema", code=4, parts=("last.h5", "no averaged weights", "optim.ema_decay = 0"))
        for command in (("generate", "--prompt", "a"), ("inspect",)):
            result = self.run_heed(command[0], self.run_folder, *command[1:], "--ema")
            self.assert_error(result, 4, "no averaged weights", "optim.ema_decay")

    def test_lines_that_changed(self):
        self.train()
        changes = {"sorted": sorted(self.lines), "one more": [*self.lines, "abc\n"], "reversed": self.lines[::-1],
                   "one fewer": self.lines[1:], "another character": [*self.lines[1:], "abcdefgz\n"],
                   "too few": self.lines[:10]}
        for name, changed in changes.items():
            with self.subTest(name):
                self.write(changed)
                self.assert_refused(code=3, parts=("the data is not that of the run", "checkpoint: 541 tokens, split 48/12/0", "; current: "))
        self.write(self.lines)
        self.loss("validation", self.run_folder)

    def test_positions_that_changed(self):
        self.config.write_text(LINES.replace('split = "lines"\nval_lines = 12\n', ""))
        val_loss = self.train()
        for changed in (["abcdefghijklmnop" * 12 + "abcdefgh", *self.lines], self.lines[::-1], [*self.lines, "a"]):
            self.write(changed)
            self.assert_refused(code=3, parts=("the data is not that of the run", "540 tokens, split 486/54/0"))
        self.write(self.lines)
        self.assert_refused("val_fraction=0.5", code=2, parts=("data.val_fraction is 0.1 in the checkpoint", *SETTABLE))
        self.assertAlmostEqual(self.loss("validation", self.run_folder), val_loss, places=5)

    def test_the_same_ids_of_another_alphabet(self):
        """'q' for 'p' everywhere gives the same token ids: only the tokenizer tells."""
        self.config.write_text(LINES.replace('"text"', '"tokens"').replace("text.txt", "text.h5")
                               .replace('split = "lines"\nval_lines = 12\n', ""))
        self.assertEqual(self.run_heed("data", "prepare", "text.txt", "text.h5").returncode, 0)
        self.train()
        self.write([line.replace("p", "q") for line in self.lines])
        self.assertEqual(self.run_heed("data", "prepare", "text.txt", "other.h5").returncode, 0)
        self.assert_refused("data.path=other.h5", code=3, parts=("another tokenizer", "other.h5"))
        os.replace(self.folder / "other.h5", self.folder / "text.h5")
        self.assert_refused(code=3, parts=("checkpoint: a char tokenizer of 17 tokens", "current: another char tokenizer"))

    def test_a_token_file_that_was_prepared_again(self):
        self.config.write_text(LINES.replace('"text"', '"tokens"').replace("text.txt", "text.h5")
                               .replace('split = "lines"\nval_lines = 12\n', ""))
        prepare = ("data", "prepare", "text.txt", "text.h5", "--tokenizer", "byte", "--val-fraction")
        self.assertEqual(self.run_heed(*prepare, 0.2).returncode, 0)
        val_loss = self.train()
        self.assertAlmostEqual(self.loss("validation", self.run_folder), val_loss, places=5)
        (self.folder / "text.h5").unlink()
        self.assertEqual(self.run_heed(*prepare, 0.8).returncode, 0)
        self.assert_refused(code=3, parts=("432/108/0", "108/432/0"))
        os.rename(self.folder / "text.h5", self.folder / "other.h5")
        self.assertEqual(self.run_heed("data", "prepare", "text.txt", "text.h5", "--val-fraction", 0.2).returncode, 0)
        self.assert_refused(code=3, parts=("checkpoint: a byte tokenizer of 256 tokens", "current: a char tokenizer of 17 tokens"))
        self.loss("another text", self.run_folder, "data.path=other.h5")

    def test_another_text_is_evaluated_whole_and_named(self):
        self.train()
        others = {"sorted.txt": sorted(self.lines), "few.txt": self.lines[:3]}
        for name, lines in others.items():
            (self.folder / name).write_text("".join(lines))
            result = self.run_heed("eval", self.run_folder, f"data.path={name}")
            self.assertNotIn("validation  loss", result.stdout)
            self.assertIn(f"({9 * len(lines)} targets, each once: all of \"{self.folder / name}\"; "
                          "not the run's validation split)", result.stdout)
            self.loss("another text", self.run_folder, f"data.path={name}")
        (self.folder / "unknown.txt").write_text("abc!\n")
        self.assert_refused("data.path=unknown.txt", code=3, parts=("unknown.txt", "'!'"))

    def test_other_texts_may_be_short(self):
        """Shorter than a window of 16: there is no validation split to cut off, and nothing to train on."""
        for split in ("lines", "position"):
            self.config.write_text(LINES.replace('split = "lines"\nval_lines = 12\n', f'split = "{split}"\n'))
            self.train("steps=2")
            for text, targets in (("abcde", 4 + 2 * (split == "lines")), ("ab", 1 + 2 * (split == "lines"))):
                (self.folder / "short.txt").write_text(text)
                result = self.run_heed("eval", self.run_folder, "data.path=short.txt")
                self.assertIn(f"({targets} targets, each once", result.stdout, result.stderr)
            (self.folder / "short.txt").write_text("")
            self.assert_refused("data.path=short.txt", code=3, parts=("short.txt", "0 bytes", "at least 2"))

    def test_no_key_makes_another_split_or_model(self):
        self.train()
        for argument, saved in (("num_layers=1", "2"), ("num_heads=4", "2"), ("model.norm_eps=0.5", "1e-05"),
                                ("activation=relu", '"gelu"'), ("norm_position=post", '"pre"'), ("position=none", '"learned"'),
                                ("d_model=64", "32"), ("seq_len=8", "16"), ("data.seed=7", "1"), ("val_lines=20", "12"),
                                ("tokenizer=byte", '"char"'), ("split=position", '"lines"'), ("data.source=tokens", '"text"')):
            with self.subTest(argument):
                name = argument.split("=")[0].split(".")[-1]
                self.assert_refused(argument, code=2, parts=(f'"{argument}"', f"{name} is {saved} in the checkpoint", *SETTABLE))
        for argument in ("train.eval_batches=5", "steps=40", "val_fraction=0.5", "run_dir=x", "optim.learning_rate=1"):
            with self.subTest(argument):
                self.assert_refused(argument, code=2, parts=(f'"{argument}"', "has no effect", *SETTABLE))
        self.assert_refused("micro_batch_size=4", "batch_size=4", code=2, parts=("train.batch_size has no effect",))
        self.assert_refused("precision=f64", code=2, parts=('"f64"', "f32"))
        self.assertIn("bf16", self.run_heed("eval", self.run_folder, "precision=bf16").stdout)

    def test_a_source_without_text(self):
        self.config.write_text(command_line.TINY)
        val_loss = self.train("eval_batches=0")
        lines = self.run_heed("eval", self.run_folder).stdout.splitlines()
        self.assertTrue(lines[1].startswith(f"validation  loss {val_loss:.6f}"), lines)
        self.assertTrue(lines[2].startswith("test        loss "), lines)
        self.assert_refused("data.source=text", "data.path=text.txt", code=2, parts=('data.source is "ngram" in the checkpoint',))
        self.assert_refused("data.path=text.txt", code=2, parts=("data.path", "no effect"))
        self.assert_refused("data.seed=2", code=2, parts=("data.seed is 1",))

    def test_another_context_length(self):
        """Each target once at any length; a random line of 8 letters has nothing that more context could show."""
        for position, most in (("learned", 16), ("sinusoidal", 100), ("rope", 100), ("alibi", 100), ("none", 100)):
            self.train(f"position={position}")
            targets = set()
            for seq_len in (1, 3, 16, most):
                result = self.run_heed("eval", self.run_folder, "--seq-len", seq_len)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(f"context     {seq_len} tokens; the run was trained with 16" in result.stdout, seq_len != 16)
                targets.add(result.stdout.split("(")[-1].split()[0])
            self.assertEqual(targets, {"108"}, "12 lines of 8 letters and a line feed")
        self.train("position=learned")
        self.assert_refused("--seq-len", 17, code=2, parts=("--seq-len is 17", "for 16 tokens", "at most 16"))
        self.assertAlmostEqual(self.loss("validation", self.run_folder, "--seq-len", 16),
                               self.loss("validation", self.run_folder), places=6)

    def test_a_longer_context_than_the_split(self):
        self.config.write_text(LINES.replace('split = "lines"\nval_lines = 12\n', ""))
        self.train("position=none")
        self.loss("validation", self.run_folder, "--seq-len", 1000)
        self.assert_refused("--seq-len", 1_000_001, code=2, parts=("--seq-len", "1000000"))

    def test_problems_have_one_length(self):
        self.config.write_text('[model]\nnum_layers = 1\nnum_heads = 2\nd_model = 16\nseq_len = 3\nposition = "none"\n'
                               '[data]\nsource = "modular_addition"\nmodulus = 7\n[train]\nsteps = 2\nplot = false\n')
        self.train()
        self.assert_refused("--seq-len", 5, code=2, parts=("--seq-len is 5", "3 tokens"))

    def test_by_position(self):
        self.train()
        loss = self.loss("validation", self.run_folder)
        result = self.run_heed("eval", self.run_folder, "--by-position", "--csv", "position.csv")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"loss {loss:.6f}", result.stdout, "the same loss as without it")
        rows = (self.folder / "position.csv").read_text().splitlines()
        self.assertEqual(rows[0], "split,context,targets,loss")
        values = [row.split(",") for row in rows[1:]]
        self.assertEqual([row[:3] for row in values], [["validation", str(i), "12"] for i in range(1, 10)])
        self.assertAlmostEqual(sum(float(row[3]) for row in values) / 9, loss, places=5)
        self.assertLess(float(values[8][3]), 0.5, "after 8 letters every line ends")
        table = [line.split() for line in result.stdout.splitlines()[2:-1]]
        self.assertEqual([row[-2] for row in table], ["targets", "12", "12", "24", "48", "12"])
        self.assertEqual(table[4][:3], ["5", "to", "8"])
        # Again over its own file, but over no other.
        self.assertEqual(self.run_heed("eval", self.run_folder, "--by-position", "--csv", "position.csv").returncode, 0)
        (self.folder / "other.csv").write_text("mine")
        self.assert_refused("--by-position", "--csv", "other.csv", code=2, parts=("other.csv", "not written by heed eval"))
        self.assertEqual((self.folder / "other.csv").read_text(), "mine")
        self.assert_refused("--csv", "position.csv", code=2, parts=("--csv", "--by-position"))

    def test_a_text_of_the_command_line(self):
        for split in ("lines", "position"):
            self.config.write_text(LINES.replace('split = "lines"\nval_lines = 12\n', f'split = "{split}"\n'))
            self.train()
            text = "abcdefgh\nabcdefgh\n" * 5
            (self.folder / "given.txt").write_text(text)
            loss = self.loss("another text", self.run_folder, "data.path=given.txt")
            for arguments in (("--text", text), ("--text-file", "given.txt")):
                self.assertAlmostEqual(self.loss("text", self.run_folder, *arguments), loss, places=6)
            result = self.run_heed("eval", self.run_folder, "--text", text)
            self.assertIn(f"({len(text) - (split == 'position')} targets, each once)", result.stdout)
            self.assertIn("bits per byte", result.stdout)
            self.assert_refused("--text", "ab", "data.path=given.txt", code=2, parts=("data.path", "--text"))
            self.assert_refused("--text", "", code=3, parts=("--text has 0 tokens", "at least"))
            self.assert_refused("--text", "a?", code=3, parts=("--text", "'?'"))
            self.assert_refused("--text-file", "none.txt", code=3, parts=("--text-file", "none.txt", "No such file"))
            self.assert_refused("--text-file", "given.txt", "--text", "a", code=2, parts=("--text",))

    def test_token_ids(self):
        self.config.write_text(command_line.TINY)
        self.train()
        result = self.run_heed("eval", self.run_folder, "--text", " ".join("012345" * 4), "--by-position")
        self.assertIn("(23 targets, each once)", result.stdout, result.stderr)
        self.assertNotIn("bits per byte", result.stdout)
        self.assert_refused("--text", "1 6", code=3, parts=("below 6",))
        self.assert_refused("--text", "1", code=3, parts=("--text has 1 tokens", "at least 2"))

    def test_a_device_that_is_asked_for(self):
        """device=cuda in a checkpoint runs where it can; on the command line it is meant."""
        self.train("stop_after=1")
        result = self.run_heed("eval", self.run_folder, "train.device=cuda", CUDA_VISIBLE_DEVICES="")
        self.assert_error(result, 5, "train.device", "cuda")


if __name__ == "__main__":
    unittest.main()
