"""A training that was ended goes on as if it had not been: the same bits on as many ranks, the same losses on others."""
import shutil
import unittest

from program import FIXTURES, mpirun
from saving import STEPS, SavingTest

MODEL = FIXTURES / "minimax_m2-tiny"  # of the steps that are kept


class Same(SavingTest):
    def expect_same_bits(self, ranks=3, **changes):
        whole, cut, _ = self.whole_and_cut(6, ranks, **changes)
        self.expect_resumed(whole, cut, ranks)

    def expect_resumed(self, whole, cut, ranks=3):
        saved = self.steps(cut)  # the save of step 6 goes on when the run is cut, and may just have ended
        self.assertIn(saved, ([2, 4], [2, 4, 6]))
        result = self.run_job(cut, ranks)
        self.expect(result, 0, "resume ", f"from step {saved[-1]}", f"step {saved[-1] + 1}/{STEPS}")
        self.assertEqual(self.steps(cut), [2, 4, 6, 8])
        self.expect_same_files(self.step(whole, STEPS), self.step(cut, STEPS))
        self.assertEqual(self.losses(cut), self.losses(whole))


class SameRanks(Same):
    def test_one_rank(self):
        self.expect_same_bits(ranks=1)

    def test_two_ranks_in_bfloat16(self):
        self.expect_same_bits(ranks=2, model={"dtype": "bfloat16"})

    def test_three_ranks_that_were_killed(self):
        whole, cut = self.whole(), self.job("cut.toml")
        self.assertNotEqual(mpirun(3, *self.stop_at(6), "run", cut).status, 0)
        self.expect_resumed(whole, cut)

    def test_gathered_experts(self):
        self.expect_same_bits(parallel={"expert_parallel": 1})

    def test_shuffled_tokens(self):
        self.expect_same_bits(data={"order": "shuffle", "seed": 3}, train={"batch_sequences": 4})


class Modes(Same):
    """Of the optimizer."""

    def test_int8_state_with_24_bits_of_master(self):
        self.expect_same_bits(model={"dtype": "bfloat16"}, optimizer={"state": "int8", "master": "24bit", "gradients": "release"})

    def test_state_of_experts_on_a_disk(self):
        self.expect_same_bits(model={"dtype": "bfloat16"}, optimizer={"gradients": "release"}, memory=self.memory_on_disk())

    def test_bfloat16_state_without_master(self):
        self.expect_same_bits(model={"dtype": "bfloat16"}, optimizer={"state": "bfloat16", "master": "none"})

    def test_lion(self):
        self.expect_same_bits(optimizer={"kind": "lion"})

    def test_adafactor(self):
        self.expect_same_bits(optimizer={"kind": "adafactor", "state": "factored", "learning_rate": 1e-2})


class OtherRanks(SavingTest):
    def expect_same_losses(self, **changes):
        whole, cut = self.whole(**changes), self.job("cut.toml", **changes)
        for ranks, steps in ((3, 2), (2, 4), (1, 6), (3, STEPS)):
            self.run_job(cut, ranks, ["--set", f"train.steps={steps}"])
        expected, found = self.losses(whole), self.losses(cut)
        self.assertEqual(list(found), list(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(found[step], loss, delta=1e-4)

    def test_routed_experts(self):
        self.expect_same_losses()

    def test_gathered_experts(self):
        self.expect_same_losses(parallel={"expert_parallel": 1})

    def test_adafactor(self):
        self.expect_same_losses(optimizer={"kind": "adafactor", "state": "factored", "learning_rate": 1e-2})


class EarlierFormat(SavingTest):
    """Steps that make_saved_steps.py has kept of an earlier version. That they come back bit for bit, tests/checkpoint sees."""

    def expect_goes_on(self, kept, **changes):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                job = self.job(f"{kept}-{ranks}.toml", train={"steps": 3, "micro_batch_sequences": 1},
                               model={"path": MODEL, "dtype": "bfloat16"}, data={"tokens": MODEL / "reference.h5"}, **changes)
                shutil.copytree(FIXTURES / "saved" / kept, self.checkpoints(job))
                self.expect(self.run_job(job, ranks), 0, "from step 2", "step 3/3")

    def test_a_training_goes_on(self):
        self.expect_goes_on("training", optimizer={"state": "int8", "master": "24bit", "gradients": "release"})

    def test_a_renamed_key_that_step_and_job_spell_as_before_has_not_changed(self):
        job = self.job("renamed.toml", train={"steps": 3, "micro_batch_sequences": 1}, guard={"most_left_out": 10, "compare_every": 7},
                       model={"path": MODEL, "dtype": "bfloat16"}, data={"tokens": MODEL / "reference.h5"},
                       optimizer={"state": "int8", "master": "24bit", "gradients": "release"})
        shutil.copytree(FIXTURES / "saved" / "training", self.checkpoints(job))
        result = self.run_job(job, 2)
        self.expect(result, 0, "from step 2", "guard.compare_ranks_every is 7", "was 100")
        self.assertNotIn("max_skipped_steps is", result.output)

    def test_an_adapter_goes_on(self):
        self.expect_goes_on("adapter", lora={"rank": 2, "targets": ["q_proj", "mlp.experts.down_proj"]})


if __name__ == "__main__":
    unittest.main(verbosity=2)
