"""The files of the project as the rules see them."""

import os
import re
import subprocess
from collections import namedtuple

Violation = namedtuple("Violation", "path line rule text")
Include = namedtuple("Include", "line name quoted")

CPP = (".hpp", ".cpp", ".cuh", ".cu", ".h")
# What .gitignore names.
IGNORED = re.compile(r"(build[^/]*|runs)/.*|(.*/)?__pycache__/.*|.*\.pyc")

LITERAL_OR_COMMENT = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)


def blank(text):
    """Spaces of the same shape, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", text)


def tracked_names(root):
    """The top-level names that git tracks; None without git or outside a repository."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return {path.split("/")[0] for path in listed.stdout.split("\0")} if listed.returncode == 0 else None


class SourceTree:
    """files: path relative to the root -> text. Users may keep files of their own at the top level, so that only tracked
    ones are in top_level."""

    def __init__(self, files, tracked=None):
        self.files = files
        names = {path.split("/")[0] for path in files}
        self.top_level = sorted(names if tracked is None else names & tracked)

    @classmethod
    def read(cls, root):
        files = {}
        for folder, folders, names in os.walk(root):
            inside = os.path.relpath(folder, root).replace(os.sep, "/")
            inside = "" if inside == "." else inside + "/"
            folders[:] = [
                f for f in folders if not IGNORED.fullmatch(f"{inside}{f}/") and (f[0] != "." or inside + f == ".ci")
            ]
            for name in names:
                if IGNORED.fullmatch(inside + name) or inside + name == ".git":  # a file in a second work tree
                    continue
                try:
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        files[inside + name] = file.read()
                except UnicodeDecodeError:
                    files[inside + name] = ""  # data, not text: only its place is checked
        return cls(files, tracked_names(root))

    def cpp(self):
        return [path for path in sorted(self.files) if path.endswith(CPP)]

    def code(self, path, keep_strings=False):
        """The text without comments and, if not kept, without literals."""

        def replace(match):
            keep = keep_strings and match.group("comment") is None
            return match.group(0) if keep else blank(match.group(0))

        return LITERAL_OR_COMMENT.sub(replace, self.files[path])

    def includes(self, path):
        found = []
        for number, line in enumerate(self.code(path, keep_strings=True).split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if match:
                found.append(Include(number, match.group(2), match.group(1) == '"'))
        return found


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def search(tree, paths, pattern, rule, message, code_only=True):
    """A violation for each match; message is formatted with the match's text."""
    found = []
    for path in paths:
        text = tree.code(path) if code_only else tree.files[path]
        for match in re.finditer(pattern, text):
            line = line_of(text, match.start())
            found.append(Violation(path, line, rule, message.format(match.group(0).strip())))
    return found


def calls(text, names):
    """(line, [arguments]) of each call of a function or macro whose name matches the pattern `names`."""
    found = []
    for match in re.finditer(r"\b(?:%s)\s*\(" % names, text):
        depth, start, arguments = 1, match.end(), []
        for position in range(match.end(), len(text)):
            char = text[position]
            if char in "([{":
                depth += 1
            elif char in ")]}":
                depth -= 1
            if depth == 0 or (depth == 1 and char == ","):
                arguments.append(text[start:position].strip())
                start = position + 1
            if depth == 0:
                break
        found.append((line_of(text, match.start()), arguments))
    return found
