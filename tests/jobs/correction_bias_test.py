"""What corrects a router's choice is float32 from file to file, whatever the weights are in, and whole on every rank."""
import json
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
        changes["train"] = {"router_bias_update_rate": float(self.RATE)} | changes.get("train", {})
        changes["model"] = {"path": GROUPED} | changes.get("model", {})
        return super().job(name, **changes)

    def biases(self, directory):
        """Those of the model's own layers, in their order."""
        return [data for name, (_, _, data) in sorted(biases_of(directory).items()) if ".3." not in name]

    def moved(self, output, rate=RATE):
        """The biases that the model began with, moved by the loads that the metrics tell."""
        with h5py.File(output / "metrics.h5") as metrics:
            loads = metrics["moe/expert_tokens"][:]
        biases = [np.frombuffer(data, np.float32) for data in self.biases(GROUPED)]
        for load in loads:
            biases = [bias + rate * np.sign(tokens.mean() - tokens).astype(np.float32) for bias, tokens in zip(biases, load)]
        return [bias.tobytes() for bias in biases]

    def after_three_steps(self, ranks, dtype="float32", held_out=None, **train):
        name = f"{ranks}-{dtype}-{'-'.join(map(str, train.values()))}"
        job = self.job(f"{name}.toml", model={"dtype": dtype}, train={"steps": 3} | train, evaluate=held_out or {},
                       checkpoint={"every_steps": 0}, export={"path": self.directory / f"{name}-out", "at_end": True})
        self.run_job(job, ranks)
        found = self.biases(self.directory / f"{name}-out")
        self.assertEqual(found, self.moved(self.output_of(job), np.float32(train.get("router_bias_update_rate", self.RATE))))
        self.assertNotEqual(found, self.biases(GROUPED))
        return found

    def test_against_the_loads_of_the_whole_batch_however_it_is_computed(self):
        held_out = {"tokens": GROUPED / "reference.h5", "every_steps": 1}
        expected = self.after_three_steps(1, micro_batch_sequences=6)
        for ranks, micro_batch, recompute in [(1, 3, "none"), (2, 3, "all"), (2, 2, "layer"), (3, 2, "none"), (3, 1, "all")]:
            with self.subTest(ranks=ranks, micro_batch=micro_batch, recompute=recompute):
                found = self.after_three_steps(ranks, held_out=held_out if ranks == 3 else None, micro_batch_sequences=micro_batch,
                                               recompute=recompute)
                self.assertEqual(found, expected)

    def test_in_float32_where_a_model_of_bfloat16_would_round_the_steps_away(self):
        self.after_three_steps(2, "bfloat16", router_bias_update_rate=1e-5)

    def test_in_a_run_that_goes_on(self):
        whole, cut, _ = self.whole_and_cut(6, optimizer={"gradients": "release"})
        self.run_job(cut)
        self.expect_same_files(self.step(whole, STEPS), self.step(cut, STEPS))
        out = self.directory / "out"
        self.expect(sluice("checkpoint", "export", self.output_of(cut), out), 0)
        self.assertEqual(self.biases(out), self.moved(self.output_of(whole)))


class RouterWeights(JobTest):
    def test_in_float32_files_of_a_bfloat16_model_are_exact_in_float32_and_rounded_once_in_bfloat16(self):
        tensors = checkpoint.read_tensors(UNGROUPED / "model.safetensors")
        exact = np.random.default_rng(0)
        for name, (_, shape, _) in tensors.items():
            if name.endswith("gate.weight"):
                tensors[name] = ("F32", shape, exact.normal(0, 0.1, shape).astype("<f4").tobytes())
        model = checkpoint.write_model(self.directory / "model", tensors, json.loads((UNGROUPED / "config.json").read_text()))
        for dtype in ("float32", "bfloat16"):
            out = self.directory / f"{dtype}-out"
            job = self.write_job(f"{dtype}.toml", job={"kind": "export"}, model={"path": model, "dtype": dtype}, export={"path": out})
            self.expect(run_job(2, job), 0)
            found = checkpoint.read_tensors(out / "model.safetensors")
            for name, (kind, shape, data) in tensors.items():
                if kind == "F32" and "gate" in name and dtype == "bfloat16":
                    bits = np.frombuffer(data, "<u4").astype(np.uint64)
                    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("<u4")
                    data = rounded.tobytes()
                self.assertEqual(found[name], (kind, shape, data), name)


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
        tensors = checkpoint.read_tensors(UNGROUPED / "model.safetensors")
        name, (dtype, shape, data) = next(iter(biases_of(UNGROUPED).items()))
        tensors[name] = (dtype, shape, data[:-4] + struct.pack("<f", float("nan")))
        model = checkpoint.write_model(self.directory / "model", tensors, json.loads((UNGROUPED / "config.json").read_text()))
        self.expect(run_job(2, self.write_job(job={"kind": "load"}, model={"path": model})), 65, name, "element 7", "finite")

    def test_a_load_balancing_loss(self):
        job = self.write_job(**reference_job(GROUPED.name, train={"aux_loss_coefficient": 0.001}))
        self.expect(sluice("check", job), 78, "train.aux_loss_coefficient", "0.001", "expected 0", "glm4_moe")

    def test_biases_that_cannot_move(self):
        for fixture, lora, part in [("olmoe-tiny", {}, "has no correction bias"), (GROUPED.name, {"rank": 2}, "adapter")]:
            job = self.write_job(**reference_job(fixture, train={"router_bias_update_rate": 0.001}, lora=lora))
            self.expect(sluice("check", job), 78, "train.router_bias_update_rate", "0.001", "expected 0", part)


if __name__ == "__main__":
    unittest.main()
