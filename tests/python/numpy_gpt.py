"""heed's GPT in NumPy, for models that are Pre-LN with learned positions, GELU and tied embeddings."""

import numpy as np


def layer_norm(x, p, name, eps):
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + eps)
    return scaled * p[name + ".weight"] + p[name + ".bias"]


def linear(x, p, name):
    return x @ p[name + ".weight"].T + p[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def attention(x, p, name, heads, kv_heads):
    length, width = x.shape
    size = width // heads
    qkv = linear(x, p, name + ".qkv").reshape(length, heads + 2 * kv_heads, size).transpose(1, 0, 2)
    q, k, v = np.split(qkv, [heads, heads + kv_heads])
    k, v = (np.repeat(part, heads // kv_heads, axis=0) for part in (k, v))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(size)
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ v
    return linear(mixed.transpose(1, 0, 2).reshape(length, width), p, name + ".projection")


def logits(tokens, model, p):
    """tokens (T) -> (T, V). model: the table [model] of the config; p: the parameters by name."""
    eps = model["norm_eps"]
    x = p["token_embedding.weight"][tokens] + p["position_embedding.weight"][: len(tokens)]
    for layer in range(model["num_layers"]):
        block = f"blocks.{layer}"
        normed = layer_norm(x, p, block + ".attention_norm", eps)
        x = x + attention(normed, p, block + ".attention", model["num_heads"], model["num_kv_heads"])
        normed = layer_norm(x, p, block + ".feed_forward_norm", eps)
        x = x + linear(gelu(linear(normed, p, block + ".feed_forward.up")), p, block + ".feed_forward.down")
    return layer_norm(x, p, "last_norm", eps) @ p["token_embedding.weight"].T


def loss(tokens, model, p):
    """The sum of the cross-entropy of tokens 1 … T, each predicted from those before it, in nats."""
    scores = logits(tokens[:-1], model, p)
    scores = scores - scores.max(-1, keepdims=True)
    predicted = scores[np.arange(len(scores)), tokens[1:]]
    return (np.log(np.exp(scores).sum(-1)) - predicted).sum()
