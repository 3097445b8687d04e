"""Rules about the build: the flags that compilers really get, and that every source is built."""

import json
import os
import re

from tree import Violation, search

# They let the compiler drop NaN and Inf, or bind the binary to the building machine.
_MATH = r"(?:fast|unsafe|finite)-math(?:-only|-optimizations)?"
FORBIDDEN = (
    rf"-f{_MATH}|-fassociative-math|-freciprocal-math|-O(?:fast)\b|-m(?:arch|tune|cpu)=native|-use_fast_math"
    r"|-ffp-model=fast|-mdaz-ftz"
)
BUILD_FILES = re.compile(r".*CMakeLists\.txt|.*\.cmake|CMakePresets\.json|.*\.sh|heed|\.ci/run")
# In the source: attributes and pragmas that switch such flags on for a function.
IN_SOURCE = (
    r"optimize\s*\(?\s*\"[^\"]*(?:fast|finite|unsafe)[^\"]*\"|#\s*pragma\s+float_control|fp\s+reassociate\s*\(\s*on"
)


def flags_in_build_files(tree):
    paths = [path for path in sorted(tree.files) if BUILD_FILES.fullmatch(path)]
    pattern = rf"(?:{FORBIDDEN})(?!.*  # sanitizers only)"
    return search(tree, paths, pattern, "build-flags", "{0} is not allowed", code_only=False)


def flags_in_source(tree):
    return search(tree, tree.cpp(), IN_SOURCE, "build-flags", "{0} is not allowed", code_only=False)


def flags_in_commands(commands):
    """commands: the entries of a compile_commands.json."""
    found = []
    for entry in commands:
        command = entry.get("command") or " ".join(entry["arguments"])
        for flag in re.findall(FORBIDDEN, command):
            found.append(Violation(entry["file"], 1, "build-flags", f"is compiled with {flag}, which is not allowed"))
    return found


# A project of its own, of which a build of heed leaves out some sources.
EMULATOR = "tests/hostcuda/"
# Built only where there is MPI.
NEEDS_MPI = re.compile(r"tests/support/mpi_main\.cpp")


def every_source_is_built(tree, commands, root):
    built = {os.path.realpath(os.path.join(entry["directory"], entry["file"])) for entry in commands}
    named = re.findall(r"[\w./]+", tree.files.get(EMULATOR + "CMakeLists.txt", ""))
    built.update(os.path.realpath(os.path.join(root, EMULATOR, name)) for name in named)
    return [
        Violation(path, 1, "not-built", "no target has this source: add it to CMakeLists.txt")
        for path in tree.cpp()
        if (path.endswith(".cpp") or path.startswith(EMULATOR) and path.endswith(".cu"))
        and os.path.realpath(os.path.join(root, path)) not in built
        and not NEEDS_MPI.fullmatch(path)
    ]


def check_commands(tree, path, root):
    with open(path, encoding="utf-8") as file:
        commands = json.load(file)
    return flags_in_commands(commands) + every_source_is_built(tree, commands, root)


RULES = [flags_in_build_files, flags_in_source]
