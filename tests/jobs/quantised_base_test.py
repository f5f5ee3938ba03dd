"""model.frozen_format = "int8" and "nf4": adapters over a base that is quantised while it is loaded get the bits of the same base
in bfloat16 whose matrices were rounded so before, by numpy.

    quantised_base_test.py [Training | Using | Refused]...
"""
import json
import shutil
import unittest

import checkpoint
import h5py
import numpy
import quantised
import stored_test
from program import FIXTURES, reference_job, sluice
from suite import run_job

ROUNDED = {"int8": quantised.int8_rounded, "nf4": quantised.nf4_rounded}


def is_quantised(name, values):
    """Matrices of layers but routers, and of experts; not their biases."""
    if ".layers." not in name or name.endswith(("mlp.gate.weight", "router.weight", "_bias")):
        return False
    return values.ndim == (3 if ".experts." in name and "weight" not in name else 2)


class QuantisedBaseTest(stored_test.UsingTest):
    def changed_twin(self, fixture, name, change, dtype="BF16"):
        """A copy of a fixture's model with what `change` makes of its matrices; written once."""
        directory = self.directory / name
        if not directory.exists():
            transposed = json.loads((FIXTURES / fixture / "config.json").read_text())["model_type"] == "gpt_oss"
            tensors = {}
            for key, (kind, shape, data) in quantised.stored(FIXTURES / fixture).items():
                values = checkpoint.READ[kind](data).reshape(shape)
                if is_quantised(key, values):
                    turned = transposed and values.ndim == 3
                    changed = change(values.swapaxes(1, 2) if turned else values)
                    values, kind = changed.swapaxes(1, 2) if turned else changed, dtype
                tensors[key] = (kind, shape, checkpoint.WRITE[kind](numpy.ascontiguousarray(values)).tobytes())
            directory.mkdir()
            for companion in (FIXTURES / fixture).glob("*.json"):
                shutil.copy(companion, directory)
            checkpoint.write_tensors(directory / "model.safetensors", tensors)
        return directory

    def twin(self, form, fixture="qwen3-moe-tiny"):
        return self.changed_twin(fixture, f"{fixture}-{form}", ROUNDED[form])

    def train_on(self, path, ranks, form, status=0, *parts, **changes):
        model = {"path": path} | changes.pop("model", {})
        family = stored_test.GPT_OSS if "gpt_oss" in path.name else "int4"  # whose tokens are taken
        return self.train(family, ranks, form, status, *parts, model=model, **changes)


class Training(QuantisedBaseTest):
    def compare(self, form, ranks, fixture="qwen3-moe-tiny", **changes):
        with self.subTest(form=form, ranks=ranks, fixture=fixture, **changes):
            expected = self.train_on(self.twin(form, fixture), ranks, "dtype", **changes)
            self.assert_same(expected, self.train_on(FIXTURES / fixture, ranks, form, **changes))
            self.assertIn(f" of them quantised, {form} ", self.output)

    def test_the_bits_of_the_rounded_base_where_experts_are_owned(self):
        for form in ROUNDED:
            for ranks in (1, 2, 3):
                self.compare(form, ranks)

    def test_the_bits_of_the_rounded_base_where_experts_are_gathered(self):
        for form in ROUNDED:
            for ranks in (2, 3):
                self.compare(form, ranks, parallel={"expert_parallel": 1})

    def test_experts_that_files_have_transposed(self):
        for form, ranks, experts in (("int8", 1, 0), ("nf4", 2, 0), ("int8", 3, 1), ("nf4", 3, 1)):
            self.compare(form, ranks, "gpt_oss-tiny", parallel={"expert_parallel": experts}, load={"chunk": "64KiB", "readers": "all"})

    def test_other_blocks_than_those_of_qwen3(self):
        self.compare("nf4", 2, "deepseek_v3-tiny")
        self.compare("int8", 3, "qwen3_5-moe-tiny")

    def test_weights_in_float32_have_the_same_numbers(self):
        self.compare("nf4", 2, model={"dtype": "float32"})

    def test_digits_that_bfloat16_lacks_count(self):
        numbers = numpy.random.default_rng(7)
        exact = self.changed_twin("qwen3-moe-tiny", "exact", lambda values: values * numbers.uniform(0.99, 1.01, values.shape).astype("f4"), "F32")
        for form in ROUNDED:
            self.compare(form, 3, exact)

    def test_neither_chunks_nor_readers_change_codes(self):
        first = self.train_on(FIXTURES / "qwen3-moe-tiny", 3, "int8")
        for load in ({"chunk": "64KiB"}, {"chunk": "64KiB", "readers": "all"}, {"readers": "node", "page_cache": "drop"}):
            with self.subTest(**load):
                self.assert_same(first, self.train_on(FIXTURES / "qwen3-moe-tiny", 3, "int8", load=load))


