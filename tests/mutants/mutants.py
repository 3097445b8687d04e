#!/usr/bin/env python3
"""mutants.py BUILD [NAME...]: plants one fault after the other in a copy of heed and expects a test to find each.
mutants.py --check: only whether the text that each one replaces occurs exactly once in its file.

The tests must not become quicker by becoming blind. BUILD/mutants takes the copy and its build, which a later
run uses again. A fault whose text has changed gets the new text; one that no test finds is a test to write; and if it
changes no result, another fault takes its place. All of them take about eight minutes on two cores, after the first build.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from faults import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds for the tests of one fault, which may make them wait for ever
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "--timeout", str(LIMIT // 2)]



def target_of(mutant):
    return mutant.tests.split(" ")[0]


def misplaced():
    """The mutants whose text is not exactly once in its file."""
    texts = {path: path.read_text(encoding="utf-8") for path in {ROOT / m.file for m in MUTANTS} if path.is_file()}
    return [mutant for mutant in MUTANTS if texts.get(ROOT / mutant.file, "").count(mutant.old) != 1]


def copy_tracked_files(copy):
    """Only what differs, so that the build of an earlier run is of use; also what an interrupted run has left."""
    listing = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    tracked = {pathlib.Path(name) for name in listing.split("\0") if name and (ROOT / name).is_file()}
    for path in [path for path in copy.rglob("*") if path.is_file()]:
        inside = path.relative_to(copy)
        if inside.parts[0] != "build" and inside not in tracked:
            path.unlink()
    for name in tracked:
        here, there = ROOT / name, copy / name
        if there.is_file() and there.read_bytes() == here.read_bytes():
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(here, there)


def configure(copy):
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DHEED_TESTS=ON", "-DHEED_CUDA=OFF"]
    subprocess.run(["cmake", "-S", copy, "-B", copy / "build", *options], check=True, stdout=subprocess.DEVNULL)


def build(copy, targets):
    """What the compiler says, or nothing after a success."""
    words = ["cmake", "--build", copy / "build", "-j", str(os.cpu_count()), "--target", *sorted(targets)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout


def command(copy, tests):
    target, pattern = tests.split(" ")
    if target == "heed":
        return ["ctest", "--test-dir", copy / "build", "--no-tests=error", "--output-on-failure", "-R", pattern]
    run = [copy / "build" / "bin" / target, f"--gtest_filter={pattern}", "--gtest_color=no"]
    # One rank that ends at its first failure would let the other one wait.
    return [*MPIRUN, *run] if target == "ranks_tests" else [*run, "--gtest_fail_fast"]


def failure(copy, tests):
    """What failing tests print, or nothing after a success. To run no test is a failure, too long a time as well."""
    threads = "1" if tests.startswith(("ranks_", "cuda_")) else "2"
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive", "HOSTCUDA_STREAMS": "lazy"}
    try:
        done = subprocess.run(
            command(copy, tests),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s"
    output = done.stdout.decode(errors="replace")
    return "" if done.returncode == 0 and "[  PASSED  ] 0 tests" not in output else output or "no output"


def first_failure(output):
    found = re.search(r"(?:\[  FAILED  \]|\bFAIL:) (\S+)|(time limit|no end) ", output)
    return (found[1] or found[2]).rstrip(",") if found else output.strip().split("\n")[-1]


def outcome(copy, mutant):
    """What became of it, and the test that found it."""
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        if build(copy, [target_of(mutant)]):
            return "does not compile", ""
        output = failure(copy, mutant.tests)
        return ("found", "by " + first_failure(output)) if output else ("SURVIVED", mutant.tests)
    finally:
        path.write_text(text, encoding="utf-8")


def prepare(copy, mutants):
    """The copy, its build, and that its tests pass without a fault."""
    copy_tracked_files(copy)
    configure(copy)
    text = build(copy, {target_of(mutant) for mutant in mutants})
    if text:
        sys.exit(f"{text}mutants: heed itself does not compile")
    for tests in sorted({mutant.tests for mutant in mutants}):
        text = failure(copy, tests)
        if text:
            sys.exit(f"{text}\nmutants: {tests} fails without any fault")


def run(copy, mutants):
    begin = time.monotonic()
    prepare(copy, mutants)
    print(f"{time.monotonic() - begin:5.0f} s  tests built, all pass without a fault", flush=True)
    outcomes = []
    for mutant in mutants:
        start = time.monotonic()
        word, test = outcome(copy, mutant)
        outcomes.append(word)
        print(f"{time.monotonic() - start:5.0f} s  {word:16}  {mutant.name}  {test}", flush=True)
    found, survived = outcomes.count("found"), outcomes.count("SURVIVED")
    rest = len(outcomes) - found - survived
    print(f"mutants: {found} found, {survived} survived, {rest} do not compile, {time.monotonic() - begin:.0f} s")
    return 0 if found == len(outcomes) else 1


def main(arguments):
    if not arguments or (arguments[0].startswith("-") and arguments != ["--check"]):
        print(__doc__, end="")
        return 0 if arguments in (["-h"], ["--help"]) else 2
    wrong = misplaced()
    for mutant in wrong:
        print(f"{mutant.file}: {mutant.name}: its text is not exactly once in this file")
    if wrong:
        return 2
    if arguments == ["--check"]:
        print(f"mutants: {len(MUTANTS)}, each at its place")
        return 0
    unknown = set(arguments[1:]) - {mutant.name for mutant in MUTANTS}
    if unknown:
        print("mutants: there is no " + ", ".join(sorted(unknown)))
        return 2
    chosen = [mutant for mutant in MUTANTS if mutant.name in arguments[1:] or len(arguments) == 1]
    return run(pathlib.Path(arguments[0]).resolve() / "mutants", chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
