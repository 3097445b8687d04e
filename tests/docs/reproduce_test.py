"""reproduce.py finds a figure outside its interval, and says what it did not compare.

Usage: reproduce_test.py
"""

import contextlib
import io
import os
import pathlib
import tempfile
import unittest

import reproduce

# Prints what it was called with, the number of its calls, and a table.
HEED = """#!/bin/sh
echo call >> "$CALLS"
[ "$1" = fail ] && { echo 'heed: no' >&2; exit 3; }
[ "$1" = train ] && mkdir -p runs/a && echo weights > runs/a/file
echo "args $*"
echo "step   20  final val loss 1.4816  excess -0.0089  (full split, 100000 tokens)"
echo "2  0.5460 ± 0.0104  -0.1786 ± 0.0314, p = 0.002: lower"
echo "4  0.5484 ± 0.0145  -0.1762 ± 0.0054, p < 0.001: lower"
"""
LOSS = "step   20  final val loss 1.4816  excess -0.0089  (full split, 100000 tokens)"


class Reproduce(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.heed = self.folder / "heed"
        self.heed.write_text(HEED)
        self.heed.chmod(0o755)
        self.calls = self.folder / "calls"
        os.environ["CALLS"] = str(self.calls)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def check(self, *pages, texts=()):
        """Exit code and output for pages with these contents."""
        names = []
        for number, page in enumerate(pages):
            (self.folder / f"{number}.md").write_text(page)
            names.append(f"{number}.md")
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = reproduce.main([str(self.heed), *names, *texts])
        return code, output.getvalue()

    def result_of(self, shown, note="±0.01", command="./heed eval a.h5"):
        return self.check(f"Text:\n\n    {command}\n\n<!-- reproduce: {note} -->\n\n    {shown}\n")

    def test_figures_inside_their_interval(self):
        for shown in (LOSS, LOSS.replace("1.4816", "1.4900"), "step 20 … excess -0.0100 …", "… 1.4816 …",
                      "2  0.5460 ± 0.0104  -0.1786 ± 0.0314, p = 0.009: lower"):  # fmt: skip
            code, output = self.result_of(shown)
            self.assertEqual(code, 0, output)
        self.assertIn("2 figures compared, 0 faults, 0 left out", self.result_of(LOSS)[1])

    def test_changed_figures(self):
        for shown in (LOSS.replace("1.4816", "1.4920"), LOSS.replace("-0.0089", "0.0089"), LOSS.replace("20", "21"),
                      LOSS.replace("100000", "100001"), LOSS.replace("final", "last"), LOSS + " more", "… 1.50 …",
                      "2  0.5460 ± 0.0104  -0.1786 ± 0.0314, p = 0.002: within noise",
                      "2  0.5460 ± 0.0104  -0.1786 ± 0.0314, p = 0.013: lower"):  # fmt: skip
            code, output = self.result_of(shown)
            self.assertEqual(code, 1, shown)
            self.assertIn("WRONG 0.md:7: the output of ./heed eval a.h5 has no line within ±0.01 of: " + shown, output)

    def test_p_values_have_another_interval(self):
        row = "4  0.5484 ± 0.0145  -0.1762 ± 0.0054, p = {}: lower"
        self.assertEqual(self.result_of(row.format("0.050"), "±0.001, p ±0.05")[0], 0)
        self.assertEqual(self.result_of(row.format("0.060"), "±0.001, p ±0.05")[0], 1)

    def test_lines_come_in_their_order(self):
        page = "    ./heed eval a.h5\n\n<!-- reproduce: ±0 -->\n\n    4 …\n    …\n    2 …\n"
        self.assertEqual(self.check(page)[0], 1)

    def test_figures_in_words(self):
        page = '    ./heed eval a.h5\n\nIt ends at 1.48.\n<!-- reproduce: ±{} "final val loss 1.48" -->\n'
        self.assertEqual(self.check(page.format("0.01"))[0], 0)
        self.assertEqual(self.check(page.format("0.001"))[0], 1)

    def test_the_output_of_an_earlier_command(self):
        page = "    ./heed eval a.h5  # the first\n\n    ./heed eval b.h5\n\n<!-- reproduce: ±0 of ./heed eval {}.h5 -->\n\n    args eval a.h5\n"
        self.assertEqual(self.check(page.format("a"))[0], 0)
        self.assertEqual(self.check(page.format("b"))[0], 1)
        self.assertIn("there is no command", self.check(page.format("c"))[1])

    def test_what_does_not_run_is_named(self):
        for command, reason in (("./heed train x train.device=cuda", "needs a GPU"), ("./heed eval RUN", "RUN stands for a name"),
                                ("./heed train x data.path=YOUR.txt", "YOUR.txt is not given"),
                                ("./heed eval runs/b", "runs/b was not trained")):  # fmt: skip
            code, output = self.result_of(LOSS, command=command)
            self.assertEqual(code, 0, output)
            self.assertIn(f"not run: {reason}", output)
            self.assertIn("0 figures compared, 0 faults, 2 left out", output)
        self.assertFalse(self.calls.exists())
        page = "<!-- reproduce: not run, it waits -->\n\n    ./heed eval a.h5\n\n    ./heed eval b.h5\n"
        self.assertIn("./heed eval a.h5: not run: it waits", self.check(page)[1])
        self.assertEqual(self.calls.read_text().count("call"), 1)

    def test_a_text_that_is_given(self):
        (self.folder / "book").write_text("text")
        code, output = self.check("    ./heed train x data.path=YOUR.txt\n", texts=["YOUR.txt=book"])
        self.assertEqual((code, self.calls.read_text()), (0, "call\n"), output)

    def test_a_command_that_fails(self):
        code, output = self.check("    ./heed fail now\n")
        self.assertEqual(code, 1)
        self.assertIn("WRONG 0.md:1: ./heed fail now: exit code 3: heed: no", output)

    def test_a_training_that_pages_share_runs_once(self):
        page = "    ./heed train configs/a.toml\n    ./heed eval runs/a\n\n<!-- reproduce: ±0 -->\n\n    args eval runs/a\n"
        code, output = self.check(page, page)
        self.assertEqual((code, self.calls.read_text().count("call")), (0, 3), output)
        self.assertFalse((self.folder / "runs").exists())

    def test_nothing_is_written_into_the_project(self):
        (self.folder / "exp").mkdir()
        (self.folder / "exp" / "mine").write_text("mine")
        self.heed.write_text('#!/bin/sh\nmkdir -p exp/x; rm exp/mine; echo theirs > exp/mine\n')
        code, output = self.check("    ./heed eval a.h5\n", texts=["mine=exp/mine"])
        self.assertEqual((code, (self.folder / "exp" / "mine").read_text()), (0, "mine"), output)
        self.assertEqual([file.name for file in (self.folder / "exp").iterdir()], ["mine"])
        self.assertIn("without a folder", self.check("", texts=["exp/mine=heed"])[1])
        self.assertEqual((self.folder / "exp" / "mine").read_text(), "mine")

    def test_wrong_calls(self):
        self.assertIn("needs a page", self.check()[1])
        self.assertIn("there is no such file", self.check("", texts=["a.txt=missing"])[1])
        self.assertIn("not understood", self.check("<!-- reproduce: roughly -->\n")[1])


if __name__ == "__main__":
    unittest.main()