class Using(QuantisedBaseTest):
    """What else is done with a model gives what the rounded base gives."""

    def pairs(self):
        for form in ROUNDED:
            yield form, {"frozen_format": "dtype", "model": {"path": self.twin(form)}}, {"frozen_format": form, "model": {"path": FIXTURES / "qwen3-moe-tiny"}}

    def test_an_evaluation(self):
        for form, *ways in self.pairs():
            with self.subTest(form=form):
                losses = []
                for way in ways:
                    with h5py.File(self.of_kind("evaluate", "int4", **way) / "metrics.h5") as metrics:
                        losses.append(metrics["evaluate/loss"][:])
                numpy.testing.assert_array_equal(*losses)

    def test_answers(self):
        for form, twin, quantised_base in self.pairs():
            for ranks in (1, 3):
                with self.subTest(form=form, ranks=ranks):
                    self.assertEqual(self.answers("int4", ranks=ranks, **twin), self.answers("int4", ranks=ranks, **quantised_base))

    def test_answers_are_not_mixed_with_those_of_other_numbers(self):
        prompts = self.directory / "prompts.jsonl"
        prompts.write_text(json.dumps({"tokens": [3, 4, 5]}) + "\n")
        for form, status, parts in (("int8", 0, []), ("int8", 0, []), ("nf4", 78, ["generate.output"]), ("dtype", 78, ["generate.output"])):
            job = self.write_job(f"answers-{form}.toml", job={"kind": "generate", "output": self.directory / "answers"},
                                 model={"path": FIXTURES / "qwen3-moe-tiny", "frozen_format": form},
                                 generate={"prompts": prompts, "max_tokens": 4, "positions": 16})
            self.expect(run_job(1, job), status, *parts)

    def trained(self, path, form, name, status=0, *parts, steps=4, **changes):
        """A run of two steps that goes on, and the model that it exports at its end, by file."""
        out = self.directory / f"merged-{name}"
        common = {"checkpoint": {"every_steps": 2}, "export": {"path": out, "at_end": True, "adapters": "merge"},
                  "job": {"output": self.directory / f"run-{name}"}, "debug": {"dump": ""}} | changes
        if not common["job"]["output"].exists():
            self.train_on(path, 3, form, **common, train={"steps": 2})
        if out.exists():
            shutil.rmtree(out)
        self.train_on(path, 3, form, status, *parts, **common, train={"steps": steps})
        return checkpoint.read(out) if status == 0 else None

    def assert_same_model(self, first, second):
        self.assertEqual(set(first), set(second))
        for name, values in first.items():
            numpy.testing.assert_array_equal(values, second[name], name)

    def test_a_run_goes_on_and_exports_the_rounded_base_with_its_adapter(self):
        for form in ROUNDED:
            with self.subTest(form=form):
                twin = self.trained(self.twin(form), "dtype", f"{form}-twin")
                base = FIXTURES / "qwen3-moe-tiny"
                self.assert_same_model(self.trained(base, form, form), twin)
                expected = self.exported(self.twin(form), "dtype", f"{form}-twin", "plain")
                for layout in ("plain", "source"):
                    self.assert_same_model(self.exported(base, form, form, layout), expected)

    def exported(self, path, form, name, layout):
        """The model that a job of its own makes of such a run later."""
        out = self.directory / f"exported-{name}-{layout}"
        job = self.write_job(f"export-{name}-{layout}.toml", job={"kind": "export"}, export={"path": out, "adapters": "merge", "format": layout},
                             model={"path": path, "adapter": self.directory / f"run-{name}", "frozen_format": form})
        self.expect(run_job(2, job), 0)
        return checkpoint.read(out)

    def test_an_export_as_the_source_has_what_was_computed_with(self):
        out = self.directory / "out"
        job = self.write_job("rounded.toml", job={"kind": "export"}, export={"path": out, "format": "source"},
                             model={"path": FIXTURES / "qwen3-moe-tiny", "frozen_format": "nf4"})
        self.expect(run_job(3, job), 0)
        self.assert_same_model(checkpoint.read(out), checkpoint.read(self.twin("nf4")))

    def test_the_merged_model_is_base_and_change_rounded_once(self):
        for form in ROUNDED:
            with self.subTest(form=form):
                output = self.train_on(FIXTURES / "qwen3-moe-tiny", 2, form, export={"path": self.directory / f"out-{form}", "at_end": True, "adapters": "merge"})
                base, merged = checkpoint.read(self.twin(form)), checkpoint.read(self.directory / f"out-{form}")
                with h5py.File(output / "dump.h5") as dump:
                    final = {name: values[:] for name, values in dump["train/final"].items()}
                for module in ("self_attn.q_proj", "self_attn.o_proj"):
                    name = f"model.layers.1.{module}.weight"
                    a, b = (next(values for key, values in final.items() if f"layers.1.{module}" in key and f"lora_{part}" in key) for part in "AB")
                    change = 2 * b.astype("f8") @ a.astype("f8")  # alpha / rank
                    expected = quantised.round_to_bfloat16((base[name] + change).astype("<f4"))
                    self.assertGreater(numpy.abs(change).max(), 0)
                    self.assertGreater((merged[name] == expected).mean(), 0.999)
                    numpy.testing.assert_allclose(merged[name], expected, rtol=2**-7)

    def test_a_run_does_not_go_on_in_another_form(self):
        base = FIXTURES / "qwen3-moe-tiny"
        self.trained(base, "int8", "run")
        for form in ("dtype", "nf4"):
            self.trained(base, form, "run", 78, "model.frozen_format", f'"{form}"', '"int8"', "digest", steps=6)


