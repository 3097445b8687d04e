"""The command lines of the pages name commands, options, config keys and configs that exist, and docs/config.md is what
`heed config --markdown` prints.

Usage: commands_test.py PATH_OF_HEED ROOT
"""

import functools
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

import markdown_pages

HEED, ROOT = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1)).resolve()

# ./heed itself has these two commands.
LAUNCHER_OPTIONS = {"build": {"--cuda", "--cpu"}, "test": {"--full"}, "reproduce": set()}
# Set by `heed ablate` besides config keys.
SWEEP_KEYS = {"seeds", "run_dir"}
PLACEHOLDERS = {"key", "table.key"}
# A command line in text: ./heed anywhere, since another program may start it; another path or heed alone at the start.
COMMAND = re.compile(r"(?:^|.*? )\./heed (.+)$|^(?:\$ )?(?:\w+=\S+ )*(?:build/bin/)?heed (.+)$")
KEY = re.compile(r"(?:(?:model|data|optim|train)\.)?[a-z][a-z0-9_]*")


@functools.cache
def output_of(*arguments):
    return subprocess.run([HEED, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


@functools.cache
def commands():
    """Command -> options, as --help shows them; "data prepare" is a command, too."""
    found = {}

    def add(path):
        text = output_of(*path, "--help")
        names = re.findall(r"^  ([a-z]+) ", text.partition("\nSubcommands:")[2], re.M)
        found[" ".join(path)] = set(re.findall(r"--[a-z][a-z0-9-]*", text))
        for name in names:
            add((*path, name))

    add(())
    return found


@functools.cache
def keys():
    """All config keys, with and without their tables."""
    table, found = "", set()
    for line in output_of("config").split("\n"):
        header, key = re.match(r"\[(\w+)\]", line), re.match(r"  ([a-z]\w*) ", line)
        if header:
            table = header[1] + "."
        elif key:
            found |= {key[1], table + key[1]}
    return found


def words_of(text):
    """The words of a command line: up to a pipe, a second command, a comment, or an explanation in another column."""
    text = re.split(r" {2,}| [|>&]|;| # |\\$", text)[0]
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def problem_of(text):
    """What is wrong with this line of code; None if it is no command line of heed, or nothing is."""
    match = COMMAND.match(text)
    if not match:
        return None
    words = [word.strip("[]…") for word in words_of(match[1] or match[2])]
    command = words[0]
    if command in LAUNCHER_OPTIONS:
        # What follows is for ctest.
        unknown = [w for w in words[1:] if w.startswith("--") and w not in LAUNCHER_OPTIONS[command]]
        return f"{command} has no {unknown[0]}" if unknown else None
    if command.startswith("-"):
        return None if command in commands()[""] else f"heed has no {command}"
    if not re.fullmatch("[a-z]+", command):
        return None  # COMMAND
    if any(name.startswith(command + " ") for name in commands()) and re.fullmatch("[a-z]+", (words + [""])[1]):
        command += " " + words[1]
    if command not in commands():
        return f"heed has no command {command}"
    for word in words:
        name, is_setting, _ = word.partition("=")
        if word.startswith("--") and name not in commands()[command]:
            return f"heed {command} has no {name}"
        known = keys() | PLACEHOLDERS | (SWEEP_KEYS if command == "ablate" else set())
        if is_setting and KEY.fullmatch(name) and name not in known:
            return f"there is no key {name}"
        if re.match(r"configs/.*\.toml$", word) and not (ROOT / word).exists():
            return f"there is no {word}"
    return None


def key_problem_of(text):
    """`train.steps` or `train.steps = 5`, as inline code, must be a key."""
    match = re.match(r"((?:model|data|optim|train)\.[a-z_0-9]+)(?:$| ?=)", text)
    is_file = match and match[1].endswith((".cpp", ".hpp"))
    return f"there is no key {match[1]}" if match and not is_file and match[1] not in keys() else None


class Commands(unittest.TestCase):
    def test_command_lines_and_keys_of_all_pages(self):
        found = []
        for page in markdown_pages.pages(ROOT):
            for line, text in markdown_pages.split_code((ROOT / page).read_text())[1]:
                problem = problem_of(text.strip()) or key_problem_of(text)
                if problem:
                    found.append(f"{page}:{line}: {text}: {problem}")
        self.assertEqual("\n".join(found), "")

    def test_wrong_lines_are_found(self):
        for text in ("./heed trian x.toml", "heed train x.toml --resum", "./heed train x.toml steps=1 train.stps=5",
                     "mpirun -np 2 ./heed train configs/nothing.toml", "./heed data prpare a b", "./heed build --gpu",
                     "OMP_NUM_THREADS=1 ./heed bench --dtipe bf16"):
            self.assertIsNotNone(problem_of(text), text)
        for text in ("./heed train configs/ngram.toml steps=1 train.seed=5  # comment", "heed: error --x", "./heed COMMAND",
                     "./heed inspect RUN [--text TEXT | --task TASK] what it does", "./heed test --full -R 'a|b'",
                     "./heed data prepare a.txt b.h5 --tokenizer bpe", "./heed ablate SWEEP seeds=3 [key=value …]"):
            self.assertIsNone(problem_of(text), text)
        self.assertIsNotNone(key_problem_of("train.stps = 5"))
        self.assertIsNone(key_problem_of("train.steps"))

    def test_config_page_is_that_of_the_program(self):
        with open(ROOT / "docs/config.md", encoding="utf-8") as file:
            self.assertTrue(file.read() == output_of("config", "--markdown"),
                            "docs/config.md is not up to date; renew it: ./heed config --markdown > docs/config.md")

    def test_the_page_is_of_no_config(self):
        result = subprocess.run([HEED, "config", ROOT / "configs/ngram.toml", "--markdown"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("--markdown", result.stderr)


if __name__ == "__main__":
    unittest.main()
