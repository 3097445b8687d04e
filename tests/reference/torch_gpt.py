"""Training heed's GPT in PyTorch: the reference of the tests, and the other side of tests/bench/compare_torch.py. The
model is python/heed/gpt.py.

    torch_gpt.py time RESULT          seconds of each step, as JSON; RESULT: what `heed bench --json` printed of the
                                      same config
    torch_gpt.py attention BxTxHxD …  seconds of attention alone, forward and backward, by shape, as JSON
"""

import argparse
import contextlib
import json
import math
import pathlib
import resource
import sys
import time
import tomllib
import types

import torch
from torch import nn
from torch.nn import functional as F

# Skips the __init__.py of the package, because it needs h5py, which may not be installed.
package = types.ModuleType("heed")
package.__path__ = [str(pathlib.Path(__file__).resolve().parents[2] / "python/heed")]
sys.modules.setdefault("heed", package)
from heed.gpt import Gpt
from heed.resolved_config import parse_config

IGNORED = -1  # a target that does not count


def loss_of(logits, targets, count):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum") / count


def newton_schulz(x):
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


class Muon(torch.optim.Optimizer):
    """As torch.optim.Muon, in the dtype of the weights, where that is in bf16, and for parameters of several matrices, one
    below the other: a group's "rows" are theirs."""

    def __init__(self, groups, momentum, weight_decay, scale):
        defaults = dict(lr=0.0, momentum=momentum, weight_decay=weight_decay, scale=scale, rows=None)
        super().__init__(groups, defaults)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                momentum = group["momentum"]
                m = self.state[w].setdefault("m", torch.zeros_like(w)).lerp_(w.grad, 1 - momentum)
                w.mul_(1 - group["lr"] * group["weight_decay"])
                for part, update in zip(*(t.split(group["rows"] or len(w)) for t in (w, w.grad.lerp(m, momentum)))):
                    rows, columns = part.shape
                    scale = max(1, rows / columns) ** 0.5
                    if group["scale"] == "match_rms_adamw":
                        scale = 0.2 * max(rows, columns) ** 0.5
                    part.sub_(newton_schulz(update), alpha=group["lr"] * scale)


class MuonAndAdamW:
    def __init__(self, model, c):
        hidden = {name: p for name, p in model.named_parameters() if p.dim() == 2 and name.startswith("blocks.")}
        others = [p for name, p in model.named_parameters() if name not in hidden]
        groups = []
        for name, p in hidden.items():
            attention = model.get_submodule(name.rsplit(".", 2)[0])
            qkv = [count * attention.size for count in attention.heads] if name.endswith("qkv.weight") else None
            groups.append({"params": [p], "rows": qkv})
        self.muon = Muon(groups, c["momentum"], c["weight_decay"], c["muon_scale"])
        self.adamw = make_adamw(others, c)
        for group in self.adamw.param_groups:
            group["lr_scale"] = c["adamw_learning_rate"] / c["learning_rate"]
        self.param_groups = self.muon.param_groups + self.adamw.param_groups

    def zero_grad(self, set_to_none):
        for optimizer in (self.muon, self.adamw):
            optimizer.zero_grad(set_to_none)

    def step(self):
        for optimizer in (self.muon, self.adamw):
            optimizer.step()


def make_optimizer(model, c, fused=False):
    if c.get("optimizer") == "muon":
        return MuonAndAdamW(model, c)
    if model.width_multiplier == 1:
        return make_adamw(list(model.parameters()), c, fused)
    hidden = [p for name, p in model.named_parameters() if p.dim() == 2 and name.startswith("blocks.")]
    others = [p for name, p in model.named_parameters() if p.dim() < 2 or not name.startswith("blocks.")]
    m = model.width_multiplier
    return make_adamw(others, c, fused, [{"params": hidden, "weight_decay": m * c["weight_decay"], "lr_scale": 1 / m}])


