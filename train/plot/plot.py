"""Draws one picture: a JSON object on stdin becomes an SVG or PNG on stdout.

The script is part of the program heed, which computes all numbers (train/plot/plot_document.hpp says what the object
holds) and runs it as `python3 -c SCRIPT svg`. A new picture is one more function in FIGURES: it takes the object, whose
"figure" is its name, and returns a matplotlib Figure. Exit code 3: there is no matplotlib.
"""

import sys

# Python puts the current folder first, where a user's random.py or json.py would be imported.
sys.path = [folder for folder in sys.path if folder]

import io
import json
import math
import os
import re

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start a thread for each processor
try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    sys.exit(3)

# The colours of Okabe and Ito, which colour-blind readers can tell apart, without the yellow. More curves than colours
# are dashed, then dotted.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":")
GREY = "#666666"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "heed",  # the same names of elements each time
}

# Inches. Text of 8.5 points is about this wide per character.
WIDTH, PANEL, CHARACTER = 10.0, 2.3, 0.068


def smaller(svg):
    """The coordinates of an SVG rounded to a tenth of a point, which saves a quarter of the bytes."""
    one_decimal = lambda number: b"%.1f" % float(number.group())
    rounded = lambda attribute: re.sub(rb"\d+\.\d{2,}", one_decimal, attribute.group())
    return re.sub(rb'(?<= )(?:[dxy]|transform)="(?!scale)[^"]*"', rounded, svg).replace(b" \n", b"\n")


def shown(text, longest):
    """Without its middle if it is too long; matplotlib takes a plain $ for the start of a formula."""
    if len(text) > longest:
        text = text[: longest // 2] + "…" + text[len(text) - (longest - longest // 2 - 1) :]
    return text.replace("$", r"\$")


def short(value, _=None):
    """1500 -> 1.5k"""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1e12:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


class Page:
    """Two rows of two panels, a title above them and a legend of the groups below."""

    def __init__(self, document, names, first_row=PANEL, gap=0.65, right=0.25):
        """names: for the legend; first_row: height of the upper panels; gap, right: room between the columns."""
        self.groups = document["groups"]
        names = [shown(name, 120) for name in names]
        columns = max(1, int((WIDTH - 0.8) / (CHARACTER * max(map(len, names), default=1) + 0.5)))
        legend = 0.165 * math.ceil(len(names) / columns) + (0.1 if names else 0)
        subtitles = [shown(line, 137) for line in document["subtitles"]]
        self.height = 0.7 + 0.2 * len(subtitles) + first_row + 0.75 + PANEL + 0.5 + legend
        self.figure = Figure(figsize=(WIDTH, self.height))
        left, middle = 0.65, WIDTH / 2 + gap
        lower, upper = 0.5 + legend, 0.5 + legend + PANEL + 0.75
        left_width, right_width = WIDTH / 2 - left - right, WIDTH - middle - 0.25
        self.panels = [
            self.add_panel(left, upper, left_width, first_row),
            self.add_panel(middle, upper, right_width, first_row),
            self.add_panel(left, lower, left_width, PANEL),
            self.add_panel(middle, lower, right_width, PANEL),
        ]
        self.add_text(self.height - 0.3, shown(document["title"], 90), fontsize=12, fontweight="bold")
        for i, line in enumerate(subtitles):
            self.add_text(self.height - 0.52 - 0.2 * i, line, color=GREY)
        if names:
            # A label that begins with an underscore would be left out.
            labels = [" " + name if name.startswith("_") else name for name in names]
            handles = [Line2D([], [], **self.style(i), linewidth=2) for i in range(len(names))]
            self.figure.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.055, 0.0), ncol=columns,
                               borderaxespad=0.3, handlelength=1.8, columnspacing=1.5, labelspacing=0.3)  # fmt: skip

    def add_panel(self, left, bottom, width, height):
        return self.figure.add_axes((left / WIDTH, bottom / self.height, width / WIDTH, height / self.height))

    def add_text(self, y, text, **style):
        self.figure.text(0.65 / WIDTH, y / self.height, text, **style)

    def style(self, index):
        return {
            "color": COLORS[index % len(COLORS)],
            "linestyle": DASHES[index // len(COLORS) % len(DASHES)],
        }

    def draw(self, axes, key, index, **style):
        """Draws the curve of a group. Its SVG element has the key and the index as its id."""
        curve = self.groups[index][key]
        look = {"linewidth": 1.3, **self.style(index), **style}
        if len(curve["steps"]) == 1:  # a line would not be seen
            look["marker"] = "o"
        if len(curve["steps"]) > 100:  # each marker is an element of the file
            look["marker"] = None
        axes.plot(curve["steps"], curve["values"], gid=f"{key}-{index}", **{"markersize": 3, **look})

    def draw_band(self, axes, key, index):
        """Mean ± standard deviation."""
        curve = self.groups[index][key]
        if any(curve["sd"]):
            low = [mean - sd for mean, sd in zip(curve["values"], curve["sd"])]
            high = [mean + sd for mean, sd in zip(curve["values"], curve["sd"])]
            color = self.style(index)["color"]
            axes.fill_between(curve["steps"], low, high, color=color, alpha=0.18, linewidth=0, gid=f"{key}-band-{index}")

    def over_steps(self, axes, title):
        axes.set_title(title)
        axes.set_xlabel("step", labelpad=1)
        last = max((curve["steps"][-1] for group in self.groups for curve in curves_of(group)), default=1)
        axes.set_xlim(0, max(1, last) * 1.02)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(short))


