"""The Markdown pages of the project: their links, anchors and code."""

import pathlib
import re
from collections import namedtuple

Link = namedtuple("Link", "line target")
Code = namedtuple("Code", "line text")  # a line of a code block, or an inline code span

PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
INLINE_CODE = re.compile(r"(`+)(.+?)\1")
# [text](target "title"), images too, and src or href of HTML. The text may hold an image.
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|(?:src|href|srcset)=\"([^\"]+)\"")
REFERENCE = re.compile(r" {0,3}\[[^\]]+\]:\s+(\S+)")


def pages(root):
    """The paths of all pages, relative to the root."""
    root = pathlib.Path(root)
    return sorted({path.relative_to(root) for pattern in PAGES for path in root.glob(pattern)})


def split_code(text):
    """(the lines of the text with code blanked, the code). A line of an indented block follows a blank line or another
    such line, and belongs to no list."""
    plain, code, fence, block, after_blank, in_list = [], [], None, False, True, False
    for number, line in enumerate(text.split("\n"), 1):
        mark = FENCE.match(line)
        if fence or mark:
            opens = fence is None
            if not opens and not (mark and line.strip().startswith(fence)):
                code.append(Code(number, line))
            fence = mark[1] if opens else None if mark and line.strip() == fence else fence
            plain.append("")
            continue
        if line.strip() and not line.startswith(" "):
            in_list = bool(re.match(r"([-*+]|\d+\.) ", line))
        block = line.startswith("    ") and not in_list and (block or after_blank)
        after_blank = not line.strip()
        if block:
            code.append(Code(number, line[4:]))
            plain.append("")
            continue
        code += [Code(number, span[2]) for span in INLINE_CODE.finditer(line)]
        plain.append(INLINE_CODE.sub("", line))
    return plain, code


def links(text):
    found = []
    for number, line in enumerate(split_code(text)[0], 1):
        found += [Link(number, match[1] or match[2]) for match in LINK.finditer(line)]
        found += [Link(number, match[1]) for match in [REFERENCE.match(line)] if match]
    return found


def anchors(text):
    """The anchors of the headings as GitHub makes them, and those of HTML."""
    found, counts = set(), {}
    for line in text.split("\n"):
        found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    plain = split_code(text)[0]
    for number, line in enumerate(text.split("\n")):
        heading = re.match(r"#{1,6} +(.*?) *#*$", line)
        if not heading or not plain[number]:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        counts[slug] = counts.get(slug, -1) + 1
        found.add(slug if counts[slug] == 0 else f"{slug}-{counts[slug]}")
    return found
