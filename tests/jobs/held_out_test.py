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
        self.assertIn(f"{losses[2][0]:.5f}, {losses[2][1]:.5f}", output)
        for number, tokens in enumerate(self.files):
            alone = self.job(f"alone-{number}.toml", job={"kind": "evaluate"}, data={"tokens": tokens}, model={"path": self.output_of(job)})
            self.expect(run_job(2, alone), 0)
            with h5py.File(self.output_of(alone) / "metrics.h5") as metrics:
                self.assertLess(abs(metrics["evaluate/total_loss"][0] - losses[2][number]), 1e-5)

    def test_keeps_the_best_saved_step(self):
        """At such a rate later steps are worse, and at the end only the newest and the best are left."""
        worse = self.evaluating(1, optimizer={"eps": 1e-3, "learning_rate": 0.3}, checkpoint={"every_steps": 1, "keep": 1}, train={"steps": 5},
                                export={"path": self.directory / "trained", "at_end": "best"})
        job = self.job(**worse)
        output = self.run_job(job).output
        losses = self.means(job)
        best = int(numpy.argmin(losses)) + 1
        self.assertLess(best, 5)
        self.assertEqual(self.steps(job), [best, 5])
        self.assertRegex(output, rf"saved +step {best}:.*best.*{losses[best - 1]:.5f}")
        self.expect_best_everywhere(job, best, f"{losses[best - 1]:.5f}")
        # It stays the best of a run that goes on.
        self.run_job(job, arguments=["--set", "train.steps=6", "--set", "export.at_end=false", "--set", 'export.path=""'])
        self.assertIn(best, self.steps(job))

    def expect_best_everywhere(self, job, best, loss):
        run = self.output_of(job)
        self.assertRegex(sluice("checkpoint", "ls", run).output, rf"{best} .*best.*{loss}")
        self.expect(sluice("status", run), 0, f"step {best}", loss)
        self.expect(sluice("checkpoint", "verify", run, "--step", "best"), 0, f"step {best}:")
        self.expect(sluice("checkpoint", "export", run, self.directory / "saved", "--step", "best"), 0, f"step {best}:")
        self.assertEqual(*((self.directory / name / "model.safetensors").read_bytes() for name in ("saved", "trained")))

    def means(self, job):
        """The loss over both files, after each step of the first segment."""
        sizes = [149, 249]  # targets
        return (self.held_out(job) * sizes).sum(axis=1) / sum(sizes)

    def test_ends_the_training_when_it_has_not_fallen_for_so_many_evaluations(self):
        """Whatever is to be saved otherwise, a step with a lower loss is; a run that goes on counts on."""
        job = self.job(**self.evaluating(1, optimizer={"eps": 1e-3, "learning_rate": 0.3}, checkpoint={"every_steps": 100}, train={"steps": 40}))
        ended = self.run_job(job, arguments=["--set", "evaluate.patience=2"])
        losses = self.means(job)
        best, last = int(numpy.argmin(losses)) + 1, len(losses)
        self.assertEqual(last, best + 2)
        self.expect(ended, 0, f"step {last}", f"{losses[best - 1]:.5f} (step {best})", "2 evaluations")
        self.assertEqual(self.steps(job)[-1], last)
        self.assertIn(best, self.steps(job))
        self.expect(sluice("status", self.output_of(job)), 0, "done", f"{last}/40", "evaluate.patience")
        again = self.run_job(job, arguments=["--set", "evaluate.patience=3"])
        self.assertIn(f"step {last + 1}/40", again.output)
        self.expect(again, 0, f"step {last + 1}", f"(step {best})", "3 evaluations")
        self.expect(self.run_job(job, arguments=["--set", "evaluate.patience=3"]), 0, "done already", f"step {last + 1}", "evaluate.patience")
        self.expect(sluice("status", self.output_of(job)), 0, "done", f"{last + 1}/40", f"step {best}", "evaluate.patience")

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
