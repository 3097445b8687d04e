#!/usr/bin/env python3
"""scale.py [--heed HEED] [--plot FILE.png]: how long a step takes on more ranks.

A model of a step on n ranks, each with its rows of the batch:

  compute   what one rank alone takes for its rows
  sums      bucket by bucket, one after the other, each from the moment that backward has completed it:
            2 (n - 1) / n of its bytes go through each rank at `bandwidth`, behind 2 log2(n) steps of `latency` (rings
            for the bytes, trees for the latency, as NCCL and MPI choose)
  exposed   what of the sums comes after the end of backward (all of it, where the processor itself moves the bytes)

Fitted here on CPU processes, where bandwidth and latency follow from steps of several sizes on one and two ranks, and
tried on a size that was left out. Then told for GPT-2 124M on 8 and 64 H200, with the bandwidths and latencies that are
known of such machines and the time of one card from the table on paper: a prediction, nothing measured.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

# What the trainer does with gradients (train/comm/grad_bucket.cpp).
BUCKETS, LEAST, MOST = 8, 1024, 8 << 20
BYTES = 4

# GPT-2 124M: weights of the blocks, then those that are complete at the end of backward only (tied embeddings, positions).
GPT2_BLOCKS, GPT2_EMBEDDINGS = 85_056_000, 39_383_808
GPT2_MS = 28.1  # tests/bench/on_paper.py: 16 x 1024 tokens in bf16, expected
GPT2_BACKWARD = 0.62  # share of backward in it
GPT2_TOKENS = 16 * 1024

# Bus bandwidth of all-reduce as nccl-tests reports it, bytes/s, and latency of one step: one node of 8 with NVLink and
# NVSwitch (450 GB/s a direction), and nodes with eight 400 Gbit/s adapters.
NETWORKS = {8: (400e9, 3e-6), 64: (300e9, 8e-6)}


def sum_seconds(size, ranks, bandwidth, latency):
    """One all-reduce of `size` bytes."""
    return 2 * (ranks - 1) / ranks * size / bandwidth + 2 * math.log2(ranks) * latency


def buckets_of(parameters):
    """Bytes of each bucket, in the order in which backward completes them."""
    length = min(max(parameters // BUCKETS, LEAST), MOST)
    full, rest = divmod(parameters, length)
    return [length * BYTES] * full + ([rest * BYTES] if rest else [])


def exposed_seconds(ready, sizes, end, ranks, bandwidth, latency):
    """ready: when each bucket is complete; end: when backward is."""
    free = 0.0
    for moment, size in zip(ready, sizes):
        free = max(free, moment) + sum_seconds(size, ranks, bandwidth, latency)
    return max(0.0, free - end)


def predict_gpt2(ranks, overlap=True):
    bandwidth, latency = NETWORKS[ranks]
    sizes = buckets_of(GPT2_BLOCKS + GPT2_EMBEDDINGS)
    compute, backward = GPT2_MS / 1e3, GPT2_MS / 1e3 * GPT2_BACKWARD
    ready, seen = [], 0
    for size in sizes:
        seen += size // BYTES
        ready.append(backward * min(1.0, seen / GPT2_BLOCKS) if overlap else backward)
    exposed = exposed_seconds(ready, sizes, backward, ranks, bandwidth, latency)
    return compute, exposed


# ---- Measured here ---------------------------------------------------------------------------------------------------
def config_of(width, layers, rows):
    return f"""[model]
