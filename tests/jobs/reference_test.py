"""Logits, loss, every gradient and a training run of a fixture are transformers', at every rank count.

    reference_test.py FIXTURE [Reference | BFloat16 | Variants | Released | Modes | Experts | LoadBalancing]...
"""
import functools
import sys
import unittest

import h5py
import program
from program import JobTest, reference_job
from suite import run_job
from trajectories import Trajectory, expect_follows

FIXTURE = "qwen3-moe-tiny"


def has_router(fixture):
    with h5py.File(program.FIXTURES / fixture / "reference.h5") as reference:
        return any(name.endswith(("mlp.gate.weight", "mlp.router.weight")) for name in reference["grad"])


class ReferenceTest(JobTest):
    def train(self, ranks, **changes):
        job = self.write_job(**reference_job(FIXTURE, **changes))
        self.expect(run_job(ranks, job), 0)
        return self.output_of(job)

    def compare(self, output, bfloat16=False):
        self.expect_reference(output, program.FIXTURES / FIXTURE, bfloat16)


class Reference(ReferenceTest):
    def test_one_rank(self):
        self.compare(self.train(1))

    def test_two_ranks(self):
        self.compare(self.train(2))

    def test_three_ranks(self):
        self.compare(self.train(3))


class MicroBatches(ReferenceTest):
    def test_micro_batches_of_several_sequences_without_recompute(self):
        self.compare(self.train(2, train={"micro_batch_sequences": 2, "recompute": "none"}))


class BFloat16(ReferenceTest):
    def test_bfloat16_follows_at_three_ranks(self):
        """A step alone where experts are chosen: behind it roundings choose other ones."""
        self.compare(self.train(3, model={"dtype": "bfloat16"}, train={"steps": 1 if has_router(FIXTURE) else 8}), bfloat16=True)


class Variants(MicroBatches, BFloat16):
    """Other ways to the same numbers."""

    def test_a_rank_without_sequences(self):
        whole = self.train(1, train={"batch_sequences": 2, "steps": 2})
        self.directory = self.directory / "three"
        self.directory.mkdir()
        shared = self.train(3, train={"batch_sequences": 2, "steps": 2})
        self.assert_same_losses(whole, shared)

    def assert_same_losses(self, first, second):
        losses = []
        for output in (first, second):
            with h5py.File(output / "metrics.h5") as metrics:
                losses.append(metrics["train/loss"][:])
        self.assertLess(abs(losses[0] - losses[1]).max(), 2e-5)


class Released(ReferenceTest):
    """Gradients that are used as soon as they are there."""

    def test_experts_one_by_one_at_three_ranks(self):
        self.compare(self.train(3, optimizer={"gradients": "release"}))

    def test_a_layer_at_a_time_where_experts_are_gathered(self):
        self.compare(self.train(2, optimizer={"gradients": "release"}, parallel={"expert_parallel": 1}))


class Modes(ReferenceTest):
    """Optimizer state, master weights and gradients in fewer bytes."""

    def trajectory(self, name, ranks=3, **optimizer):
        directory = self.directory
        self.directory = directory / name
        self.directory.mkdir()
        output = self.train(ranks, model={"dtype": "bfloat16"}, optimizer=optimizer)
        self.directory = directory
        return Trajectory.of_run(output)

    def expect_near_float32(self, kind, exact, modes, **settings):
        """Each of `modes` is (state, master, gradients). What a format keeps of given gradients is held by ops/buffers/kept_bits_test.cpp."""
        expected = self.trajectory(kind, kind=kind, state=exact, **settings)
        again = functools.cache(lambda: self.trajectory(f"{kind}-again", 2, kind=kind, state=exact, **settings))
        for state, master, gradients in modes:
            with self.subTest(kind=kind, state=state, master=master):
                found = self.trajectory(f"{kind}-{state}-{master}", kind=kind, state=state, master=master, gradients=gradients, **settings)
                expect_follows(self, found, expected, again)

    def test_adamw(self):
        self.expect_near_float32("adamw", "float32", [("bfloat16", "float32", "bfloat16"), ("int8", "24bit", "release"), ("int8", "none", "release")])

    def test_lion_whose_steps_are_signs(self):
        self.expect_near_float32("lion", "float32", [("bfloat16", "float32", "bfloat16"), ("int8", "24bit", "release"), ("int8", "none", "release")],
                                 learning_rate=1e-3)

    def test_adafactor(self):
        # At a rate whose updates are larger than what bfloat16 rounds away.
        self.expect_near_float32("adafactor", "factored", [("factored", "24bit", "release"), ("factored", "none", "release")], learning_rate=1e-2)


class Experts(ReferenceTest):
    """Tokens travel to the experts by default; there are other ways."""

    def test_gathered_at_three_ranks(self):
        self.compare(self.train(3, parallel={"expert_parallel": 1}))

    def test_two_groups_of_two_ranks(self):
        self.compare(self.train(4, parallel={"expert_parallel": 2}))


class LoadBalancing(Reference, MicroBatches):
    """The same with the load-balancing loss in what is optimised."""

    def train(self, ranks, **changes):
        train = {"aux_loss_coefficient": 0.01} | changes.pop("train", {})
        return super().train(ranks, train=train, **changes)


if __name__ == "__main__":
    FIXTURE, *names = sys.argv[1:]
    with h5py.File(program.FIXTURES / FIXTURE / "reference.h5") as reference:
        suites = [Reference, BFloat16, Variants, Released, Modes] + [Experts] * has_router(FIXTURE) + [LoadBalancing] * ("train_aux" in reference)
    if unknown := set(names) - {suite.__name__ for suite in [Reference, BFloat16, Variants, Released, Modes, Experts, LoadBalancing]}:
        sys.exit(f"no such tests: {', '.join(sorted(unknown))}")
    tests = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(suite)
                               for suite in suites if suite.__name__ in names or not names)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful())
