"""`heed export`, `heed import` and train.init_from from outside.

Usage: huggingface_test.py PATH_OF_HEED
"""

import json
import re
import struct
import unittest

import command_line


def tensors(path):
    """Name -> bytes of a safetensors file, read without the code of heed."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    begin = 8 + length
    return {name: data[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}  # fmt: skip


class HuggingFace(command_line.CommandLine):
    def do(self, *arguments):
        result = self.run_heed(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def train(self, name, *settings):
        self.do("train", self.config, f"run_dir={name}", "device=cpu", *settings)
        return self.folder / name

    def losses(self, run):
        return [float(row[2]) for row in command_line.timeless(run)[1:]]

    def test_export(self):
        self.train("run")
        text = self.do("export", "run", "model")
        self.assertRegex(text, r"^model       GPT2LMHeadModel, .*\n.*last\.h5\", step 5\nverified    on 8 random tokens.*\n")
        difference = float(re.search(r"differ by at most (\S+) ", text)[1])
        self.assertLess(difference, 1e-5)
        folder = self.folder / "model"
        names = {"README.md", "config.json", "generation_config.json", "model.safetensors"}
        self.assertEqual({path.name for path in folder.iterdir()}, names)
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual((config["model_type"], config["n_embd"], config["vocab_size"]), ("gpt2", 16, 6))
        stored = tensors(folder / "model.safetensors")
        self.assertEqual(len(stored["transformer.h.0.attn.c_attn.weight"]), 16 * 48 * 4)
        self.assertNotIn("lm_head.weight", stored)  # tied
        self.assertIn("heed", (folder / "README.md").read_text())
        self.assertNotIn(str(self.folder), (folder / "README.md").read_text())

    def test_export_in_bf16_and_in_several_files(self):
        self.train("run", "d_model=128", "d_ff=2000")
        self.do("export", "run", "whole", "--dtype", "bf16")
        whole = tensors(self.folder / "whole/model.safetensors")
        self.assertEqual(len(whole["transformer.wte.weight"]), 6 * 128 * 2)
        self.do("export", "run", "parts", "--dtype", "bf16", "--max-file-mb", 1)
        index = json.loads((self.folder / "parts/model.safetensors.index.json").read_text())
        files = sorted(set(index["weight_map"].values()))
        self.assertEqual(files, ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"])
        together = {}
        for file in files:
            together |= tensors(self.folder / "parts" / file)
        self.assertEqual(together, whole)
        self.do("import", "parts", "parts.h5")

    def test_refusals(self):
        self.train("run")
        (self.folder / "mine").mkdir()
        (self.folder / "mine/notes").write_text("mine")
        self.assert_error(self.run_heed("export", "run", "mine"), 2, "mine", "exists already", "choose a new folder")
        self.assertEqual([path.name for path in (self.folder / "mine").iterdir()], ["notes"])
        self.train("odd", "norm=rms", "position=learned")
        self.assert_error(self.run_heed("export", "odd", "model"), 2, "no model class", 'model.norm = "rms"')
        (self.folder / "empty").mkdir()
        self.assert_error(self.run_heed("import", "empty", "new.h5"), 3, "empty/config.json")
        (self.folder / "empty/config.json").write_text('{"model_type": "t5"}')
        self.assert_error(self.run_heed("import", "empty", "new.h5"), 3, '"t5" cannot be imported', "gpt2, llama")
        self.assertFalse((self.folder / "new.h5").exists())
        self.do("export", "run", "model")
        (self.folder / "there.h5").write_text("mine")
        self.assert_error(self.run_heed("import", "model", "there.h5"), 3, "there.h5")
        self.assertEqual((self.folder / "there.h5").read_text(), "mine")
        self.assertEqual(list(self.folder.glob(".*")), [])  # nothing unfinished is left

    def test_round_trip(self):
        for name, settings in {
            "gpt2": (),
            "llama": ("norm=rms", "position=rope", "activation=swiglu", "bias=false", "num_kv_heads=1",
                      "tie_embeddings=false"),
            "starcoder2": ("position=rope", "sliding_window=3"),
        }.items():  # fmt: skip
            self.train(name, *settings)
            self.do("export", name, name + "-1")
            self.do("import", name + "-1", name + ".h5")
            self.do("export", name + ".h5", name + "-2")
            first, second = (tensors(self.folder / f"{name}-{i}/model.safetensors") for i in (1, 2))
            self.assertEqual(first, second)
            prompt = ("--prompt", "1 2 3", "--greedy", "--tokens", 5)
            self.assertEqual(self.do("generate", name, *prompt), self.do("generate", name + ".h5", *prompt))
            self.assertEqual(json.loads((self.folder / f"{name}-2/config.json").read_text())["model_type"], name)

    def test_training_starts_from_the_weights(self):
        one = self.train("one", "steps=200", "learning_rate=0.01")
        self.do("export", "one", "model")
        rate = ("learning_rate=1e-9", "steps=3", "warmup_steps=0")
        fresh = self.losses(self.train("fresh", *rate))
        from_run = self.losses(self.train("from_run", "init_from=one", *rate))
        self.assertLess(from_run[0], fresh[0] - 0.1)
        self.assertEqual(self.losses(self.train("from_folder", "init_from=model", *rate)), from_run)
        self.do("import", "model", "model.h5")
        self.assertEqual(self.losses(self.train("from_file", "init_from=model.h5", *rate)), from_run)
        self.assertIn(f'init_from = "{one}"', (self.folder / "from_run/config.toml").read_text())

    def test_a_run_with_init_from_resumes(self):
        self.train("one", "steps=20")
        whole = self.train("whole", "init_from=one", "steps=6", "ema_decay=0.9")
        half = self.train("half", "init_from=one", "steps=6", "ema_decay=0.9", "stop_after=3")
        self.do("train", "half", "--resume", "stop_after=0")
        self.assertEqual(self.losses(half), self.losses(whole))

    def test_init_from_another_architecture(self):
        self.train("one")
        self.assert_error(self.run_heed("train", self.config, "run_dir=two", "init_from=one", "d_model=32", "bias=false"), 2,
                          "train.init_from", "model.d_model = 16 (here 32)", "model.bias = true (here false)")  # fmt: skip
        self.assert_error(self.run_heed("train", self.config, "run_dir=two", "init_from=one", "seq_len=9"), 2,
                          "positions for 8 tokens", "model.seq_len is 9")  # fmt: skip
        self.assert_error(self.run_heed("train", self.config, "run_dir=two", "init_from=nothing"), 4, "nothing")
        # A larger vocabulary: the new tokens begin with random weights.
        self.train("grown", "init_from=one", "vocab_size=9")

    def test_a_tokenizer_is_taken_over(self):
        (self.folder / "abcd.txt").write_text("abcd" * 300)
        self.config.write_text(command_line.ALPHABET)
        self.train("one", "steps=200")
        (self.folder / "abcd.txt").write_text("abcdab" * 200)
        self.train("two", "steps=2", "init_from=one")
        (self.folder / "abcd.txt").write_text("abcx" * 300)
        self.assert_error(self.run_heed("train", self.config, "run_dir=three", "init_from=one"), 3, "x")
        self.assert_error(self.run_heed("train", self.config, "run_dir=three", "init_from=one", "tokenizer=byte"), 2,
                          "data.tokenizer has no effect", '"char"', "remove the key")  # fmt: skip
        # config.toml of the run has data.tokenizer, which must not keep it from being resumed.
        (self.folder / "abcd.txt").write_text("abcdab" * 200)
        self.do("train", "two", "--resume", "steps=3")
        self.assert_error(self.run_heed("train", self.config, "run_dir=three", "init_from=one", "split=lines"), 2,
                          "token for the end of a line", 'data.split to "position"')  # fmt: skip
        self.do("data", "prepare", "abcd.txt", "tokens.h5", "--tokenizer", "byte")
        self.assert_error(self.run_heed("train", self.config, "run_dir=three", "init_from=one", "source=tokens",
                                        "data.path=tokens.h5"), 2, "the tokenizer of the data is not that of")  # fmt: skip


if __name__ == "__main__":
    unittest.main()
