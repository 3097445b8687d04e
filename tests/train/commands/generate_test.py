"""`heed generate` from outside: the prompt, what is printed, and where it comes from.

Usage: generate_test.py PATH_OF_HEED
"""

import os
import subprocess
import unittest

import command_line

RULE = "──── sample {} of {} ────"


class Generation(command_line.CommandLine):
    def train(self, text, *arguments):
        (self.folder / "abcd.txt").write_text(text)
        self.config.write_text(command_line.ALPHABET)
        result = self.run_heed("train", self.config, "train.device=cpu", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.run_folder = self.folder / "runs" / "tiny"

    def generate(self, *arguments, **more):
        """stdout as bytes; arguments may be bytes."""
        result = subprocess.run([command_line.HEED, "generate", self.run_folder / "checkpoints" / "last.h5",
                                 *(one if isinstance(one, bytes) else str(one) for one in arguments)],
                                cwd=self.folder, capture_output=True, timeout=60, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, b"")
        return result.stdout

    def test_a_character_that_begins_in_the_prompt(self):
        self.train("é" * 1000, "tokenizer=byte")
        likeliest = ("--temperature", 0, "--tokens")
        self.assertEqual(self.generate("--prompt", b"\xc3", *likeliest, 1), b"\xc3\xa9\n")
        self.assertEqual(self.generate("--prompt", b"\xc3", *likeliest, 3), "éé\n".encode())
        self.assertEqual(self.generate("--prompt", b"\xc3\xa9\xc3", *likeliest, 1), "éé\n".encode())
        self.assertEqual(self.generate("--prompt", b"\xc3", *likeliest, 2, "--num-samples", 1), "é\ufffd\n".encode())
        self.assertEqual(self.generate("--prompt", b"\xc3", *likeliest, 0), "\ufffd\n".encode())

    def test_the_echo_is_what_the_model_saw(self):
        self.train("abcd" * 500, "steps=200")
        self.assertEqual(self.generate("--prompt", "a?b!", "--skip-unknown", "--temperature", 0, "--tokens", 2), b"abcd\n")

    def test_padded_seeds(self):
        self.train("abcd" * 500, "steps=2")
        texts = {seed: self.generate("--seed", seed) for seed in ("8", "08", "9", "09", "10", "010")}
        self.assertEqual((texts["08"], texts["09"], texts["010"]), (texts["8"], texts["9"], texts["10"]))
        self.assertEqual(len(set(texts.values())), 3)
        self.assertEqual(self.generate("--prompt", "a", "--tokens", "010"), self.generate("--prompt", "a", "--tokens", 10))
        self.assertEqual(len(self.generate("--prompt", "a", "--tokens", "010")), 12)

    def test_prompt_files(self):
        self.train("abcd" * 500 + "\n", "steps=2")
        (self.folder / "prompt").write_text("abca\n")
        expected = self.generate("--prompt", "abca\n")
        self.assertTrue(expected.startswith(b"abca\n"))
        self.assertEqual(self.generate("--prompt-file", "prompt"), expected)
        self.assertEqual(self.generate("--prompt-file", "-", input=b"abca\n"), expected)
        (self.folder / "unknown").write_text("ab?")
        last = self.run_folder / "checkpoints" / "last.h5"
        self.assert_error(self.run_heed("generate", last, "--prompt-file", "unknown"), 3, "'?'", "position 2", "--skip-unknown")
        self.assert_error(self.run_heed("generate", last, "--prompt-file", "none"), 3, "--prompt-file", "none", "No such file")
        self.assert_error(self.run_heed("generate", last, "--prompt-file", "."), 3, "--prompt-file", "directory")
        self.assert_error(self.run_heed("generate", last, "--prompt-file", "/dev/zero"), 3, "67108864 bytes")
        self.assert_error(self.run_heed("generate", last, "--prompt", "a", "--prompt-file", "prompt"), 2, "--prompt-file")

    def test_several_samples_are_told_apart(self):
        self.train("ab\n" * 500, "steps=2")
        lines = self.generate("--prompt", "a\nb", "--num-samples", 3, "--tokens", 20).decode().splitlines()
        self.assertEqual([line for line in lines if "─" in line], [RULE.format(n, 3) for n in (1, 2, 3)])
        self.assertEqual(lines[0], RULE.format(1, 3))
        self.assertNotIn("─", self.generate("--prompt", "a", "--tokens", 20).decode())

    def test_samples_of_a_line_need_no_rule(self):
        self.train("ab\n" * 500, "steps=2", "split=lines")
        text = self.generate("--num-samples", 3).decode()
        self.assertEqual((text.count("\n"), text.count("─")), (3, 0))

    def test_token_ids(self):
        self.config.write_text(command_line.TINY)
        self.assertEqual(self.run_heed("train", self.config).returncode, 0)
        self.run_folder = self.folder / "runs" / "tiny"
        (self.folder / "ids").write_text("3\t1\n\n02\n")
        lines = self.generate("--prompt", " 3 1  2", "--tokens", 4, "--num-samples", 2).decode().splitlines()
        self.assertEqual([(line[:6], len(line.split())) for line in lines], [("3 1 2 ", 7)] * 2)
        self.assertEqual(self.generate("--prompt-file", "ids", "--tokens", 4, "--num-samples", 2).decode().splitlines(), lines)
        self.assertEqual(len(self.generate("--tokens", 4).decode().split()), 4, "the start token is not printed")
        for prompt in ("6", "-1", "1,2", "x"):
            result = self.run_heed("generate", self.run_folder, "--prompt", prompt)
            self.assert_error(result, 3, "below 6", f'"{prompt}"')

    def test_greedy(self):
        self.train("abcd" * 500, "steps=200")
        greedy = self.generate("--prompt", "a", "--tokens", 20, "--greedy")
        self.assertEqual(greedy, self.generate("--prompt", "a", "--tokens", 20, "--temperature", 0))
        for option in ("--temperature", "--top-k", "--top-p", "--min-p"):
            self.assert_error(self.run_heed("generate", self.run_folder, "--greedy", option, 1), 2, "--greedy", option)

    def test_penalties(self):
        """A penalty makes the likeliest letter of a text of one letter unlikely."""
        self.train("a" * 1900 + "bcd\n" * 25, "steps=60")
        greedy = ("--prompt", "a", "--tokens", 6, "--greedy")
        self.assertEqual(self.generate(*greedy), b"aaaaaaa\n")
        for option in ("--frequency-penalty", "--presence-penalty"):
            self.assertGreater(len(set(self.generate(*greedy, option, 50))), 3, option)
        self.train("abcd" * 500, "steps=2")
        self.assertNotEqual(self.generate("--prompt", "a", "--repetition-penalty", 5), self.generate("--prompt", "a"))
        self.assert_error(self.run_heed("generate", self.run_folder, "--repetition-penalty", 0), 2, "--repetition-penalty")

    def test_stop_texts(self):
        """Tokens are bytes, so each of these texts spans several of them."""
        self.train("abcd" * 500, "steps=200", "tokenizer=byte")
        continued = ("--prompt", "a", "--tokens", 12, "--greedy")
        self.assertEqual(self.generate(*continued), b"abcdabcdabcda\n")
        self.assertEqual(self.generate(*continued, "--stop", "da"), b"abc\n")
        self.assertEqual(self.generate(*continued, "--stop", "xx", "--stop", "dab", "--stop", "cdabc"), b"abc\n", "the first that is complete")
        self.assertEqual(self.generate(*continued, "--stop", "a"), b"abcd\n", "the prompt is no stop text")
        self.assertEqual(self.generate(*continued, "--stop", "dax"), b"abcdabcdabcda\n", "what was held back is printed")
        self.assertEqual(self.generate(*continued, "--stop-token", ord("c")), b"ab\n")
        self.assertEqual(self.generate(*continued, "--stop-token", 1, "--stop-token", ord("d")), b"abc\n")
        self.assert_error(self.run_heed("generate", self.run_folder, "--stop", ""), 2, "--stop", "empty")
        self.assert_error(self.run_heed("generate", self.run_folder, "--stop-token", 256), 2, "--stop-token is 256", "256")

    def test_several_prompts(self):
        self.train("abcd" * 500, "steps=200", "tokenizer=byte")
        prompts = ("ab", "d", "abcdabcdabc", "")
        greedy = ("--tokens", 12, "--greedy", "--stop", "bcda")
        alone = [self.generate("--prompt", prompt, *greedy).decode() for prompt in prompts]
        title = "──── prompt {} of 4 ────\n"
        expected = "".join(title.format(i + 1) + text for i, text in enumerate(alone))
        self.assertEqual(self.generate(*(part for one in prompts for part in ("--prompt", one)), *greedy).decode(), expected)
        (self.folder / "prompts").write_text("\n".join(prompts) + "\n")
        self.assertEqual(self.generate("--prompts-file", "prompts", *greedy).decode(), expected)
        self.assertEqual(self.generate("--prompts-file", "-", *greedy, input=(self.folder / "prompts").read_bytes()).decode(), expected)
        text = self.generate("--prompt", "a", "--prompt", "b", "--num-samples", 2, "--tokens", 1).decode()
        self.assertEqual(text.count("────\n"), 4)
        self.assertIn("──── prompt 2 of 2, sample 1 of 2 ────\nb", text)
        (self.folder / "none").write_text("")
        self.assert_error(self.run_heed("generate", self.run_folder, "--prompts-file", "none"), 3, "--prompts-file", "no line")
        self.assert_error(self.run_heed("generate", self.run_folder, "--prompts-file", "none", "--prompt", "a"), 2, "--prompts-file")

    def test_stats(self):
        self.train("abcd" * 500, "steps=2")
        result = self.run_heed("generate", self.run_folder / "checkpoints" / "last.h5", "--prompt", "ab", "--tokens", 3, "--stats")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("KV cache: 1 layer x 5 tokens x 2 x 32 f32 = 1.2 KiB; prompt: 2 tokens in", result.stderr)
        self.assertIn("then 2 tokens in", result.stderr)

    def test_a_run_folder_stands_for_its_last_checkpoint(self):
        self.train("abcd" * 500, "steps=4", "save_interval=2", "keep_checkpoints=2")
        expected = self.generate("--prompt", "a").decode()
        result = self.run_heed("generate", "runs/tiny", "--prompt", "a")
        self.assertEqual((result.returncode, result.stdout), (0, expected), "stdout is the text alone")
        self.assertEqual(result.stderr, '"runs/tiny/checkpoints/last.h5", step 4\n')
        self.assertIn("last.h5", self.run_heed("eval", "runs/tiny").stdout.splitlines()[0])
        os.unlink(self.run_folder / "checkpoints" / "last.h5")
        for command in ("generate", "eval"):
            self.assert_error(self.run_heed(command, "runs/tiny"), 4, "runs/tiny", "checkpoints/last.h5", "step-000002.h5")
            self.assert_error(self.run_heed(command, "runs"), 4, "runs", "without checkpoints/last.h5")


if __name__ == "__main__":
    unittest.main()
