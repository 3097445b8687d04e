"""The pages of heed report in a browser without a window: they are laid out, narrow and wide, and nothing is loaded.

Usage: report_browser_test.py PATH_OF_HEED          Exit code 77 (a skipped test) without Chromium.
"""

import pathlib
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

from command_line import TINY, CommandLine

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SWEEP = """
config = "tiny.toml"
seeds = 2
[grid]
model.num_heads = [1, 2]
"""
# The page in a frame of this width, which measures itself: a window has a least width.
FRAME = """<body style="margin:0"><iframe src="{page}" style="border:0;width:{width}px;height:900px"></iframe>
<p id="measured"></p><script>onload = () => {{
  const page = frames[0].document, root = page.documentElement;
  const loaded = frames[0].performance.getEntriesByType("resource").filter(one => !one.name.startsWith("data:"));
  document.getElementById("measured").textContent = "width " + root.scrollWidth + ", loaded " + loaded.length +
    ", images " + [...page.images].filter(image => image.naturalWidth > 0).length + ", background " +
    frames[0].getComputedStyle(page.body).backgroundColor;
}}</script></body>"""


def pixels(png):
    """The bytes of the pixels, as the filters of the PNG left them."""
    data, at = b"", 8
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        data += png[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    return zlib.decompress(data)


class Browser(CommandLine):
    CONFIG = TINY

    def heed(self, *arguments):
        result = self.run_heed(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def browse(self, page, *options):
        result = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
             f"--user-data-dir={self.folder}/browser", "--window-size=1400,1000", *options, pathlib.Path(page).as_uri()],
            capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def measure(self, page, width, *options):
        frame = self.folder / "frame.html"
        frame.write_text(FRAME.format(page=page.as_uri(), width=width))
        return self.browse(frame, "--dump-dom", *options).split('<p id="measured">')[1].split("</p>")[0]

    def check(self, page, headings):
        dom = self.browse(page, "--dump-dom")
        for heading in headings:
            self.assertIn(f"{heading}</h", dom)
        self.assertIn('<svg role="img"', dom)
        self.assertTrue(dom.rstrip().endswith("</html>"), dom[-200:])
        self.browse(page, f"--screenshot={self.folder}/page.png")
        self.assertGreater(len(set(pixels((self.folder / "page.png").read_bytes()))), 50, "a blank page")

    def test_run(self):
        self.heed("train", self.config)
        self.heed("inspect", "runs/tiny")
        self.heed("report", "runs/tiny")
        page = self.folder / "runs" / "tiny" / "report.html"
        self.check(page, ["tiny", "Results", "Curves", "Attention heads", "Config"])
        for width in (400, 1400):
            self.assertIn(f"width {width}, loaded 0, images 1, background rgb(255, 255, 255)", self.measure(page, width))
        dark = self.measure(page, 1400, "--blink-settings=preferredColorScheme=0")
        self.assertIn("background rgb(22, 24, 28)", dark)

    def test_sweep(self):
        (self.folder / "heads.toml").write_text(SWEEP)
        self.heed("ablate", "heads.toml")
        self.heed("report", "runs/heads")
        page = self.folder / "runs" / "heads" / "report.html"
        self.check(page, ["heads", "Results", "Curves", "Arms", "num_heads=2", "Config of the baseline"])
        self.assertIn("width 400, loaded 0", self.measure(page, 400))


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: there is no Chromium here")
        sys.exit(77)
    unittest.main()
