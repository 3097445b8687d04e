"""Runs the commands that Markdown pages show, and compares their output with the figures on the pages.

Usage: ./heed reproduce PAGE … [NAME=FILE …]        (reproduce.py PATH_OF_HEED PAGE … [NAME=FILE …])

All lines `./heed …` and `mpirun … ./heed …` of code blocks run, in their order, in a new folder that has links to what
is in the folder of the page's project, except for `runs`. A comment before a code block makes it the output of the
command before it, and states the interval of its figures:

    <!-- reproduce: ±0.01 -->                          numbers with a decimal point differ by at most this
    <!-- reproduce: ±0.01, p ±0.1 -->                  p-values by at most that
    <!-- reproduce: ±0.01 of ./heed train CONFIG -->   the output of this command, which the page shows elsewhere
    <!-- reproduce: ±0.01 "final val loss 1.4826" -->  a line of the output that the text tells in words
    <!-- reproduce: not run, REASON -->                the commands of the next code block do not run

Each line of such a block must be in the output, in order: the same words, whole numbers and signs, and decimal numbers
within the interval; "…" stands for any words. NAME=FILE gives a text that the commands name: YOUR.txt=shakespeare.txt.
A command that needs a text that is not given, a GPU or a launcher other than mpirun does not run, and what it should
print is not compared. The summary counts both. Exit code 1 if a command failed or a figure is outside its interval.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import markdown_pages

COMMAND = re.compile(r"(?:mpirun .*)?\./heed [a-z].*")
NOTE = re.compile(r"<!-- reproduce: (.*?) -->")
WITHIN = re.compile(r"±([\d.]+)(?:, p ±([\d.]+))?(?: of (\./heed .*)| \"(.*)\")?")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# Not for this tool: they install, build or wait for a signal, or need what this machine may lack.
LEFT_OUT = {"srun ": "needs Slurm", "device=cuda": "needs a GPU", "./heed build": "builds", "./heed test": "runs the tests",
            "./heed reproduce": "is this command"}  # fmt: skip
TEXT_NAME = re.compile(r"[\w/.-]+\.txt")

Interval = namedtuple("Interval", "value p")
Run = namedtuple("Run", "command output why_not")  # why_not: why it did not run, or None


def bare(command):
    """Without the comment at its end."""
    return re.split(r" +# ", command)[0].strip()


def parts_of(page_text):
    """The code blocks and notes of a page, in order: ("note", line, text) or ("block", line, [lines])."""
    found = []
    for number, text in enumerate(page_text.split("\n"), 1):
        note = NOTE.fullmatch(text.strip())
        if note:
            found.append(["note", number, note[1]])
    for code in markdown_pages.split_code(page_text)[1]:
        if page_text.split("\n")[code.line - 1][:4] != "    ":
            continue  # inline code
        if found and found[-1][0] == "block" and found[-1][1] + len(found[-1][2]) == code.line:
            found[-1][2].append(code.text)
        else:
            found.append(["block", code.line, [code.text]])
    return sorted(found, key=lambda part: part[1])


# ---- Comparing -------------------------------------------------------------------------------------------------------


def words_of(line):
    return line.replace("p < ", "p = ").replace("…", " … ").split()


def same_word(shown, actual, allowed):
    """Whether the words agree: equal texts around their numbers, and numbers within `allowed`."""
    if NUMBER.sub("#", shown) != NUMBER.sub("#", actual):
        return False
    for a, b in zip(NUMBER.findall(shown), NUMBER.findall(actual)):
        is_whole = not re.search(r"[.e]", a)
        is_other_sign = a[0] in "+-" and a[0] != b[0]
        if a != b and (is_whole or is_other_sign or abs(float(a) - float(b)) > allowed + 1e-9):
            return False
    return True


def same_line(shown, actual, interval):
    """shown, actual: words."""
    if not shown:
        return not actual
    if shown[0] == "…":
        return any(same_line(shown[1:], actual[i:], interval) for i in range(len(actual) + 1))
    if not actual:
        return False
    is_p = len(shown) > 2 and shown[:2] == ["p", "="]
    if is_p:
        return actual[:2] == ["p", "="] and len(actual) > 2 and same_word(shown[2], actual[2], interval.p) and (
            same_line(shown[3:], actual[3:], interval))  # fmt: skip
    return same_word(shown[0], actual[0], interval.value) and same_line(shown[1:], actual[1:], interval)


def missing_lines(shown, output, interval):
    """The shown lines that the output does not have, after those before them."""
    lines, position, missing = [words_of(line) for line in output.split("\n")], 0, []
    for text in shown:
        words = words_of(text)
        if words in ([], ["…"]):
            continue
        hits = [i for i in range(position, len(lines)) if same_line(words, lines[i], interval)]
        if hits:
            position = hits[0] + 1
        else:
            missing.append(text)
    return missing


def figures_in(lines):
    return sum(len(re.findall(r"\d+\.\d+", line)) for line in lines)


# ---- Running ---------------------------------------------------------------------------------------------------------


class Pages:
    def __init__(self, heed, root, texts):
        self.heed, self.root, self.texts = heed, root, texts
        self.faults, self.left_out, self.figures = [], [], 0
        self.runs = {}  # of the page: command -> Run
        self.kept = {}  # command -> (output, folder with the runs that it made): the same on every page

    def check(self, page):
        with tempfile.TemporaryDirectory(prefix="heed-reproduce-") as folder:
            self.folder = pathlib.Path(folder)
            self.link_project()
            self.page, self.runs = page, {}
            latest, note, reason = [], None, None
            for kind, line, content in parts_of(page.read_text()):
                self.line = line
                if kind == "note" and content.startswith("not run, "):
                    reason = content.removeprefix("not run, ")
                elif kind == "note":
                    note = WITHIN.fullmatch(content)
                    if not note:
                        self.fault(f"the comment is not understood: {content}")
                    elif note[4] is not None:
                        self.compare(note, [f"… {note[4]} …"], latest)
                        note = None
                elif COMMAND.fullmatch(content[0]):
                    latest = [self.run(bare(command), reason) for command in content if COMMAND.fullmatch(command)]
                    reason = None
                elif note:
                    self.compare(note, content, latest)
                    note = None

    def link_project(self):
        # Folders are copied and only their files are links, so that nothing is written into the project.
        def left_out(folder, names):
            at_top = pathlib.Path(folder) == self.root
            return [n for n in names if n.startswith(".") or (at_top and n in ("runs", "build", "plot.svg", *self.texts))]

        shutil.copytree(self.root, self.folder, ignore=left_out, copy_function=os.symlink, dirs_exist_ok=True)
        for name, file in self.texts.items():
            (self.folder / name).symlink_to(file)
        (self.folder / "runs").mkdir()

    def why_not(self, command):
        for word, reason in LEFT_OUT.items():
            if word in command:
                return reason
        for word in shlex.split(command):
            if re.search(r"(?:^|[/=])[A-Z]{3,}", word) and not TEXT_NAME.search(word):
                return f"{word} stands for a name"
        lacking = [name for name in TEXT_NAME.findall(command) if not (self.folder / name).exists()]
        if lacking:
            return f"{lacking[0]} is not given ({lacking[0]}=FILE)"
        runs = re.findall(r"runs/[\w-]+", command) if not re.search(r"heed (train|ablate) ", command) else []
        gone = [run for run in runs if not (self.folder / run).exists()]
        return f"{gone[0]} was not trained" if gone else None

    def run(self, command, reason):
        reason = reason or self.why_not(command)
        if reason:
            self.left_out.append(f"{self.place()}: {command}: not run: {reason}")
            self.runs[command] = Run(command, "", reason)
            return self.runs[command]
        begin = time.time()
        output = self.restore(command)
        if output is None:
            output = self.start(command)
        print(f"{self.place()}: {command}  ({time.time() - begin:.0f} s)", flush=True)
        self.runs[command] = Run(command, output, None)
        return self.runs[command]

    def start(self, command):
        words = [str(self.heed) if word == "./heed" else word for word in shlex.split(command)]
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "runs").iterdir()}
        result = subprocess.run(words, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode != 0:
            self.fault(f"{command}: exit code {result.returncode}: {result.stderr.strip()}")
        elif re.search(r"heed (train|ablate) configs", command) and "mpirun" not in command:
            self.keep(command, result.stdout, before)
        return result.stdout

    def keep(self, command, output, before):
        store = pathlib.Path(tempfile.mkdtemp(prefix="heed-reproduce-kept-"))
        for path in (self.folder / "runs").iterdir():
            if before.get(path) != path.stat().st_mtime_ns:
                shutil.copytree(path, store / path.name)
        self.kept[command] = (output, store)

    def restore(self, command):
        """The output of a command that ran on an earlier page, whose runs are put into this folder."""
        if command not in self.kept:
            return None
        output, store = self.kept[command]
        for path in store.iterdir():
            shutil.rmtree(self.folder / "runs" / path.name, ignore_errors=True)
            shutil.copytree(path, self.folder / "runs" / path.name)
        return output

    def compare(self, note, shown, latest):
        interval = Interval(float(note[1]), float(note[2] or note[1]))
        runs = [self.runs[note[3]]] if note[3] in self.runs else latest
        if not runs or (note[3] and note[3] not in self.runs):
            return self.fault("there is no command before this output")
        if any(run.why_not for run in runs):
            self.left_out.append(f"{self.place()}: not compared: {runs[-1].command}: {runs[-1].why_not}")
            return None
        self.figures += figures_in(shown)
        for line in missing_lines(shown, "\n".join(run.output for run in runs), interval):
            self.fault(f"the output of {runs[-1].command} has no line within ±{note[1]} of: {line}")
        return None

    def place(self):
        return f"{self.page.name}:{self.line}"

    def fault(self, text):
        self.faults.append(f"{self.place()}: {text}")
        print(f"WRONG {self.faults[-1]}", flush=True)

    def close(self):
        for _, store in self.kept.values():
            shutil.rmtree(store, ignore_errors=True)


def main(arguments):
    heed, *rest = arguments
    texts = {name: pathlib.Path(file).resolve() for name, sign, file in (word.partition("=") for word in rest) if sign}
    names = [word for word in rest if "=" not in word]
    wrong = [name for name in (*names, *texts.values()) if not pathlib.Path(name).is_file()]
    placed = [name for name in texts if pathlib.Path(name).name != name]
    if placed:
        print(f"heed: reproduce {placed[0]}=…: NAME must be a file name without a folder", file=sys.stderr)
        return 2
    if not names or wrong:
        print(f"heed: reproduce {wrong[0]}: there is no such file" if wrong else
              "heed: reproduce needs a page, such as README.md", file=sys.stderr)  # fmt: skip
        return 2
    pages = Pages(pathlib.Path(heed).resolve(), pathlib.Path.cwd(), texts)
    begin = time.time()
    try:
        for name in names:
            pages.check(pathlib.Path(name))
    finally:
        pages.close()
    print(*pages.left_out, sep="\n")
    print(f"{pages.figures} figures compared, {len(pages.faults)} faults, {len(pages.left_out)} left out; "
          f"{time.time() - begin:.0f} s")  # fmt: skip
    return 1 if pages.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
