"""heed beside PyTorch on the same shape, in turns on this machine. To be run by a Python that has PyTorch.

    compare_torch.py step CONFIG [key=value …]   whole steps: forward, loss, backward, clipping, AdamW
    compare_torch.py attention                     causal attention alone, forward and backward

Each round runs a process of each, and which one goes first changes from round to round. PyTorch has its best eager
settings: scaled_dot_product_attention, fused AdamW, gradients set to none; --compile adds torch.compile, --dtype bf16
its autocast, --device cuda a card. heed also draws its batches inside the clock, PyTorch does not. The ratio is that of the medians over the
rounds, with the least and the largest ratio of a round.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TORCH_GPT = HERE.parent / "reference" / "torch_gpt.py"
# (batch, length, head size), as autograd/ops/attention/attention_case.cpp has them.
HEADS = 12
ATTENTIONS = {
    "cpu": [(1, length, 64) for length in (256, 1024, 4096)],
    "cuda": [(16384 // length, length, size) for size in (64, 128) for length in (256, 512, 1024, 2048, 4096, 8192)],
}


def run_json(command, threads):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, env=environment)
    if result.returncode != 0:
        sys.exit(f"compare_torch: {' '.join(map(str, command))} ended with {result.returncode}")
    return json.loads(result.stdout)


def in_turns(rounds, heed, torch):
    """[(result of heed, result of PyTorch)] of each round."""
    pairs = []
    for number in range(rounds):
        first, second = (heed, torch) if number % 2 == 0 else (torch, heed)
        results = first(), second()
        pairs.append(results if number % 2 == 0 else results[::-1])
    return pairs


def ratio_of(pairs):
    """pairs: seconds of heed and of PyTorch in each round."""
    heed, torch = (statistics.median(side) for side in zip(*pairs))
    each = [theirs / ours for ours, theirs in pairs]
    return {"heed_seconds": heed, "torch_seconds": torch, "ratio": torch / heed, "min": min(each), "max": max(each)}


def ratio_text(r):
    return f"heed is {r['ratio']:.2f} x as fast ({r['min']:.2f} to {r['max']:.2f})"


def compare_steps(options):
    settings = [*options.overrides, f"train.device={options.device}", f"train.precision={options.dtype}"]
    heed = [options.heed, "bench", "--json", "--config", options.config, "--steps", options.steps]
    heed += settings
    with tempfile.TemporaryDirectory() as folder:
        shape = pathlib.Path(folder) / "heed.json"
        torch = [sys.executable, TORCH_GPT, "time", shape, "--steps", options.steps, "--dtype", options.dtype]
        torch += ["--device", options.device, "--threads", options.threads] + ["--compile"] * options.compile

        def run_heed():
            result = run_json(heed, options.threads)
            shape.write_text(json.dumps(result))
            return result

        pairs = in_turns(options.rounds, run_heed, lambda: run_json(torch, options.threads))
    print_steps(options, settings, pairs)
    return {**ratio_of(medians(pairs)), "runs": pairs}


def medians(pairs):
    return [[statistics.median(side["seconds"]) for side in pair] for pair in pairs]


def print_steps(options, settings, pairs):
    ratio = ratio_of(medians(pairs))
    tokens, torch_result = pairs[0][0]["tokens"], pairs[0][1]
    memory = "total" if options.device == "cuda" else "resident"
    peaks = [max(ours["peak_bytes"][memory] for ours, _ in pairs), max(theirs["peak_bytes"] for _, theirs in pairs)]
    kind = "compiled" if options.compile else "eager"
    title = " ".join([pathlib.Path(options.config).stem, *settings])
    print(f"{title}: {options.rounds} rounds of {options.steps} steps")
    print(f"{pairs[0][0]['device']}, PyTorch {torch_result['torch']} {kind} {options.dtype}")
    print(f"{'':10}{'ms/step':>12}{'tokens/s':>12}{'peak MiB':>12}")
    for side, peak in zip(("heed", "torch"), peaks):
        seconds = ratio[f"{side}_seconds"]
        print(f"{side:10}{seconds * 1e3:12.2f}{tokens / seconds:12.0f}{peak / 2**20:12.0f}")
    print(f"{ratio_text(ratio)}; its peak memory is {peaks[0] / peaks[1]:.2f} x")
    libraries = torch_result["libraries_bytes"]
    if libraries:
        above = peaks[0] / (peaks[1] - libraries)
        print(f"or {above:.2f} x without the {libraries / 2**20:.0f} MiB that PyTorch takes before there is a model")


def heed_attention(options):
    """Seconds of forward and backward together, by shape."""
    command = [options.heed, "bench", "--json", "attention", "--device", options.device, "--dtype", options.dtype]
    rows = run_json(command, options.threads)["operations"]
    return {
        (b, t, d): sum(row["seconds"] for row in rows if row["shapes"] == f"{b} x {t}, {HEADS} heads of {d}")
        for b, t, d in ATTENTIONS[options.device]
    }


def torch_attention(options):
    names = {f"{b}x{t}x{HEADS}x{d}": (b, t, d) for b, t, d in ATTENTIONS[options.device]}
    command = [sys.executable, TORCH_GPT, "attention", *names, "--threads", options.threads]
    command += ["--device", options.device, "--dtype", options.dtype]
    seconds = run_json(command, options.threads)["seconds"]
    return {shape: statistics.median(seconds[name]) for name, shape in names.items()}


def compare_attention(options):
    pairs = in_turns(options.rounds, lambda: heed_attention(options), lambda: torch_attention(options))
    where = "CUDA" if options.device == "cuda" else f"{options.threads} threads"
    print(f"causal attention, forward and backward, {HEADS} heads, {options.dtype}, {where}, in GFLOP/s")
    found = {}
    for shape in ATTENTIONS[options.device]:
        b, t, d = shape
        ratio = ratio_of([[side[shape] for side in pair] for pair in pairs])
        flops = 3 * 2 * b * HEADS * d * t * (t + 1)  # backward counts as two forwards
        rates = [flops / ratio[f"{side}_seconds"] / 1e9 for side in ("heed", "torch")]
        print(f"{b:3} x {t:5}, heads of {d:3}  heed {rates[0]:9.1f}  torch {rates[1]:9.1f}  {ratio_text(ratio)}")
        found[f"{b} x {t}, heads of {d}"] = ratio
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    steps, attention = commands.add_parser("step"), commands.add_parser("attention")
    steps.add_argument("config")
    steps.add_argument("overrides", nargs="*", metavar="key=value")
    steps.add_argument("--steps", type=int, default=20, help="that are timed in each process")
    steps.add_argument("--compile", action="store_true")
    for command in (steps, attention):
        command.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
        command.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
        command.add_argument("--heed", default=HERE.parents[1] / "build/bin/heed")
        command.add_argument("--rounds", type=int, default=5)
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--json", metavar="FILE", help="where all numbers go")
    options = parser.parse_args()
    found = compare_steps(options) if options.command == "step" else compare_attention(options)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
