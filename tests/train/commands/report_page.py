"""A page of heed report, read by html.parser: what it holds, that its elements are closed, and what it refers to."""

import html.parser
import re

VOID = {"meta", "img", "br", "hr", "link", "input"}
ADDRESSES = {"href", "xlink:href", "src", "srcset", "data", "action", "poster", "background"}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.bytes = path.read_bytes()
        self.stack, self.mistakes, self.addresses, self.ids = [], [], [], []
        self.elements, self.texts = [], {}  # texts: by element, the text of each one with that name
        self.feed(self.bytes.decode())
        self.close()
        self.mistakes += [f"<{name}> is never closed" for name, _ in self.stack]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        for name, value in attrs:
            if name in ADDRESSES:
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)
            if name.startswith("on"):
                self.mistakes.append(f"a script: {name}")
            self.addresses += re.findall(r"url\(['\"]?([^)'\"]*)", value or "")
        if tag not in VOID:
            self.stack.append((tag, []))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.stack or self.stack[-1][0] != tag:
            self.mistakes.append(f"</{tag}> in {[name for name, _ in self.stack]}")
            return
        _, text = self.stack.pop()
        self.texts.setdefault(tag, []).append("".join(text))

    def handle_data(self, data):
        for _, text in self.stack:
            text.append(data)
        if self.stack and self.stack[-1][0] == "style":
            self.addresses += re.findall(r"url\(['\"]?([^)'\"]*)|@import\s*['\"]?([^'\";]*)", data)

    def names(self):
        return [name for name, _ in self.elements]

    def outside(self):
        """Addresses that are neither a place of this page nor data in it."""
        inside = {f"#{name}" for name in self.ids}
        return [address for address in self.addresses if address not in inside and not address.startswith("data:image/")]

    def check(self, test):
        test.assertEqual(self.mistakes, [])
        test.assertEqual(self.outside(), [])
        test.assertFalse({"script", "metadata", "iframe", "object"} & set(self.names()))
        test.assertEqual(dict(self.elements)["html"], {"lang": "en"})
        test.assertEqual(len(self.ids), len(set(self.ids)), "an id twice")
        test.assertEqual(self.names().count("h1"), 1)
        test.assertEqual(self.names().count("table"), self.names().count("caption"))
        for name, attributes in self.elements:
            if name == "img":
                test.assertTrue(attributes.get("alt"))
        return self

    def rows(self, header):
        """The rows of the tables that have such a column, by the names of the columns."""
        text = self.bytes.decode()
        found = []
        for table in re.findall(r"<table>.*?</table>", text, re.S):
            cells = [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
                     for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)]  # fmt: skip
            if header in cells[0]:
                found += [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]
        return found
