"""Builds the documentation as a site, build/site/html, with the MkDocs of this Python.

The pages and all files that they link to are copied into one tree, so that every relative link works as it does in the
repository. A warning of MkDocs is an error.
"""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/site"
sys.path.insert(0, str(ROOT / "tests/docs"))
import markdown_pages


def linked_files(page):
    """The files, and for a folder its README.md, that a page links to."""
    found = set()
    for _, target in markdown_pages.links((ROOT / page).read_text()):
        path = target.partition("#")[0]
        if not path or "://" in target or target.startswith("mailto:"):
            continue
        file = ((ROOT / page).parent / path).resolve()
        file = file / "README.md" if file.is_dir() else file
        found.add(file.relative_to(ROOT))
    return found


def all_files():
    """The pages, and what can be reached from them."""
    todo, found = list(markdown_pages.pages(ROOT)), set()
    while todo:
        path = todo.pop()
        if path in found or not (ROOT / path).is_file():
            continue
        found.add(path)
        todo += linked_files(path) if path.suffix == ".md" else []
    return found


def main():
    shutil.rmtree(BUILD, ignore_errors=True)
    for path in all_files():
        copy = BUILD / "pages" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy)
    config = ROOT / "docs/site/mkdocs.yml"
    sys.exit(subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config]).returncode)


if __name__ == "__main__":
    main()
