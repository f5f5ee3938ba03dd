"""The plots that bench_quality and bench_forms draw: the loss of every mode, and how far each is from its kind's mode of the most bytes;
how far a base in each form is from the one in bfloat16."""
import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend comes first)

COLORS = {"adamw": "#1f5f99", "lion": "#c2571a", "adafactor": "#2e7d4f"}
STYLES = ("-", "--", ":", "-.")
TITLES = {"scratch": "from scratch, first seed", "branch": "branches at step {}, mean of all seeds"}
WINDOW = 15


def smooth(values):
    """Mean over the window, shorter at both ends."""
    kernel = np.ones(WINDOW)
    return np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")


def draw_curves(losses_axes, percent_axes, curves, begin):
    references, drawn = {}, {}
    for name, losses in curves.items():
        kind, smoothed, step = name.split()[0], smooth(losses), np.arange(1, len(losses) + 1)
        reference = references.setdefault(kind, smoothed)
        style = {"color": COLORS[kind], "linestyle": STYLES[drawn.get(kind, 0)], "linewidth": 1.2}
        drawn[kind] = drawn.get(kind, 0) + 1
        losses_axes.plot(step, smoothed, label=name, **style)
        percent_axes.plot(step[begin:], (100 * (smoothed / reference - 1))[begin:], **style)


def draw(parts, branch_step, path):
    """`parts`: {"scratch" or "branch": {mode: losses}}; of each kind the mode of the most bytes comes first."""
    figure, grid = pyplot.subplots(2, len(parts), figsize=(6.5 * len(parts), 7), dpi=80, squeeze=False, sharex=True,
                                   constrained_layout=True)
    for (losses_axes, percent_axes), (part, curves) in zip(grid.T, parts.items()):
        draw_curves(losses_axes, percent_axes, curves, branch_step if part == "branch" else 0)
        losses_axes.set_title(TITLES[part].format(branch_step) + f", mean over {WINDOW} steps", loc="left", fontsize=10)
        losses_axes.set_ylabel("loss")
        percent_axes.set_ylabel("% over the kind's float32")
        percent_axes.set_xlabel("step")
        for axes in (losses_axes, percent_axes):
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
    grid[0, 0].legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)


def draw_forms(forms, path):
    """`forms`: {form: (percent of the base alone by seed, percent with adapters by seed)}."""
    figure, axes = pyplot.subplots(figsize=(6.5, 4), dpi=80, constrained_layout=True)
    for part, (label, color, offset) in enumerate([("the base alone", "#8a8a8a", -0.12), ("with adapters", "#1f5f99", 0.12)]):
        for place, values in enumerate(forms.values()):
            axes.plot([place + offset] * len(values[part]), values[part], "o", color=color, markersize=5, label=label if place == 0 else None)
            axes.plot([place + offset - 0.08, place + offset + 0.08], [np.mean(values[part])] * 2, color=color, linewidth=2)
    axes.set_xticks(range(len(forms)), list(forms))
    axes.set_ylabel("held-out loss, % over bfloat16")
    axes.set_title("One point a seed, bars their means", loc="left", fontsize=10)
    axes.grid(alpha=0.25, axis="y")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
