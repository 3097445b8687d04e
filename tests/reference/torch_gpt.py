"""heed's GPT in PyTorch: the reference of the tests, and the other side of tests/bench/compare_torch.py.

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
import time
import tomllib

import torch
from torch import nn
from torch.nn import functional as F

IGNORED = -1  # a target that does not count


class Rope(nn.Module):
    """Rotary position embedding of x (B, H, T, D), of pairs (i, i + R/2) of the first R columns of each head."""

    def __init__(self, c):
        super().__init__()
        columns = round(c.get("rope_fraction", 1) * c["d_model"] / c["num_heads"])
        theta = c["rope_base"] ** (-torch.arange(0, columns, 2, dtype=torch.float64) / columns)
        angle = torch.arange(c["seq_len"], dtype=torch.float64)[:, None] * self.scaled(theta, c)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    @staticmethod
    def scaled(theta, c):
        if c.get("rope_scaling", "none") == "none":
            return theta
        slowed = theta / c["rope_scaling_factor"]
        if c["rope_scaling"] == "linear":
            return slowed
        turns = c["rope_original_seq_len"] * theta / (2 * math.pi)  # in the original length
        kept = ((turns - 1) / (4 - 1)).clamp(0, 1)
        return (1 - kept) * slowed + kept * theta

    def forward(self, x):
        cos, sin = (part[: x.shape[-2]] for part in (self.cos, self.sin))
        half = cos.shape[-1]
        first, second, rest = x.split([half, half, x.shape[-1] - 2 * half], dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)


# Keys with c.get() are later than some fixtures; the default is what a model without the key is.
def make_norm(c):
    gain = c.get("norm_gain", True)
    if c.get("norm", "layer") == "rms":
        return nn.RMSNorm(c["d_model"], c["norm_eps"], elementwise_affine=gain)
    return nn.LayerNorm(c["d_model"], c["norm_eps"], elementwise_affine=gain, bias=c["bias"])


def alibi_slopes(heads):
    """2^(-8/n), 2^(-16/n), … for a power of two n; else those of the next smaller one, then every second of the next larger."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]


def score_bias(c, layer):
    """(H, T, T) to add to the scores: causal mask, ALiBi and sliding window. None: the causal mask is all."""
    pattern, window = c.get("window_pattern", "S"), c.get("sliding_window", 0)
    window = window if pattern[layer % len(pattern)] == "S" else 0
    if c["position"] != "alibi" and not window:
        return None
    distance = torch.arange(c["seq_len"])[:, None] - torch.arange(c["seq_len"])
    hidden = (distance < 0) | (distance >= (window or c["seq_len"]))
    slopes = alibi_slopes(c["num_heads"]) if c["position"] == "alibi" else [0.0] * c["num_heads"]
    bias = -torch.tensor(slopes, dtype=torch.float64)[:, None, None] * distance
    return bias.masked_fill(hidden, -math.inf)


def width_multiplier(c):
    """m of muP: d_model relative to the base width; 1 without."""
    base = c.get("mup_base_width", 0)
    return c["d_model"] / base if base else 1.0


class Attention(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        self.register_buffer("bias", score_bias(c, layer), persistent=False)
        self.rope = Rope(c) if c["position"] == "rope" else nn.Identity()
        self.size = c["d_model"] // c["num_heads"]
        self.heads = [c["num_heads"], c["num_kv_heads"], c["num_kv_heads"]]
        self.qkv = nn.Linear(c["d_model"], sum(self.heads) * self.size, c["bias"])
        self.projection = nn.Linear(c["d_model"], c["d_model"], c["bias"])
        self.dropout = c["attention_dropout"]
        self.scale = 8 / self.size if c.get("mup_base_width", 0) else self.size**-0.5
        gain = c.get("norm_gain", True)
        self.q_norm, self.k_norm = nn.Identity(), nn.Identity()
        if c.get("qk_norm", False):
            self.q_norm = nn.RMSNorm(self.size, c["norm_eps"], elementwise_affine=gain)
            self.k_norm = nn.RMSNorm(self.size, c["norm_eps"], elementwise_affine=gain)

    def forward(self, x):
        parts = self.qkv(x).split([count * self.size for count in self.heads], dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in parts)
        q, k = self.rope(self.q_norm(q)), self.rope(self.k_norm(k))
        dropout = self.dropout if self.training else 0.0
        grouped = self.heads[0] != self.heads[1]
        options = {"is_causal": True} if self.bias is None else {"attn_mask": self.bias}
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=self.scale, enable_gqa=grouped, **options)
        return self.projection(mixed.transpose(1, 2).flatten(2))


