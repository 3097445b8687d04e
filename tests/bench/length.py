"""Loss beyond the training length for each kind of position: a table and a picture.

    length.py TEXT FOLDER [--heed BINARY] [--steps N] [--seeds N] [--picture FILE.png]    (the picture: matplotlib)

Trains configs/shakespeare_char_cpu.toml on the characters of TEXT with sequences of 64 tokens, in FOLDER, and evaluates
each model on the whole validation split with 64, 128 and 256 tokens. Runs that are already in FOLDER are not repeated.
"""

import argparse
import csv
import pathlib
import subprocess

from training_run import ROOT, mean_and_std, train

LENGTHS = [64, 128, 256]
KINDS = {
    "learned": ["model.position=learned"],
    "sinusoidal": ["model.position=sinusoidal"],
    "none": ["model.position=none"],
    "RoPE": ["model.position=rope"],
    "RoPE, window 32": ["model.position=rope", "model.sliding_window=32"],
    "ALiBi": ["model.position=alibi"],
}


def evaluate(heed, run, text, length):
    """The loss of each position: a list of (targets, loss); None for learned positions beyond their last."""
    if run.name.startswith("learned") and length > LENGTHS[0]:
        return None
    table = run / f"positions-{length}.csv"
    command = [heed, "eval", run, "--seq-len", length, "--by-position", "--csv", table, f"data.path={text}"]
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)
    with open(table) as rows:
        return [(int(row["targets"]), float(row["loss"])) for row in csv.DictReader(rows)]


def mean_loss(positions):
    return sum(n * loss for n, loss in positions) / sum(n for n, _ in positions)


def measure(options):
    """kind -> length -> a list over seeds of the losses by position."""
    results = {}
    for kind, settings in KINDS.items():
        results[kind] = {length: [] for length in LENGTHS}
        for seed in range(1, options.seeds + 1):
            run = options.folder / f"{kind.replace(', ', '-').replace(' ', '')}-{seed}"
            train(options.heed, "shakespeare_char_cpu.toml", run,
                  [*settings, f"data.path={options.text}", f"seed={seed}", f"train.steps={options.steps}",
                   "optim.learning_rate=4e-3", "optim.min_learning_rate=0"])
            for length in LENGTHS:
                positions = evaluate(options.heed, run, options.text, length)
                if positions is not None:
                    results[kind][length].append(positions)
        print(row_of(kind, results[kind]), flush=True)
    return results


def row_of(kind, by_length):
    cells = []
    for length in LENGTHS:
        mean, std = mean_and_std([mean_loss(p) for p in by_length[length]]) if by_length[length] else (None, None)
        cells.append("–" if mean is None else f"{mean:.3f} ± {std:.3f}")
    return f"| {kind} | {' | '.join(cells)} |"


def draw(path, results):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for kind, by_length in results.items():
        points = [(n, mean_and_std([mean_loss(p) for p in by_length[n]])[0]) for n in LENGTHS if by_length[n]]
        line, = left.plot([n for n, _ in points], [loss for _, loss in points], "o-", label=kind)
        runs = by_length[LENGTHS[-1]]
        if runs:
            width = 8
            losses = [sum(p[i][1] for p in runs) / len(runs) for i in range(LENGTHS[-1])]
            smooth = [sum(losses[i:i + width]) / width for i in range(0, len(losses), width)]
            right.plot([i + width / 2 for i in range(0, len(losses), width)], smooth, color=line.get_color())
    left.set_xscale("log", base=2)
    left.set_xticks(LENGTHS, [str(n) for n in LENGTHS])
    left.set_xlabel("tokens in a sequence of the evaluation")
    left.set_ylabel("validation loss (nats)")
    left.legend(fontsize=9, loc="upper left", bbox_to_anchor=(0.02, 0.98))
    right.axvline(LENGTHS[0], color="gray", linewidth=1, linestyle="--")
    right.set_xlabel(f"position in a sequence of {LENGTHS[-1]} tokens")
    right.set_ylim(left.get_ylim())
    for panel in (left, right):
        panel.grid(True, alpha=0.3)
    figure.suptitle("Trained with 64 tokens in a sequence (dashed line), characters of tiny Shakespeare")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("folder", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--heed", default=ROOT / "build/bin/heed")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--picture")
    options = parser.parse_args()
    print(f"| positions | {' | '.join(f'{n} tokens' for n in LENGTHS)} |\n|---|{'--:|' * len(LENGTHS)}")
    results = measure(options)
    if options.picture:
        draw(options.picture, results)


if __name__ == "__main__":
    main()
