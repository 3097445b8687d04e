"""Runs heed's commands in and around random folders of other people's files: not one of them may change.

Usage: foreign_files_test.py PATH_OF_HEED [--count N] [--seed FIRST] [--verbose]

Each seed makes one folder. Names that heed uses itself are among the files, as regular files, folders, links, pipes; the
config, the text and the current folder are inside or outside; the run folder is the folder, a part of it or new. After
each command every entry must be there with the same path, kind, bytes, permissions, link target and inode, whatever the
exit code. A failing seed is run alone by --count 1 --seed N.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import heed_runs as runs

# What heed calls its own files and temporaries, and what it might.
HEEDS_NAMES = (
    "lock", "config.toml", "metrics.csv", "summary.json", "plot.svg", "report.html", "layers.csv", "inspect",
    "inspect/inspect.h5", "inspect/heads.csv", "inspect/attention.svg", "best.h5", "last.h5",
    "out.h5", "run", "run.1", "tmp",
    "config.toml.tmp-123", "metrics.csv.tmp-1", "summary.json.tmp-9", "last.h5.tmp-77", "probe.tmp-3", "probe.tmp-30",
    "out.h5.tmp-5", ".out.h5.heed-8", ".config.toml.heed-123", ".metrics.csv.heed-1", ".summary.json.heed-77",
    "checkpoints/.last.h5.heed-77", "checkpoints/.best.h5.heed-3", ".heed", ".heed/lock", ".heed/mark", ".heed/tmp", ".heed/config.toml",
    "checkpoints", "checkpoints/last.h5", "checkpoints/best.h5", "checkpoints/step-000003.h5",
    "checkpoints/step-000006.h5", "checkpoints/last.h5.tmp-77", "checkpoints/best.h5.tmp-1", "checkpoints/probe.tmp-2",
    "checkpoints/llama/weights.bin", "checkpoints/.heed/mark", "run/lock", "run/config.toml", "run/.heed/lock",
    "run/checkpoints/last.h5", "run/notes.md", "tensorboard", "tensorboard/events.out.tfevents.1700000000.host.1.0",
    "tensorboard/notes.md", "run/tensorboard",
)  # fmt: skip
USERS_NAMES = (
    "notes.md", "paper.tex", ".git/HEAD", ".git/config.lock", "src/main.py", "ä ö ü.txt", "a blank", "two\nlines",
    "-dash", "--resume", "*", "\x1b[31mred", "deep/er/file", "deep/config.toml", "no-utf8-\udcff",
)  # fmt: skip
KINDS = ("text", "text", "bytes", "empty", "read-only", "folder", "link to file", "link to folder", "dangling link",
         "outer link", "outer folder", "pipe", "hard link", "outer hard link", "heed's own")  # fmt: skip
SOMEONE = 65534  # a user without rights, for those checks of permissions that root never meets


class Sandbox:
    """base/outside and base/home, the random folder, with siblings that have the names of runs that were moved aside."""

    def __init__(self, base, model_run, random_numbers):
        self.base, self.model_run, self.random = base, model_run, random_numbers
        self.outside, self.home = base / "outside", base / "home"
        self.outside.mkdir()
        self.home.mkdir()
        (self.outside / "folder").mkdir()
        (self.outside / "folder" / "inner.txt").write_text("inner\n")
        (self.outside / "file").write_text("outer\n")
        (self.base / "link-to-home").symlink_to("home")
        names = list(HEEDS_NAMES) + list(USERS_NAMES)
        for name in self.random.sample(names, self.random.randrange(1, 18)):
            self.plant(self.home / name, self.random.choice(KINDS))
        for name in self.random.sample(("home.1", "home.2", "home.tmp-4", "run", "run.1"), 2):
            self.plant(self.base / name, self.random.choice(("text", "folder", "bytes")))
        self.text = self.place_input("text.txt", runs.TEXT)
        self.config = self.place_input(self.random.choice(("config.toml", "train.toml")), "")

    def plant(self, path, kind):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            return  # a file has the name of its folder already
        if os.path.lexists(path):
            return
        if kind in ("text", "read-only"):
            path.write_text(f"the user's {ascii(path.name)}\n")
        elif kind == "bytes":
            path.write_bytes(self.random.randbytes(self.random.randrange(1, 5000)))
        elif kind == "empty":
            path.touch()
        elif kind == "folder":
            path.mkdir()
            if self.random.random() < 0.5:
                (path / "inner.txt").write_text("inner\n")
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "heed's own":
            self.plant_copy(path)
        elif kind.endswith("hard link"):
            os.link(self.outside / "file" if kind.startswith("outer") else self.some_file(), path)
        else:
            path.symlink_to(self.target_of(kind, path))
        if kind == "read-only":
            path.chmod(0o444)

    def plant_copy(self, path):
        """A file of a heed run that someone has copied: it is his now."""
        copies = [p for p in self.model_run.rglob("*") if p.is_file() and ".heed" not in p.parts]
        same_name = [p for p in copies if p.name == path.name]
        shutil.copyfile(self.random.choice(same_name or copies), path)

    def some_file(self):
        files = [p for p in self.home.rglob("*") if p.is_file() and not p.is_symlink()]
        return self.random.choice(files) if files else self.outside / "file"

    def target_of(self, kind, path):
        if kind == "link to file":
            return os.path.relpath(self.some_file(), path.parent)
        if kind == "link to folder":
            folders = [p for p in self.home.rglob("*") if p.is_dir() and not p.is_symlink()]
            return os.path.relpath(self.random.choice(folders), path.parent) if folders else self.outside / "folder"
        return {
            "dangling link": "nowhere",
            "outer link": self.outside / "file",
            "outer folder": self.outside / "folder",
        }[kind]

    def place_input(self, name, text):
        """Inside where the name is free, or outside."""
        path = self.home / name
        if self.random.random() < 0.4 or os.path.lexists(path):
            path = self.outside / name
        path.write_text(text)
        return path

    def choose_run_dir(self, cwd):
        """(what is written in the config, what it means)."""
        kind = self.random.choice(("home", "home", "home", "part", "part", "new", "new"))
        if kind == "home":
            path = self.home
        elif kind == "part":
            path = self.random.choice([p for p in (self.home, *self.home.rglob("*"))])
        else:
            path = self.home / self.random.choice(("new", "new/deep", "nö w", "runs/ngram"))
        words = [str(path), os.path.relpath(path, cwd), str(path) + "/", os.path.join(os.path.relpath(path, cwd), ".")]
        words.append(str(self.base / "link-to-home" / os.path.relpath(path, self.home)))
        return self.random.choice(words), path


def is_plain(text):
    """Whether TOML and the command line can carry the path as it is."""
    return text.isprintable() and not any(c in text for c in "\"\\'\udcff")


class Trial:
    def __init__(self, heed, model_run, seed, verbose, may_be_someone):
        self.heed, self.seed, self.verbose = heed, seed, verbose
        self.random = random.Random(seed)
        self.base = runs.scratch_folder()
        self.sandbox = Sandbox(self.base, model_run, self.random)
        self.faults = []
        inside = [p for p in self.sandbox.home.rglob("*") if p.is_dir() and not p.is_symlink()]
        self.cwd = self.random.choice([self.base, self.sandbox.home, self.sandbox.outside, *inside])
        while True:
            self.run_dir_text, self.run_dir = self.sandbox.choose_run_dir(self.cwd)
            if is_plain(self.run_dir_text):
                break
        text = self.random.choice((str(self.sandbox.text), os.path.relpath(self.sandbox.text, self.cwd)))
        if not is_plain(text):
            text = str(self.sandbox.text)
        config = runs.config_text(text, self.run_dir_text, steps=4, eval_interval=2, save_interval=1)
        config += f"log_layers = {self.random.choice(('true', 'false'))}\n"
        self.sandbox.config.write_text(config + self.random.choice(("", "tensorboard = true\n")))
        self.user = {}
        if self.random.random() < 0.3 and may_be_someone:
            self.user = {"user": SOMEONE, "group": SOMEONE, "extra_groups": []}
            for place in (self.base, *self.base.rglob("*")):
                os.chown(place, SOMEONE, SOMEONE, follow_symlinks=False)
        self.is_new = not os.path.lexists(self.run_dir) and all(
            p.is_dir() for p in self.run_dir.parents if os.path.lexists(p)
        )

    def foreign(self):
        return runs.snapshot(self.base)

    def call(self, arguments, stdout=subprocess.DEVNULL):
        command = [self.heed, *map(str, arguments)]
        try:
            result = subprocess.run(
                command, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, timeout=20,
                env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False, **self.user)  # fmt: skip
        except subprocess.TimeoutExpired:
            self.faults.append(f"{self.shown(arguments)}: still runs after 20 s")
            return None
        result.stderr = result.stderr.decode(errors="surrogateescape")
        wrong = runs.what_is_wrong(result)
        if wrong:
            self.faults.append(f"{self.shown(arguments)}: {wrong}")
        if result.returncode != 0 and not result.stderr.splitlines()[-1:][0].startswith("heed: "):
            self.faults.append(f"{self.shown(arguments)}: the last line is not the error: {result.stderr[-300:]!r}")
        if self.verbose:
            print(f"  {self.shown(arguments)}: {result.returncode} {result.stderr.strip().splitlines()[-1:]}")
        return result.returncode

    def checked(self, arguments, **more):
        if not self.cwd.is_dir():
            return None  # reported as gone
        code = self.call(arguments, **more)
        after = self.foreign()
        for difference in runs.differences(self.before, after):
            self.faults.append(f"{self.shown(arguments)} (exit code {code}): {ascii(difference)}")
        # Each is reported once.
        self.before = {path: after[path] for path in self.before if path in after}
        return code

    def shown(self, arguments):
        return " ".join(map(str, arguments)).replace(str(self.base), "BASE")

    def must_succeed(self, code, what):
        if code != 0:
            self.faults.append(f"{what}: exit code {code}, but the run folder {self.run_dir} is new")

    def run(self):
        self.before = self.foreign()
        config = self.sandbox.config
        train = ["train", config]
        code = self.checked(train)
        if self.is_new:
            self.must_succeed(code, "train")
            if code == 0 and self.random.random() < 0.5:
                return self.go_on_with_notes(train)
        # What the first run made may be moved aside by the second one, so the same holds for both.
        code = self.checked([*train, "train.steps=3", "model.seed=2"])
        if self.is_new:
            self.must_succeed(code, "train again")
        code = self.checked([*train, "train.steps=3", "model.seed=2", "--resume"])
        if self.is_new:
            self.must_succeed(code, "train --resume")
        self.try_other_commands()
        return None

    def go_on_with_notes(self, train):
        """The user adds files to a folder that heed made: it is not moved any more, and the run can still be resumed."""
        while True:
            path = self.run_dir / self.random.choice(
                (*USERS_NAMES, "checkpoints/mine.h5", "checkpoints/step-9.h5", "tensorboard/notes.md", "config.toml.bak",
                 ".heed/notes"))  # fmt: skip
            self.sandbox.plant(path, self.random.choice(("text", "bytes", "empty", "folder", "pipe", "dangling link")))
            if self.random.random() < 0.4:
                break
        self.before = {path: what for path, what in self.foreign().items() if not self.is_heeds(path)}
        code = self.checked([*train, "train.steps=3"])
        if code != 2:
            self.faults.append(f"train again: exit code {code}, must be refused: the run folder has files of the user")
        self.must_succeed(self.checked([*train, "--resume"]), "train --resume with files of the user")
        self.try_other_commands()

    def is_heeds(self, path):
        """Of a first run in a new folder."""
        inside = os.path.relpath(self.base / path, self.run_dir)
        return inside in (".", ".heed", ".heed/lock", ".heed/mark", "config.toml", "metrics.csv", "layers.csv", "summary.json") or (
            re.fullmatch(r"checkpoints(/(last|best|step-\d{6})\.h5)?", inside)
            or re.fullmatch(r"tensorboard(/events\.out\.tfevents\.\d{10}\..+\.\d+\.\d+)?", inside)
        )

    def try_other_commands(self):
        self.prepare()
        for run in (self.run_dir, self.sandbox.home):
            self.checked(["at", run, "2"])
            self.checked(["eval", f"{run}@1"])
        checkpoints = [p for p in self.base.rglob("*.h5") if p.is_file()][:3]
        checkpoints.append(self.sandbox.home / "checkpoints" / "last.h5")
        for checkpoint in checkpoints:
            if not checkpoint.is_fifo():
                self.checked(["eval", checkpoint])
                self.generate(checkpoint)

    def prepare(self):
        names = ("out.h5", "new.h5", "checkpoints/last.h5", "deep/tokens.h5", ".heed", "config.toml")
        for name in self.random.sample(names, 2):
            output = self.sandbox.home / name
            was_free = not os.path.lexists(output) and output.parent.is_dir()
            code = self.checked(["data", "prepare", self.sandbox.text, output, "--tokenizer", "byte"])
            if was_free and code not in (0, None):
                self.faults.append(f"data prepare to the new file {output}: exit code {code}")

    def generate(self, checkpoint):
        path = self.sandbox.home / f"sample {self.random.random()}.txt"
        with open(path, "xb") as file:
            self.checked(["generate", checkpoint, "--tokens", "5"], stdout=file)


def make_model_run(heed, base):
    """A whole run, whose files are copied among those of the user."""
    (base / "text.txt").write_text(runs.TEXT)
    (base / "c.toml").write_text(runs.config_text(steps=4, eval_interval=2, save_interval=1))
    result = runs.run(heed, ["train", "c.toml"], base)
    if result.returncode != 0:
        sys.exit(f"the model run failed: {result.stderr}")
    return base / "run"


def can_be_someone(heed):
    """Whether a process without rights can be made, and can start heed."""
    if os.geteuid() != 0:
        return False
    try:
        return subprocess.run([heed, "--version"], user=SOMEONE, stdout=subprocess.DEVNULL, check=False).returncode == 0
    except PermissionError:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heed", type=os.path.abspath)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    started = time.monotonic()
    base = pathlib.Path(runs.scratch_folder())
    failed, new = [], 0
    try:
        model_run = make_model_run(options.heed, base)
        may_be_someone = can_be_someone(options.heed)
        for seed in range(options.seed, options.seed + options.count):
            trial = Trial(options.heed, model_run, seed, options.verbose, may_be_someone)
            try:
                trial.run()
            finally:
                runs.remove_folder(trial.base)
            new += trial.is_new
            if trial.faults:
                failed.append(seed)
                print(f"FAILED: --count 1 --seed {seed} (cwd {trial.cwd}, run_dir {trial.run_dir_text!r})")
                print("".join(f"    {fault}\n" for fault in trial.faults[:8]), end="", flush=True)
    finally:
        shutil.rmtree(base)
    print(
        f"{options.count} folders, {new} with a new run folder, {len(failed)} failed {failed}, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 1 if failed or options.count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