class Refused(QuantisedBaseTest):
    BASE = FIXTURES / "qwen3-moe-tiny"

    def test_weights_that_lie_elsewhere(self):
        self.train_on(self.BASE, 1, "int8", 78, "model.frozen_format", '"int8"', "memory.offload", memory={"offload": "disk"})
        self.train_on(self.BASE, 1, "nf4", 78, "memory.offload", "model.frozen_format", memory={"offload": "source"}, load={"readers": "all"})

    def test_weights_that_are_drawn_or_should_be_compared_with_files(self):
        self.train_on(self.BASE, 1, "nf4", 78, "model.frozen_format", "model.init", model={"init": "random"})
        self.train_on(self.BASE, 1, "nf4", 78, "load.verify", "model.frozen_format", load={"verify": True})

    def test_weights_that_are_quantised_already(self):
        for form in ("fp8-blocks", "int4", "mxfp4"):
            self.train(form, 2, "nf4", 78, "model.frozen_format", '"nf4"', '"stored"', "experts", "job.kind")

    def test_a_training_of_all_weights_is_told_that_it_keeps_them_in_dtype(self):
        full = self.train_on(self.BASE, 2, "int8", 0, "model.frozen_format", "trains", lora={})
        self.assert_same(full, self.train_on(self.BASE, 2, "dtype", lora={}))

    def plan(self, form, *words):
        result = sluice("plan", FIXTURES / "configs/Qwen3-30B-A3B", "--ranks", 3, "--json", "--set", "lora.rank=8", "--set", f"model.frozen_format={form}", *words)
        self.expect(result, 0)
        return json.loads(result.output)

    def test_plans_count_codes_and_scales(self):
        plain = self.plan("dtype")
        for form, least, most in (("int8", 1.0005, 1.006), ("nf4", 0.5624, 0.5626)):
            with self.subTest(form=form):
                plan = self.plan(form)
                spared = sum(before["weights_bytes"] - now["weights_bytes"] for before, now in zip(plain["ranks"], plan["ranks"]))
                self.assertGreater(plan["stored_parameters"], 29e9)
                each = 2 - spared / plan["stored_parameters"]
                self.assertTrue(least < each < most, each)

    def test_they_are_not_chosen_where_bfloat16_does_not_fit(self):
        words = ["--memory", "16GB", "--set", "optimizer.fit=auto"]
        plain, asked = self.plan("dtype", *words), self.plan("nf4", *words)
        self.assertEqual(plain["stored_parameters"], 0)
        self.assertFalse(any(rank["fits"] for rank in plain["ranks"]))
        self.assertGreater(asked["stored_parameters"], 29e9)
        self.assertTrue(all(rank["fits"] for rank in asked["ranks"]))
        self.assertEqual(asked["mode"]["state"], "float32")


if __name__ == "__main__":
    unittest.main()
