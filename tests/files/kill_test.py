"""Kills heed, or lets a call fail, at each call that changes a file, and sees that nothing is lost.

Usage: kill_test.py PATH_OF_HEED PATH_OF_SHIM [--all] [--seed N] [--scenario NAME] [--mode NAME] [--at K]

Each scenario (a first run, one in a folder of the user, a rerun, a resumed run, `data prepare`) is run once undisturbed; that counts the calls. Then
it is run again with the k-th call disturbed, for a random sample of k, or for every k with --all. Afterwards the user's
files and the earlier run must be as they were, and the next command (--resume, or a new start where no checkpoint had
been written) must come to the same end as the undisturbed run and leave no temporary file.
"""

import argparse
import errno
import os
import pathlib
import random
import shutil
import signal
import sys
import time

import heed_runs as runs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train" / "commands"))
from checkpoint_values import checkpoint_values  # noqa: E402

ERRORS = ("ENOSPC", "EIO", "EROFS", "EACCES")
MODES = ("kill", "half", *ERRORS)
OVERRIDES = {"rerun": ["model.seed=2"]}  # so that the earlier run and the new one differ


class Failure(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Failure(text)


class Scenario:
    """A folder `home` with the user's files, and the command that is disturbed in it."""

    # Names of the user's files; some look like temporaries of heed.
    FOREIGN = ("notes.md", "run.tmp-17", "config.toml.tmp-4", "run.1", "out.h5.tmp-123", "last.h5.tmp-9", ".hidden")

    def __init__(self, heed, shim, base):
        self.heed, self.shim, self.base = heed, shim, base
        self.home = base / "home"
        self.run_dir = self.home / "run"
        self.template = base / f"{self.name}-template"

    def plant(self):
        """The state before the command, made once."""
        self.template.mkdir()
        (self.template / "text.txt").write_text(runs.TEXT)
        (self.template / "train.toml").write_text(runs.config_text())
        for name in self.FOREIGN:
            (self.template / name).write_text(f"the user's {name}\n")
        self.reset()
        self.prepare()
        shutil.rmtree(self.template)
        shutil.copytree(self.home, self.template, symlinks=True)

    def prepare(self):
        """What heed itself did earlier, in `home`."""

    def reset(self):
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.template, self.home, symlinks=True)
        self.before = runs.snapshot(self.home, inode=False)

    def command(self):
        return ["train", "train.toml", *OVERRIDES.get(self.name, [])]

    def call(self, arguments, **environment):
        return runs.run(self.heed, arguments, self.home, **environment)

    def succeed(self, arguments):
        result = self.call(arguments)
        require(result.returncode == 0, f"{arguments} afterwards: exit code {result.returncode}: {result.stderr}")
        return result

    def disturbed(self, **settings):
        log = self.base / "calls"
        log.unlink(missing_ok=True)
        environment = {f"HEED_SHIM_{name.upper()}": str(value) for name, value in settings.items()}
        result = self.call(
            self.command(), LD_PRELOAD=self.shim, HEED_SHIM_FOLDER=str(self.home), HEED_SHIM_LOG=str(log), **environment
        )
        self.calls = log.read_text(errors="surrogateescape").splitlines()
        return result

    def users_files(self):
        """Those of `before` that no command may change."""
        return {path: what for path, what in self.before.items() if path.split("/")[0] != "run"}

    def check_users_files(self):
        lost = runs.differences(self.users_files(), runs.snapshot(self.home, inode=False))
        require(not lost, "; ".join(lost))

    def numbers(self, run_dir):
        """What the end of a run is compared by."""
        last = run_dir / "checkpoints" / "last.h5"
        values = checkpoint_values(last) or {}
        # Times of the run are among the reals.
        values = {name: list(value) for name, value in values.items() if name.startswith(("tensors/", "integers/"))}
        evaluation = self.succeed(["eval", last]).stdout.split("\n", 1)[1]
        return runs.timeless_metrics(run_dir), values, evaluation

    def names(self, run_dir):
        return sorted(path for path in runs.snapshot(run_dir))

    def learn_reference(self):
        """Runs undisturbed; gives the number of calls."""
        self.reset()
        result = self.disturbed()
        require(result.returncode == 0, f"undisturbed: exit code {result.returncode}: {result.stderr}")
        self.check_users_files()
        self.reference = self.numbers(self.run_dir)
        self.reference_names = self.names(self.run_dir)
        return len(self.calls)

    def go_on(self):
        """What a user does next, up to the end of the run. May choose another run folder."""
        resumed = self.call(["train", "train.toml", "--resume", *OVERRIDES.get(self.name, [])])
        if resumed.returncode == 0:
            return
        checkpoints = self.run_dir / "checkpoints"
        found = list(checkpoints.glob("last.h5")) + list(checkpoints.glob("step-*.h5"))
        require(not found, f"--resume: exit code {resumed.returncode} though {found} exist: {resumed.stderr}")
        self.succeed(self.command())

    def check_after(self):
        self.check_users_files()
        self.go_on()
        self.check_users_files()
        metrics, *here = self.numbers(self.run_dir)
        expected_metrics, *there = self.reference
        # Rows that could not be written are missing: at most those since the last checkpoint.
        if self.failed_call.endswith("metrics.csv"):
            lost = [row for row in expected_metrics if row not in metrics]
            require(len(lost) <= 3, f"metrics.csv lacks {lost}")
            expected_metrics = [row for row in expected_metrics if row not in lost]
        require(metrics == expected_metrics, f"metrics.csv differs: {metrics} instead of {expected_metrics}"[:800])
        require(here == there, f"the parameters or the evaluation differ: {here} instead of {there}"[:800])
        self.check_names()
        self.check_neighbourhood()

    def check_names(self):
        """No temporary files, and as many kept checkpoints as without the disturbance."""

        def is_kept(name):
            return name.startswith("checkpoints/step-")

        here, there = self.names(self.run_dir), self.reference_names
        if self.failed_call:  # the run ended with a checkpoint of that step, so those kept are of other steps
            kept, allowed = [sum(map(is_kept, names)) for names in (here, there)]
            require(kept <= allowed, f"{kept} earlier checkpoints are kept, allowed are {allowed}: {here}")
            here, there = [[name for name in names if not is_kept(name)] for names in (here, there)]
        require(here == there, f"in the run folder are {sorted(set(here) ^ set(there))} too many or too few")

    def check_neighbourhood(self):
        """Beside the run folder there is nothing new but runs that were moved aside as a whole."""
        for path in self.home.iterdir():
            known = path.name in self.before or path.name == "run"
            require(known or path.name.startswith("run.") and path.is_dir(), f"left beside the run folder: {path.name}")

    def disturb(self, mode, k):
        self.reset()
        self.failed_call = ""
        if mode in ERRORS:
            result = self.disturbed(at=k, error=getattr(errno, mode))
            self.failed_call = self.calls[k - 1]
            wrong = runs.what_is_wrong(result)
            require(wrong is None, f"the call failed, and then: {wrong}")
        else:
            result = self.disturbed(at=k, **({"half": 1} if mode == "half" else {}))
            require(result.returncode == -signal.SIGKILL, f"not killed, exit code {result.returncode}")
        self.check_whole_checkpoints()
        self.check_after()

    def check_whole_checkpoints(self):
        """What has the name of a checkpoint is one."""
        for path in (self.run_dir / "checkpoints").glob("*.h5"):
            self.succeed(["eval", path])


