"""A_log, D and dt_bias of Mamba-2 and of Kimi delta attention are float32 from file to file and in training, whatever the weights are in, and whole on every rank."""
import json
import unittest

import checkpoint
import numpy as np
from program import FIXTURES, JobTest, reference_job, sluice
from saving import STEPS, SavingTest
from suite import run_job

MODEL = FIXTURES / "granitemoehybrid-tiny"
WITH_BIASES = FIXTURES / "nemotron_h-tiny"  # beside correction biases of routers, and under names of their own
FOUR_DIMENSIONS = FIXTURES / "kimi_linear-tiny"  # as A_log has there, under a name that the module tree has not
NAMES = (".A_log", ".D", ".dt_bias")


def read(directory):
    """{name: (type, bytes)} of the float32 parameters in a model directory of one file."""
    tensors = checkpoint.read_tensors(directory / "model.safetensors")
    return {name: (dtype, bytes(data)) for name, (dtype, _, data) in tensors.items() if name.endswith(NAMES)}


def numbers(directory):
    return {name: np.frombuffer(data, np.float32) for name, (_, data) in read(directory).items()}


def bfloat16_step(values):
    """The distance of neighbouring numbers of bfloat16 at each value."""
    return np.exp2(np.floor(np.log2(np.abs(values))) - 7)


class Kept(JobTest):
    def exported(self, model, ranks, **changes):
        out = self.directory / f"out-{ranks}-{len(changes)}"
        job = self.write_job(f"export-{ranks}-{len(changes)}.toml", job={"kind": "export"},
                             model={"path": model, "dtype": "bfloat16"} | changes, export={"path": out})
        self.expect(run_job(ranks, job), 0)
        return out

    def test_bits_that_bfloat16_lacks_come_back_after_load_and_export(self):
        for model, ranks in ((MODEL, 1), (MODEL, 3), (FOUR_DIMENSIONS, 2)):
            before = read(model)
            self.assertTrue(any(int.from_bytes(data[:2], "little") for _, data in before.values()))
            self.assertEqual(read(self.exported(model, ranks)), before)

    def test_of_a_file_in_bfloat16_they_are_exported_in_float32(self):
        tensors = checkpoint.read_tensors(MODEL / "model.safetensors")
        rounded = {}
        for name, (_, shape, data) in tensors.items():
            if name.endswith(NAMES):
                bits = np.frombuffer(data, np.uint16)[1::2]
                tensors[name] = ("BF16", shape, bits.tobytes())
                rounded[name] = ("F32", (bits.astype(np.uint32) << 16).tobytes())
        model = checkpoint.write_model(self.directory / "model", tensors, json.loads((MODEL / "config.json").read_text()))
        self.assertEqual(read(self.exported(model, 2)), rounded)

    def test_that_are_not_finite_are_refused_by_name(self):
        tensors = checkpoint.read_tensors(MODEL / "model.safetensors")
        name = "model.layers.0.mamba.A_log"
        dtype, shape, data = tensors[name]
        tensors[name] = (dtype, shape, b"\0\0\xc0\x7f" + data[4:])
        model = checkpoint.write_model(self.directory / "model", tensors, json.loads((MODEL / "config.json").read_text()))
        job = self.write_job(job={"kind": "export"}, model={"path": model}, export={"path": self.directory / "out"})
        self.expect(run_job(2, job), 65, name)


