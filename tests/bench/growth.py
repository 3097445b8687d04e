"""How the time of a step grows with tokens per sequence, layers, width and batch: a table and a picture.

    growth.py [--heed BINARY] [--steps N] [--picture FILE.png]      (needs matplotlib for the picture)

Each line of the table is one `heed bench --config configs/nanogpt_cpu_shape.toml` with one key changed. GFLOP is what the
step has to compute: 6 per weight in a product and token, and 6 L T H D per token in attention. MFU compares with the
best product of that very model, so it tells apart what the products lose and what stands beside them: the last columns
are the shares of the linear layers, of attention and of everything else.
"""

import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
AXES = {
    "seq_len": ("model.seq_len", [128, 256, 512, 1024, 2048, 4096, 8192], ["train.batch_size=1"]),
    "layers": ("model.num_layers", [1, 2, 4, 8, 16], []),
    "width": ("model.d_model", [64, 128, 256, 512, 1024], []),
    "batch": ("train.batch_size", [1, 2, 4, 12, 32, 64], []),
}


def measure(heed, settings, steps):
    command = [heed, "bench", "--json", "--config", ROOT / "configs/nanogpt_cpu_shape.toml", "--warm-up", 1]
    command += ["--steps", steps, *settings]
    bench = json.loads(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout)
    seconds = sorted(bench["seconds"])[len(bench["seconds"]) // 2]
    flops = bench["mfu"] * bench["ceilings"]["gflop_per_s"] * bench["tokens"] / bench["tokens_per_s"]
    total = sum(row["seconds"] for row in bench["operations"])
    linear, attention = (sum(row["seconds"] for row in bench["operations"] if row["operation"].startswith(name)) / total
                         for name in ("linear", "attention"))
    return {"ms": 1e3 * seconds, "tokens": bench["tokens"], "gflop": flops, "mfu": bench["mfu"],
            "linear": linear, "attention": attention, "rest": 1 - linear - attention}


def table(axis, rows):
    lines = [f"| {axis} | tokens | ms | GFLOP | GFLOP/s | MFU % | linear % | attention % | rest % |",
             "|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for value, r in rows:
        lines.append(f"| {value} | {r['tokens']} | {r['ms']:.2f} | {r['gflop']:.3f} | {1e3 * r['gflop'] / r['ms']:.0f} | "
                     f"{100 * r['mfu']:.0f} | {100 * r['linear']:.0f} | {100 * r['attention']:.0f} | "
                     f"{100 * r['rest']:.0f} |")
    return "\n".join(lines)


def draw(path, results):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import NullFormatter, ScalarFormatter
    figure, panels = pyplot.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    for panel, (axis, rows) in zip(panels.flat, results.items()):
        values = [value for value, _ in rows]
        rate = max(r["gflop"] / r["ms"] for _, r in rows)
        panel.loglog(values, [r["ms"] for _, r in rows], "o-", label="measured")
        panel.loglog(values, [r["gflop"] / rate for _, r in rows], "--", color="gray",
                     label="FLOPs at the best rate of this row of points")
        panel.set_xticks(values)
        panel.xaxis.set_major_formatter(ScalarFormatter())
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xlabel({"seq_len": "tokens in one sequence", "layers": "layers", "width": "width d_model",
                          "batch": "sequences of 64 tokens"}[axis])
        panel.set_ylabel("ms per step")
        panel.grid(True, which="major", alpha=0.3)
    panels[0][0].legend()
    figure.suptitle("Time of a step; 4 layers, 4 heads, width 128, 12 x 64 tokens but for what the axis changes")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", default=ROOT / "build/bin/heed")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--picture")
    options = parser.parse_args()
    results = {}
    for axis, (key, values, settings) in AXES.items():
        results[axis] = [(value, measure(options.heed, [f"{key}={value}", *settings], options.steps))
                         for value in values]
        print(f"{table(axis, results[axis])}\n", flush=True)
    if options.picture:
        draw(options.picture, results)


if __name__ == "__main__":
    main()