def make_adamw(parameters, c, fused=False, more_groups=()):
    decayed = [p for p in parameters if p.dim() >= 2]
    others = [p for p in parameters if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": c["weight_decay"]}, {"params": others, "weight_decay": 0.0}, *more_groups]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=0.0, betas=(c["beta1"], c["beta2"]), eps=c["eps"], fused=fused)


def learning_rate(config, step):
    c, peak, warmup = config["optim"], config["optim"]["learning_rate"], config["optim"]["warmup_steps"]
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    steps, is_wsd = config["train"]["steps"], c["schedule"] == "wsd"
    start = steps - c["decay_steps"] if is_wsd else warmup
    if c["schedule"] == "constant" or step < start:
        return peak
    done = (step - start) / (steps - start)
    shape = c["decay"] if is_wsd else c["schedule"]
    share = {"linear": 1 - done, "1-sqrt": 1 - done**0.5, "cosine": (1 + math.cos(math.pi * done)) / 2}[shape]
    return c["min_learning_rate"] + (peak - c["min_learning_rate"]) * share


def train_step(model, optimizer, config, step, inputs, targets, precision=contextlib.nullcontext(), loss_of=loss_of):
    """One step; gives the loss before it and the norm of the gradients before clipping."""
    optimizer.zero_grad(set_to_none=True)
    rows = config["train"]["micro_batch_size"] or len(inputs)
    count = (targets != IGNORED).sum()
    total = 0.0  # read last: reading waits for the device
    for part, part_targets in zip(inputs.split(rows), targets.split(rows)):
        with precision:
            loss = loss_of(model(part), part_targets, count)
        loss.backward()
        total += loss.detach().double()
    norm = nn.utils.clip_grad_norm_(model.parameters(), config["optim"]["clip_norm"] or math.inf)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(config, step) * group.get("lr_scale", 1)
    optimizer.step()
    return float(total), float(norm)


# ---- Files -----------------------------------------------------------------------------------------------------------


def read_checkpoint(path, group="parameters"):
    """The resolved config and the weights by name, of a heed checkpoint, or of a fixture (group "weights")."""
    import h5py  # not needed for timing, and not everywhere

    with h5py.File(path) as file:
        config = tomllib.loads(bytes(file["texts/config"][:]).decode())
        weights = {name: torch.from_numpy(values[:]) for name, values in file["tensors"][group].items()}
    return config, weights


def build(config, weights, dtype, document_separator=None):
    model = Gpt(config["model"], len(weights["token_embedding.weight"]), document_separator).to(dtype)
    model.load_state_dict({name: values.to(dtype) for name, values in weights.items()}, strict=True)
    return model


# ---- Timing ----------------------------------------------------------------------------------------------------------


def timed(call, options, calls=1):
    """Seconds of one call, several times; of `calls` in a row, where one is too short to be waited for alone."""
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    for _ in range(options.warm_up):
        call()
    wait()
    begin = time.perf_counter()
    while options.device == "cuda" and time.perf_counter() - begin < 0.5:  # until the GPU clocks have risen, as in heed bench
        call()
        wait()
    seconds = []
    for _ in range(options.steps):
        wait()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        seconds.append((time.perf_counter() - begin) / calls)
    return seconds


def peak_resident_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


LIBRARIES_BYTES = peak_resident_bytes()  # once all is imported and before there is a model


def print_timing(seconds, options, **more):
    memory = {"peak_bytes": peak_resident_bytes(), "libraries_bytes": LIBRARIES_BYTES}
    if options.device == "cuda":  # of the device: tensors, not what the libraries hold beside them
        memory = {"peak_bytes": torch.cuda.max_memory_allocated(), "libraries_bytes": 0}
    print(json.dumps({"seconds": seconds, **memory, "torch": torch.__version__, **more}))


def time_steps(options):
    """Best eager settings: SDPA, fused AdamW, gradients set to none; the tokens are drawn outside the clock."""
    result = json.loads(pathlib.Path(options.result).read_text())
    config, vocab_size = parse_config(result["config"], options.result), result["vocab_size"]
    model = Gpt(config["model"], vocab_size).float().to(options.device)
    optimizer = make_optimizer(model, config["optim"], fused=True)
    bf16 = options.dtype == "bf16"
    precision = torch.autocast(options.device, dtype=torch.bfloat16) if bf16 else contextlib.nullcontext()
    run, loss = (torch.compile(model), torch.compile(loss_of)) if options.compile else (model, loss_of)
    shape = (config["train"]["batch_size"], config["model"]["seq_len"])
    inputs, targets = torch.randint(vocab_size, (2, *shape), device=options.device)

    def call():
        train_step(run, optimizer, config, 0, inputs, targets, precision, loss)

    print_timing(timed(call, options), options, tokens=inputs.numel())


def attention_seconds(shape, options):
    b, t, h, d = map(int, shape.split("x"))
    kind = {"device": options.device, "dtype": torch.bfloat16 if options.dtype == "bf16" else torch.float32}
    q, k, v, dy = (torch.randn(b, h, t, d, **kind, requires_grad=i < 3) for i in range(4))

    def call():
        q.grad = k.grad = v.grad = None
        F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dy)

    return timed(call, options, calls=20 if options.device == "cuda" else 1)


def time_attention(options):
    print_timing({shape: attention_seconds(shape, options) for shape in options.shapes}, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    steps, attention = commands.add_parser("time"), commands.add_parser("attention")
    steps.add_argument("result")
    steps.add_argument("--compile", action="store_true")
    attention.add_argument("shapes", nargs="+", metavar="BxTxHxD")
    for command in (steps, attention):
        command.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
        command.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--warm-up", type=int, default=3)
        command.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    time_steps(options) if options.command == "time" else time_attention(options)


if __name__ == "__main__":
    main()