class Trained(JobTest):
    def after_eight_steps(self, ranks, **changes):
        name = f"{ranks}-{len(self.names)}"
        self.names.append(name)
        tables = reference_job(MODEL.name, model={"dtype": "bfloat16"}, optimizer={"learning_rate": 1e-5},
                               export={"path": self.directory / f"{name}-out", "at_end": True}, **changes)
        tables.pop("debug")
        self.expect(run_job(ranks, self.write_job(f"{name}.toml", **tables)), 0)
        return numbers(self.directory / f"{name}-out")

    def setUp(self):
        super().setUp()
        self.names = []

    def test_move_by_less_than_a_step_of_bfloat16(self):
        before = numbers(MODEL)
        alone = self.after_eight_steps(1)
        for after in (alone, self.after_eight_steps(3), self.after_eight_steps(3, parallel={"replicas": 3})):
            for name, values in before.items():
                moved = np.abs(after[name] - values)
                self.assertTrue((moved > 0).all(), name)
                self.assertTrue((moved < bfloat16_step(values)).all(), name)
                self.assertLess(np.abs(after[name] - alone[name]).max(), moved.max(), name)

    def test_stay_where_they_are_frozen(self):
        frozen = self.after_eight_steps(2, train={"freeze": ["*.A_log"]})
        for name, values in numbers(MODEL).items():
            self.assertEqual((frozen[name] == values).all(), name.endswith("A_log"), name)


class Resumed(SavingTest):
    def job(self, name="job.toml", **changes):
        changes["model"] = {"path": MODEL, "dtype": "bfloat16"} | changes.get("model", {})
        return super().job(name, **changes)

    def expect_goes_on(self, **changes):
        whole, cut, _ = self.whole_and_cut(6, **changes)
        self.expect(self.run_job(cut), 0, "resume    from step")
        self.expect_same_files(self.step(whole, STEPS), self.step(cut, STEPS))
        return cut

    def test_bit_for_bit_with_their_optimizer_state(self):
        cut, out = self.expect_goes_on(), self.directory / "out"
        self.expect(sluice("checkpoint", "export", self.output_of(cut), out), 0)
        for name, values in numbers(out).items():
            self.assertTrue((values != numbers(MODEL)[name]).any(), name)

    def test_with_factored_state_and_gradients_that_are_released(self):
        self.expect_goes_on(optimizer={"kind": "adafactor", "state": "factored", "gradients": "release"})

    def test_on_other_numbers_of_ranks(self):
        settings = {"model": {"path": MODEL, "dtype": "float32"}, "train": {"steps": 4}}
        whole, cut = self.job("whole.toml", **settings), self.job("cut.toml", **settings)
        self.run_job(whole, 1)
        for ranks, steps in ((3, 1), (1, 2), (2, 4)):
            self.run_job(cut, ranks, ["--set", f"train.steps={steps}"])
        trained = []
        for job in (whole, cut):
            out = self.directory / f"{job.stem}-out"
            self.expect(sluice("checkpoint", "export", self.output_of(job), out), 0)
            trained.append(numbers(out))
        for name, values in numbers(MODEL).items():
            moved = np.abs(trained[0][name] - values).max()
            self.assertLess(np.abs(trained[1][name] - trained[0][name]).max(), 0.01 * moved, name)

    def test_of_a_run_that_freezes_some(self):
        cut, out = self.expect_goes_on(train={"freeze": ["*.D"]}), self.directory / "out"
        self.expect(sluice("checkpoint", "export", self.output_of(cut), out), 0)
        before = numbers(MODEL)
        for name, values in numbers(out).items():
            self.assertEqual((values == before[name]).all(), name.endswith(".D"), name)

    def test_beside_correction_biases(self):
        cut, out = self.expect_goes_on(model={"path": WITH_BIASES}), self.directory / "out"
        self.expect(sluice("checkpoint", "export", self.output_of(cut), out), 0)
        before, after = numbers(WITH_BIASES), numbers(out)
        self.assertEqual(before.keys(), after.keys())
        for name, values in after.items():
            self.assertTrue((values != before[name]).any(), name)

    def test_beside_adapters(self):
        self.expect_goes_on(lora={"rank": 2})

    def test_beside_adapters_and_correction_biases(self):
        cut, out = self.expect_goes_on(model={"path": WITH_BIASES}, lora={"rank": 2}), self.directory / "out"
        self.expect(sluice("checkpoint", "export", self.output_of(cut), out), 0)
        self.assertTrue((out / "adapter_config.json").is_file())


if __name__ == "__main__":
    unittest.main()
