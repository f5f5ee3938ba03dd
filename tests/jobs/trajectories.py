"""How far two trainings on the same tokens may part.

Equal weights have one loss and one norm of their gradients, but for the rounding of sums. Behind the first update the roundings of one
processor, or of one number of ranks, grow at a pace that nobody can name beforehand, so later losses are held to what the training that
is compared with shows of itself: four times what it differs by on another number of ranks, and at least a fiftieth of what its loss falls
by. Where experts are chosen, that holds up to the first token that went to another one: the two compute something else from there on.
"""
import dataclasses

import h5py
import numpy
from program import COMPARE_REFERENCE

TIMES_ITSELF = 4
SHARE_OF_FALL = COMPARE_REFERENCE.SHARE_OF_FALL
# Of the loss and of the norm of equal weights, relative.
LOSS = {"float32": 2e-6, "bfloat16": COMPARE_REFERENCE.LOSS_BFLOAT16}
NORM = {"float32": COMPARE_REFERENCE.GRAD_NORM, "bfloat16": COMPARE_REFERENCE.NORM_BFLOAT16}


@dataclasses.dataclass
class Trajectory:
    """Step by step; `expert_tokens` [steps, layers, experts] is None of a model without experts."""

    losses: numpy.ndarray
    norms: numpy.ndarray
    expert_tokens: numpy.ndarray | None

    @classmethod
    def of_run(cls, output):
        with h5py.File(output / "metrics.h5") as metrics:
            rows = int(metrics.attrs["rows"])
            tokens = metrics["moe/expert_tokens"][:rows] if "moe/expert_tokens" in metrics else None
            return cls(metrics["train/loss"][:rows], metrics["train/grad_norm"][:rows], tokens)

    def steps_with_choices_of(self, other):
        """How many steps begin both, in each of which as many tokens went to each expert."""
        steps = min(len(self.losses), len(other.losses))
        if self.expert_tokens is None:
            return steps
        differs = (self.expert_tokens[:steps] != other.expert_tokens[:steps]).reshape(steps, -1).any(1)
        return int(differs.argmax()) if differs.any() else steps


def least_allowed(losses):
    """What a later loss may differ by from one of these, whatever they differ by themselves."""
    return SHARE_OF_FALL * (max(losses) - min(losses))


def expect_equal_weights(test, found, expected, dtype="float32"):
    """The first loss and the first norm of both."""
    for name, tolerance in (("losses", LOSS[dtype]), ("norms", NORM[dtype])):
        first, other = float(getattr(found, name)[0]), float(getattr(expected, name)[0])
        test.assertLessEqual(abs(first - other), tolerance * other, f"{name}: found {first}, expected {other}")


def expect_follows(test, found, expected, again=None, dtype="float32"):
    """`found` begins with the numbers of `expected` in `dtype`, and goes on near to them. `again` gives the Trajectory of `expected` on
    another number of ranks; it is asked only where a fiftieth of the fall does not do."""
    test.assertEqual(len(found.losses), len(expected.losses))
    expect_equal_weights(test, found, expected, dtype)
    steps = found.steps_with_choices_of(expected)
    apart = abs(found.losses - expected.losses)[:steps].max(initial=0)
    allowed = least_allowed(expected.losses)
    if apart > allowed and again:
        itself = again()
        same = min(steps, itself.steps_with_choices_of(expected))
        allowed = max(allowed, TIMES_ITSELF * abs(itself.losses - expected.losses)[:same].max(initial=0))
    test.assertLessEqual(apart, allowed, f"of {steps} steps with equal choices:\n{found.losses}\n{expected.losses}")
