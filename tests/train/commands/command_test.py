"""The command line itself: help, options and their numbers, what is said about what cannot be understood.

Usage: command_test.py PATH_OF_HEED
"""

import json
import shutil
import subprocess
import unittest

import command_line

COMMANDS = ([], ["train"], ["at"], ["generate"], ["data"], ["data", "prepare"], ["data", "info"], ["eval"], ["config"],
            ["plot"], ["report"], ["gradcheck"], ["bench"], ["info"])


class Usage(command_line.CommandLine):
    def test_help_is_plain_text_of_80_columns(self):
        for command in COMMANDS:
            with self.subTest(command):
                result = self.run_heed(*command, "--help")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertTrue(result.stdout.replace("\n", "").isprintable(), result.stdout)
                self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80, result.stdout)
        self.assertIn("--tokenizer char|byte|bpe|file=char", self.run_heed("data", "prepare", "--help").stdout)
        self.assertIn("--val-fraction X=0.1", self.run_heed("data", "prepare", "--help").stdout)

    def test_commands_that_there_are_not(self):
        for arguments, parts in (
                (["tran", "x.toml"], ["unknown command 'tran'; did you mean 'train'?"]),
                (["data", "prepar", "x"], ["unknown command 'prepar'; did you mean 'prepare'?"]),
                (["data", "zzzzzz"], ["unknown command 'zzzzzz'", "heed data has prepare, info"]),
                (["configs/skip.toml"], ["configs/skip.toml is a config file", "heed train configs/skip.toml"]),
                ([], ["a command is missing", "train, ablate, plot, report, generate", "heed --help"]),
                (["data"], ["a command is missing", "prepare, info", "heed data --help"])):
            with self.subTest(arguments):
                self.assert_error(self.run_heed(*arguments), 2, *parts)

    def test_options_that_there_are_not(self):
        for arguments, parts in (
                (["train", self.config, "--lr", 4], ["unknown option --lr;", "optim.learning_rate=", "heed train --help"]),
                (["train", "--lr=4"], ["unknown option --lr;", "optim.learning_rate=", "heed train --help"]),
                (["train", self.config, "--optim.learning_rate=4"], ["without dashes, such as optim.learning_rate="]),
                (["train", self.config, "--weight-decay", 1], ["without dashes, such as weight_decay="]),
                (["train", self.config, "--resum"], ["did you mean --resume?"]),
                (["generate", "x.h5", "--temprature", 1], ["did you mean --temperature?", "heed generate --help"]),
                (["generate", "x.h5", "--stream"], ["unknown option --stream", "--prompt, --prompt-file", "--top-p"]),
                (["generate", "x.h5", "more"], ["unexpected argument 'more'"]),
                (["generate", "x.h5", "--seed"], ["--seed needs a value"]),
                (["generate", "x.h5", "--seed", 1, "--seed", 2], ["--seed is given 2 times"]),
                (["train"], ["config is required", "heed train --help"])):
            with self.subTest(arguments):
                self.assert_error(self.run_heed(*arguments), 2, *parts)

    def test_no_control_character_reaches_the_terminal(self):
        bad = "a\x1b[2J\x07b\n\r\x7f"
        for arguments in ([bad], ["data", bad], ["train", bad], ["train", self.config, bad], ["generate", bad],
                          ["eval", bad], ["train", self.config, "--" + bad], ["info", bad], ["gradcheck", bad],
                          ["bench", bad], ["bench", "--device", bad], ["generate", "x.h5", "--seed", bad],
                          ["data", "prepare", bad, "x.h5"], ["data", "prepare", "x", "y", "--tokenizer", bad],
                          ["data", "info", bad], ["config", bad], ["generate", "x.h5", "--prompt-file", bad]):
            with self.subTest(arguments):
                result = self.run_heed(*arguments)
                self.assertIn(result.returncode, (2, 3, 4))
                self.assert_error(result, result.returncode)
                self.assertTrue(result.stderr.removesuffix("\n").isprintable(), repr(result.stderr))

    def test_numbers_are_decimal_and_never_empty(self):
        """Each option of each command is read before the command does anything."""
        seed = "an integer from 0 to 4294967295"
        count = "an integer from 0 to 1000000000"
        steps = "an integer from 0 to 1000000"
        for command, option, allowed, beyond in (
                (["generate", "x.h5"], "--seed", seed, "18446744073709551615"),
                (["generate", "x.h5"], "--tokens", count, "-1"),
                (["generate", "x.h5"], "--num-samples", "an integer from 1 to 1000000000", "0"),
                (["generate", "x.h5"], "--top-k", count, "99999999999999999999"),
                (["generate", "x.h5"], "--temperature", "a number from 0 to 1e+30", "-0.5"),
                (["generate", "x.h5"], "--top-p", "a number above 0 and at most 1", "0"),
                (["data", "prepare", "x", "y"], "--vocab-size", "an integer from 256 to 2097152", "255"),
                (["data", "prepare", "x", "y"], "--val-fraction", "a number from 0 to 0.99", "1"),
                (["data", "prepare", "x", "y"], "--test-fraction", "a number from 0 to 0.99", "-1"),
                (["bench", "--config", self.config], "--steps", steps, "1000001"),
                (["bench", "--config", self.config], "--warm-up", steps, "-1")):
            for value in ("", "0x10", "nan", "inf", "1 ", "+1", beyond):
                with self.subTest(command=command, option=option, value=value):
                    shown = value if value == beyond else f'"{value}"'
                    self.assert_error(self.run_heed(*command, option, value), 2, f"{option} is {shown}, it must be {allowed}")

    def test_choices_and_paths_are_never_empty(self):
        for arguments, parts in (
                (["data", "prepare", "x", "y", "--tokenizer", "gpt2"], ['--tokenizer is "gpt2", it must be char, byte, bpe or file']),
                (["bench", "--device", ""], ['--device is "", it must be cpu or cuda']),
                (["bench", "--dtype", "f64"], ['--dtype is "f64", it must be f32 or bf16']),
                (["bench", "--config", ""], ['--config is ""']),
                (["config", ""], ['config is ""']), (["train", ""], ['config is ""']),
                (["generate", ""], ['checkpoint is ""']), (["eval", ""], ['checkpoint is ""']),
                (["generate", "x.h5", "--prompt-file", ""], ['--prompt-file is ""'])):
            with self.subTest(arguments):
                self.assert_error(self.run_heed(*arguments), 2, *parts)

    def test_padded_numbers_of_prepare_and_bench(self):
        text = self.folder / "text.txt"
        text.write_text("".join(f"{i} bottles of beer\n" for i in range(300)))
        result = self.run_heed("data", "prepare", text, "bpe.h5", "--tokenizer", "bpe", "--vocab-size", "0300")
        if "lacks" not in result.stderr:
            self.assertIn("bpe, 300 entries", result.stdout, result.stderr)
        self.assert_error(self.run_heed("data", "prepare", text, "c.h5", "--vocab-size", 300), 2, "--vocab-size", "char")
        result = self.run_heed("bench", "--config", self.config, "--steps", "010", "--warm-up", "01", "--json")
        self.assertEqual(len(json.loads(result.stdout)["seconds"]), 10)

    def test_the_former_name_of_an_option_still_works(self):
        result = self.run_heed("bench", "--config", self.config, "--updates", 2, "--warm-up", 1, "--json")
        self.assertEqual(len(json.loads(result.stdout)["seconds"]), 2)
        self.assertNotIn("--updates", self.run_heed("bench", "--help").stdout)
        self.assertNotIn("--updates", self.run_heed("bench", "--nonsense").stderr)
        both = self.run_heed("bench", "--config", self.config, "--updates", 2, "--steps", 2)
        self.assert_error(both, 2, "--steps is given 2 times")

    def test_commands_that_are_no_ranks_refuse_a_launcher(self):
        commands = (["generate", "x.h5"], ["eval", "x.h5"], ["gradcheck", "copy"], ["bench", "copy"],
                    ["data", "prepare", "x", "y"])
        mpi = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
        for command in commands:
            with self.subTest(command):
                first = self.run_heed(*command, **dict(zip(mpi, ("0", "2"))))
                self.assert_error(first, 2, " ".join(command[:2] if command[0] == "data" else command[:1]), "mpirun", "2")
        other = self.run_heed("gradcheck", "copy", **dict(zip(mpi, ("1", "2"))))
        self.assertEqual((other.returncode, other.stdout, other.stderr), (2, "", ""), "one line in all")
        self.assertEqual(self.run_heed("gradcheck", "copy", **dict(zip(mpi, ("0", "1")))).returncode, 0)
        result = self.run_heed("gradcheck", "copy", RANK="0", WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="29400")
        self.assert_error(result, 2, "torchrun", "unset RANK")

    def test_a_current_folder_that_is_gone(self):
        config = self.folder / "tiny.toml"
        for arguments in (["train", config], ["train", config, "train.run_dir=x", "--resume"], ["eval", "x.h5"],
                          ["generate", "x.h5"], ["eval", "."], ["data", "info", "x.h5"], ["data", "prepare", "x", "y"],
                          ["train", "x.toml"], ["train", "x", "--resume"]):
            with self.subTest(arguments):
                gone = self.folder / "gone"
                gone.mkdir()
                result = subprocess.run(
                    ["bash", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', gone, command_line.HEED, *map(str, arguments)],
                    capture_output=True, text=True, timeout=60)
                self.assertIn(result.returncode, (2, 3, 4), result.stderr)
                self.assert_error(result, result.returncode)
                self.assertNotIn("filesystem error", result.stderr)


class ResumeFolder(command_line.CommandLine):
    """`heed train RUN --resume`."""

    def setUp(self):
        super().setUp()
        result = self.run_heed("train", self.config, "stop_after=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.run_folder = self.folder / "runs" / "tiny"

    def steps(self, folder):
        return [row[0] for row in command_line.timeless(folder)][1:]

    def test_a_run_folder_is_resumed(self):
        result = self.run_heed("train", "runs/tiny/", "--resume", "log_interval=1", "stop_after=3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.steps(self.run_folder), ["1", "2", "3"])
        self.assertEqual([path.name for path in (self.folder / "runs").iterdir()], ["tiny"])

    def test_it_may_have_been_moved(self):
        """config.toml still names the old folder."""
        moved = self.folder / "else where" / "run"
        moved.parent.mkdir()
        shutil.move(self.run_folder, moved)
        elsewhere = self.folder / "current"
        elsewhere.mkdir()
        result = subprocess.run([command_line.HEED, "train", "../else where/run", "--resume", "stop_after=0"], cwd=elsewhere,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.steps(moved), ["1", "2", "3", "4", "5"])
        self.assertEqual(list(elsewhere.iterdir()), [])
        self.assertFalse(self.run_folder.exists())
        self.assertIn(str(moved), (moved / "config.toml").read_text())

    def test_what_is_refused(self):
        before = sorted(path.name for path in self.run_folder.iterdir())
        self.assert_error(self.run_heed("train", "runs/tiny"), 2, "runs/tiny", "is a folder", "--resume")
        self.assert_error(self.run_heed("train", "runs", "--resume"), 2, "runs", "no config.toml of a run")
        self.assert_error(self.run_heed("train", "runs/tiny", "--resume", "run_dir=x"), 2, "run_dir=x", "leave it out")
        self.assert_error(self.run_heed("train", "runs/tiny", "--resume", "num_layers=2"), 2, "model.num_layers")
        self.assertEqual(sorted(path.name for path in self.run_folder.iterdir()), before)


if __name__ == "__main__":
    unittest.main()
