"""heed under mpirun, for tests: each job has a folder of its own and a time limit, and nothing of it may stay behind."""

import contextlib
import csv
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

LAUNCHERS = re.compile(r"(OMPI|PMIX|PMI|SLURM|PRTE|TORCHELASTIC)_|(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT)$")
BOARD = re.compile(r"heed-\d+-[0-9a-f]{16}$")  # shared memory of the ranks of a node, train/comm/watchdog.cpp
MEMORY = pathlib.Path("/dev/shm")

TINY = """
[model]
num_layers = 2
num_heads = 2
d_model = 16
seq_len = 8
dropout = 0.1
[data]
{source}
[optim]
learning_rate = 1e-3
[train]
steps = 20
batch_size = 12
eval_interval = 5
eval_batches = 1
log_interval = 1
plot = false
"""

NGRAM = """source = "ngram"
vocab_size = 6
order = 2"""

# What says the same in two runs of one training: not the columns of time.
TIMELESS = ("step", "tokens", "train_loss", "val_loss", "learning_rate", "grad_norm")


def skip_without_mpi(heed):
    """Ends the test with 77, which is a skipped one for ctest, where ranks cannot be started."""
    reason = ""
    if shutil.which("mpirun") is None:
        reason = "there is no mpirun"
    elif "by Open MPI" not in subprocess.run([heed, "info"], capture_output=True, text=True, check=True).stdout:
        reason = "heed is built without Open MPI"
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)


def rows_of(run_dir):
    """The rows of metrics.csv without the columns of time, as text."""
    with open(run_dir / "metrics.csv", encoding="utf-8", newline="") as file:
        return [{name: row[name] for name in TIMELESS} for row in csv.DictReader(file)]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


