"""What a user sees: progress on terminals of any width, plain lines elsewhere.

Usage: screen_test.py PATH_OF_HEED
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import screen

HEED = None

TINY = """
[model]
num_layers = 1
num_heads = 2
d_model = 32
seq_len = 16
[data]
source = "ngram"
vocab_size = 8
order = 2
[optim]
learning_rate = 0.01
[train]
steps = 120
batch_size = 8
device = "cpu"
eval_interval = 40
eval_batches = 20
log_interval = 30
plot = false
"""

ETA = re.compile(r"ETA \d+:\d\d$")


class ScreenTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "tiny.toml"
        self.config.write_text(TINY)

    def on_terminal(self, columns, *arguments, **more):
        more.setdefault("env", {"OMP_NUM_THREADS": "1"})
        return screen.run([HEED, *arguments], columns, cwd=self.folder, **more)

    def in_pipe(self, *arguments, **environment):
        return subprocess.run(
            [HEED, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=120,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment})

    def assert_tidy(self, result):
        """Nothing of a bar is left, and no line is there twice."""
        self.assertEqual(result.screen.text()[-1], "", "the last line is complete")
        for line in result.lines:
            self.assertNotEqual(line, "", "\n".join(result.lines))
            self.assertNotRegex(line, r"\[[#.]+\]|ETA|evaluating")
        whole = [line for line in result.lines if len(line) > 20]
        self.assertEqual(len(set(whole)), len(whole), "\n".join(result.lines))


class Training(ScreenTest):
    def test_every_width(self):
        for columns in (20, 40, 80, 120, 200):
            with self.subTest(columns):
                result = self.on_terminal(columns, "train", self.config, f"run_dir=w{columns}")
                self.assertEqual(result.code, 0, result.raw)
                self.assert_tidy(result)
                self.assertLess(result.screen.widest_frame, columns)
                bars = [frame for frame in result.screen.frames if "/120" in frame]
                self.assertTrue(bars)
                for bar in bars:
                    self.assertRegex(bar, ETA)
                    self.assertEqual(bar.startswith("["), columns > 20, bar)
                text = "".join(result.lines) if columns < 60 else "\n".join(result.lines)
                for step in (1, 30, 60, 90, 120):
                    self.assertRegex(text, rf"step +{step}/120" + (r"  loss \d\.\d{4}" if columns > 20 else ""))
                if columns == 200:
                    self.assertEqual(result.screen.wraps, 0)
                    self.assertRegex(text, r"step +30/120  loss \d\.\d{4}  lr \S+  grad norm \S+  \S+ tokens/s\n")
                    self.assertRegex(text, r"step +40  val loss \d\.\d{4}  excess -?\d\.\d{4}  \(subset, 2560 tokens\)\n")
                    self.assertRegex(text, r"step +120  final val loss .*  \(full split, 100000 tokens\)\n")

    def test_the_width_is_unknown(self):
        result = self.on_terminal(None, "train", self.config)
        self.assertEqual(result.code, 0, result.raw)
        self.assertLess(result.screen.widest_frame, 80)
        self.assert_tidy(result)

    def test_a_terminal_without_escape_sequences_is_like_a_pipe(self):
        def shape(text):
            return [re.sub(r"[-\d.:e]+[kM]?", "0", re.sub(r" +", " ", line)) for line in text.splitlines()]

        plain = self.in_pipe("train", self.config, "run_dir=pipe")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertEqual(plain.stderr, "")
        self.assertIn("ETA", plain.stdout)
        for term in ("dumb", "", None):
            with self.subTest(term):
                result = self.on_terminal(60, "train", self.config, f"run_dir=pipe-{term}", term=term)
                self.assertEqual(result.code, 0, result.raw)
                self.assertNotIn("\x1b", result.raw)
                text = result.raw.replace("\r\n", "\n")
                self.assertNotIn("\r", text)
                self.assertEqual(shape(text.replace(f"pipe-{term}", "pipe")), shape(plain.stdout))

    def test_the_window_is_resized(self):
        widths = [120, 50, 90, 33, 140]
        frames_at_resize = [0]

        def resize_after_each_frame(terminal, process, resize):
            if len(terminal.frames) <= frames_at_resize[-1] + 1:
                return
            frames_at_resize.append(len(terminal.frames))
            if len(widths) > 1:
                widths.pop(0)
                resize(widths[0])
            else:
                os.kill(process, signal.SIGINT)  # the run is long enough on any machine

        result = self.on_terminal(120, "train", self.config, "steps=10000000", "log_interval=10000000",
                                  "eval_interval=10000000", on_output=resize_after_each_frame)
        self.assertEqual(result.code, -signal.SIGINT, result.raw)
        self.assertEqual(len(widths), 1)
        self.assertEqual(result.screen.too_wide, [], "each frame fits into the terminal as it was then")
        self.assertFalse([line for line in result.lines if "ETA" in line])

    def test_the_first_signal_stops_an_evaluation(self):
        sent = []

        def interrupt(terminal, process, _):
            if not sent and any("evaluating" in frame for frame in terminal.frames):
                sent.append(process)
                os.kill(process, signal.SIGINT)

        # The evaluation of the whole split takes far longer than the step.
        result = self.on_terminal(100, "train", self.config, "steps=1", "d_model=128", "num_layers=4", "order=1",
                                  on_output=interrupt)
        self.assertTrue(sent)
        text = "\n".join(result.lines)
        self.assertIn(result.code, (0, 130, -signal.SIGINT), text)
        self.assertNotIn("final val loss", text)
        self.assertNotIn("done", text)
        self.assertRegex(text, "stopped +by SIGINT")
        self.assert_tidy(result)
        self.assertTrue((self.folder / "runs" / "tiny" / "checkpoints" / "last.h5").exists())

    def test_the_end_says_what_was_measured(self):
        text = self.in_pipe("train", self.config, "steps=5", "optim.learning_rate=1e-6").stdout
        done = re.search(r"done +5 steps; training (\S+) s, total (\S+) s; \d+ tokens/s while training; "
                         r"final val loss \d\.\d{4}; test loss \d\.\d{4}\n", text)
        self.assertTrue(done, text)
        self.assertLessEqual(float(done[1]), float(done[2]))
        self.assertRegex(text, r"notice +the val loss was never below the unigram entropy \d\.\d{4}.*optim\.warmup_steps")
        learned = self.in_pipe("train", self.config).stdout
        self.assertRegex(learned, r"below the unigram entropy \d\.\d{4}: the model uses context\n")
        self.assertNotIn("never below", learned)
        (self.folder / "abcd.txt").write_text("abcd" * 500)
        text = self.in_pipe("train", self.config, "data.source=text", "data.path=abcd.txt", "steps=5").stdout
        self.assertIn("final val loss", text)
        self.assertNotIn("test loss", text)


class Header(ScreenTest):
    def test_counts(self):
        def batch(*arguments):
            text = self.in_pipe("train", self.config, *arguments).stdout
            return next(line for line in text.splitlines() if line.startswith("batch"))

        (self.folder / "lines.txt").write_text("alpha beta gamma delta epsilon zeta\n" * 50)
        config = self.config.read_text()
        self.assertEqual(batch("steps=1"), "batch         8 sequences x 16 = 128 tokens; 1 step; f32, 1 thread")
        self.assertEqual(batch("steps=2", "micro_batch_size=4", "stop_after=1"),
                         "batch         8 sequences (micro-batches of 4) x 16 = 128 tokens; 2 steps (stop after 1); f32, "
                         "1 thread")
        self.config.write_text(config.replace('"ngram"\nvocab_size = 8\norder = 2', '"text"\npath = "lines.txt"'))
        self.assertEqual(batch("steps=1", "model.seq_len=64"),
                         "batch         8 sequences x 64 = 512 tokens; 1 step; f32, 1 thread")
        self.assertEqual(batch("steps=1", "model.seq_len=64", "data.split=lines", "val_lines=5"),
                         "batch         8 sequences x 64 = up to 512 tokens; 1 step; f32, 1 thread")

    def test_heads(self):
        def model(*arguments):
            return self.in_pipe("train", self.config, "steps=1", *arguments).stdout.splitlines()[0]

        self.assertIn("1 layer, d_model 32, 2 heads, d_ff", model("run_dir=a"))
        self.assertIn("2 layers, d_model 32, 1 head, d_ff", model("run_dir=b", "num_layers=2", "num_heads=1"))
        self.assertIn("2 heads (1 kv), d_ff", model("run_dir=c", "num_kv_heads=1"))


class Names(ScreenTest):
    """Files whose names would change the terminal. The screen refuses every control character that heed writes."""

    EVIL = "evil\x1b[31m\r\n\x07\u009b31m\u202egnp"

    def check(self, code, *arguments):
        result = self.on_terminal(80, *arguments)
        self.assertEqual(result.code, code, result.raw)
        if code != 0:
            self.assertEqual(result.raw.count("\n"), 1, result.raw)
        self.assertNotIn("\u202e", result.raw)
        return result.raw.replace("\r\n", "\n")

    def test_token_files(self):
        text, output = self.folder / self.EVIL, self.folder / (self.EVIL + ".h5")
        text.write_text("abcd" * 500)
        shown = r"evil\u001B[31m\u000D\u000A\u0007\u009B31m\u202Egnp"
        prepared = self.check(0, "data", "prepare", text, output)
        self.assertIn(f'from          "{shown}", 2000 bytes', prepared)
        self.assertIn(f'{shown}.h5"\n', prepared)
        info = self.check(0, "data", "info", output)
        self.assertEqual(info[info.index("file "):], prepared[prepared.index("file "):])
        self.assertIn(shown, self.check(3, "data", "prepare", text, output))
        self.assertIn(shown, self.check(3, "data", "info", text))

    def test_everything_else_that_names_a_file(self):
        path = self.folder / self.EVIL
        for arguments, code in (
                (["train", path], 2), (["train", self.config, f"train.run_dir={path}"], 2),
                (["train", self.config, self.EVIL], 2), (["config", path], 2), (["generate", path], 4),
                (["eval", path], 4), (["data", "info", path], 3), (["train", self.config, f"--{self.EVIL}"], 2),
                (["gradcheck", self.EVIL], 2)):
            with self.subTest(arguments[0]):
                self.assertIn(r"\u001B", self.check(code, *arguments))
        self.check(2, self.EVIL)


class OtherCommands(ScreenTest):
    def test_eval_shows_a_bar(self):
        self.assertEqual(self.in_pipe("train", self.config, "steps=1").returncode, 0)
        result = self.on_terminal(50, "eval", "runs/tiny/checkpoints/last.h5")
        self.assertEqual(result.code, 0, result.raw)
        self.assert_tidy(result)
        self.assertTrue([frame for frame in result.screen.frames if re.match(r"\[[#.]+\] evaluating", frame)])
        self.assertLess(result.screen.widest_frame, 50)

    def test_learning_a_vocabulary_shows_progress(self):
        words = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyz"]
        (self.folder / "words.txt").write_text(" ".join(words * 30))
        commands = (
            ["data", "prepare", "words.txt", "words.h5", "--tokenizer", "bpe", "--vocab-size", "300"],
            ["train", self.config, "data.source=text", "data.path=words.txt", "data.tokenizer=bpe",
             "data.vocab_size=300", "steps=1"])
        self.config.write_text(TINY.replace("order = 2\n", "").replace("vocab_size = 8\n", ""))
        for command in commands:
            with self.subTest(command[0]):
                result = self.on_terminal(60, *command)
                if "SentencePiece" in result.raw:
                    self.skipTest(result.raw)
                self.assertEqual(result.code, 0, result.raw)
                self.assertIn("learning the vocabulary …", result.screen.frames)
                self.assertTrue([frame for frame in result.screen.frames if "encoding" in frame])
                self.assertLess(result.screen.widest_frame, 60)
                self.assert_tidy(result)


if __name__ == "__main__":
    HEED = os.path.abspath(sys.argv.pop(1))
    unittest.main()
