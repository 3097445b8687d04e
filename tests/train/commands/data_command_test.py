"""`heed data prepare` and `heed data info` from outside: whose files they leave alone, what they say of odd input, what
an interruption leaves; and a training whose token file changes.

data_command_test.py HEED [unittest's arguments]
"""

import glob
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CONFIG = """
[model]
num_layers = 1
num_heads = 2
d_model = 16
seq_len = 8
[data]
source = "tokens"
path = "a.h5"
[optim]
learning_rate = 0.01
warmup_steps = 0
[train]
steps = 1000000
batch_size = 4
device = "cpu"
eval_interval = 1000000
log_interval = 1000
run_dir = "run"
plot = false
"""


class DataCommand(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        (self.folder / "abcd.txt").write_text("abcd" * 500)

    def tearDown(self):
        self.scratch.cleanup()

    def start(self, *arguments, **options):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([HEED, *map(str, arguments)], cwd=self.folder, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def run_heed(self, *arguments, **options):
        process = self.start(*arguments, **options)
        output, errors = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def assert_error(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def start_long(self):
        """A preparation that has begun to write, and will for some seconds."""
        if not (self.folder / "big.txt").exists():
            (self.folder / "big.txt").write_bytes(b"some words of a text\n" * 3_000_000)
        process = self.start("data", "prepare", "big.txt", "big.h5")
        deadline = time.monotonic() + 30
        while not glob.glob(str(self.folder / "big.h5.tmp-*")):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)
        time.sleep(0.05)
        return process

    def test_a_signal_leaves_nothing(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            process = self.start_long()
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -number)
            self.assertEqual(self.names(), ["abcd.txt", "big.txt"])

    def test_what_a_kill_left_is_removed_by_the_next_one(self):
        process = self.start_long()
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(len(self.names()), 3)
        (self.folder / "big.h5.tmp-ffffff").write_text("the user's")
        self.assertEqual(self.run_heed("data", "prepare", "abcd.txt", "big.h5").returncode, 0)
        self.assertEqual(self.names(), ["abcd.txt", "big.h5", "big.h5.tmp-ffffff", "big.txt"])

    def test_a_file_that_appears_meanwhile_stays(self):
        process = self.start_long()
        (self.folder / "big.h5").write_text("precious")
        output, errors = process.communicate(timeout=60)
        self.assert_error(subprocess.CompletedProcess([], process.returncode, output, errors), 3, "big.h5",
                          "in the meantime")
        self.assertEqual((self.folder / "big.h5").read_text(), "precious")
        self.assertEqual(self.names(), ["abcd.txt", "big.h5", "big.txt"])

    def test_one_of_two_at_once_wins(self):
        both = [self.start_long(), self.start("data", "prepare", "big.txt", "big.h5", "--tokenizer", "byte")]
        ends = [process.communicate(timeout=60) for process in both]
        self.assertEqual(sorted(process.returncode for process in both), [0, 3], ends)
        self.assertEqual(self.names(), ["abcd.txt", "big.h5", "big.txt"])
        self.assertEqual(self.run_heed("data", "info", "big.h5").returncode, 0)

    def test_odd_input(self):
        os.mkfifo(self.folder / "pipe")
        (self.folder / "empty.txt").touch()
        os.symlink("abcd.txt", self.folder / "link.txt")
        before = self.names()
        for text, part in ("pipe", "is a pipe"), (".", "is a folder"), ("none.txt", "No such file"), \
                          ("/dev/zero", "is a device"), ("empty.txt", "is empty"):
            self.assert_error(self.run_heed("data", "prepare", text, "o.h5"), 3, part)
        self.assert_error(self.run_heed("data", "prepare", "/dev/stdin", "o.h5", stdin=subprocess.PIPE), 3, "is a pipe")
        self.assertEqual(self.names(), before)
        self.assertEqual(self.run_heed("data", "prepare", "link.txt", "o.h5").returncode, 0)

    def test_odd_output(self):
        os.symlink("nowhere", self.folder / "dangling")
        (self.folder / "folder").mkdir()
        before = self.names()
        for output, part in ("dangling", "is there already"), ("abcd.txt", "is there already"), \
                            ("folder", "is there already"), ("none/o.h5", "No such file"), ("/proc/o.h5", "/proc/o.h5"):
            self.assert_error(self.run_heed("data", "prepare", "abcd.txt", output), 3, part)
        self.assertEqual(self.names(), before)
        self.assertEqual((self.folder / "abcd.txt").read_text(), "abcd" * 500)

    @unittest.skipIf(os.geteuid() != 0, "only root can mount a file system")
    def test_full_and_read_only_disk(self):
        (self.folder / "disk").mkdir()
        script = 'mount -t tmpfs -o size=600k tmpfs disk && "$0" data prepare abcd.txt disk/o.h5; echo $? $(ls disk);' \
                 'mount -o remount,ro disk && "$0" data prepare abcd.txt disk/o.h5; echo $?'
        result = subprocess.run(["unshare", "-m", "sh", "-c", script, HEED], cwd=self.folder, text=True,
                                capture_output=True)
        if "unshare" in result.stderr or "mount" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.stdout, "3\n3\n", result.stderr)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertIn("No space left", lines[0])
        self.assertIn("Read-only file system", lines[1])

    def test_names_reach_the_terminal_quoted(self):
        name = "a\x1b[2J\nb.txt"
        (self.folder / name).write_text("abcd" * 500)
        result = self.run_heed("data", "prepare", name, "o\n.h5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(r'"a\u001B[2J\u000Ab.txt", 2000 bytes', result.stdout)
        self.assertNotIn("\x1b", result.stdout)
        self.assert_error(self.run_heed("data", "info", "none\x1b\n"), 3, r"none\u001B\u000A")

    def test_line_ends_and_byte_order_mark(self):
        (self.folder / "bom.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
        result = self.run_heed("data", "prepare", "bom.txt", "o.h5", "--val-fraction", "0")
        self.assertIn("tokens        4 (", result.stdout)
        self.assertIn("char, 3 entries", result.stdout)
        self.assertIn("normalized    byte order mark removed, 2 CRLF line endings converted to LF", result.stdout)
        (self.folder / "config.toml").write_text(CONFIG.replace('"tokens"', '"text"').replace("a.h5", "dos.txt"))
        (self.folder / "dos.txt").write_bytes(b"abcd\r\n" * 300)
        result = self.run_heed("train", "config.toml", "train.steps=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("300 CRLF line endings converted to LF", result.stdout)

    def test_a_token_file_that_changes_during_the_run(self):
        (self.folder / "abdc.txt").write_text("abdc" * 500)
        for text, tokens in ("abcd.txt", "a.h5"), ("abdc.txt", "b.h5"):
            self.assertEqual(self.run_heed("data", "prepare", text, tokens).returncode, 0)
        other = (self.folder / "b.h5").read_bytes()
        self.assertEqual(len(other), (self.folder / "a.h5").stat().st_size)
        (self.folder / "config.toml").write_text(CONFIG)
        process = self.start("train", "config.toml")
        while not "step" in process.stdout.readline():
            self.assertIsNone(process.poll())
        with open(self.folder / "a.h5", "r+b") as file:
            file.write(other)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn("changed while heed was reading it", errors)
        self.assertIn("a.h5", errors)


if __name__ == "__main__":
    HEED = os.path.abspath(sys.argv.pop(1))
    unittest.main()
