"""Models that transformers wrote, imported by heed: logits, and the losses of 20 steps of fine-tuning in both.

    compare_fine_tuning.py HEED FOLDER     needs transformers and torch; FOLDER is made

The training data is one sequence, so that each step of both has the same batch.
"""

import csv
import pathlib
import random
import re
import subprocess
import sys

import torch
import transformers

LENGTH, STEPS, RATE, DECAY = 64, 20, 3e-5, 0.1


def models():
    common = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    yield "gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_positions=1024, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **common))  # fmt: skip
    sizes = {"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4,
             "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 128} | common  # fmt: skip
    yield "llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, rope_scaling={
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32, "rope_theta": 5e5}))  # fmt: skip
    yield "mistral", transformers.MistralForCausalLM(transformers.MistralConfig(**sizes, sliding_window=20))
    yield "qwen2", transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        **sizes, use_sliding_window=True, sliding_window=20, max_window_layers=2, tie_word_embeddings=True))  # fmt: skip
    yield "qwen3", transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**sizes, head_dim=16))
    yield "phi3", transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes, sliding_window=None))
    yield "arcee", transformers.ArceeForCausalLM(transformers.ArceeConfig(**sizes))
    yield "apertus", transformers.ApertusForCausalLM(transformers.ApertusConfig(**sizes, hidden_act="relu2"))
    yield "starcoder2", transformers.Starcoder2ForCausalLM(transformers.Starcoder2Config(
        **sizes, sliding_window=20, residual_dropout=0.0, embedding_dropout=0.0))  # fmt: skip


def fine_tune(model, tokens):
    """The loss before each step."""
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]  # fmt: skip
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return done.stdout


def compare_logits(heed, here, model):
    """The largest difference of a logit between heed and transformers, which loads a model that heed exports.

    heed says how far its logits are from those of the files that it writes; transformers reads these and the original.
    """
    said = run(heed, "export", here / "model.h5", here / "exported")
    heed_to_files = float(re.search(r"differ by at most (\S+)", said).group(1))
    exported = transformers.AutoModelForCausalLM.from_pretrained(here / "exported").eval()
    tokens = torch.randint(0, model.config.vocab_size, (2, LENGTH))
    with torch.no_grad():
        return heed_to_files + (exported(tokens).logits - model.eval()(tokens).logits).abs().max().item()


def compare(heed, folder, name, model):
    here = folder / name
    here.mkdir()
    model.save_pretrained(here / "model", max_shard_size="100MB")
    print(run(heed, "import", here / "model", here / "model.h5").splitlines()[0])
    # qwen2 has a window and biases, and no class that heed exports to has both.
    difference = compare_logits(heed, here, model) if name != "qwen2" else float("nan")
    draw = random.Random(1)
    text = bytes(draw.randrange(256) for _ in range(LENGTH + 1))
    (here / "text").write_bytes(text)
    table = run(heed, "import", here / "model", here / "again.h5").split("[model]")[1].split("[train]")[0]
    table = "\n".join(line for line in table.splitlines() if not line.startswith("seq_len"))
    (here / "config.toml").write_text(f"""[model]{table}
seq_len = {LENGTH}
[data]
source = "text"
tokenizer = "byte"
val_fraction = 0.0
path = "{here / 'text'}"
[optim]
schedule = "constant"
learning_rate = {RATE}
weight_decay = {DECAY}
[train]
init_from = "{here / 'model'}"
steps = {STEPS}
batch_size = 1
device = "cpu"
final_eval = "none"
plot = false
run_dir = "{here / 'run'}"
""")
    run(heed, "train", here / "config.toml")
    ours = [float(row["train_loss"]) for row in csv.DictReader((here / "run/metrics.csv").open())]
    tokens = torch.tensor([list(text)])
    with torch.no_grad():
        logits = model.eval()(tokens[:, :LENGTH]).logits
        shifted = torch.nn.functional.cross_entropy(logits[0].double(), tokens[0, 1:]).item()
    theirs = fine_tune(model.train(), tokens)
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    print(f"{name:12} logits differ by at most {difference:.2g}; first loss {ours[0]:.6f}, transformers {shifted:.6f}; {STEPS} steps to {ours[-1]:.6f}, losses differ "
          f"by at most {worst:.2g}")  # fmt: skip
    # heed's model has biases everywhere if it has some, and trains those that qwen2 does not have.
    same = abs(ours[0] - shifted) < 1e-4 if name == "qwen2" else worst < 1e-4
    return same and not difference > 1e-4 and len(ours) == STEPS


def main():
    heed, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    folder.mkdir(parents=True)
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    return 0 if all([compare(heed, folder, name, model) for name, model in models()]) else 1


if __name__ == "__main__":
    sys.exit(main())
