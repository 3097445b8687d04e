"""heed's GPT in PyTorch, with heed's parameter names. It needs PyTorch alone, so that it can be imported by itself."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Rope(nn.Module):
    """Rotary position embedding of x (B, H, T, D), of pairs (i, i + R/2) of the first R columns of each head."""

    def __init__(self, c: dict[str, Any]):
        super().__init__()
        columns = round(c.get("rope_fraction", 1) * c["d_model"] / c["num_heads"])
        theta = c["rope_base"] ** (-torch.arange(0, columns, 2, dtype=torch.float64) / columns)
        angle = torch.arange(c["seq_len"], dtype=torch.float64)[:, None] * self.scaled(theta, c)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    @staticmethod
    def scaled(theta: Tensor, c: dict[str, Any]) -> Tensor:
        if c.get("rope_scaling", "none") == "none":
            return theta
        slowed = theta / c["rope_scaling_factor"]
        if c["rope_scaling"] == "linear":
            return slowed
        turns = c["rope_original_seq_len"] * theta / (2 * math.pi)  # in the original length
        kept = ((turns - 1) / (4 - 1)).clamp(0, 1)
        return (1 - kept) * slowed + kept * theta

    def forward(self, x: Tensor) -> Tensor:
        cos, sin = (part[: x.shape[-2]] for part in (self.cos, self.sin))
        half = cos.shape[-1]
        first, second, rest = x.split([half, half, x.shape[-1] - 2 * half], dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)


# Keys with c.get() are later than some fixtures of the tests; the default is what a model without the key is.
def make_norm(c: dict[str, Any]) -> nn.Module:
    gain = c.get("norm_gain", True)
    if c.get("norm", "layer") == "rms":
        return nn.RMSNorm(c["d_model"], c["norm_eps"], elementwise_affine=gain)
    return nn.LayerNorm(c["d_model"], c["norm_eps"], elementwise_affine=gain, bias=c["bias"])


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), … for a power of two n; else those of the next smaller one, then every second of the next larger."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]


def score_bias(c: dict[str, Any], layer: int) -> Tensor | None:
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


def documents_of(tokens: Tensor, separator: int) -> tuple[Tensor, Tensor]:
    """The documents of tokens (B, T), each of which ends with the separator or with the sequence.

    Returns the position of each token in its document (B, T), and whether query i may attend to key j, which is at most
    i and in the same document: (B, 1, T, T).
    """
    ends = tokens == separator
    number = ends.cumsum(1) - ends.long()
    place = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    starts = torch.cat([torch.ones_like(ends[:, :1]), ends[:, :-1]], dim=1)
    begin = (place * starts).cummax(1).values
    allowed = (number[:, :, None] == number[:, None, :]).tril()
    return place - begin, allowed[:, None]


def width_multiplier(c: dict[str, Any]) -> float:
    """m of muP: d_model relative to the base width; 1 without."""
    base = c.get("mup_base_width", 0)
    return c["d_model"] / base if base else 1.0


class Attention(nn.Module):
    def __init__(self, c: dict[str, Any], layer: int):
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

    def mask(self, length: int, allowed: Tensor | None) -> dict[str, Any]:
        """The arguments of scaled_dot_product_attention that hide keys. allowed: of documents_of()."""
        if self.bias is None:
            return {"is_causal": True} if allowed is None else {"attn_mask": allowed}
        bias = self.bias[:, :length, :length]
        return {"attn_mask": bias if allowed is None else bias.masked_fill(~allowed, -math.inf)}

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        parts = self.qkv(x).split([count * self.size for count in self.heads], dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in parts)
        q, k = self.rope(self.q_norm(q)), self.rope(self.k_norm(k))
        dropout = self.dropout if self.training else 0.0
        grouped = self.heads[0] != self.heads[1]
        options = self.mask(x.shape[1], allowed)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=self.scale, enable_gqa=grouped, **options)
        return self.projection(mixed.transpose(1, 2).flatten(2))


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS = {"gelu": gelu, "gelu_erf": F.gelu, "relu": F.relu, "relu2": lambda x: F.relu(x) ** 2, "silu": F.silu}
GATES = {"swiglu": F.silu, "geglu": gelu}


class FeedForward(nn.Module):
    def __init__(self, c: dict[str, Any]):
        super().__init__()
        self.gate = GATES.get(c["activation"])
        self.activation = ACTIVATIONS[c["activation"]] if self.gate is None else self.gate
        self.up = nn.Linear(c["d_model"], (2 if self.gate else 1) * c["d_ff"], c["bias"])
        self.down = nn.Linear(c["d_ff"], c["d_model"], c["bias"])

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(x)
        if self.gate is None:
            return self.down(self.activation(hidden))
        gate, up = hidden.chunk(2, dim=-1)
        return self.down(self.activation(gate) * up)


class Block(nn.Module):
    def __init__(self, c: dict[str, Any], layer: int):
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

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        if not self.post:
            x = x + self.dropout(self.post_attention_norm(self.attention(self.attention_norm(x), allowed)))
            if self.attention_only:
                return x
            return x + self.dropout(self.post_feed_forward_norm(self.feed_forward(self.feed_forward_norm(x))))
        x = self.attention_norm(x + self.dropout(self.attention(x, allowed)))
        if self.attention_only:
            return x
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class Gpt(nn.Module):
    """c: the table [model] of a resolved config. Parameters have heed's names and shapes.

    document_separator: the token that ends a document; attention does not cross it, and positions count from 0 after it.
    """

    def __init__(self, c: dict[str, Any], vocab_size: int, document_separator: int | None = None):
        super().__init__()
        self.seq_len, self.document_separator = c["seq_len"], document_separator
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

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: integers (B, T), T at most seq_len. Returns logits (B, T, V). Raises ValueError for other shapes."""
        if tokens.dim() != 2 or tokens.shape[1] > self.seq_len:
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}, they must be (batch, at most {self.seq_len})")
        positions, allowed = slice(tokens.shape[1]), None
        if self.document_separator is not None:
            positions, allowed = documents_of(tokens, self.document_separator)
        x = self.token_embedding(tokens)
        if self.position_embedding is not None:
            x = x + self.position_embedding.weight[positions]
        if self.sinusoids is not None:
            x = x + self.sinusoids[positions]
        x = self.dropout(self.embedding_norm(x))
        for block in self.blocks:
            x = block(x, allowed)
        logits = F.linear(self.last_norm(x) / self.width_multiplier, (self.head or self.token_embedding).weight)
        return self.softcap * torch.tanh(logits / self.softcap) if self.softcap else logits


def sinusoids(length: int, width: int) -> Tensor:
    column = torch.arange(width, dtype=torch.float64)
    angle = torch.arange(length, dtype=torch.float64)[:, None] / 10000.0 ** ((column - column % 2) / width)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())