def curves_of(group):
    return [curve for curve in group.values() if isinstance(curve, dict) and curve.get("steps")]


def use_short_numbers(axes):
    axes.set_ylim(0, 1.05 * axes.dataLim.y1 if axes.dataLim.y1 > 0 else 1)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(short))


def use_log_scale(axes, curves):
    """A logarithmic y-axis with at least one label, however near the values are to each other."""
    values = [value for curve in curves for value in curve["values"] if value > 0]
    if not values:
        return
    middle = math.sqrt(min(values)) * math.sqrt(max(values))
    low, high = min(min(values) / 1.1, middle / 1.8), max(max(values) * 1.1, middle * 1.8)
    axes.set_yscale("log", nonpositive="mask")
    axes.set_ylim(low, high)
    decades = math.log10(high) - math.log10(low)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,), numticks=8))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(short))


def limit_loss(axes, curves, entropies):
    """A loss that explodes leaves the panel at its top, and the title says how far, so that the other curves can be read."""
    curves, floors = [curve["values"] for curve in curves if curve["values"]], [one["nats"] for one in entropies]
    if not curves:
        return
    lowest, highest = min(min(curve) for curve in [*curves, floors or curves[0]]), max(map(max, curves))
    highest = max([highest, *floors])
    usual_start = sorted(curve[0] for curve in curves)[len(curves) // 2]
    top = min(highest, 1.3 * max([usual_start, *floors]))
    room = 0.05 * (top - lowest) or 0.05
    axes.set_ylim(lowest - room, top + room)
    if top < highest:
        axes.set_title(f"{axes.get_title(loc='left')}, max {highest:.3g}")


def entropy_labels(document):
    return [f"{one['name']} {one['nats']:.4f}" for one in document["entropies"]]


def room_for_entropies(document):
    return min(2.0, 0.25 + CHARACTER * max(map(len, entropy_labels(document)), default=0))


def draw_entropies(axes, document, height):
    """The entropies of the dataset as lines, with labels at the right that are moved apart where they would overlap."""
    low, high = axes.get_ylim()
    places, distance = [], 0.15 / height
    for one, label in sorted(zip(document["entropies"], entropy_labels(document)), key=lambda pair: pair[0]["nats"]):
        axes.axhline(one["nats"], color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        place = (one["nats"] - low) / (high - low)
        places.append([place, max([place] + [before[1] + distance for before in places[-1:]]), label])
    excess = places[-1][1] - 1 if places else 0
    for place, moved, label in places:
        moved -= max(0, min(excess, moved - place))  # not above the panel
        axes.plot([1, 1.03], [place, moved], color=GREY, linewidth=0.6, transform=axes.transAxes, clip_on=False)
        axes.text(1.04, moved, shown(label, 28), transform=axes.transAxes, va="center", color=GREY)


def draw_runs(document):
    """Loss, learning rate, gradient norm and speed of one run, or of several in one colour each."""
    names = [group["name"] for group in document["groups"]]
    page = Page(document, names if len(names) > 1 else [], right=room_for_entropies(document))
    loss, rate, norm, speed = page.panels
    alone = len(page.groups) == 1
    for i in range(len(page.groups)):
        if alone:
            page.draw(loss, "train_loss", i, linewidth=0.6, alpha=0.4)
            page.draw(norm, "grad_norm", i, linewidth=0.6, alpha=0.4)
        page.draw(loss, "train_loss_smoothed", i)
        page.draw(loss, "val_loss", i, marker="o", linewidth=0.8, **({"color": COLORS[1]} if alone else {}))
        page.draw(rate, "learning_rate", i)
        page.draw(norm, "grad_norm_smoothed", i)
        page.draw(speed, "tokens_per_s", i)
    page.over_steps(loss, "Loss (nats)" if alone else "Loss (nats): train; dots: validation")
    page.over_steps(rate, "Learning rate")
    page.over_steps(norm, "Gradient norm" if alone else "Gradient norm, smoothed")
    page.over_steps(speed, "Tokens/s, mean since the start")
    losses = [group[key] for group in page.groups for key in ("train_loss", "train_loss_smoothed", "val_loss") if key in group]
    limit_loss(loss, losses, document["entropies"])
    draw_entropies(loss, document, PANEL)
    if alone:
        lines = {"train": loss.lines[1], "validation": loss.lines[2]}
        lines = {name: line for name, line in lines.items() if len(line.get_xdata()) > 0}
        above = (0.5 - 0.15 / WIDTH, loss.get_position().y1)
        page.figure.legend(lines.values(), lines.keys(), loc="lower right", bbox_to_anchor=above, ncol=2,
                           borderaxespad=0.2, handlelength=1.5, columnspacing=1)  # fmt: skip
    rate.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    rate.set_ylim(bottom=0)
    use_log_scale(norm, [group[key] for group in page.groups for key in ("grad_norm", "grad_norm_smoothed") if key in group])
    use_short_numbers(speed)
    return page.figure


def draw_finals(page, axes, document, ticks):
    """The final loss of each run as a dot, and of each arm mean ± standard deviation; the first arm on top."""
    for i, group in enumerate(page.groups):
        final, color = group["final"], page.style(i)["color"]
        if not final["values"]:
            continue
        axes.plot(final["values"], [i] * len(final["values"]), "o", color=color, markersize=4, alpha=0.45,
                  markeredgewidth=0, gid=f"final-{i}")  # fmt: skip
        axes.errorbar(final["mean"], i, xerr=final["sd"] or None, fmt="D", color=color, markersize=4.5, capsize=3,
                      elinewidth=1.2, markeredgecolor="white", markeredgewidth=0.6)  # fmt: skip
    what = "excess" if document["quantity"] == "excess" else "val loss"
    axes.set_title(f"Final {what} (nats), mean ± sd")
    axes.set_ylim(len(page.groups) - 0.5, -0.5)
    axes.yaxis.set_major_locator(FixedLocator(range(len(page.groups))))
    axes.set_yticklabels(ticks)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if not any(group["final"]["values"] for group in page.groups):
        axes.text(0.5, 0.5, "no run is complete", transform=axes.transAxes, ha="center", color=GREY)
        axes.xaxis.set_major_locator(NullLocator())


def draw_sweep(document):
    """The arms of a sweep: loss over steps, final losses, gradient norm and speed."""
    ticks = names = [group["name"] for group in document["groups"]]
    if max(map(len, names)) > 24:  # too long next to an axis: numbers, which the legend explains
        ticks = [str(i + 1) for i in range(len(names))]
        names = [f"{tick}  {name}" for tick, name in zip(ticks, names)]
    rows = max(PANEL, 0.19 * len(names))
    gap = max(0.65, 0.3 + CHARACTER * max(map(len, ticks)))
    page = Page(document, names, first_row=rows, gap=gap, right=room_for_entropies(document))
    loss, final, norm, speed = page.panels
    has_validation = any(group["val_loss"]["steps"] for group in page.groups)
    key = "val_loss" if has_validation else "train_loss_smoothed"
    for i in range(len(page.groups)):
        page.draw_band(loss, key, i)
        page.draw(loss, key, i, marker="o" if has_validation else None)
        page.draw(norm, "grad_norm_smoothed", i)
        page.draw(speed, "tokens_per_s", i)
    page.over_steps(loss, f"{'Validation' if has_validation else 'Training'} loss (nats): mean ± sd")
    page.over_steps(norm, "Gradient norm, smoothed, mean over seeds")
    page.over_steps(speed, "Tokens/s, mean since the start")
    limit_loss(loss, [group[key] for group in page.groups], document["entropies"])
    draw_entropies(loss, document, rows)
    draw_finals(page, final, document, [shown(tick, 24) for tick in ticks])
    use_log_scale(norm, [group["grad_norm_smoothed"] for group in page.groups])
    use_short_numbers(speed)
    return page.figure


def draw_heads(document):
    """A heat map of the attention pattern of each head: a row for each layer, the queries down, the keys across."""
    layers, tokens = document["layers"], [shown(token, 8) for token in document["tokens"]]
    rows, columns = len(layers), max(map(len, layers))
    panel = max(1.15, min(2.6, (WIDTH - 1.6) / columns - 0.2))
    ticks = 0.2 + CHARACTER * 0.75 * max(map(len, tokens))
    width, height = ticks + columns * (panel + 0.2) + 0.8, 0.75 + rows * (panel + 0.3) + ticks
    figure = Figure(figsize=(max(width, 6), height))
    width = figure.get_figwidth()
    figure.text(0.1 / width, 1 - 0.3 / height, shown(document["title"], int(width * 9)), fontsize=12, fontweight="bold")
    figure.text(0.1 / width, 1 - 0.52 / height, shown(document["subtitle"], int(width * 14)), color=GREY)
    step = math.ceil(len(tokens) * 0.11 / panel)  # a tick label needs 0.11 inches
    image = None
    for row, heads in enumerate(layers):
        for column, head in enumerate(heads):
            left, bottom = ticks + column * (panel + 0.2), ticks + (rows - 1 - row) * (panel + 0.3)
            axes = figure.add_axes((left / width, bottom / height, panel / width, panel / height))
            image = axes.imshow(head["pattern"], cmap="Blues", vmin=0, vmax=1, interpolation="nearest", gid=f"head-{row}-{column}")
            axes.grid(False)
            axes.set_title(shown(f"{row}.{column} {head['name']}", int(panel / CHARACTER)), fontsize=8, pad=3)
            places = range(0, len(tokens), step)
            axes.xaxis.set_major_locator(FixedLocator(places))
            axes.yaxis.set_major_locator(FixedLocator(places))
            axes.tick_params(length=0, labelsize=6, pad=1.5)
            axes.set_xticklabels([tokens[i] for i in places] if row == rows - 1 else [], rotation=90, family="DejaVu Sans Mono")
            axes.set_yticklabels([tokens[i] for i in places] if column == 0 else [], family="DejaVu Sans Mono")
    bar = figure.add_axes((1 - 0.6 / width, ticks / height, 0.1 / width, min(panel, 1.5) / height))
    figure.colorbar(image, cax=bar, ticks=(0, 0.5, 1)).ax.tick_params(labelsize=7, length=2)
    return figure


FIGURES = {"runs": draw_runs, "sweep": draw_sweep, "heads": draw_heads}


def main():
    picture_format = sys.argv[1]
    document = json.load(sys.stdin.buffer)
    matplotlib.rcdefaults()  # a matplotlibrc of the user would give another picture
    matplotlib.rcParams.update(STYLE)
    # The names by which heed recognises its own pictures. Without a date, the same data gives the same bytes.
    metadata = {"svg": {"Creator": "heed", "Date": None}, "png": {"Software": "heed"}}[picture_format]
    picture = io.BytesIO()
    FIGURES[document["figure"]](document).savefig(picture, format=picture_format, metadata=metadata)
    sys.stdout.buffer.write(smaller(picture.getvalue()) if picture_format == "svg" else picture.getvalue())


main()
