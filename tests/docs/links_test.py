"""Every relative link and anchor of the pages exists.

Usage: links_test.py ROOT
"""

import pathlib
import sys
import unittest

import markdown_pages

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()


def problem_of(root, page, target):
    """What is wrong with a link of this page; None if nothing is."""
    if "://" in target or target.startswith("mailto:"):
        return None
    path, _, anchor = target.partition("#")
    file = (root / page).parent / path if path else root / page
    if root not in [file.resolve(), *file.resolve().parents]:
        return "leaves the project"
    if not file.exists():
        return "there is no such file"
    if anchor and file.suffix == ".md" and anchor not in markdown_pages.anchors(file.read_text()):
        return f"{path or page} has no heading #{anchor}"
    return None


def problems(root):
    found = []
    for page in markdown_pages.pages(root):
        for line, target in markdown_pages.links((root / page).read_text()):
            problem = problem_of(root, page, target)
            if problem:
                found.append(f"{page}:{line}: {target}: {problem}")
    return found


class Links(unittest.TestCase):
    def test_links_of_all_pages(self):
        self.assertEqual("\n".join(problems(ROOT)), "")

    def test_every_page_of_docs_is_in_the_navigation(self):
        """That of the site, and docs/README.md or the README.md of its folder."""
        site = (ROOT / "docs/site/mkdocs.yml").read_text()
        for page in markdown_pages.pages(ROOT):
            if page.parts[0] != "docs" or page.name == "README.md":
                continue
            self.assertIn(f": {page}\n", site, "a page that docs/site/mkdocs.yml does not have: add it under nav")
            contents = ROOT / page.parent / "README.md"
            self.assertIn(f"]({page.name})", contents.read_text(), f"{page} is not linked from {contents}")

    def test_what_is_a_link(self):
        text = "# A `b`-c\n\n[x](y.md#z) `[no](no)`\n\n    [no](no)\n\n```\n[no](no)\n```\n[![i](p.svg)](q)\n[r]: s.md\n"
        self.assertEqual([link.target for link in markdown_pages.links(text)], ["y.md#z", "p.svg", "q", "s.md"])
        self.assertEqual(markdown_pages.anchors(text + "# A b-c\n"), {"a-b-c", "a-b-c-1"})

    def test_links_to_nothing_are_found(self):
        page = pathlib.Path("README.md")
        for target in ("docs/nothing.md", "docs/glossary.md#nothing", "#nothing", "../x"):
            self.assertIsNotNone(problem_of(ROOT, page, target), target)
        for target in ("docs/glossary.md#autograd", "docs/", "https://example.org/x"):
            self.assertIsNone(problem_of(ROOT, page, target), target)


if __name__ == "__main__":
    unittest.main()
