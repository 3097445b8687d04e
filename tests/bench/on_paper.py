"""A roofline estimate of a training step on one H200: bytes and FLOPs of each operation, and the time that it should take
at published rates. heed has not run on a GPU yet; compare this table with what check.sh measures on one.

    on_paper.py >tests/bench/results/DATE-h200-on-paper.md

The printed text names the source of each rate. The CUDA emulation counted the launches, in a step of a model with two
layers; a GEMM counts as one launch.
"""

import dataclasses
import math

COPY, MEMORY_SHARE = 4.3e12, 0.85  # bytes read and written per second; the share of it that a memory-bound kernel reaches
PEAK = 790e12  # FLOP/s of a bf16 GEMM of 8192^3
GEMM_RATE, GEMM_START = 810e12, 6e-6
CHUNK = 60e6  # bytes, of linear_cross_entropy
LAUNCH = 1.2e-6
# Causal attention with heads of 64, TFLOP/s by T: forward, and backward of five products.
FORWARD = {256: 130, 512: 180, 1024: 229, 2048: 262, 4096: 284, 8192: 295}
BACKWARD = {256: 105, 512: 140, 1024: 180, 2048: 215, 4096: 248, 8192: 260}
DROPOUT = {"attention": 1.7, "attention backward": 1.5}  # instructions with random bits / without


@dataclasses.dataclass
class Row:
    name: str
    calls: int
    launches: int  # of one call
    bytes: float
    flops: float = 0
    seconds: float = 0  # of one call; 0: bound by memory, or a GEMM

    def bound(self):
        return max(self.bytes / COPY, self.flops / PEAK)

    def expected(self):
        moved = self.bytes / (COPY * MEMORY_SHARE)
        if self.seconds:
            return max(moved, self.seconds) + LAUNCH * self.launches
        if self.flops:
            return max(moved, self.flops / PEAK, GEMM_START + self.flops / GEMM_RATE) + LAUNCH * (self.launches - 1)
        return moved + LAUNCH * self.launches


@dataclasses.dataclass
class Shape:
    title: str
    rows: int  # tokens of a step
    length: int
    layers: int
    width: int
    heads: int
    vocabulary: int
    biases: bool
    dropout: bool

    def parameters(self):
        c = self.width
        block = 12 * c * c + 2 * c + (11 * c if self.biases else 0)
        return self.vocabulary * c + self.length * c + self.layers * block + c * (1 + self.biases)


def linear(s, name, calls, inputs, outputs):
    """Forward, dx, dweight, dbias. Weights and activations in bf16; gradients of weights f32, written."""
    x, y, w = 2.0 * s.rows * inputs, 2.0 * s.rows * outputs, 2.0 * inputs * outputs
    flops = 2.0 * s.rows * inputs * outputs
    more = y if "gelu" in name else 0  # what goes into gelu is kept
    forward = [Row(f"linear {name}", calls, 1, x + w + y + more, flops)]
    backward = [Row("gelu backward", calls, 1, 3 * y)] if more else []
    backward += [Row(f"linear {name} backward: dx", calls, 1, x + w + y, flops),
                 Row(f"linear {name} backward: dweight", calls, 1, x + y + 2 * w, flops)]  # fmt: skip
    if s.biases:
        backward.append(Row(f"linear {name} backward: dbias", calls, 2, y))
    return forward, backward


def head_and_loss(s):
    """linear_cross_entropy with its backward: chunks of rows, whose logits take at most CHUNK bytes."""
    columns = 8 * math.ceil(s.vocabulary / 8)  # each row of logits is padded to a multiple of 16 bytes
    rows = min(s.rows, 2 ** int(math.log2(CHUNK / (2 * columns))))
    chunks = math.ceil(s.rows / rows)
    x, w, logits = 2.0 * rows * s.width, 2.0 * s.width * s.vocabulary, 2.0 * rows * columns
    flops = 2.0 * rows * s.width * s.vocabulary
    added = 2 if chunks > 1 else 1  # the gradient of the weight, f32, is read by all chunks but the first
    return [Row("head: linear", chunks, 1, x + w + logits, flops),
            Row("head: cross_entropy", chunks, 1, logits),
            Row("head: cross_entropy backward", chunks, 1, 2 * logits),
            Row("head: dx", chunks, 1, x + w + logits, flops),
            Row("head: dweight", chunks, 1, x + logits + added * 2 * w, flops),
            Row("head: weight and sum of the losses", 1, 2, 12.0 * s.rows)]  # fmt: skip