class Job:
    """A process and all that it starts, known by the TMPDIR of their own that they inherit."""

    def __init__(self, heed, command, folder, environment):
        self.heed = os.path.realpath(heed)
        self.temporary = tempfile.mkdtemp(prefix="t", dir=folder)
        self.out, self.err = (pathlib.Path(self.temporary) / name for name in ("out", "err"))
        self.seen = set()  # numbers of its processes, also of those that have ended
        inherited = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
        own = {
            "TMPDIR": self.temporary, "OMPI_MCA_btl_vader_backing_directory": self.temporary,
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [str(word) for word in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True, env={**inherited, **own, **environment})

    @property
    def stdout(self):
        return self.out.read_text(errors="replace")

    @property
    def stderr(self):
        return self.err.read_text(errors="replace")

    @property
    def words(self):
        """What it said last, for a test that fails."""
        return self.stdout[-1500:] + self.stderr[-3000:]

    def members(self):
        """The environment of each process of this job that still runs, by its number."""
        mark = f"TMPDIR={self.temporary}".encode()
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                environment = path.read_bytes().split(b"\0")
                if mark in environment:
                    found[int(path.parent.name)] = environment
        self.seen.update(found)
        return found

    def ranks(self):
        """The process of each rank that has come to run heed."""
        found = {}
        for number, environment in self.members().items():
            with contextlib.suppress(OSError):
                rank = [text for text in environment if text.startswith(b"OMPI_COMM_WORLD_RANK=")]
                if rank and os.readlink(f"/proc/{number}/exe") == self.heed:
                    found[int(rank[0].split(b"=")[1])] = number
        return found

    def wait_for_ranks(self, count):
        self.wait_until(lambda: len(self.ranks()) == count, f"{count} ranks")
        return self.ranks()

    def wait_for_step(self, step=1):
        """Until it is done; train.log_interval is 1."""
        self.wait_until(lambda: re.search(rf"^step +{step}/", self.stdout, re.M), f"step {step}")

    def wait_until(self, happened, what, limit_s=60):
        end = time.monotonic() + limit_s
        while not happened():
            if self.process.poll() is not None or time.monotonic() > end:
                self.end()
                raise AssertionError(f"no {what}: {self.words}")
            time.sleep(0.002)

    def wait(self, limit_s=60):
        """The exit code. Fails where the job outlives the limit, or anything of it outlives mpirun."""
        end = time.monotonic() + limit_s
        while self.process.poll() is None:
            self.members()
            if time.monotonic() > end:
                left = self.end()
                raise AssertionError(f"not at its end after {limit_s} s, {left} run: {self.words}")
            time.sleep(0.02)
        code = self.process.returncode
        gone = time.monotonic() + 2
        while self.members() and time.monotonic() < gone:
            time.sleep(0.02)
        left = self.end()
        if left:
            raise AssertionError(f"processes outlive their mpirun: {left}: {self.stderr}")
        stale = self.stale_boards()
        if stale:
            raise AssertionError(f"shared memory stays behind: {stale}: {self.stderr}")
        return code

    def stale_boards(self):
        """Shared memory with heed's name that names a process of this job: other jobs may run beside it."""
        stale = []
        for path in MEMORY.iterdir():
            if BOARD.match(path.name):
                with contextlib.suppress(OSError):  # its job may be at its end
                    numbers = struct.iter_unpack("=q56x", path.read_bytes())
                    stale += [path.name] * any(number in self.seen for number, in numbers)
        return stale

    def end(self):
        """Kills what still runs; gives its command lines."""
        lines = []
        for number in self.members():
            with contextlib.suppress(OSError):
                lines.append(pathlib.Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
                os.kill(number, signal.SIGKILL)
        self.process.wait()
        return lines


class Ranks(unittest.TestCase):
    """A folder for the runs of a test, and how heed is started in it."""

    heed = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heed-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "tiny.toml"
        self.write_config(NGRAM)

    def write_config(self, source, **numbers):
        """The tiny one, with other data, and other numbers of [train]."""
        text = TINY.format(source=source)
        for name, value in numbers.items():
            text = re.sub(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.M)
        self.config.write_text(text)

    def write_text_config(self, **numbers):
        """A text, of which a whole split is soon evaluated."""
        (self.folder / "text.txt").write_text("".join(f"{i * i} bottles of beer, " for i in range(200)))
        self.write_config(f'source = "text"\npath = "{self.folder}/text.txt"', **numbers)

    def start(self, command, **environment):
        job = Job(self.heed, command, self.folder, environment)
        self.addCleanup(job.end)
        return job

    def mpirun(self, *segments, **environment):
        """Starts (ranks, command) or (ranks, command, folder) segments as one world."""
        words = []
        for count, command, *folder in segments:
            place = ["-wdir", folder[0]] if folder else []
            words += [*([":"] if words else []), "-np", count, *place, *command]
        if sum(segment[0] for segment in segments) >= (os.cpu_count() or 1):
            environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
        return self.start(["mpirun", "--oversubscribe", *words], **environment)

    def train(self, *arguments):
        return [self.heed, "train", self.config, *arguments]

    def start_ranks(self, count, *arguments):
        """Starts to train by `count` ranks, without mpirun where that is 0."""
        command = self.train(*arguments)
        return self.mpirun((count, command)) if count else self.start(command)

    def assert_success(self, job):
        self.assertEqual(job.wait(), 0, job.words)
        return job

    def run_together(self, runs, most=4):
        """Runs of (ranks, argument…), a few at a time: each is short, and most of it is waiting."""
        for begin in range(0, len(runs), most):
            for job in [self.start_ranks(*run) for run in runs[begin : begin + most]]:
                self.assert_success(job)

    def run_ranks(self, count, *arguments):
        return self.assert_success(self.start_ranks(count, *arguments))

    def run_heed(self, *arguments):
        """A command of one process, which must succeed."""
        result = subprocess.run([self.heed, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def step_of(self, run_dir):
        """The step of a run's last checkpoint, which must load."""
        text = self.run_heed("eval", run_dir / "checkpoints" / "last.h5")
        return int(text.splitlines()[0].rsplit(" ", 1)[1])
