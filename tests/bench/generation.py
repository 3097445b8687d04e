"""Tokens per second of `heed generate` beside GPT2LMHeadModel of transformers with its KV cache, in turns on this
machine. To be run by a Python that has PyTorch and transformers.

    generation.py HEED [--checkpoint FILE] [--batch N] [--prompt-tokens N] [--tokens N] [--rounds N] [--threads N]

Both have the shape of the smallest GPT-2, f32, and take the most likely token. The weights of PyTorch are random, those
of heed are from one training step, unless --checkpoint names a checkpoint of tests/bench/gpt2_124m.toml. The rate is
that of all new tokens but the first, which comes with the prompt. The sum of a large array gives the read bandwidth, and
from it the least time of a step, in which each weight and all of the cache are read once.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = pathlib.Path(__file__).resolve().parent / "gpt2_124m.toml"
LAYERS, WIDTH, HEADS, VOCAB, POSITIONS = 12, 768, 12, 50257, 1024
MATRIX_BYTES = 4 * (LAYERS * 12 * WIDTH * WIDTH + VOCAB * WIDTH)


def make_checkpoint(heed, folder):
    subprocess.run([heed, "train", CONFIG, f"train.run_dir={folder}", "steps=1", "eval_batches=1", "train.final_eval=none",
                    "train.plot=false", "train.device=cpu"], check=True, stdout=subprocess.DEVNULL)
    return folder / "checkpoints" / "last.h5"


def run_heed(o, checkpoint, prompts):
    result = subprocess.run(
        [o.heed, "generate", checkpoint, "--greedy", "--tokens", str(o.tokens), "--prompts-file", prompts, "--stats"],
        capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": str(o.threads), "GOMP_SPINCOUNT": "5000"})
    prompt, new = (float(rate) for rate in re.findall(r"([\d.e+]+) tokens/s", result.stderr))
    return {"prompt": prompt, "new": new, "stats": result.stderr.strip()}


def run_torch(o):
    command = [sys.executable, __file__, "torch", "--batch", o.batch, "--prompt-tokens", o.prompt_tokens, "--tokens", o.tokens]
    result = subprocess.run([str(part) for part in command + ["--threads", o.threads]], capture_output=True, text=True, check=True,
                            env={**os.environ, "OMP_NUM_THREADS": str(o.threads)})
    return json.loads(result.stdout)


def torch_side(o):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS)).eval()
    tokens = torch.randint(0, VOCAB, (o.batch, o.prompt_tokens))
    with torch.inference_mode():
        start = time.perf_counter()
        out = model(tokens, use_cache=True)
        last = out.logits[:, -1].argmax(-1, keepdim=True)
        first = time.perf_counter()
        for _ in range(o.tokens - 1):
            out = model(last, past_key_values=out.past_key_values, use_cache=True)
            last = out.logits[:, -1].argmax(-1, keepdim=True)
        end = time.perf_counter()
    print(json.dumps({"prompt": o.batch * o.prompt_tokens / (first - start), "new": o.batch * (o.tokens - 1) / (end - first)}))


def read_bandwidth(threads):
    """GB/s of reading memory: the best of several sums over an array that is far larger than the caches."""
    import torch

    torch.set_num_threads(threads)
    values = torch.ones(1 << 28)
    best = 0
    for _ in range(5):
        start = time.perf_counter()
        values.sum()
        best = max(best, values.numel() * 4 / (time.perf_counter() - start) / 1e9)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", help="the program, or 'torch' for the other side alone")
    for name, value in (("batch", 1), ("prompt-tokens", 64), ("tokens", 64), ("rounds", 3), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--checkpoint")
    o = parser.parse_args()
    if o.heed == "torch":
        return torch_side(o)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        checkpoint = o.checkpoint or make_checkpoint(o.heed, folder / "run")
        prompts = folder / "prompts"
        prompts.write_text("".join(" ".join(str((17 * i * i + 31 * b + i) % VOCAB) for i in range(o.prompt_tokens)) + "\n"
                                   for b in range(o.batch)))
        rounds = []
        for number in range(o.rounds):
            sides = [lambda: run_heed(o, checkpoint, prompts), lambda: run_torch(o)]
            results = [side() for side in (sides if number % 2 == 0 else sides[::-1])]
            rounds.append(results if number % 2 == 0 else results[::-1])
            print(f"round {number + 1}: heed {rounds[-1][0]['new']:.1f}, PyTorch {rounds[-1][1]['new']:.1f} tokens/s", flush=True)
        for what in ("prompt", "new"):
            heed, torch = (statistics.median(side[what] for side in sides) for sides in zip(*rounds))
            ratios = [ours[what] / theirs[what] for ours, theirs in rounds]
            print(f"{what:<7} heed {heed:.1f}, PyTorch {torch:.1f} tokens/s: {heed / torch:.2f} x ({min(ratios):.2f} to {max(ratios):.2f})")
        heed = statistics.median(ours["new"] for ours, _ in rounds)
        print(rounds[0][0]["stats"])
    # Read in each step: the weights, and of each sequence the keys and values so far.
    cache = 4 * 2 * LAYERS * WIDTH * (o.prompt_tokens + o.tokens / 2) * o.batch
    bandwidth = read_bandwidth(o.threads)
    bytes_per_step = MATRIX_BYTES + cache
    print(f"{bytes_per_step / 1e6:.0f} MB per step; read bandwidth {bandwidth:.1f} GB/s: at most "
          f"{o.batch * bandwidth * 1e9 / bytes_per_step:.1f} tokens/s, heed reaches {heed * bytes_per_step / o.batch / bandwidth / 1e7:.0f} %")


main()
