"""Each command and each file that it reads or writes: what if the file is not as it should be? README.md has the outcomes.

Usage: survey.py PATH_OF_HEED PATH_OF_SHIM [--write] [--only WORD]

Runs every case and compares with the table in README.md; --write replaces the table. Whatever the table says, a case
fails where a file of the user changed, an exit code is not a documented one, or an error is not one line.
"""

import argparse
import errno
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import heed_runs as runs

README = pathlib.Path(__file__).resolve().with_name("README.md")
START, END = "<!-- survey.py writes from here -->\n", "<!-- survey.py writes until here -->\n"
PATIENCE = 20  # seconds
HUGE = 1 << 40

WRITING = "open,fopen,write,pwrite,writev,fwrite,fflush,mkdir,rename,renameat,renameat2,link,linkat,ftruncate,fallocate"
# What the file system cannot do, by the calls that fail.
FILE_SYSTEMS = {
    "full disk": ("write,pwrite,writev,fflush,fallocate,posix_fallocate", errno.ENOSPC),
    "read-only file system": (WRITING + ",unlink,remove,rmdir", errno.EROFS),
    "file system without hard links": ("link,linkat", errno.EPERM),
    "file system without locks": ("flock", errno.ENOLCK),
    "file system that cannot flush": ("fsync,fdatasync", errno.EIO),
    "file system without renameat2": ("renameat2", errno.EINVAL),
}


class Case:
    """One command in a new folder with text.txt, c.toml, tokens.h5 and a finished run `old`."""

    def __init__(self, section, state, arguments, setup=lambda home: None, **more):
        self.section, self.state, self.arguments, self.setup = section, state, arguments, setup
        self.environment = more.get("environment", {})
        self.stdout = more.get("stdout")
        self.allowed = more.get("allowed", (0, *runs.ERROR_CODES))


# ---- States of a file that is read: functions of its path ------------------------------------------------------------


def feed(path, content):
    """A pipe with a writer, which gives up once nobody reads."""

    def work():
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                file = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except FileNotFoundError:
                return  # the case is over
            except OSError:
                time.sleep(0.01)
                continue
            try:
                os.set_blocking(file, True)
                os.write(file, content)
            except OSError:
                pass
            os.close(file)
            return

    os.mkfifo(path)
    threading.Thread(target=work, daemon=True).start()


def replace_by_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def replace_by_pipe(path):
    content = path.read_bytes()
    path.unlink()
    feed(path, content)


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def dangle(path):
    path.unlink()
    path.symlink_to("nowhere")