def attention(s):
    flops = 2.0 * s.rows * s.length * s.width  # two products of half a square
    tensor = 2.0 * s.rows * s.width
    slow = DROPOUT if s.dropout else {}
    rates = {"attention": (4 * tensor, flops, FORWARD, 1), "attention backward": (8 * tensor, 2.5 * flops, BACKWARD, 3)}
    return [Row(name, s.layers, launches, moved, work, work / (table[s.length] * 1e12) * slow.get(name, 1))
            for name, (moved, work, table, launches) in rates.items()]  # fmt: skip


def rows_of(s):
    c, n = s.width, s.layers
    tensor, parameters = 2.0 * s.rows * c, float(s.parameters())
    parts = [linear(s, "qkv", n, c, 3 * c), linear(s, "projection", n, c, c), linear(s, "up with gelu", n, c, 4 * c),
             linear(s, "down", n, 4 * c, c)]  # fmt: skip
    forward, backward = attention(s)
    add = Row("dropout_add" if s.dropout else "add", 2 * n, 1, 3 * tensor)
    yield Row("embedding", 1, 1, 2 * tensor)
    yield Row("add_positions", 1, 1, 2 * tensor)
    yield Row("layer_norm", 2 * n + 1, 1, 2 * tensor)
    for part, _ in parts:
        yield from part
    yield forward
    yield add
    yield from head_and_loss(s)
    for _, part in reversed(parts):
        yield from part
    yield backward
    if s.dropout:
        yield Row("dropout_add backward", 2 * n, 1, 2 * tensor)
        yield Row("dropout, forward and backward", 2, 1, 2 * tensor)
    yield Row("layer_norm backward", 2 * n + 1, 2, 4 * tensor)
    yield Row("add_positions backward", 1, 1, tensor)
    # 20 us: the sums of runs of equal tokens have four levels, one after the other, which read rows one by one.
    yield Row("embedding backward", 1, 6, tensor + 8.0 * min(s.rows, s.vocabulary) * c, seconds=20e-6)
    yield Row("gradient norm", 1, 6, 4 * parameters)
    yield Row("AdamW, with bf16 copies", 1, 2, 30 * parameters)


