"""Rules about single files and lines."""

import re

from tree import Violation, search

MAX_LINES = 500
MAX_MACROS = 4  # function-like, in the code; the tests may have as many of their own
LAUNCH_FILE = "autograd/cuda/launch.cuh"
OUTPUT_FILE = "train/output/output.cpp"
MAY_EXIT = re.compile(r"train/commands/main\.cpp|train/comm/.*|train/ablate/child_run\.cpp|tests/hostcuda/.*")
TOP_LEVEL = set(
    "autograd nn optim data train configs tests heed CMakeLists.txt CMakePresets.json"
    " README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs examples python".split()
)

# Words that hide what the field has a word for, and what to write. For comments and pages, not for the tests.
DIALECT = {
    "behind": "after",
    "beside": "next to, in addition to",
    "anew": "again",
    "by way of": "through",
    "of its own": "its own, separate",
    "of their own": "their own, separate",
    "nobody": "no rank, thread or caller",
    "somebody": "some rank, thread or caller",
    "whoever": "the caller, the rank that",
    "where there is": "if there is",
    "where there are": "if there are",
    "exact weights": "master weights",
    "sight": "key range",
    "strip": "register tile",
    "strips": "register tiles",
    "team": "thread group",
    "teams": "thread groups",
}
DIALECT_WORDS = re.compile(r"\b(" + "|".join(DIALECT) + r")\b", re.IGNORECASE)
# "// tokens: i32 (B, T)" above a declaration names one of its parameters or members.
NAMED = re.compile(r"^ *// ([a-z][a-z0-9_]*): ")


def top_level(tree):
    return [
        Violation(name, 1, "top-level", "is not on the map of the top level")
        for name in tree.top_level
        if name not in TOP_LEVEL and not name.startswith(".")
    ]


def file_length(tree):
    found = []
    for path, text in sorted(tree.files.items()):
        lines = text.count("\n")
        if lines > MAX_LINES and path != "LICENSE" and not path.endswith(".svg"):
            found.append(Violation(path, lines, "file-length", f"{lines} lines, at most {MAX_LINES} (aim for 300)"))
    return found


def pragma_once(tree):
    """Highway's headers are read once per instruction set and guard themselves otherwise."""
    return [
        Violation(path, 1, "pragma-once", "a header starts with #pragma once")
        for path in tree.cpp()
        if path.endswith((".hpp", ".cuh", ".h"))
        and not re.search(r"^#pragma once$|HWY_TARGET_TOGGLE", tree.code(path), re.M)
        and not path.startswith("tests/hostcuda/")
    ]


def launches(tree):
    paths = [path for path in tree.cpp() if path != LAUNCH_FILE and not path.startswith("tests/hostcuda/")]
    return search(tree, paths, r"<<<|\bcudaLaunchKernel\w*", "launch", f"kernels are started only by {LAUNCH_FILE}")


def macros(tree):
    found = []
    for in_tests, where in ((False, "the code"), (True, "the tests")):
        paths = [p for p in tree.cpp() if p.startswith("tests/") == in_tests and not p.startswith("tests/hostcuda/")]
        uses = search(tree, paths, r"#[ \t]*define[ \t]+\w+\([^)]*\)", "macros", "{0}")
        if len(uses) > MAX_MACROS:
            text = f"{len(uses)} function-like macros in {where}, at most {MAX_MACROS}: "
            found += [use._replace(text=text + use.text) for use in uses]
    return found


def exits(tree):
    paths = [path for path in tree.cpp() if not MAY_EXIT.fullmatch(path)]
    pattern = r"(?<![\w.>])(?:std::|::)?(?:exit|_exit|_Exit|quick_exit|abort|terminate)\s*\("
    return search(
        tree, paths, pattern, "exit", "{0}) is for train/commands/main.cpp and train/comm: throw an error of check.hpp"
    )


def output(tree):
    """A write that nobody checks loses a result in silence. Examples have no result to lose."""
    paths = [path for path in tree.cpp() if not path.startswith(("tests/", "examples/")) and path != OUTPUT_FILE]
    pattern = r"\bfmt::print\s*\(|\bstd::(?:cout|cerr|clog|printf|puts|putchar)\b|\b(?:stdout|stderr)\b"
    return search(tree, paths, pattern, "output", f"{{0}}: print by {OUTPUT_FILE}, which sees a full disk")


def machine_paths(tree):
    pattern = r"(?<![\w.}~/-])/(?:(?:home|Users)/\w|(?:root|work|farm|tmp|mnt|scratch)/)"
    return search(tree, sorted(tree.files), pattern, "machine-path", "a path of one machine: {0}", code_only=False)


def unfinished(tree):
    pattern = r"\b(?:%s)\b" % "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"])
    return search(tree, sorted(tree.files), pattern, "unfinished", "{0}: finish it or leave it out", code_only=False)


def comment_words(tree):
    found = []
    pages = [path for path in sorted(tree.files) if path.endswith(".md")]
    for path in tree.cpp() + pages:
        if path.startswith("tests/"):
            continue
        for number, line in enumerate(tree.files[path].split("\n"), 1):
            prose = line if path.endswith(".md") else line.partition("//")[2]
            word = DIALECT_WORDS.search(prose)
            if word:
                text = f"'{word[1]}': write {DIALECT[word[1].lower()]}"
                found.append(Violation(path, number, "comment-words", text))
    return found


def comment_names(tree):
    """A sentence that begins with a name and a colon is about a parameter or member of the declaration below it."""
    found = []
    for path in tree.cpp():
        lines = [""] + tree.files[path].split("\n")
        for number, line in enumerate(lines):
            name, before = NAMED.match(line), lines[number - 1].rstrip()
            if not name or (re.match(r" *//", before) and not before.endswith((".", ":"))):
                continue
            # The comment at the head of a file is about all of it.
            head = not any(re.match(r" *[^ /#]", other) for other in lines[1:number])
            below = lines[number:] if head else lines[number : number + 24]
            if not re.search(rf"\b{name[1]}\b", "\n".join(re.sub(r"//.*", "", other) for other in below)):
                text = f"the comment is about '{name[1]}', which the declaration below it does not have"
                found.append(Violation(path, number, "comment-names", text))
    return found


RULES = [
    top_level,
    file_length,
    pragma_once,
    launches,
    macros,
    exits,
    output,
    machine_paths,
    unfinished,
    comment_words,
    comment_names,
]
