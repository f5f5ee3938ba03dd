"""The loss on held-out tokens while a training goes on."""
import math
import unittest

import h5py
import numpy

from program import FIXTURES, sluice
from suite import run_job
from saving import SavingTest

BOOK = FIXTURES / "moby-dick.tokens.h5"


class HeldOut(SavingTest):
    def setUp(self):
        super().setUp()
        with h5py.File(BOOK) as book:
            tokens = book["tokens"][:400] % 256
        self.files = []
        for name, part in (("one", tokens[:150]), ("two", tokens[150:])):
            self.files.append(self.directory / f"{name}.h5")
            with h5py.File(self.files[-1], "w") as file:
                file["tokens"] = part.astype(numpy.int32)

    def evaluating(self, every_steps=2, files=None, **changes):
        return {"evaluate": {"tokens": self.files if files is None else files, "every_steps": every_steps}} | changes

    def held_out(self, job):
        with h5py.File(self.output_of(job) / "metrics.h5") as file:
            return file["train/held_out_loss"][:]

    def test_changes_not_one_bit_of_the_training(self):
        without, during = self.job("without.toml", train={"steps": 4}), self.job("with.toml", train={"steps": 4}, **self.evaluating())
        for job in (without, during):
            self.run_job(job)
        self.assertEqual(self.losses(without), self.losses(during))
        self.expect_same_files(self.step(without, 4), self.step(during, 4))

    def test_is_that_of_an_evaluation_of_the_same_weights(self):
        job = self.job(train={"steps": 3}, **self.evaluating())
        output = self.run_job(job).output
        losses = self.held_out(job)
        self.assertEqual(numpy.isnan(losses).tolist(), [[True] * 2, [False] * 2, [False] * 2])
        self.assertIn(f"held out {losses[2][0]:.5f}, {losses[2][1]:.5f}  grad norm", output)
        for number, tokens in enumerate(self.files):
            alone = self.job(f"alone-{number}.toml", job={"kind": "evaluate"}, data={"tokens": tokens}, model={"path": self.output_of(job)})
            self.expect(run_job(2, alone), 0)
            with h5py.File(self.output_of(alone) / "metrics.h5") as metrics:
                self.assertLess(abs(metrics["evaluate/total_loss"][0] - losses[2][number]), 1e-5)

    def test_keeps_the_best_saved_step(self):
        """At such a rate later steps are worse, and at the end only the newest and the best are left."""
        worse = self.evaluating(1, optimizer={"eps": 1e-3, "learning_rate": 0.3}, checkpoint={"every_steps": 1, "keep": 1}, train={"steps": 5})
        job = self.job(**worse)
        output = self.run_job(job).output
        sizes = [149, 249]  # targets
        losses = (self.held_out(job) * sizes).sum(axis=1) / sum(sizes)
        best = int(numpy.argmin(losses)) + 1
        self.assertLess(best, 5)
        self.assertEqual(self.steps(job), [best, 5])
        self.assertRegex(output, rf"saved     step {best}: .*; the best so far, held out {losses[best - 1]:.5f}")
        # It stays the best of a run that goes on.
        self.run_job(job, arguments=["--set", "train.steps=6"])
        self.assertIn(best, self.steps(job))

    def test_one_file_may_be_named_alone(self):
        job = self.job(train={"steps": 2}, **self.evaluating(files=self.files[0]))
        self.run_job(job, 1)
        self.assertEqual(self.held_out(job).shape, (2, 1))
        self.assertTrue(math.isfinite(self.held_out(job)[1][0]))

    def test_says_what_is_wrong_before_anything_is_loaded(self):
        for changes, code, parts in (
                (self.evaluating(files=[]), 78, ["evaluate.tokens", "every_steps is not 0"]),
                (self.evaluating(files=[self.files[0], 3]), 78, ["evaluate.tokens", "a path or a list of paths"]),
                (self.evaluating(files=[self.files[0], self.directory / "none.h5"]), 65, ["none.h5"])):
            self.expect(sluice("run", self.job(**changes)), code, *parts)


if __name__ == "__main__":
    unittest.main()
