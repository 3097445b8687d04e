"""What transformers computes from models that heed exported, compared with heed.

    compare_transformers.py make HEED FOLDER [--count 250]   trains tiny models of random config values and exports them
    compare_transformers.py check FOLDER                     compares; needs transformers, 4 or 5, torch and h5py

Compared are all logits of a random sequence, with those that tests/reference/torch_gpt.py computes from the checkpoint,
the loss of `heed eval`, and 64 tokens of greedy generation.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))  # torch_gpt
VOCABULARY, LENGTH, TOKENS = 13, 72, 64

CHOICES = {
    "norm": ["layer", "rms"], "norm_gain": [True, True, False], "norm_position": ["pre", "pre", "post", "sandwich"],
    "qk_norm": [False, False, True], "embedding_norm": [False, False, False, True], "attention_only": [False] * 5 + [True],
    "activation": ["gelu", "gelu_erf", "relu", "relu2", "silu", "swiglu", "geglu"],
    "position": ["learned", "sinusoidal", "rope", "rope", "rope", "alibi", "none"], "bias": [True, False],
    "tie_embeddings": [True, False], "num_kv_heads": [1, 2, 4], "sliding_window": [0, 0, 0, 5],
    "window_pattern": ["S", "SL", "SSL"], "rope_fraction": [1.0, 1.0, 0.5], "rope_base": [10000, 500],
    "rope_scaling": ["none", "none", "linear", "llama3"], "logit_softcap": [0, 0, 0, 5.0], "mup_base_width": [0, 0, 0, 8],
    "d_ff": [20, 64, 128], "norm_eps": [1e-5, 1e-5, 1e-6], "num_layers": [1, 2, 3],
}  # fmt: skip


# Values that some class has together: without them, few of the random models would fit one.
FAMILIES = [
    {"norm": "layer", "norm_position": "pre", "qk_norm": False, "embedding_norm": False, "logit_softcap": 0,
     "sliding_window": 0},
    {"norm": "layer", "norm_position": "post", "qk_norm": False, "embedding_norm": False, "logit_softcap": 0,
     "sliding_window": 0, "position": "learned", "attention_only": False, "activation": "gelu"},
    {"norm": "layer", "norm_position": "pre", "qk_norm": False, "embedding_norm": False, "logit_softcap": 0,
     "position": "rope", "activation": "gelu_erf", "window_pattern": "S"},
    {"norm": "rms", "norm_position": "pre", "embedding_norm": False, "position": "rope", "logit_softcap": 0},
    {"norm": "rms", "norm_position": "pre", "embedding_norm": False, "position": "rope", "activation": "swiglu",
     "logit_softcap": 0},
    {"norm": "rms", "norm_position": "pre", "embedding_norm": False, "position": "rope", "activation": "swiglu",
     "bias": False, "qk_norm": False},
    {"norm": "rms", "norm_position": "sandwich", "embedding_norm": False, "activation": "geglu", "bias": False,
     "rope_fraction": 1.0, "rope_scaling": "none", "position": "rope"},
    {"norm": "rms", "norm_position": "pre", "embedding_norm": True, "qk_norm": True, "norm_gain": False,
     "activation": "relu2", "bias": False, "position": "rope", "rope_fraction": 1.0, "mup_base_width": 0,
     "sliding_window": 0},
    {"norm": "layer", "norm_position": "pre", "position": "alibi", "qk_norm": False, "logit_softcap": 0, "bias": False,
     "sliding_window": 0, "activation": "gelu_erf", "embedding_norm": False},
    {"norm": "layer", "norm_position": "pre", "position": "alibi", "qk_norm": False, "logit_softcap": 0,
     "sliding_window": 0, "activation": "gelu", "embedding_norm": True},
    {"norm": "rms", "norm_position": "pre", "embedding_norm": False, "qk_norm": True, "position": "rope", "bias": False,
     "logit_softcap": 0, "rope_fraction": 1.0},
    {"norm": "rms", "norm_position": "pre", "embedding_norm": False, "position": "rope", "activation": "relu2",
     "logit_softcap": 0, "rope_fraction": 1.0, "sliding_window": 0},
    {"norm": "layer", "norm_position": "post", "qk_norm": False, "embedding_norm": False, "logit_softcap": 0,
     "sliding_window": 0, "attention_only": False, "activation": "gelu_erf", "d_ff": 160, "norm_eps": 1e-5},
    {},
]  # fmt: skip


def random_model(number):
    draw = random.Random(number)
    model = {key: draw.choice(values) for key, values in CHOICES.items()} | FAMILIES[number % len(FAMILIES)]
    if model["position"] != "rope":
        for key in ("rope_fraction", "rope_base", "rope_scaling"):
            del model[key]
    elif model["rope_scaling"] != "none":
        model["rope_scaling_factor"] = 4.0
        if model["rope_scaling"] == "llama3":
            model["rope_original_seq_len"] = 16
    if model["sliding_window"] == 0:
        del model["sliding_window"], model["window_pattern"]
    if model["attention_only"]:
        del model["activation"], model["d_ff"]
    return model | {"d_model": 32, "num_heads": 4, "seq_len": LENGTH, "init_std": 0.2}


def toml(value):
    return json.dumps(value)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def make(heed, folder, count):
    folder.mkdir(parents=True)
    refused = collections.Counter()
    made = number = 0
    while made < count:
        here = folder / f"{number:04}"
        here.mkdir()
        lines = ["[model]", *(f"{key} = {toml(value)}" for key, value in random_model(number).items())]
        lines += ["[data]", 'source = "ngram"', f"vocab_size = {VOCABULARY}", "order = 2"]
        lines += ["[optim]", "learning_rate = 0.05", "[train]", "steps = 3", "batch_size = 4", 'device = "cpu"']
        lines += ["plot = false", 'final_eval = "none"', f'run_dir = "{here / "run"}"']
        (here / "config.toml").write_text("\n".join(lines) + "\n")
        code, _, error = run(heed, "train", here / "config.toml")
        if code != 0:
            sys.exit(f"{here}: {error}")
        code, text, error = run(heed, "export", here / "run", here / "model")
        number += 1
        if code == 2 and "no model class" in error:
            refused[error.split("does not support ")[1].split(" = ")[0]] += 1
            continue
        if code != 0:
            sys.exit(f"{here}: {error}")
        (here / "export.txt").write_text(text)
        draw = random.Random(number)
        tokens = [draw.randrange(VOCABULARY) for _ in range(LENGTH)]
        ids = " ".join(map(str, tokens))
        code, text, error = run(heed, "eval", here / "run", "--text", ids, "--by-position", "--csv", here / "loss.csv")
        code2, generated, error2 = run(heed, "generate", here / "run", "--prompt", " ".join(ids.split()[:4]), "--greedy",
                                       "--tokens", TOKENS)  # fmt: skip
        if code != 0 or code2 != 0:
            sys.exit(f"{here}: {error} {error2}")
        (here / "case.json").write_text(json.dumps({"tokens": tokens, "generated": generated}))
        made += 1
    print(f"{made} exported, {number - made} refused: {dict(refused)}")


def check_one(here, worst, problems):
    """Compares one exported model; fills worst (largest difference by class) and problems. Returns the class."""
    case = json.loads((here / "case.json").read_text())
    config = json.loads((here / "model/config.json").read_text())
    kind = config["model_type"]
    if kind not in CONFIG_MAPPING_NAMES:
        return kind + ", unknown to this version"
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        here / "model", output_loading_info=True, attn_implementation="eager", dtype=torch.float32)  # fmt: skip
    wrong = {k: v for k, v in info.items() if v and k in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    if wrong or type(model).__name__ != config["architectures"][0]:
        problems.append(f"{here}: {type(model).__name__} {wrong}")
    tokens = torch.tensor([case["tokens"]])
    logits = model.eval()(tokens).logits[0].double()
    with h5py.File(here / "run/checkpoints/last.h5") as file:
        c = tomllib.loads(bytes(file["texts/config"][:]).decode())["model"]
        state = {name: torch.from_numpy(values[:]).double() for name, values in file["tensors/parameters"].items()}
    c.setdefault("num_kv_heads", c["num_heads"])
    reference = Gpt(c, VOCABULARY).double()
    reference.load_state_dict(state, strict=True)
    difference = (logits - reference(tokens)[0]).abs().max().item()
    worst[kind] = max(worst[kind], difference)
    if not difference < 1e-4:
        problems.append(f"{here}: {kind}: logits differ by {difference:.3g}")
    greedy = model.generate(tokens[:, :4], max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False)
    ours, theirs = [int(token) for token in case["generated"].split()], greedy[0].tolist()
    if ours not in (theirs, theirs[4:]):
        problems.append(f"{here}: {kind}: generates {theirs}, heed {ours}")
    return kind


def check(folder):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    worst, count, problems = collections.defaultdict(float), collections.Counter(), []
    for here in sorted(path.parent for path in folder.glob("*/case.json")):
        try:
            with torch.no_grad():
                count[check_one(here, worst, problems)] += 1
        except Exception as error:  # whatever transformers raises is a finding
            problems.append(f"{here}: {type(error).__name__}: {error}")
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for kind in sorted(count):
        print(f"{kind:32} {count[kind]:4}  largest difference of the logits {worst.get(kind, 0):.2g}")
    print(f"{sum(count.values())} models, {len(problems)} problems", *problems[:20], sep="\n")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("heed", type=pathlib.Path)
    making.add_argument("folder", type=pathlib.Path)
    making.add_argument("--count", type=int, default=250)
    commands.add_parser("check").add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.heed.resolve(), arguments.folder.resolve(), arguments.count)
        return 0
    global h5py, torch, transformers, Gpt, CONFIG_MAPPING_NAMES  # only this command needs them
    import h5py
    import torch
    import transformers
    from torch_gpt import Gpt
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return check(arguments.folder.resolve())


if __name__ == "__main__":
    sys.exit(main())
