"""What the tests of this folder share: a tiny run, commands with their results, and folders as snapshots."""

import csv
import hashlib
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

CONFIG = """
[model]
num_layers = 1
num_heads = 1
d_model = 16
seq_len = 8
[data]
source = "text"
path = "{text}"
[optim]
learning_rate = 0.01
warmup_steps = 1
[train]
steps = {steps}
batch_size = 4
device = "cpu"
eval_interval = {eval_interval}
save_interval = {save_interval}
keep_checkpoints = {keep}
log_interval = 100
run_dir = "{run_dir}"
plot = false
"""
TEXT = "the quick brown fox jumps over the lazy dog\n" * 20

# 2 usage or config, 3 data, 4 checkpoint, 5 device or memory, 6 diverged, 7 communication.
ERROR_CODES = range(2, 8)


def config_text(text="text.txt", run_dir="run", steps=12, eval_interval=4, save_interval=3, keep=2):
    return CONFIG.format(
        text=text, run_dir=run_dir, steps=steps, eval_interval=eval_interval, save_interval=save_interval, keep=keep
    )


def scratch_folder():
    """In memory where possible: each run flushes a hundred times."""
    in_memory = pathlib.Path("/dev/shm")
    base = in_memory if in_memory.is_dir() and os.access(in_memory, os.W_OK) else None
    return pathlib.Path(tempfile.mkdtemp(prefix="heed-files-", dir=base)).resolve()


def remove_folder(folder):
    """Also folders without permissions."""
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o700)
    shutil.rmtree(folder)


def run(heed, arguments, cwd, stdout=subprocess.PIPE, timeout=60, **environment):
    return subprocess.run(
        [heed, *map(str, arguments)],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=timeout,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        check=False,
    )


def what_is_wrong(result, allowed=(0, *ERROR_CODES)):
    """None, or why this is not how a command may end: an undocumented exit code, or an error that is not one line."""
    if result.returncode not in allowed:
        return f"exit code {result.returncode}, allowed are {allowed}: {result.stderr[-300:]!r}"
    errors = [line for line in result.stderr.splitlines() if line.startswith("heed: ") and ": warning: " not in line]
    if result.returncode > 0 and len(errors) != 1:
        return f"exit code {result.returncode} with {len(errors)} lines of error: {result.stderr[-300:]!r}"
    return None


def entry(path, inode=True):
    """What one path is: kind, permissions and owner, content or target."""
    status = os.lstat(path)
    mode = f"{stat.S_IMODE(status.st_mode):o} {status.st_uid}:{status.st_gid}"
    if stat.S_ISLNK(status.st_mode):
        return ("link", os.readlink(path))
    if stat.S_ISDIR(status.st_mode):
        return ("folder", mode)
    if not stat.S_ISREG(status.st_mode):
        return (stat.S_IFMT(status.st_mode), mode)
    with open(path, "rb") as file:
        content = hashlib.sha256(file.read(1 << 24)).hexdigest()  # files of a test are shorter, or have holes
    return ("file", mode, status.st_size, content) + ((status.st_ino,) if inode else ())


def snapshot(folder, inode=True):
    """Every path below the folder (and ".", itself) with its entry."""
    found = {".": entry(folder, inode)}
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = entry(path, inode)
    return found


def differences(before, after):
    """What of `before` is not the same any more. New paths are none."""
    found = []
    for path, what in sorted(before.items()):
        if path not in after:
            found.append(f"{path!r} is gone")
        elif after[path] != what:
            found.append(f"{path!r} was {what}, is {after[path]}")
    return found


def timeless_metrics(run_dir):
    """The rows of metrics.csv without the columns of time."""
    rows = list(csv.reader((run_dir / "metrics.csv").read_text().splitlines()))
    kept = [i for i, name in enumerate(rows[0]) if name not in ("tokens_per_s", "seconds")]
    return [[row[i] if i < len(row) else None for i in kept] for row in rows]
