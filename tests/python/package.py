"""What the tests of the Python package share: it is imported from python/ of the checkout, not from where it may be
installed. The program heed is the first argument of the test. Without h5py the test is skipped (77)."""

import importlib.util
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/train/commands")]

if importlib.util.find_spec("h5py") is None:
    print("skipped: Python has no h5py")
    sys.exit(77)

import command_line

HEED = command_line.HEED
TINY = command_line.TINY


def words(count, seed=1):
    """ASCII text of this many bytes, with line feeds."""
    draw = random.Random(seed)
    text = "".join(draw.choice(("attend ", "and ", "heed ", "the ", "head\n")) for _ in range(count))
    return text[:count].encode()


class Package(command_line.CommandLine):
    def run_ok(self, *arguments):
        result = self.run_heed(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def train(self, config, text=None, name="tiny"):
        """Trains and returns the run folder."""
        if text is not None:
            (self.folder / "text.txt").write_bytes(text)
        (self.folder / f"{name}.toml").write_text(config)
        self.run_ok("train", f"{name}.toml")
        return self.folder / "runs" / name
