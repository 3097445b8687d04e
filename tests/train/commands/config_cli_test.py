"""What a config does to the command line: the home folder in paths, values that no config can hold, short trial runs.

Usage: config_cli_test.py PATH_OF_HEED
"""

import os
import pathlib
import pwd
import shutil
import subprocess
import unittest

from command_line import HEED, InFolder

CONFIGS = pathlib.Path(__file__).resolve().parents[3] / "configs"
TINY = """
[model]
num_layers = 1
d_model = 16
seq_len = 8
[data]
source = "ngram"
vocab_size = 6
order = 2
[train]
steps = 2
device = "cpu"
plot = false
"""


class ConfigCommandLine(InFolder):
    CONFIG = TINY

    def setUp(self):
        super().setUp()
        self.home = self.folder / "home"
        self.home.mkdir()

    def run_heed(self, *arguments, home=None, **more):
        environment = {name: value for name, value in os.environ.items() if name != "HOME"}
        if home is not None:
            environment["HOME"] = str(home)
        return subprocess.run([more.pop("heed", HEED), *arguments], cwd=self.folder, capture_output=True, timeout=120,
                              env=environment, **more)

    def assert_error(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr.decode())

    def test_a_run_in_the_home_folder(self):
        result = self.run_heed("train", self.config, "train.run_dir=~/runs/x", home=self.home)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.home / "runs" / "x" / "metrics.csv").exists())
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["home", "tiny.toml"])

    def test_a_text_in_the_home_folder(self):
        (self.home / "text.txt").write_text("abcd" * 200)
        self.config.write_text(TINY.replace('"ngram"\nvocab_size = 6\norder = 2', '"text"\npath = "~/text.txt"'))
        result = self.run_heed("train", self.config, "train.run_dir=run", home=self.home)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_home_of_another_user(self):
        result = self.run_heed("train", self.config, "train.run_dir=~nobody/x", home=self.home)
        self.assert_error(result, 2, "train.run_dir", "write the whole path", '"./~nobody/x"')
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["home", "tiny.toml"])

    def test_without_home_the_user_database_is_asked(self):
        for home in (None, ""):
            result = self.run_heed("config", self.config, "train.run_dir=~/x", home=home)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f'"{pwd.getpwuid(os.getuid()).pw_dir}/x"', result.stdout.decode())

    @unittest.skipUnless(os.geteuid() == 0, "only root can become a user whom the database does not have")
    def test_no_home_folder_at_all(self):
        heed = shutil.copy(HEED, self.folder / "heed")
        self.folder.chmod(0o755)
        result = self.run_heed("config", self.config, "train.run_dir=~/x", heed=heed, user=54321)
        self.assert_error(result, 2, "HOME is not set", "write the whole path")

    def test_bytes_that_are_not_utf8(self):
        result = self.run_heed("config", self.config, b"data.path=caf\xe9.txt")
        self.assert_error(result, 2, r'argument "data.path=caf\xE9.txt": the value of key data.path is not UTF-8', "link")

    def test_ten_steps_of_a_shipped_config(self):
        for name in ("ngram", "skip"):
            run = f"train.run_dir={name}"
            result = self.run_heed("train", CONFIGS / f"{name}.toml", "train.steps=10", "train.eval_batches=1",
                                   "train.device=cpu", "train.plot=false", run)
            self.assertEqual(result.returncode, 0, result.stderr)
            resolved = (self.folder / name / "config.toml").read_text()
            self.assertIn("\nwarmup_steps = 10\n", resolved)
#As a base for the next run.
            result = self.run_heed("config", f"{name}/config.toml", "model.num_heads=8")
            self.assertRegex(result.stdout.decode(), r"num_kv_heads +8 ")
            result = self.run_heed("train", f"{name}/config.toml", "--resume", "train.stop_after=10")
            self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
