"""Does the best learning rate stay when the model gets wider? muP compared with the standard parametrization.

    mup.py [--heed BINARY] [--steps N] [--seeds N] [--picture FILE.png] [key=value …]

key=value: config keys of all runs. The picture needs matplotlib.

Two layers with heads of size 64 learn the order-3 language of configs/ngram.toml, at every width with every learning
rate. The tables have the excess: the validation loss above that of the language's own distribution, in nats, as the
mean over the seeds. At the base width both parametrizations are the same model bit for bit, so it is trained once.
"""

import argparse
import math
import subprocess
import tempfile

from training_run import ROOT, train

BASE = 64
WIDTHS = [64, 128, 256, 512]
RATES = [2.0**-n for n in range(12, 4, -1)]
KINDS = {"standard": 0, "muP": BASE}
SETTINGS = ["model.num_layers=2", "model.seq_len=32", "train.batch_size=16", "train.plot=false", "train.log_interval=1000",
            "train.eval_interval=1000000", "train.eval_batches=64", "train.final_eval=subset", "optim.min_learning_rate=0",
            "optim.warmup_steps=20", "optim.weight_decay=0.1"]
DIVERGED = 6  # exit code


def excess_of(heed, settings):
    with tempfile.TemporaryDirectory() as folder:
        try:
            return train(heed, "ngram.toml", f"{folder}/run", [*SETTINGS, *settings])["excess"]
        except subprocess.CalledProcessError as error:
            if error.returncode == DIVERGED:
                return float("inf")
            raise


def measure(options):
    """{(kind, width): the mean excess at each of RATES}"""
    results = {}
    for width in WIDTHS:
        for kind, base in KINDS.items():
            if width == BASE and results:
                results[kind, width] = results["standard", width]
                continue
            settings = [f"model.d_model={width}", f"model.num_heads={width // 64}", f"model.mup_base_width={base}",
                        f"train.steps={options.steps}", *options.settings]
            results[kind, width] = [
                sum(excess_of(options.heed, [*settings, f"optim.learning_rate={rate}", f"seed={1 + seed}"])
                    for seed in range(options.seeds)) / options.seeds for rate in RATES]
            print(f"{kind} {width}: " + " ".join(f"{loss:.4f}" for loss in results[kind, width]), flush=True)
    return results


def best_of(losses):
    return min(range(len(RATES)), key=lambda i: losses[i])


def rate_text(rate):
    return f"2^{round(math.log2(rate))}"


def table(kind, results):
    lines = [f"| {kind}: d_model | " + " | ".join(map(rate_text, RATES)) + " |", "|--:|" + "--:|" * len(RATES)]
    for width in WIDTHS:
        losses = results[kind, width]
        cells = [f"{loss:.3f}" for loss in losses]
        cells[best_of(losses)] = f"**{cells[best_of(losses)]}**"
        lines.append(f"| {width} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdict(kind, results):
    bests = [best_of(results[kind, width]) for width in WIDTHS]
    kept = results[kind, WIDTHS[-1]][bests[0]] - min(results[kind, WIDTHS[-1]])
    text = (f"{kind}: the best learning rate moves by 2^{bests[-1] - bests[0]} from d_model {WIDTHS[0]} to {WIDTHS[-1]}; "
            f"at {WIDTHS[-1]} that of {WIDTHS[0]} costs {kept:.3f} nats more than the best")
    if {0, len(RATES) - 1} & set(bests):
        text += "; a best rate is at the end of the range"
    return text


def draw(path, results):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharey=True)
    for panel, kind in zip(panels, KINDS):
        for number, width in enumerate(WIDTHS):
            losses, color = results[kind, width], pyplot.get_cmap("viridis")(number / len(WIDTHS))
            best = best_of(losses)
            panel.plot(RATES, losses, "o-", color=color, markersize=4, label=f"d_model {width}")
            panel.plot(RATES[best], losses[best], "*", color=color, markersize=14)
        panel.set_xscale("log", base=2)
        panel.set_xlabel("learning rate")
        panel.set_title(f"muP, base width {BASE}" if kind == "muP" else "standard parametrization")
        panel.grid(True, which="major", alpha=0.3)
    panels[0].set_ylabel("excess, nats")
    panels[1].legend(loc="lower left")
    figure.suptitle("Excess over the language's own loss; the star is the best learning rate of its width")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", default=ROOT / "build/bin/heed")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--picture")
    parser.add_argument("settings", nargs="*", metavar="key=value")
    options = parser.parse_args()
    results = measure(options)
    for kind in KINDS:
        print(f"\n{table(kind, results)}\n\n{verdict(kind, results)}", flush=True)
    if options.picture:
        draw(options.picture, results)


if __name__ == "__main__":
    main()