class FirstRun(Scenario):
    name = "first"


class SharedFolder(Scenario):
    """The first run in a folder that holds files of the user. Once heed's own are there too, no run starts anew in it."""

    name = "shared"

    def prepare(self):
        self.run_dir.mkdir()
        (self.run_dir / "notes.md").write_text("what I want to see\n")

    def users_files(self):
        return self.before

    def go_on(self):
        try:
            super().go_on()
        except Failure as failure:
            require("exit code 2" in str(failure), str(failure))
            self.succeed(["train", "train.toml", "train.run_dir=other/run"])
            (self.run_dir / "notes.md").rename(self.home / "notes of the run")
            shutil.rmtree(self.run_dir)
            shutil.move(self.home / "other" / "run", self.run_dir)
            (self.home / "other").rmdir()
            (self.home / "notes of the run").rename(self.run_dir / "notes.md")


class Rerun(Scenario):
    """A new run under the name of an earlier one, which must stay whole under its name or under a new one."""

    name = "rerun"

    def prepare(self):
        self.succeed(["train", "train.toml", "train.steps=5"])

    def check_users_files(self):
        super().check_users_files()
        earlier = {
            path[4:]: what
            for path, what in self.before.items()
            if path.startswith("run/") and not path.startswith(("run/.heed", "run/lock"))
        }
        places = [self.run_dir, *sorted(self.home.glob("run.*"))]
        found = [p for p in places if p.is_dir() and not runs.differences(earlier, runs.snapshot(p, inode=False))]
        require(found, f"the earlier run is whole in none of {[p.name for p in places]}")
        self.moved = found[0] != self.run_dir

    def go_on(self):
        if self.moved:
            super().go_on()
        else:
            self.succeed(self.command())