num_layers = {layers}
num_heads = 4
d_model = {width}
seq_len = 64
[data]
source = "ngram"
vocab_size = 64
order = 2
[train]
batch_size = {rows}
device = "cpu"
"""


def bench(heed, config, ranks, steps):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [heed, "bench", "--config", config, "--steps", str(steps), "--json"]
    if ranks > 1:
        command = ["mpirun", "--bind-to", "core", "-np", str(ranks)] + command
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return json.loads(out[out.index("{") :])


def measure(heed, sizes, rows, rounds):
    """(parameters, buckets, seconds of one rank with half the rows, of two ranks, waited) for each size, by medians."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for width, layers in sizes:
            paths = {}
            for count in (rows // 2, rows):
                paths[count] = os.path.join(folder, f"{width}-{count}.toml")
                with open(paths[count], "w", encoding="utf-8") as file:
                    file.write(config_of(width, layers, count))
            alone, together, waited = [], [], []
            for _ in range(rounds):  # in turns, so that both meet the same noise
                one, two = bench(heed, paths[rows // 2], 1, 20), bench(heed, paths[rows], 2, 20)
                alone.append(sorted(one["seconds"])[len(one["seconds"]) // 2])
                together.append(sorted(two["seconds"])[len(two["seconds"]) // 2])
                waited.append(two["waited_seconds"])
            middle = rounds // 2
            found.append(
                {
                    "width": width,
                    "parameters": one["parameters"],
                    "alone": sorted(alone)[middle],
                    "together": sorted(together)[middle],
                    "waited": sorted(waited)[middle],
                }
            )
            print(
                f"  d_model {width:4}, {layers} layers, {one['parameters'] / 1e6:6.2f} M parameters: "
                f"{found[-1]['alone'] * 1e3:8.2f} ms alone with half the rows, {found[-1]['together'] * 1e3:8.2f} ms on two "
                f"ranks, of which {found[-1]['waited'] * 1e3:6.2f} ms waiting",
                flush=True,
            )
    return found


def fit(points):
    """Bandwidth and latency by least squares of the relative error of the time that two ranks add."""
    # added = x * moved bytes + y * steps; x = 1 / bandwidth, y = latency
    rows = []
    for p in points:
        added = max(p["together"] - p["alone"], 1e-9)
        moved = 2 * (2 - 1) / 2 * p["parameters"] * BYTES
        steps = 2 * (len(buckets_of(p["parameters"])) + 2)  # and two of some numbers
        rows.append((moved / added, steps / added))
    a = sum(m * m for m, _ in rows)
    b = sum(m * s for m, s in rows)
    c = sum(s * s for _, s in rows)
    u, v = sum(m for m, _ in rows), sum(s for _, s in rows)
    determinant = a * c - b * b
    x, y = (u * c - v * b) / determinant, (a * v - b * u) / determinant
    if x <= 0:  # the noise was larger than the effect
        x, y = 0.0, v / c
    if y < 0:
        x, y = u / a, 0.0
    return (1 / x if x else float("inf")), y


def added_seconds(point, bandwidth, latency):
    sizes = buckets_of(point["parameters"])
    return sum(sum_seconds(size, 2, bandwidth, latency) for size in sizes) + 2 * 2 * latency


def show_fit(heed, rounds):
    sizes = [(64, 4), (128, 4), (192, 6), (256, 6), (384, 6)]
    print("CPU processes, one thread each, seq_len 64, 16 rows together:")
    points = measure(heed, sizes, 16, rounds)
    left_out = points.pop(3)
    bandwidth, latency = fit(points)
    print(f"fitted: bandwidth {bandwidth / 1e9:.2f} GB/s, latency {latency * 1e6:.0f} us a step")
    for point in points + [left_out]:
        told = point["alone"] + added_seconds(point, bandwidth, latency)
        note = "  (left out of the fit)" if point is left_out else ""
        print(
            f"  d_model {point['width']:4}: {point['together'] * 1e3:8.2f} ms measured, {told * 1e3:8.2f} ms by the model, "
            f"{100 * (told / point['together'] - 1):+5.1f} %{note}"
        )
    return points + [left_out], bandwidth, latency


def show_prediction():
    print("GPT-2 124M in bf16, 16 x 1024 tokens a card, on H200: predicted, nothing measured")
    for ranks, (bandwidth, latency) in NETWORKS.items():
        sizes = buckets_of(GPT2_BLOCKS + GPT2_EMBEDDINGS)
        sums = sum(sum_seconds(size, ranks, bandwidth, latency) for size in sizes)
        compute, exposed = predict_gpt2(ranks)
        _, without = predict_gpt2(ranks, overlap=False)
        rate = ranks * GPT2_TOKENS / (compute + exposed)
        print(
            f"  {ranks:3} cards, {bandwidth / 1e9:.0f} GB/s, {latency * 1e6:.0f} us: {compute * 1e3:.1f} ms alone + "
            f"{exposed * 1e3:.2f} ms exposed of {sums * 1e3:.2f} ms of sums in {len(sizes)} buckets "
            f"({without * 1e3:.2f} ms without overlap): {rate / 1e6:.2f} M tokens/s, "
            f"{100 * compute / (compute + exposed):.1f} % of {ranks} times one card"
        )


def plot(path, points, bandwidth, latency):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    parameters = [p["parameters"] / 1e6 for p in sorted(points, key=lambda p: p["parameters"])]
    by_size = sorted(points, key=lambda p: p["parameters"])
    left.plot(parameters, [p["together"] * 1e3 for p in by_size], "o", label="two ranks, measured")
    told = [(p["alone"] + added_seconds(p, bandwidth, latency)) * 1e3 for p in by_size]
    left.plot(parameters, told, "-", label="two ranks, model")
    left.plot(parameters, [p["alone"] * 1e3 for p in by_size], ":", label="one rank, half the rows, measured")
    left.set(xlabel="million parameters", ylabel="ms per step", title="CPU processes, one thread each", xscale="log")
    left.set_yscale("log")
    left.legend()
    cards = sorted(NETWORKS)
    names = [f"{n} cards" for n in cards]
    compute = [predict_gpt2(n)[0] * 1e3 for n in cards]
    exposed = [predict_gpt2(n)[1] * 1e3 for n in cards]
    hidden = [(predict_gpt2(n, overlap=False)[1] - predict_gpt2(n)[1]) * 1e3 for n in cards]
    right.bar(names, compute, label="one card alone")
    right.bar(names, exposed, bottom=compute, label="sums, exposed")
    right.bar(names, hidden, bottom=[c + e for c, e in zip(compute, exposed)], color="none", edgecolor="gray", linestyle="--",
              label="saved by overlap")
    right.set(ylabel="ms per step", title="GPT-2 124M on H200, predicted")
    right.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--heed", default=os.path.join(root, "build", "bin", "heed"))
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each size")
    parser.add_argument("--plot", help="a picture of the fit and the prediction")
    parser.add_argument("--predict-only", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    if not arguments.predict_only:
        points, bandwidth, latency = show_fit(arguments.heed, arguments.rounds)
    show_prediction()
    if arguments.plot and not arguments.predict_only:
        plot(arguments.plot, points, bandwidth, latency)
    return 0


if __name__ == "__main__":
    sys.exit(main())
