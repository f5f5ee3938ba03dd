"""layer_scalar of Gemma 4 is a constant: it keeps its published type and its bits from file to file, and no step
moves it."""
import json
import unittest

import checkpoint
import numpy as np
from program import FIXTURES, JobTest, sluice
from saving import STEPS, SavingTest
from suite import run_job

MODEL = FIXTURES / "gemma4-tiny"


def config():
    return json.loads((MODEL / "config.json").read_text())


def constants(directory):
    tensors = checkpoint.read_tensors(directory / "model.safetensors")
    return {name: tensor for name, tensor in tensors.items() if name.endswith("layer_scalar")}


def with_float32_constants(directory):
    """The fixture with constants that bfloat16 could not hold."""
    tensors = checkpoint.read_tensors(MODEL / "model.safetensors")
    for number, name in enumerate(constants(MODEL)):
        tensors[name] = ("F32", (1,), np.float32([0.7 + 1e-4 * number]).tobytes())
    return checkpoint.write_model(directory, tensors, config())


class Kept(JobTest):
    def test_in_the_type_of_the_file_whatever_the_weights_are_in(self):
        for number, model in enumerate([MODEL, with_float32_constants(self.directory / "model")]):
            for ranks, dtype in ((1, "float32"), (3, "bfloat16")):
                with self.subTest(model=model.name, ranks=ranks):
                    out = self.directory / f"out-{number}-{ranks}"
                    job = self.write_job(f"{number}-{ranks}.toml", job={"kind": "export"}, model={"path": model, "dtype": dtype},
                                         export={"path": out})
                    self.expect(run_job(ranks, job), 0)
                    self.assertEqual(constants(out), constants(model))

    def test_that_differ_are_told_by_name(self):
        other = with_float32_constants(self.directory / "model")
        self.expect(sluice("verify", MODEL, MODEL), 0)
        self.expect(sluice("verify", MODEL, other), 65, *constants(MODEL))

    def test_that_are_not_finite_are_refused_by_name(self):
        tensors = checkpoint.read_tensors(MODEL / "model.safetensors")
        name = next(iter(constants(MODEL)))
        tensors[name] = ("F32", (1,), np.float32([np.nan]).tobytes())
        model = checkpoint.write_model(self.directory / "model", tensors, config())
        self.expect(run_job(2, self.write_job(job={"kind": "load"}, model={"path": model})), 65, name)


class GemmaTest(SavingTest):
    def job(self, name="job.toml", **changes):
        changes["model"] = {"path": MODEL} | changes.get("model", {})
        changes["optimizer"] = {"learning_rate": 1e-2, "eps": 1e-8} | changes.get("optimizer", {})
        return super().job(name, **changes)


class Trained(GemmaTest):
    def test_stay_while_everything_else_moves(self):
        before = checkpoint.read_tensors(MODEL / "model.safetensors")
        for ranks, dtype, changes in [(1, "float32", {}), (2, "bfloat16", {"optimizer": {"kind": "lion"}}),
                                      (3, "bfloat16", {"parallel": {"replicas": 3}})]:
            with self.subTest(ranks=ranks, dtype=dtype):
                out = self.directory / f"out-{ranks}"
                job = self.job(f"{ranks}.toml", model={"dtype": dtype}, export={"path": out, "at_end": True}, **changes)
                self.run_job(job, ranks)
                after = checkpoint.read_tensors(out / "model.safetensors")
                self.assertEqual(constants(out), constants(MODEL))
                self.assertEqual({name for name in before if after[name] == before[name]}, set(constants(MODEL)))

    def test_are_no_correction_biases(self):
        self.run_job(self.job(train={"router_bias_update_rate": 0.01}), 2, status=78)

    def test_have_no_balancing_loss(self):
        self.run_job(self.job(train={"aux_loss_coefficient": 0.01}), 2, status=78)


class Resumed(GemmaTest):
    """A run that goes on, with heads of two sizes and a dense MLP beside the experts."""

    def test_bit_for_bit(self):
        whole, cut, _ = self.whole_and_cut(6, model={"dtype": "bfloat16"})
        self.expect(self.run_job(cut), 0, "resume    from step")
        self.expect_same_files(self.step(whole, STEPS), self.step(cut, STEPS))
        out = self.directory / "out"
        self.expect(sluice("checkpoint", "export", self.output_of(cut), out), 0)
        self.assertEqual(constants(out), constants(MODEL))

    def test_on_other_numbers_of_ranks(self):
        settings = {"optimizer": {"learning_rate": 1e-3, "eps": 1e-3}}
        whole, cut = self.job("whole.toml", **settings), self.job("cut.toml", **settings)
        self.run_job(whole, 1)
        for ranks, steps in ((3, 2), (1, 4), (2, STEPS)):
            self.run_job(cut, ranks, ["--set", f"train.steps={steps}"])
        expected, found = self.losses(whole), self.losses(cut)
        self.assertEqual(list(found), list(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(found[step], loss, delta=1e-4)


if __name__ == "__main__":
    unittest.main()