class Resume(Scenario):
    """Goes on with a run that had ended early, in a folder that the user keeps notes in."""

    name = "resume"

    def prepare(self):
        self.succeed(["train", "train.toml", "train.stop_after=5"])
        (self.run_dir / "notes.md").write_text("what I saw\n")
        (self.run_dir / "checkpoints" / "kept-by-me.bin").write_text("mine\n")

    def command(self):
        return ["train", "train.toml", "--resume"]

    def users_files(self):
        inside = ("run/notes.md", "run/checkpoints/kept-by-me.bin")
        return {**super().users_files(), **{path: self.before[path] for path in inside}}

    def go_on(self):
        self.succeed(self.command())


class Prepare(Scenario):
    """`data prepare`: the file is whole or it is not there."""

    name = "prepare"

    def command(self):
        return ["data", "prepare", "text.txt", "out.h5", "--tokenizer", "char"]

    def numbers(self, run_dir):
        values = checkpoint_values(self.home / "out.h5") or {}
        return self.succeed(["data", "info", "out.h5"]).stdout, {name: list(value) for name, value in values.items()}

    def learn_reference(self):
        self.reset()
        require(self.disturbed().returncode == 0, "undisturbed data prepare failed")
        self.reference = self.numbers(None)
        return len(self.calls)

    def check_whole_checkpoints(self):
        pass

    def check_after(self):
        self.check_users_files()
        output = self.home / "out.h5"
        if output.exists():
            require(self.numbers(None) == self.reference, "out.h5 is there and not whole")
        else:
            self.succeed(self.command())
        require(self.numbers(None) == self.reference, "out.h5 differs")
        self.check_users_files()
        more = sorted(path.name for path in self.home.iterdir() if path.name not in {*self.before, "out.h5"})
        require(not more, f"left beside out.h5: {more}")


SCENARIOS = (FirstRun, SharedFolder, Rerun, Resume, Prepare)


def sample(total, count, random_numbers):
    """One of each part, so that no part of a run is left out."""
    edges = [1 + total * i // count for i in range(count + 1)]
    return [random_numbers.randrange(low, max(high, low + 1)) for low, high in zip(edges, edges[1:])]


def trials(options, scenario, total, random_numbers):
    modes = [options.mode] if options.mode else MODES
    if options.at:
        return [(mode, options.at) for mode in modes]
    if options.all:
        return [(mode, k) for mode in modes for k in range(1, total + 1)]
    ks = sample(total, min(total, options.count), random_numbers)
    if options.mode:
        return [(options.mode, k) for k in ks]
    # Kills more often than each error.
    modes = [mode for i in range(len(ks)) for mode in [("kill", "half", "kill", *ERRORS)[i % 7]]]
    random_numbers.shuffle(modes)
    return list(zip(modes, ks))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heed", type=os.path.abspath)
    parser.add_argument("shim", type=os.path.abspath)
    parser.add_argument("--all", action="store_true", help="every call in every mode")
    parser.add_argument("--count", type=int, default=18, help="calls of each scenario that are disturbed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenario", choices=[one.name for one in SCENARIOS])
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--at", type=int)
    options = parser.parse_args()
    base = runs.scratch_folder()
    failures = done = 0
    started = time.monotonic()
    try:
        for kind in SCENARIOS:
            if options.scenario not in (None, kind.name):
                continue
            scenario = kind(options.heed, options.shim, base)
            scenario.plant()
            total = scenario.learn_reference()
            for mode, k in trials(options, scenario, total, random.Random(f"{options.seed} {kind.name}")):
                done += 1
                try:
                    scenario.disturb(mode, k)
                except Failure as failure:
                    failures += 1
                    call = scenario.calls[-1] if mode in ("kill", "half") else scenario.calls[k - 1]
                    print(f"FAILED: --scenario {kind.name} --mode {mode} --at {k} ({call}): {failure}", flush=True)
            print(f"{kind.name}: {total} calls that change files")
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"{done} disturbed commands, {failures} failures, seed {options.seed}, {time.monotonic() - started:.0f} s")
    return 1 if failures or done == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