def table(s):
    rows = list(rows_of(s))
    print(f"\n## {s.title}\n")
    print("| operation | calls | launches | MB each | GFLOP each | bound µs each | expected µs each | expected ms | measured ms |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for r in rows:
        flops = f"{r.flops / 1e9:.1f}" if r.flops else ""
        print(f"| {r.name} | {r.calls} | {r.calls * r.launches} | {r.bytes / 1e6:.1f} | {flops} | {r.bound() * 1e6:.1f} "
              f"| {r.expected() * 1e6:.1f} | {r.calls * r.expected() * 1e3:.2f} | |")  # fmt: skip
    bound, expected = (sum(r.calls * each(r) for r in rows) for each in (Row.bound, Row.expected))
    flops = sum(r.calls * r.flops for r in rows)
    print(f"| **sum** | | {sum(r.calls * r.launches for r in rows)} | | {flops / 1e9:.0f} in all | {bound * 1e3:.2f} ms | "
          f"| **{expected * 1e3:.2f}** | |\n")  # fmt: skip
    parts = {"GEMMs": lambda r: r.flops and not r.seconds, "attention": lambda r: r.flops and r.seconds}
    shares = {name: sum(r.calls * r.expected() for r in rows if test(r)) for name, test in parts.items()}
    print(f"GEMMs {shares['GEMMs'] * 1e3:.1f} ms, attention {shares['attention'] * 1e3:.1f} ms, the rest "
          f"{(expected - sum(shares.values())) * 1e3:.1f} ms. {s.rows / bound:,.0f} tokens/s at the bound, "
          f"{s.rows / expected:,.0f} as expected.")  # fmt: skip


TEXT = """# One H200, on paper: nothing here was measured

`tests/bench/on_paper.py` prints this roofline estimate of a bf16 training step on one NVIDIA H200. *Bound* is the least time:
the larger of bytes / 4.3 TB/s and FLOPs / 790 TFLOP/s, two rates that were measured on an H200. *Expected* is the time if
heed's kernels are as fast as published ones. `tests/gpu/check.sh` measures the GPU time of each operation. **If an operation
takes more than 1.3 times the expected time, this table is wrong or the kernel is slower than its peers**; look there first.

| rate | source |
|---|---|
| memory-bound kernels: 85 % of a copy | QuACK's softmax, RMSNorm and cross-entropy reach 3.0 of 3.35 TB/s on an H100 (90 %), compiled PyTorch 57 to 60 % |
| a GEMM takes 6 µs + FLOPs / 810 TFLOP/s | fitted to XLA's table of bf16 GEMMs on sm_90: 4096³ 783 TFLOP/s, 2048³ 632, 4096 x 512 x 512 239, 1024 x 256 x 1024 68, 512 x 256 x 256 11. It gives 781, 633, 249, 81 and 11. No entry has K = 384: those rows may take longer, since a tile has six steps along K only |
| causal attention, heads of 64: 229 TFLOP/s forward and 180 backward at T 1024, 284 and 248 at 4096 | FlashAttention-2 on an H100: forward from the figure of the FlashAttention-3 paper, backward from its own chart of both (192 and 257 TFLOP/s). For other lengths, forward is published from 512 on; the other rates are interpolated, those at 256 extrapolated. heed's kernels use the same instruction (mma.sync) |
| attention with dropout: 1.7 and 1.5 times as long | not published: counted instructions for the random bits in heed's machine code |
| 1.2 µs for a launch in a graph, on top of the work | an assumption: 1.0 to 1.3 µs |

Bytes: each input is read once and each result written once, even if the L2 cache (60 MB) still holds it. Activations are
bf16. The backward of LayerNorm also reads the gradient of the residual, which it adds to dx. Gradients of weights are f32;
the first contribution overwrites them, the later chunks of the head add to it. AdamW reads 16 bytes per parameter and
writes 14, of which 2 are the bf16 copy.
"""

SHAPES = [
    Shape("GPT-2 124M: batch 16, T 1024, vocabulary 50304", 16384, 1024, 12, 768, 12, 50304, True, False),
    Shape("Baby GPT: batch 64, T 256, vocabulary 65, dropout 0.2, no biases", 16384, 256, 6, 384, 6, 65, False, True),
]


def attention_alone():
    print("\n## Attention alone, bf16, causal, 16384 tokens, 12 heads of 64\n")
    print("| batch x T | GFLOP forward | expected µs | GFLOP backward | expected µs | measured µs, both |")
    print("|---|--:|--:|--:|--:|--:|")
    for length in FORWARD:
        s = dataclasses.replace(SHAPES[0], length=length, layers=1)
        forward, backward = attention(s)
        print(f"| {16384 // length} x {length} | {forward.flops / 1e9:.1f} | {forward.expected() * 1e6:.0f} "
              f"| {backward.flops / 1e9:.1f} | {backward.expected() * 1e6:.0f} | |")  # fmt: skip
    print("\n`heed bench` counts the backward as four products, so that its GFLOP/s are comparable"
          "\nwith `tests/bench/compare_torch.py`; papers and this table count five.")  # fmt: skip


if __name__ == "__main__":
    print(TEXT, end="")
    for shape in SHAPES:
        table(shape)
    attention_alone()
