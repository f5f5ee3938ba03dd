"""Numbers that go wrong: NaN and infinity, spikes of the loss, ranks that no longer have the same."""
import shutil
import unittest

import h5py
import numpy
from checkpoint import joined, split
from failure_test import FIXTURE, Failure
from program import FIXTURES, fault


class Numerics(Failure):
    def test_a_learning_rate_that_destroys_the_weights(self):
        job = self.job(train={"steps": 40}, optimizer={"learning_rate": 100.0, "weight_decay": 100.0})
        result = self.run_shared(job)
        self.expect_one_explanation(result, 0, 76)
        self.expect(result, 76, "step ", ": loss ", "not finite", "weights were left")
        self.expect_metrics(job, result)
        self.assertEqual(self.status(job)["exit_code"], 76)

    def test_a_gradient_that_is_not_finite_on_one_rank_ends_the_job_with_its_tensor(self):
        """The 14th unit of a backward pass is in the second step."""
        job = self.job()
        result = self.run_shared(job, fault=fault("train.gradient", 1, 14, "nan"))
        self.expect_one_explanation(result, 0, 76)
        self.expect(result, 76, "gradient norm nan: ", "not finite", "gradient of model.layers.", " on rank ")
        self.assertRegex(result.output, r"step \d+: loss ")

    def skip(self, injected, **changes):
        job = self.job(guard={"on_nonfinite": "skip"}, **changes)
        result = self.run_shared(job, fault=injected)
        self.expect(result, 0, "update skipped: ", "skipped: 1")
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            self.assertEqual(metrics["train/step"].shape, (8,))
            self.assertEqual(metrics["train/left_out"][:].sum(), 1)
            losses = metrics["train/loss"][:]
        self.assertTrue(numpy.isfinite(losses).all(), losses)
        return job, result

    def test_a_step_is_left_out_and_the_run_goes_on(self):
        self.skip(fault("train.gradient", 2, 14, "nan"))

    def test_experts_that_are_updated_one_by_one_keep_what_came_before(self):
        changes = {"optimizer": {"gradients": "release", "clip": "unit"}, "train": {"steps": 8, "micro_batch_sequences": 2}}
        _, result = self.skip(fault("train.expert_gradient", 1, 2, "nan"), **changes)
        self.expect(result, 0, "layers above it")

    def test_a_run_that_leaves_out_every_update_ends(self):
        job = self.job(train={"steps": 20}, guard={"on_nonfinite": "skip", "max_skipped_steps": 3})
        result = self.run_shared(job, fault=fault("train.gradient", 2, "1+", "nan"))
        self.expect_one_explanation(result, 0, 76)
        self.expect(result, 76, "step 4: ", "guard.max_skipped_steps = 3")

    def test_numbers_that_differ_between_ranks_are_found_at_the_next_comparison(self):
        job = self.job(guard={"compare_ranks_every": 2})
        result = self.run_shared(job, fault=fault("train.compared", 1, 2, "flip"))
        self.expect_one_explanation(result, 0, 70)
        self.expect(result, 70, "after step 4 ", "the same numbers", "value learning rate: ", " on rank 1")


class BrokenWeights(Failure):
    """Of a file: named before anything is computed with them."""

    def broken_model(self):
        model = shutil.copytree(FIXTURES / FIXTURE, self.directory / "model", ignore=shutil.ignore_patterns("*.h5"))
        header, data = split((model / "model.safetensors").read_bytes())
        begin = header["model.layers.1.mlp.gate.weight"]["data_offsets"][0]
        dtype = header["model.layers.1.mlp.gate.weight"]["dtype"]
        nan = {"BF16": b"\xc0\x7f", "F32": b"\0\0\xc0\x7f"}[dtype]
        data = data[:begin] + nan + data[begin + len(nan):]
        (model / "model.safetensors").write_bytes(joined(header, data))
        return model

    def expect_named(self, kind):
        result = self.run_shared(self.job(job={"kind": kind}, model={"path": self.broken_model()}))
        self.expect_one_explanation(result, 0, 65)
        self.expect(result, 65, "NaN or infinity", "first in model.layers.1.mlp.gate.weight", " on rank ", "sluice verify")
        self.assertNotIn("step 1/", result.output)

    def test_before_training(self):
        self.expect_named("train")

    def test_before_an_evaluation(self):
        self.expect_named("evaluate")


class Spike(Failure):
    """The loss of one batch of other text is far above the others."""

    def spike(self, policy, steps=12, **changes):
        """Step 9 of tokens that never came before, after steps of one token."""
        length, batch = 16, 2
        ids = numpy.full(steps * length * batch + 1, 7, numpy.int32)
        ids[8 * length * batch:9 * length * batch] = numpy.arange(length * batch) * 5 % 500
        with h5py.File(self.directory / "tokens.h5", "w") as file:
            file["tokens"] = ids
        guard = {"on_spike": policy, "spike_window": 4, "spike_factor": 2}
        job = self.job(data={"tokens": self.directory / "tokens.h5", "sequence_length": length},
                       train={"steps": steps, "batch_sequences": batch}, guard=guard,
                       optimizer={"learning_rate": 0.01, "eps": 1e-3} | changes.pop("optimizer", {}), **changes)
        result = self.run_shared(job)
        self.expect(result, 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return result, metrics["train/left_out"][:].tolist(), metrics["train/loss"][:]

    def test_is_warned_of(self):
        result, left_out, _ = self.spike("warn")
        self.expect_once(result, "is a spike")
        self.expect(result, 0, "step 9: loss ")
        self.assertEqual(sum(left_out), 0)

    def test_is_left_out(self):
        result, left_out, losses = self.spike("skip")
        self.expect(result, 0, "step 9: ", "skipped")
        self.assertEqual([step for step, out in enumerate(left_out, 1) if out], [9])
        self.assertLess(losses[9], losses[7] * 1.05)

    def test_takes_the_run_back_to_its_last_saved_step(self):
        self.expect_rewound()

    def test_takes_the_run_back_where_state_lies_on_a_disk(self):
        self.expect_rewound(optimizer={"gradients": "release"}, memory=self.memory_on_disk())

    def expect_rewound(self, **changes):
        result, left_out, losses = self.spike("rewind", checkpoint={"every_steps": 3, "every_minutes": 0}, **changes)
        self.expect(result, 0, "Rewinding", "rewound ", "of step 6")
        self.assertEqual([step for step, out in enumerate(left_out, 1) if out], [9])
        self.assertAlmostEqual(losses[9], losses[6], places=5)  # the weights of step 6, the same tokens

    def test_is_only_left_out_where_no_step_was_saved(self):
        result, left_out, _ = self.spike("rewind")
        self.expect(result, 0, "no checkpoint")
        self.assertEqual(sum(left_out), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
