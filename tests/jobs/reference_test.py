"""Logits, loss, every gradient and a training run of a fixture are transformers', at every rank count.

    reference_test.py FIXTURE [Family | Device | Modes | FewSequences]...

Each fixture is a row: one, two and three ranks in float32, and a job in bfloat16. What else can be set without changing the numbers is drawn
over all rows together, so that each two values of different settings meet in some job (grid.py); Device draws one job a fixture.
"""
import functools
import sys
import unittest

import grid
import h5py
import program
from program import JobTest, reference_job
from suite import run_job
from trajectories import Trajectory, expect_follows

FIXTURE = "qwen3-moe-tiny"
FIXTURES = sorted(path.parent.name for path in program.FIXTURES.glob("*/reference.h5"))
IN_GROUPS = ["deepseek_v3-tiny", "gpt_oss-tiny", "qwen3-moe-tiny", "qwen3_5-moe-tiny"]  # also run by four ranks, in groups of two
ON_DEVICES = ["bailing_moe_v2-tiny", "deepseek_v2-tiny", "deepseek_v3-tiny", "ernie4_5_moe-tiny", "glm4_moe-tiny", "glm4_moe_lite-tiny", "gpt_oss-tiny",
              "minimax_m2-tiny", "mixtral-tiny", "olmoe-tiny", "qwen3-moe-tiny", "qwen3-tiny-tied", "qwen3_5-moe-tiny", "qwen3_next-tiny", "lfm2_moe-tiny", "granitemoe-tiny", "afmoe-tiny", "laguna-tiny", "gemma4-tiny", "hunyuan_v1_moe-tiny", "minimax_m3-tiny", "step3p5-tiny", "cohere2_moe-tiny", "mimo_v2_flash-tiny"]
SETTINGS = {
    "fixture": FIXTURES,
    "ranks": [3, 2, 1, 4],
    "experts": ["routed", "gathered", "groups"],
    "dtype": ["float32", "bfloat16"],
    "micro batches": ["one sequence", "two, without recompute"],
    "gradients": ["float32", "release"],
    "auxiliary loss": [False, True],
}


@functools.cache
def has(fixture, what):
    """Whether a fixture has a "router" or an "auxiliary loss"."""
    with h5py.File(program.FIXTURES / fixture / "reference.h5") as reference:
        return "train_aux" in reference if what == "auxiliary loss" else any(name.endswith(("mlp.gate.weight", "mlp.router.weight")) for name in reference["grad"])


def is_allowed(row):
    in_groups = row["experts"] == "groups"
    return (in_groups == (row["ranks"] == 4) and (not in_groups or row["fixture"] in IN_GROUPS) and (row["experts"] == "routed" or has(row["fixture"], "router"))
            and (not row["auxiliary loss"] or has(row["fixture"], "auxiliary loss")))


def jobs_of(fixture):
    """The jobs of a fixture's row."""
    wanted = [{"fixture": name, "ranks": ranks, "dtype": "float32"} for name in FIXTURES for ranks in (3, 2, 1)]
    wanted += [{"fixture": name, "dtype": "bfloat16"} for name in FIXTURES]
    return [row for row in grid.draw(SETTINGS, wanted, is_allowed) if row["fixture"] == fixture]


def device_jobs_of(fixture):
    """The one job of a fixture of ON_DEVICES, in float32: of other settings each two values meet, not each with every fixture."""
    settings = SETTINGS | {"fixture": ON_DEVICES, "ranks": [3, 2, 1], "experts": ["routed", "gathered"], "dtype": ["float32"]}
    rows = grid.draw(settings, [{"fixture": name} for name in ON_DEVICES], is_allowed)[:len(ON_DEVICES)]
    return [row for row in rows if row["fixture"] == fixture]


class ReferenceTest(JobTest):
    def train(self, ranks, **changes):
        job = self.write_job(**reference_job(FIXTURE, **changes))
        self.expect(run_job(ranks, job), 0)
        return self.output_of(job)

    def compare(self, output, bfloat16=False):
        self.expect_reference(output, program.FIXTURES / FIXTURE, bfloat16)

    def expect_row(self, row, number):
        """A job with these settings has the numbers of the reference: the training run of three ranks whole, of others its first two steps,
        in bfloat16 the first alone, as rounded weights part from the reference's behind it."""
        directory = self.directory
        self.directory = directory / str(number)
        self.directory.mkdir()
        steps = 1 if row["dtype"] == "bfloat16" else 8 if row["ranks"] == 3 else 2
        micro = {"micro_batch_sequences": 2, "recompute": "none"} if row["micro batches"] != "one sequence" else {}
        aux = {"aux_loss_coefficient": 0.01} if row["auxiliary loss"] else {}
        output = self.train(row["ranks"], model={"dtype": row["dtype"]}, train={"steps": steps} | micro | aux, optimizer={"gradients": row["gradients"]},
                            parallel={"expert_parallel": {"routed": 0, "gathered": 1, "groups": 2}[row["experts"]]})
        self.compare(output, row["dtype"] == "bfloat16")
        self.directory = directory


class Family(ReferenceTest):
    def test_every_job_of_the_row_has_the_numbers_of_transformers(self):
        for number, row in enumerate(jobs_of(FIXTURE)):
            with self.subTest(**row):
                self.expect_row(row, number)


class Device(ReferenceTest):
    def test_a_job_has_the_numbers_of_transformers(self):
        row, = device_jobs_of(FIXTURE)
        self.expect_row(row, 0)


class FewSequences(ReferenceTest):
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


if __name__ == "__main__":
    FIXTURE, *names = sys.argv[1:]
    suites = [globals()[name] for name in names or ["Family"]]
    tests = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(suite) for suite in suites)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful())
