"""One training run of heed for the experiments of this folder."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def train(heed, config, run_dir, settings):
    """Trains with `settings` (key=value) over a file of configs/; a completed run is kept. Returns its summary."""
    summary = pathlib.Path(run_dir) / "summary.json"
    if not summary.exists() or json.loads(summary.read_text())["status"] != "completed":
        command = [heed, "train", ROOT / "configs" / config, *settings, f"train.run_dir={run_dir}"]
        subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)
    return json.loads(summary.read_text())


def mean_and_std(values):
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / max(1, len(values) - 1)) ** 0.5