READ_STATES = {
    "there": lambda path: None,
    "missing": pathlib.Path.unlink,
    "link": replace_by_link,
    "dangling link": dangle,
    "folder": replace_by_folder,
    "pipe": replace_by_pipe,
    "empty": lambda path: path.write_bytes(b""),
    "of another kind": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" * 100),
    "cut off": lambda path: os.truncate(path, path.stat().st_size * 2 // 3),
    "huge": lambda path: os.truncate(path, HUGE),
    "read-only": lambda path: path.chmod(0o444),
}

# ---- States of a file that is written: what is at its path already ---------------------------------------------------


def link_to_outside(path):
    home = next(folder for folder in path.parents if (folder / "outside.txt").exists())
    path.symlink_to(os.path.relpath(home / "outside.txt", path.parent))


def folder_with_a_file(path):
    path.mkdir()
    (path / "mine.txt").write_text("mine\n")


def read_only(path):
    path.write_text("mine\n")
    path.chmod(0o444)


WRITE_STATES = {
    "someone else's": lambda path: path.write_text("mine\n"),
    "link to a file": link_to_outside,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "folder": folder_with_a_file,
    "empty folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "empty": lambda path: path.touch(),
    "huge": lambda path: (path.touch(), os.truncate(path, HUGE)),
    "read-only": read_only,
}


def at(name, state):
    """A setup that puts the state at this path."""

    def setup(home):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        state(path)

    return setup


def in_folder_with_checkpoints(name, state):
    def setup(home):
        if name != "checkpoints":
            (home / "run" / "checkpoints").mkdir(parents=True)
        at(f"run/{name}", state)(home)

    return setup


def in_old_run(name, state):
    return lambda home: state(home / "old" / name)


def read_cases(section, name, arguments, skip=()):
    return [
        Case(section, word, arguments, lambda home, state=state: state(home / name))
        for word, state in READ_STATES.items()
        if word not in skip
    ]


def write_cases(section, name, arguments):
    return [Case(section, word, arguments, at(name, state)) for word, state in WRITE_STATES.items()]


def file_system_cases(section, arguments, setup=lambda home: None):
    return [
        Case(section, word, arguments, setup, environment={
            "HEED_SHIM_WITHOUT": functions, "HEED_SHIM_ERROR": str(number)})
        for word, (functions, number) in FILE_SYSTEMS.items()
    ]  # fmt: skip


def cases():
    train, resume = ["train", "c.toml"], ["train", "c.toml", "train.run_dir=old", "--resume"]
    old_last = "old/checkpoints/last.h5"
    prepare = ["data", "prepare", "text.txt", "out.h5", "--tokenizer", "char"]
    generate = ["generate", old_last, "--tokens", "5"]
    found = read_cases("`config`: the config", "c.toml", ["config", "c.toml"])
    found += read_cases("`train`: the config", "c.toml", train)
    found += read_cases("`train`: `data.path`, a text", "text.txt", train, skip=("huge",))  # it is read in pieces
    found += read_cases("`train`: `data.path`, a token file", "tokens.h5",
                        [*train, "data.source=tokens", "data.path=tokens.h5"])  # fmt: skip
    found += write_cases("`train`: the run folder", "run", train)
    found += [
        Case("`train`: the run folder", "an earlier run", [*train, "train.run_dir=old"]),
        Case("`train`: the run folder", "an earlier run with a file of the user in it", [*train, "train.run_dir=old"],
             lambda home: (home / "old" / "notes.md").write_text("mine\n")),
        Case("`train`: the run folder", "below a file", [*train, "train.run_dir=text.txt/run"]),
        Case("`train`: the run folder", "the current folder", [*train, "train.run_dir=."]),
        Case("`train`: the run folder", "the folder above", [*train, "train.run_dir=.."]),
    ]  # fmt: skip
    for name in ("config.toml", "metrics.csv", "summary.json", "plot.svg", ".heed", "checkpoints", "checkpoints/last.h5",
                 "checkpoints/best.h5", "checkpoints/step-000002.h5", "lock", "config.toml.tmp-1", ".config.toml.heed-1",
                 "checkpoints/.last.h5.heed-1"):  # fmt: skip
        found += write_cases(f"`train`: `{name}` of a run folder that heed did not make", f"run/{name}", train)
        section = f"`train --resume`: `{name}` of a folder with `checkpoints/` that heed did not make"
        for word in ("someone else's", "link to a file", "folder"):
            found.append(Case(section, word, [*train, "--resume"], in_folder_with_checkpoints(name, WRITE_STATES[word])))
    found += file_system_cases("`train`: the file system of the run folder", train)
    for name in ("checkpoints/last.h5", "checkpoints/best.h5", "metrics.csv", "config.toml", "summary.json"):
        states = {**READ_STATES}
        for word, state in states.items():
            found.append(Case(f"`train --resume`: `{name}` of the run", word, resume, in_old_run(name, state)))
    found.append(Case("`train --resume`: the run folder", "missing", [*train, "--resume"]))
    found += write_cases("`train --resume`: the run folder", "run", [*train, "--resume"])
    found += file_system_cases("`train --resume`: the file system of the run folder", [*resume, "train.steps=8"])
    at_step = ["at", "old", "1"]
    found += read_cases("`at`: `metrics.csv` of the run", "old/metrics.csv", at_step)
    found += read_cases("`at`: the nearest checkpoint", "old/checkpoints/step-000002.h5", ["at", "old", "2"])
    found += write_cases("`at`: the checkpoint of the step", "old/checkpoints/step-000001.h5", at_step)
    found += file_system_cases("`at`: the file system of the run folder", at_step)
    found += read_cases("`eval`: the checkpoint", old_last, ["eval", old_last])
    found += read_cases("`eval`: `data.path`", "text.txt", ["eval", old_last, "data.path=text.txt"])
    found += read_cases("`generate`: the checkpoint", old_last, generate)
    for command, arguments in (("generate", generate), ("train", train), ("eval", ["eval", old_last])):
        section = f"`{command}`: stdout"
        found += [
            Case(section, "full disk", arguments, stdout="/dev/full", allowed=(1,)),
            Case(section, "pipe that nobody reads", arguments, stdout="closed pipe",
                 allowed=(0, 1, -signal.SIGPIPE)),
            Case(section, "a new file", arguments, stdout="new"),
        ]
    export, import_ = ["export", old_last, "out"], ["import", "model", "new.h5"]
    found += read_cases("`export`: the checkpoint", old_last, export)
    found += write_cases("`export`: the folder", "out", export)
    found += file_system_cases("`export`: the file system of the folder", export)
    for name in ("config.json", "model.safetensors"):
        found += read_cases(f"`import`: `{name}`", f"model/{name}", import_)
    found += write_cases("`import`: the checkpoint", "new.h5", import_)
    found += file_system_cases("`import`: the file system of the checkpoint", import_)
    found += read_cases("`train`: `train.init_from`", "model.h5", [*train, "train.init_from=model.h5"])
    found += read_cases("`data prepare`: the text", "text.txt", prepare, skip=("huge",))
    found += write_cases("`data prepare`: the output", "out.h5", prepare)
    found.append(Case("`data prepare`: the output", "in a folder that is missing",
                      [*prepare[:3], "no/out.h5", *prepare[4:]]))  # fmt: skip
    found += file_system_cases("`data prepare`: the file system of the output", prepare)
    return found + read_cases("`data info`: the file", "tokens.h5", ["data", "info", "tokens.h5"])


# ---- Running ---------------------------------------------------------------------------------------------------------


class Survey:
    def __init__(self, heed, shim):
        self.heed, self.shim = heed, shim
        self.base = runs.scratch_folder()
        self.template = self.base / "template"
        self.template.mkdir()
        (self.template / "text.txt").write_text(runs.TEXT)
        (self.template / "outside.txt").write_text("outside\n")
        (self.template / "c.toml").write_text(runs.config_text(steps=4, eval_interval=2, save_interval=1))
        for arguments in (["train", "c.toml", "train.run_dir=old"],
                          ["data", "prepare", "text.txt", "tokens.h5", "--tokenizer", "byte"],
                          ["export", "old", "model"], ["import", "model", "model.h5"]):  # fmt: skip
            result = runs.run(heed, arguments, self.template)
            if result.returncode != 0:
                sys.exit(f"{arguments} failed: {result.stderr}")
        self.faults = []
        self.count = 0

    def open_stdout(self, case, home):
        if case.stdout is None:
            return subprocess.PIPE
        if case.stdout == "closed pipe":
            reader, writer = os.pipe()
            os.close(reader)
            return os.fdopen(writer, "wb")
        return open(home / "new.txt" if case.stdout == "new" else case.stdout, "wb")

    def users_files(self, home):
        """All that was there but what heed made itself: the old run, as long as it is whole somewhere."""
        return {path: what for path, what in runs.snapshot(home, inode=False).items() if path.split("/")[0] != "old"}

    def run(self, case):
        self.count += 1
        # A name of its own: the writer of a pipe may still look for the last one.
        home = self.base / f"case-{self.count}" / "home"
        shutil.copytree(self.template, home, symlinks=True)
        old = runs.snapshot(home / "old", inode=False)
        case.setup(home)
        before = self.users_files(home)
        mine = {path: what for path, what in runs.snapshot(home / "old", inode=False).items() if path not in old}
        stdout = self.open_stdout(case, home)
        environment = dict(case.environment)
        if environment:
            environment |= {"LD_PRELOAD": self.shim, "HEED_SHIM_FOLDER": str(home)}
        try:
            result = runs.run(self.heed, case.arguments, home, stdout=stdout, timeout=PATIENCE, **environment)
        except subprocess.TimeoutExpired:
            result = None
        finally:
            if stdout != subprocess.PIPE:
                stdout.close()
        self.check(case, home, before, mine, result)
        outcome = self.outcome(result, home)
        runs.remove_folder(home.parent)
        return outcome

    def check(self, case, home, before, mine, result):
        def fault(text):
            self.faults.append(f"{case.section}, {case.state}: {text}")

        if result is None:
            return fault(f"still runs after {PATIENCE} s")
        wrong = runs.what_is_wrong(result, case.allowed)
        if wrong:
            fault(wrong)
        for difference in runs.differences(before, self.users_files(home)):
            fault(difference)
        for difference in runs.differences(mine, runs.snapshot(home / "old", inode=False)):
            fault(f"in the old run: {difference}")
        return None

    def outcome(self, result, home):
        if result is None:
            return "–", f"still runs after {PATIENCE} s"
        lines = (result.stdout or "").splitlines() + result.stderr.splitlines()
        said = [line for line in lines if line.startswith(("heed: ", "notice"))]
        text = "; ".join(said) or ("works" if result.returncode == 0 else "nothing, as a signal ends it")
        text = text.replace(str(home), "DIR").replace(str(home.parent), "DIR/..").replace("|", "\\|").replace("<", "\\<")
        text = re.sub(r"\b(tmp|heed)-\d+", r"\1-N", text)
        text = re.sub(r"(?<=process )\d+", "N", text)
        text = re.sub(r"(?<![\w.-])\d{4,}\b", "N", text)  # sizes in bytes
        text = re.sub(r"\d+(\.\d+)? ([KMGT]iB)", r"N \2", text)
        return str(result.returncode), re.sub(r"\s+", " ", text)


def table(outcomes):
    """outcomes: {section: {(code, text): [state]}}. Sections with the same rows share one table."""
    sections_of = {}
    for section, groups in outcomes.items():
        rows = tuple(f"| {', '.join(states)} | {code} | {text} |" for (code, text), states in groups.items())
        sections_of.setdefault(rows, []).append(section)
    lines = []
    for rows, sections in sections_of.items():
        lines += ["", *(f"### {section}" for section in sections), ""]
        lines += ["| the file is | exit code | heed says |", "|---|---|---|", *rows]
    return "\n".join(lines[1:]) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heed", type=os.path.abspath)
    parser.add_argument("shim", type=os.path.abspath)
    parser.add_argument("--write", action="store_true", help="replace the table in README.md")
    parser.add_argument("--only", default="", help="run the sections with this word in their name, and print them")
    options = parser.parse_args()
    survey = Survey(options.heed, options.shim)
    outcomes = {}
    chosen = [case for case in cases() if options.only in case.section]
    try:
        for case in chosen:
            outcomes.setdefault(case.section, {}).setdefault(survey.run(case), []).append(case.state)
    finally:
        runs.remove_folder(survey.base)
    for fault in survey.faults:
        print(f"FAILED: {fault}")
    print(f"{len(chosen)} cases, {len(survey.faults)} faults")
    new = table(outcomes)
    if options.only:
        print(new)
        return 1 if survey.faults else 0
    before, rest = README.read_text().split(START)
    old, after = rest.split(END)
    if options.write:
        README.write_text(before + START + new + END + after)
    elif old != new:
        differing = sorted(set(old.splitlines()) ^ set(new.splitlines()))
        print("README.md says something else (survey.py --write mends it):", *differing[:20], sep="\n  ")
    return 1 if survey.faults or (old != new and not options.write) else 0


if __name__ == "__main__":
    sys.exit(main())
