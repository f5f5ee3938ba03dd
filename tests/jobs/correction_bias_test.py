"""What corrects a router's choice is float32 from file to file, whatever the weights are in, and whole on every rank."""
import struct
import unittest

import checkpoint
import h5py
import numpy as np
from program import FIXTURES, JobTest, reference_job, sluice
from saving import STEPS, SavingTest
from suite import run_job

GROUPED, UNGROUPED = FIXTURES / "glm4_moe-tiny", FIXTURES / "minimax_m2-tiny"


def biases_of(directory):
    return {name: tensor for name, tensor in checkpoint.read_tensors(directory / "model.safetensors").items() if "correction" in name}


class Kept(SavingTest):
    def job(self, name="job.toml", **changes):
        changes["model"] = {"path": GROUPED, "dtype": "bfloat16"} | changes.get("model", {})
        return super().job(name, **changes)

    def expect_goes_on(self, **changes):
        whole, cut, _ = self.whole_and_cut(6, **changes)
        self.expect(self.run_job(cut), 0, "resume    from step")
        self.expect_same_files(self.step(whole, STEPS), self.step(cut, STEPS))
        self.assertEqual(self.losses(cut), self.losses(whole))
        return cut

    def test_in_a_run_that_goes_on_and_in_what_is_exported_of_it(self):
        cut, out = self.expect_goes_on(), self.directory / "out"
        self.expect(sluice("checkpoint", "export", self.output_of(cut), out), 0)
        self.assertEqual(biases_of(out), biases_of(GROUPED))
        self.assertEqual(self.loss_of("step", self.step(cut, STEPS)), self.loss_of("exported", out))

    def loss_of(self, name, path):
        job = self.job(f"{name}.toml", job={"kind": "evaluate"}, model={"path": path})
        self.run_job(job, 2)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return metrics["evaluate/total_loss"][0]

    def test_beside_adapters_and_weights_that_are_frozen(self):
        self.expect_goes_on(lora={"rank": 2})


class Moved(SavingTest):
    RATE = np.float32(0.01)

    def job(self, name="job.toml", **changes):
        changes["train"] = {"router_bias_update": float(self.RATE)} | changes.get("train", {})
        changes["model"] = {"path": GROUPED} | changes.get("model", {})
        return super().job(name, **changes)

    def moved(self, output):
        """The biases that the model began with, moved by the loads that the metrics tell."""
        with h5py.File(output / "metrics.h5") as metrics:
            loads = metrics["moe/expert_tokens"][:]
        biases = [np.frombuffer(data, np.float32) for name, (_, _, data) in sorted(biases_of(GROUPED).items()) if ".3." not in name]
        for load in loads:
            biases = [bias + self.RATE * np.sign(tokens.mean() - tokens).astype(np.float32) for bias, tokens in zip(biases, load)]
        return [bias.tobytes() for bias in biases]

    def test_against_the_loads_of_the_whole_batch_however_it_is_computed(self):
        found = []
        for ranks, train, held_out in [(1, {}, {}), (2, {"micro_batch_sequences": 2, "recompute": "none"}, {}),
                                       (3, {"recompute": "all"}, {"tokens": GROUPED / "reference.h5", "every_steps": 1})]:
            out = self.directory / f"out-{ranks}"
            job = self.job(f"{ranks}.toml", train={"steps": 3} | train, evaluate=held_out, checkpoint={"every_steps": 0},
                           export={"path": out, "at_end": True})
            self.run_job(job, ranks)
            biases = [data for name, (_, _, data) in sorted(biases_of(out).items()) if ".3." not in name]
            self.assertEqual(biases, self.moved(self.output_of(job)))
            self.assertNotEqual(biases, [data for name, (_, _, data) in sorted(biases_of(GROUPED).items()) if ".3." not in name])
            found.append(biases)
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_in_a_run_that_goes_on(self):
        whole, cut, _ = self.whole_and_cut(6, optimizer={"gradients": "release"})
        self.run_job(cut)
        self.expect_same_files(self.step(whole, STEPS), self.step(cut, STEPS))


class Exported(JobTest):
    def test_bit_for_bit_and_layers_for_prediction_travel_along(self):
        for ranks, source, dtype in [(1, GROUPED, "bfloat16"), (3, GROUPED, "float32"), (2, UNGROUPED, "bfloat16")]:
            with self.subTest(ranks=ranks, source=source.name):
                out = self.directory / f"{source.name}-{ranks}"
                job = self.write_job(f"{ranks}.toml", job={"kind": "export"}, model={"path": source, "dtype": dtype}, export={"path": out})
                self.expect(run_job(ranks, job), 0)
                expected = checkpoint.read_tensors(source / "model.safetensors")
                self.assertEqual(checkpoint.read_tensors(out / "model.safetensors"), expected)
                self.assertEqual({tensor[0] for tensor in biases_of(out).values()}, {"F32"})


class Refused(JobTest):
    def test_a_bias_that_is_not_finite(self):
        model = self.directory / "model"
        tensors = checkpoint.read_tensors(UNGROUPED / "model.safetensors")
        name, (dtype, shape, data) = next(iter(biases_of(UNGROUPED).items()))
        tensors[name] = (dtype, shape, data[:-4] + struct.pack("<f", float("nan")))
        header, raw = {}, b""
        for key, (dtype, shape, data) in tensors.items():
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(raw), len(raw) + len(data)]}
            raw += data
        model.mkdir()
        (model / "config.json").write_bytes((UNGROUPED / "config.json").read_bytes())
        (model / "model.safetensors").write_bytes(checkpoint.joined(header, raw))
        self.expect(run_job(2, self.write_job(job={"kind": "load"}, model={"path": model})), 65, name, "element 7", "finite")

    def test_a_load_balancing_loss(self):
        job = self.write_job(**reference_job(GROUPED.name, train={"aux_loss_coefficient": 0.001}))
        self.expect(sluice("check", job), 78, "train.aux_loss_coefficient", "0.001", "expected 0", "glm4_moe")

    def test_biases_that_cannot_move(self):
        for fixture, lora, part in [("olmoe-tiny", {}, "has no correction bias"), (GROUPED.name, {"rank": 2}, "adapter")]:
            job = self.write_job(**reference_job(fixture, train={"router_bias_update": 0.001}, lora=lora))
            self.expect(sluice("check", job), 78, "train.router_bias_update", "0.001", "expected 0", part)


if __name__ == "__main__":
    unittest.main()
