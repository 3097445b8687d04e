"""The share of AdamW's steps that Muon needs for the same validation loss, over paired seeds: a table.

    muon.py TEXT FOLDER [--heed BINARY] [--steps N] [--seeds N]

Two tasks: the characters of TEXT (configs/shakespeare_char_cpu.toml) and configs/ngram.toml. First the learning rate of
each optimizer is chosen, by factors of 2, with one seed that is not used afterwards. Then, for each seed, AdamW trains
N steps, and Muon trains several shorter runs, each with its own complete schedule; the share is where the line through
their final losses meets the loss of AdamW with the same seed. Runs that are already in FOLDER are not repeated.
"""

import argparse
import pathlib

from training_run import ROOT, mean_and_std, train

SHARES = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0]
TASKS = {
    "characters": ("shakespeare_char_cpu.toml", {"adamw": [2e-3, 4e-3, 8e-3], "muon": [8e-3, 1.6e-2, 3.2e-2]}),
    "n-gram": ("ngram.toml", {"adamw": [1e-2, 2e-2, 4e-2], "muon": [2e-2, 4e-2, 8e-2]}),
}
TUNING_SEED = 100


class Task:
    def __init__(self, options, name):
        self.options, self.name = options, name
        self.config, self.rates = TASKS[name]

    def loss(self, optimizer, rate, steps, seed):
        settings = [f"optim.optimizer={optimizer}", f"optim.learning_rate={rate}", "optim.min_learning_rate=0",
                    f"optim.warmup_steps={steps // 10}", f"train.steps={steps}", f"seed={seed}",
                    f"train.eval_interval={steps}", "train.save_interval=0"]
        if self.name == "characters":
            settings.append(f"data.path={self.options.text}")
        run = self.options.folder / self.name / f"{optimizer}-{rate}-{steps}-{seed}"
        return train(self.options.heed, self.config, run, settings)["val_loss"]

    def best_rate(self, optimizer):
        """Continues beyond the listed rates while the best one is at an end."""
        losses = {rate: self.loss(optimizer, rate, self.options.steps, TUNING_SEED) for rate in self.rates[optimizer]}
        while True:
            best = min(losses, key=losses.get)
            if best not in (min(losses), max(losses)):
                break
            further = best / 2 if best == min(losses) else best * 2
            losses[further] = self.loss(optimizer, further, self.options.steps, TUNING_SEED)
        print(f"{self.name}, {optimizer}: " + ", ".join(f"{r:g}: {losses[r]:.4f}" for r in sorted(losses)), flush=True)
        return best

    def share(self, adamw, rate, seed):
        """The first share at which Muon's loss is as low as `adamw`, by linear interpolation; None: at no share."""
        last = None
        for share in SHARES:
            loss = self.loss("muon", rate, round(share * self.options.steps), seed)
            if loss <= adamw:
                if last is None:
                    return share
                return last[0] + (share - last[0]) * (last[1] - adamw) / (last[1] - loss)
            last = (share, loss)
        return None

    def run(self):
        rates = {optimizer: self.best_rate(optimizer) for optimizer in self.rates}
        print("\n| seed | AdamW | Muon, as many steps | share of the steps |\n|--:|--:|--:|--:|")
        shares, gains = [], []
        for seed in range(1, self.options.seeds + 1):
            adamw = self.loss("adamw", rates["adamw"], self.options.steps, seed)
            muon = self.loss("muon", rates["muon"], self.options.steps, seed)
            share = self.share(adamw, rates["muon"], seed)
            print(f"| {seed} | {adamw:.4f} | {muon:.4f} | {'above 1' if share is None else f'{share:.2f}'} |", flush=True)
            shares.append(share)
            gains.append(muon - adamw)
        if None not in shares:
            print("\nshare {:.2f} ± {:.2f}; Muon minus AdamW {:+.4f} ± {:.4f} nats\n".format(
                *mean_and_std(shares), *mean_and_std(gains)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("folder", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--heed", default=ROOT / "build/bin/heed")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    for name in TASKS:
        Task(options, name).run()


if __name__ == "__main__":
    main()
