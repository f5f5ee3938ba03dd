"""tools/compare_reference passes right numbers and fails wrong, missing and non-finite ones."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import h5py
import numpy as np
from load_tool import load_tool

TOOL = load_tool("compare_reference")
NAMES = ("model.layers.0.mlp.gate.weight", "model.norm.weight")
STEPS = 8


def put(file, name, values):
    if name in file:
        del file[name]
    file[name] = values


class CompareReferenceTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.run_dir, self.fixture = pathlib.Path(directory.name, "run"), pathlib.Path(directory.name, "fixture")
        self.run_dir.mkdir()
        self.fixture.mkdir()
        self.random = np.random.default_rng(1)
        self.write_reference()
        self.write_run(aux="")

    def draw(self, *shape):
        return self.random.normal(size=shape).astype(np.float32)

    def write_reference(self):
        with h5py.File(self.fixture / "reference.h5", "w") as file:
            file["logits"], file["loss"], file["aux_loss"] = self.draw(4, 8), 6.25, 2.5
            for suffix in ("", "_aux"):
                for name in NAMES:
                    file[f"grad{suffix}/{name}"] = self.draw(20, 10)
                file[f"train{suffix}/loss"] = np.linspace(6.25, 5.0, STEPS, dtype=np.float32) + len(suffix)
                file[f"train{suffix}/grad_norm"] = np.linspace(3.0, 1.0, STEPS, dtype=np.float32) + len(suffix)
            for name in NAMES:
                file[f"train/final/{name}"] = self.draw(100, 100)
            file["train_aux"].attrs["aux_coefficient"] = 0.01

    def write_run(self, aux):
        """A run that repeats the reference exactly; `aux` is the suffix of the groups it repeats."""
        coefficient = 0.01 if aux else 0.0
        (self.run_dir / "job.toml").write_text(
            f'[train]\naux_loss_coefficient = {coefficient}\n[debug]\ndump = "dump.h5"\n', encoding="utf-8")
        with h5py.File(self.fixture / "reference.h5") as reference:
            with h5py.File(self.run_dir / "dump.h5", "w") as dump:
                for name in ("logits", "loss", "aux_loss"):
                    dump[name] = reference[name][()]
                for name in NAMES:
                    dump[f"grad/{name}"] = reference[f"grad{aux}/{name}"][()]
                    dump[f"train/final/{name}"] = reference[f"train/final/{name}"][()]
            with h5py.File(self.run_dir / "metrics.h5", "w") as metrics:
                for name in ("loss", "grad_norm"):
                    metrics[f"train/{name}"] = reference[f"train{aux}/{name}"][()].astype(np.float64)

    def change(self, name, function, file="dump.h5"):
        with h5py.File(self.run_dir / file, "r+") as opened:
            put(opened, name, function(opened[name][()]))

    def remove(self, name, file="dump.h5"):
        with h5py.File(self.run_dir / file, "r+") as opened:
            del opened[name]

    def compare(self, *options):
        """Returns the exit status and everything that was said."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), self.assertRaises(SystemExit) as end:
            TOOL.main([str(self.run_dir), str(self.fixture), *options])
        code = end.exception.code
        return (1, said.getvalue() + code) if isinstance(code, str) else (code, said.getvalue())

    def assert_passes(self, *options):
        status, text = self.compare(*options)
        self.assertEqual(status, 0, text)
        self.assertNotIn("FAIL", text)

    def assert_fails(self, *parts, options=()):
        status, text = self.compare(*options)
        self.assertEqual(status, 1, text)
        line = [line for line in text.splitlines() if "FAIL" in line]
        self.assertEqual(len(line), 1, text)
        for part in parts:
            self.assertIn(part, line[0])

    def test_equal_numbers_pass(self):
        self.assert_passes()

    def test_experts_that_transformers_has_transposed_are_turned(self):
        name, values = "model.layers.0.mlp.experts.down_proj", self.draw(2, 3, 3)
        with h5py.File(self.fixture / "reference.h5", "r+") as reference, h5py.File(self.run_dir / "dump.h5", "r+") as dump:
            for group in ("grad", "train/final"):
                reference[f"{group}/{name}"] = values
                dump[f"{group}/{name}"] = values.swapaxes(1, 2)
        self.assertEqual(self.compare()[0], 1)
        (self.fixture / "config.json").write_text('{"model_type": "gpt_oss"}', encoding="utf-8")
        self.assert_passes()

    def test_numbers_just_within_their_tolerance_pass(self):
        self.change("logits", lambda values: values + 1.5e-4)
        self.change("loss", lambda value: value + 0.9e-5)
        self.change("aux_loss", lambda value: value - 0.9e-4)
        self.change(f"grad/{NAMES[0]}", lambda values: values + 0.9e-4 * np.abs(values).max())
        self.change("train/loss", lambda values: values + 1.8e-5, file="metrics.h5")
        self.change("train/grad_norm", lambda values: values * (1 + 0.9e-4), file="metrics.h5")
        self.assert_passes()

    def test_each_wrong_number_fails_in_its_own_row(self):
        cases = [("logits", 2.5e-4, "dump.h5", "logits"), ("loss", 1.2e-5, "dump.h5", "loss"),
                 ("aux_loss", 1.2e-4, "dump.h5", "aux_loss"), (f"grad/{NAMES[1]}", 1e-3, "dump.h5", NAMES[1]),
                 ("train/loss", 3e-5, "metrics.h5", "train/loss"), ("train/grad_norm", 1e-3, "metrics.h5", "train/grad_norm")]
        for name, difference, file, expected in cases:
            with self.subTest(name):
                self.write_run(aux="")
                self.change(name, lambda values: values + np.float32(difference), file=file)
                self.assert_fails(expected)

    def test_one_wrong_entry_of_a_gradient_fails(self):
        def spoil(values):
            values[3, 4] += 0.01
            return values
        self.change(f"grad/{NAMES[0]}", spoil)
        self.assert_fails(NAMES[0])

    def test_final_parameters_may_have_one_outlier_in_ten_thousand(self):
        def outliers(count):
            def spoil(values):
                values.flat[:count] += 0.1
                return values
            return spoil
        self.change(f"train/final/{NAMES[0]}", outliers(2))
        self.assert_passes()
        self.change(f"train/final/{NAMES[0]}", outliers(3))
        self.assert_fails("train/final", NAMES[0])

    def test_each_missing_entry_fails(self):
        for name in ("logits", "loss", "aux_loss", f"grad/{NAMES[0]}"):
            with self.subTest(name):
                self.write_run(aux="")
                self.remove(name)
                self.assert_fails(name, "is not in")

    def test_a_missing_final_parameter_fails(self):
        self.remove(f"train/final/{NAMES[1]}")
        status, text = self.compare()
        self.assertEqual(status, 1)
        self.assertIn(f"train/final/{NAMES[1]} is not ", text)

    def test_missing_steps_fail(self):
        self.change("train/loss", lambda values: values[:-1], file="metrics.h5")
        self.assert_fails("train/loss", "7 steps of 8")

    def test_a_single_nan_among_the_final_parameters_fails(self):
        def spoil(values):
            values.flat[7] = np.nan
            return values
        self.change(f"train/final/{NAMES[1]}", spoil)
        self.assert_fails("train/final", NAMES[1])

    def test_another_shape_fails(self):
        self.change(f"grad/{NAMES[0]}", lambda values: values.T)
        self.assert_fails(NAMES[0], "(10, 20)", "(20, 10)")

    def test_a_nan_fails_everywhere(self):
        for name, file in (("logits", "dump.h5"), (f"grad/{NAMES[0]}", "dump.h5"), ("train/loss", "metrics.h5")):
            with self.subTest(name):
                self.write_run(aux="")
                self.change(name, lambda values: values * np.float32("nan"), file=file)
                self.assert_fails("nan")

    def test_a_job_with_the_auxiliary_loss_is_held_against_its_own_groups(self):
        self.write_run(aux="_aux")
        self.assert_passes()
        self.change(f"grad/{NAMES[0]}", lambda values: values + 0.1)
        self.assert_fails(NAMES[0])

    def test_a_coefficient_the_reference_does_not_know_is_refused(self):
        (self.run_dir / "job.toml").write_text('[train]\naux_loss_coefficient = 0.5\n[debug]\ndump = "dump.h5"\n')
        status, text = self.compare()
        self.assertEqual(status, 1)
        self.assertIn("0.5", text)

    def test_bfloat16_compares_a_first_step_coarsely_and_later_losses_to_a_share_of_their_fall(self):
        self.remove("logits")
        self.change("train/grad_norm", lambda values: values * np.linspace(1.01, 2, STEPS), file="metrics.h5")
        self.change("train/loss", lambda values: values + np.linspace(0.01, 0.02, STEPS), file="metrics.h5")
        self.change(f"grad/{NAMES[0]}", lambda values: values * 1.3)
        self.assert_passes("--bfloat16")
        cases = [("train/loss", np.array([0.02] + [0] * 7), "metrics.h5"), ("train/loss", np.array([0] * 7 + [0.03]), "metrics.h5"),
                 ("train/grad_norm", np.array([0.05] + [0] * 7), "metrics.h5"), (f"grad/{NAMES[1]}", 1, "dump.h5")]
        for name, difference, file in cases:
            with self.subTest(name):
                self.write_run(aux="")
                self.change(name, lambda values: values + difference, file=file)
                self.assert_fails(name.removesuffix(f"/{NAMES[1]}"), options=["--bfloat16"])

    def test_bfloat16_compares_no_later_losses_where_experts_are_chosen(self):
        self.change("train/loss", lambda values: values + np.array([0] + [1] * 7), file="metrics.h5")
        self.assert_fails("train/loss", options=["--bfloat16"])
        with h5py.File(self.run_dir / "metrics.h5", "r+") as metrics:
            metrics["moe/expert_tokens"] = np.zeros((STEPS, 1, 4), np.int64)
        self.assert_passes("--bfloat16")

    def test_a_run_without_dump_says_so(self):
        (self.run_dir / "job.toml").write_text("[train]\naux_loss_coefficient = 0.0\n")
        status, text = self.compare()
        self.assertEqual(status, 1)
        self.assertIn("debug.dump", text)


if __name__ == "__main__":
    unittest.main()
