"""format.py ROOT: is every C++ file as clang-format leaves it? Exit code 77 (a skipped test) without that version."""

import os
import shutil
import subprocess
import sys

from tree import SourceTree

VERSION = "14"  # of Debian 12; another version breaks lines elsewhere


def find_program():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if (
            program
            and f"version {VERSION}."
            in subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        ):
            return program
    return None


def main(root):
    program = find_program()
    if not program:
        print(f"format: skipped, there is no clang-format {VERSION} here")
        return 77
    files = [os.path.join(root, path) for path in SourceTree.read(root).cpp()]
    if not files:
        return 0
    errors = subprocess.run([program, "--dry-run", *files], capture_output=True, text=True, check=True).stderr
    places = [
        line.split(": error:")[0].split(": warning:")[0] for line in errors.split("\n") if "[-Wclang-format" in line
    ]
    lines = sorted({tuple(place.rsplit(":", 2)[:2]) for place in places})
    for path, line in lines:
        path = os.path.relpath(path, root)
        print(f"{path}:{line}: format: run clang-format -i {path}")
    print(f"format: {len(files)} files, {len(lines)} lines to mend")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