def gelu(x):
    return F.gelu(x, approximate="tanh")


ACTIVATIONS = {"gelu": gelu, "gelu_erf": F.gelu, "relu": F.relu, "relu2": lambda x: F.relu(x) ** 2, "silu": F.silu}
GATES = {"swiglu": F.silu, "geglu": gelu}


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = GATES.get(c["activation"])
        self.activation = ACTIVATIONS.get(c["activation"])
        self.up = nn.Linear(c["d_model"], (2 if self.gate else 1) * c["d_ff"], c["bias"])
        self.down = nn.Linear(c["d_ff"], c["d_model"], c["bias"])

    def forward(self, x):
        hidden = self.up(x)
        if self.gate is None:
            return self.down(self.activation(hidden))
        gate, up = hidden.chunk(2, dim=-1)
        return self.down(self.gate(gate) * up)


class Block(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        self.attention_norm = make_norm(c)
        self.attention = Attention(c, layer)
        self.attention_only = c.get("attention_only", False)
        self.feed_forward_norm = nn.Identity() if self.attention_only else make_norm(c)
        self.feed_forward = nn.Identity() if self.attention_only else FeedForward(c)
        self.dropout = nn.Dropout(c["dropout"])
        self.post = c["norm_position"] == "post"
        is_sandwich = c["norm_position"] == "sandwich"
        self.post_attention_norm = make_norm(c) if is_sandwich else nn.Identity()
        self.post_feed_forward_norm = make_norm(c) if is_sandwich and not self.attention_only else nn.Identity()

    def forward(self, x):
        if not self.post:
            x = x + self.dropout(self.post_attention_norm(self.attention(self.attention_norm(x))))
            if self.attention_only:
                return x
            return x + self.dropout(self.post_feed_forward_norm(self.feed_forward(self.feed_forward_norm(x))))
        x = self.attention_norm(x + self.dropout(self.attention(x)))
        if self.attention_only:
            return x
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class Gpt(nn.Module):
    """c: the table [model] of a resolved config. Parameters have heed's names and shapes."""

    def __init__(self, c, vocab_size):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, c["d_model"])
        self.position_embedding = None
        if c["position"] == "learned":
            self.position_embedding = nn.Embedding(c["seq_len"], c["d_model"])
        positions = sinusoids(c["seq_len"], c["d_model"]) if c["position"] == "sinusoidal" else None
        self.register_buffer("sinusoids", positions, persistent=False)
        self.embedding_norm = make_norm(c) if c.get("embedding_norm", False) else nn.Identity()
        self.blocks = nn.ModuleList(Block(c, layer) for layer in range(c["num_layers"]))
        self.last_norm = nn.Identity()
        if c["norm_position"] != "post":
            self.last_norm = make_norm(c)
        self.head = None if c["tie_embeddings"] else nn.Linear(c["d_model"], vocab_size, bias=False)
        self.dropout = nn.Dropout(c["dropout"])
        self.softcap = c.get("logit_softcap", 0)
        self.width_multiplier = width_multiplier(c)
        for parameter in self.parameters():  # as heed begins, but for the projections, which it scales down
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=c["init_std"])

    def forward(self, tokens):
        x = self.token_embedding(tokens)
        if self.position_embedding is not None:
            x = x + self.position_embedding.weight[: tokens.shape[1]]
        if self.sinusoids is not None:
            x = x + self.sinusoids[: tokens.shape[1]]
        x = self.dropout(self.embedding_norm(x))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.last_norm(x) / self.width_multiplier, (self.head or self.token_embedding).weight)
        return self.softcap * torch.tanh(logits / self.softcap) if self.softcap else logits


def sinusoids(length, width):
    column = torch.arange(width, dtype=torch.float64)
    angle = torch.arange(length, dtype=torch.float64)[:, None] / 10000.0 ** ((column - column % 2) / width)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


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


def build(config, weights, dtype):
    model = Gpt(config["model"], len(weights["token_embedding.weight"])).to(dtype)
    model.load_state_dict({name: values.to(dtype) for name, values in weights.items()}, strict=True)
    return model


# ---- Timing ----------------------------------------------------------------------------------------------------------


def timed(call, options, calls=1):
    """Seconds of one call, several times; of `calls` in a row, where one is too short to be waited for alone."""
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    for _ in range(options.warm_up):
        call()
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
    config, vocab_size = tomllib.loads(result["config"]), result["vocab_size"]
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
