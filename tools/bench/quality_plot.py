"""The plot that bench_quality draws: the loss of every mode, and how far each is from its kind's mode of the most bytes."""
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
