"""Adapters that PEFT saved (tests/fixtures/make_lora.py) are trained, evaluated, merged and written as PEFT does it.

    adapter_test.py [Training | Using | Exporting | Refused]...
"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import checkpoint
import h5py
import numpy

import program
from program import FIXTURES, JobTest, SLUICE, mpirun, reference_job, sluice, with_fault
from suite import run_job

ADAPTERS = {"qwen3-moe": "qwen3-moe-tiny", "qwen3_5-moe": "qwen3_5-moe-tiny", "qwen3-moe-down": "qwen3-moe-tiny",
            "per-expert": "qwen3-moe-tiny"}
# Of families whose modules are others: joined projections, latent attention, experts that are published transposed, names of their own.
FAMILIES = {"qwen3_next": "qwen3_next-tiny", "bailing_moe_v2": "bailing_moe_v2-tiny", "deepseek_v3": "deepseek_v3-tiny",
            "glm4_moe_lite": "glm4_moe_lite-tiny", "gpt_oss": "gpt_oss-tiny", "gpt_oss-square": "gpt_oss-tiny-square",
            "lfm2_moe": "lfm2_moe-tiny", "granitemoe": "granitemoe-tiny", "afmoe": "afmoe-tiny", "laguna": "laguna-tiny", "bailing_hybrid": "bailing_hybrid-tiny",
            "granitemoehybrid": "granitemoehybrid-tiny", "gemma4": "gemma4-tiny", "nemotron_h": "nemotron_h-tiny", "nemotron_h-latent": "nemotron_h-latent-tiny",
            "kimi_linear": "kimi_linear-tiny",
            "hunyuan_v1_moe": "hunyuan_v1_moe-tiny", "minimax_m3": "minimax_m3-tiny", "step3p5": "step3p5-tiny", "cohere2_moe": "cohere2_moe-tiny", "mimo_v2_flash": "mimo_v2_flash-tiny"}
ADAPTERS |= FAMILIES
HEAD_COPY = "base_model.model.lm_head.base_layer.weight"  # PEFT keeps the base's head beside its adapter


def adapter_directory(name):
    return FIXTURES / "lora" / name


def loss_of_reference(directory):
    with h5py.File(directory / "reference.h5") as reference:
        return float(reference["loss"][()])


def elsewhere(*words):
    """The program started in another directory."""
    return program.run("env", "-C", "/", SLUICE, *words)


def bfloat16(values):
    """bfloat16 as uint16, in float32."""
    return (numpy.asarray(values, numpy.uint32) << 16).view(numpy.float32)


class AdapterTest(JobTest):
    def run_job(self, ranks, name="job.toml", **tables):
        job = self.write_job(name, **tables)
        return run_job(ranks, job), self.output_of(job)

    def kind(self, kind, adapter, **tables):
        """The tables of a job of that kind with an adapter."""
        base = FIXTURES / ADAPTERS[adapter]
        return {"job": {"kind": kind}, "model": {"path": base, "adapter": adapter_directory(adapter)}} | tables

    def expect_same_files(self, folder, other):
        """Names what differs: a comparison of the bytes as texts would take minutes."""
        files, others = ({path.name: path.read_bytes() for path in place.iterdir()} for place in (folder, other))
        self.assertEqual(files.keys(), others.keys())
        self.assertEqual([name for name in files if files[name] != others[name]], [])


class Training(AdapterTest):
    """From an adapter with lora_B not zero: logits, loss, gradients of adapters and eight steps are PEFT's."""

    def compare(self, adapter, ranks, **changes):
        directory = adapter_directory(adapter)
        tables = reference_job(f"lora/{adapter}", model={"path": FIXTURES / ADAPTERS[adapter]}, lora={"start": directory}, **changes)
        result, output = self.run_job(ranks, f"{adapter}-{ranks}.toml", **tables)
        self.expect(result, 0)
        self.expect_reference(output, directory)

    def test_qwen3_moe_at_one_two_and_three_ranks(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.compare("qwen3-moe", ranks)

    def test_qwen3_5_moe_at_one_two_and_three_ranks(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.compare("qwen3_5-moe", ranks)

    def test_other_families_at_one_two_and_three_ranks(self):
        for adapter in FAMILIES:
            for ranks in (1, 2, 3):
                with self.subTest(adapter=adapter, ranks=ranks):
                    self.compare(adapter, ranks)

    def test_gathered_experts(self):
        for adapter in ("qwen3-moe", "qwen3_5-moe"):
            with self.subTest(adapter=adapter):
                self.compare(adapter, 3, parallel={"expert_parallel": 1})

    def test_one_fused_parameter_alone(self):
        self.compare("qwen3-moe-down", 2)


class Using(AdapterTest):
    def test_a_read_that_fails_ends_all(self):
        job = self.write_job(**self.kind("load", "qwen3-moe"))
        result = mpirun(2, *with_fault("adapter.read", 0, 3, "io"), "run", job)
        self.expect(result, 74, "injected")
        self.expect_once(result, "exit code 74")

    def loss(self, ranks, name, adapter, **model):
        tables = self.kind("evaluate", adapter, data={"tokens": adapter_directory(adapter) / "reference.h5", "sequence_length": 48})
        tables["model"] |= {"dtype": "float32"} | model
        result, output = self.run_job(ranks, f"{name}.toml", **tables)
        self.expect(result, 0)
        with h5py.File(output / "metrics.h5") as metrics:
            return float(metrics["evaluate/total_loss"][0])

    def test_evaluate_finds_the_loss_of_peft(self):
        for adapter in ADAPTERS:
            expected = loss_of_reference(adapter_directory(adapter))
            for ranks in (1, 3):
                with self.subTest(adapter=adapter, ranks=ranks):
                    self.assertLess(abs(self.loss(ranks, f"{adapter}-{ranks}", adapter) - expected), 1e-5)

    def test_generate_goes_on_as_the_logits_of_peft_say(self):
        with h5py.File(adapter_directory("qwen3-moe") / "reference.h5") as reference:
            ids, best = reference["tokens"][0].tolist(), reference["logits"][()].argmax(-1)
        for ranks in (1, 2):
            launcher = [str(program.MPIRUN), "-np", str(ranks)] if ranks > 1 else []
            for length in (5, 20, 48):
                ran = subprocess.run([*launcher, SLUICE, "generate", str(FIXTURES / "qwen3-moe-tiny"), "--adapter",
                                      str(adapter_directory("qwen3-moe")), "--prompt-tokens", ",".join(map(str, ids[:length])),
                                      "--max-tokens", "1", "--dtype", "float32", "--print-tokens"],
                                     capture_output=True, text=True, timeout=program.LIMIT_SECONDS)
                self.assertEqual((ran.returncode, ran.stdout), (0, f"{best[length - 1]}\n"), ran.stderr)


class Exporting(AdapterTest):
    def export(self, ranks, adapter, adapters, **model):
        out = self.directory / f"{adapter}-{ranks}-{adapters}"
        tables = self.kind("export", adapter, export={"path": out, "adapters": adapters})
        tables["model"] |= model
        result, _ = self.run_job(ranks, f"{out.name}-job.toml", **tables)
        self.expect(result, 0)
        return out

    def test_keep_writes_the_tensors_that_peft_wrote_bit_for_bit(self):
        for adapter in ("qwen3-moe", "qwen3_5-moe", "qwen3-moe-down", *FAMILIES):
            for ranks in (1, 3):
                with self.subTest(adapter=adapter, ranks=ranks):
                    out = self.export(ranks, adapter, "keep")
                    expected = checkpoint.read_tensors(adapter_directory(adapter) / "adapter_model.safetensors")
                    expected.pop(HEAD_COPY, None)
                    self.assertEqual(checkpoint.read_tensors(out / "adapter_model.safetensors"), expected)
                    self.assertEqual(sorted(path.name for path in out.iterdir()), ["adapter_config.json", "adapter_model.safetensors"])

    def test_merge_writes_the_weights_that_peft_merges_and_leaves_the_others(self):
        for adapter, base in ADAPTERS.items():
            for ranks in (1, 3):
                with self.subTest(adapter=adapter, ranks=ranks):
                    out = self.export(ranks, adapter, "merge")
                    self.assert_merged(checkpoint.read_tensors(out / "model.safetensors"),
                                       checkpoint.read_tensors(FIXTURES / base / "model.safetensors"), adapter)
                    self.assertTrue((out / "config.json").exists())

    def assert_merged(self, written, base, adapter):
        self.assertEqual({name: tensor[:2] for name, tensor in written.items()}, {name: tensor[:2] for name, tensor in base.items()})
        with h5py.File(adapter_directory(adapter) / "reference.h5") as reference:
            merged = {}
            reference["merged"].visititems(lambda name, item: merged.update({name: item[()]}) if hasattr(item, "dtype") else None)
        parts = {}
        for name, values in merged.items():
            parts |= {name: values} if name in written else per_expert(name, values)
        for name, expected in parts.items():
            found = numpy.frombuffer(written[name][2], numpy.uint16)
            close = numpy.isclose(bfloat16(found), bfloat16(expected.ravel()), rtol=2**-7, atol=1e-6)
            self.assertTrue(close.all(), name)
            self.assertGreater((found == expected.ravel()).mean(), 0.998, name)
        other = [name for name in base if "layers.0." in name and name not in parts]
        other += [name for name in base if name in ("model.norm.weight", "model.embed_tokens.weight", "model.word_embeddings.weight")]
        for name in other:
            self.assertEqual(written[name][2], base[name][2], name)

    def test_a_merged_model_has_the_loss_of_both(self):
        tables = self.kind("evaluate", "qwen3-moe")
        expected, without = (loss_of_reference(directory) for directory in (adapter_directory("qwen3-moe"), FIXTURES / ADAPTERS["qwen3-moe"]))
        out = self.export(2, "qwen3-moe", "merge")
        tables["model"] = {"path": out, "dtype": "float32"}
        tables["data"] = {"tokens": adapter_directory("qwen3-moe") / "reference.h5", "sequence_length": 48}
        result, output = self.run_job(1, **tables)
        self.expect(result, 0)
        with h5py.File(output / "metrics.h5") as metrics:
            found = float(metrics["evaluate/total_loss"][0])
        # Merged weights are bfloat16, and the adapter moves them by few of its steps: that costs a part of what the adapter does.
        self.assertLess(abs(found - expected), 0.1 * abs(without - expected))

    def test_a_write_that_fails_ends_all_and_leaves_nothing(self):
        out = self.directory / "out"
        job = self.write_job(**self.kind("export", "qwen3-moe", export={"path": out}))
        result = mpirun(3, *with_fault("adapter.write", 0, 5, "io"), "run", job)
        self.expect(result, 74, "injected")
        self.expect_once(result, "exit code 74")
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()), ["job", "job.toml"])

    def test_training_writes_what_a_later_training_begins_with(self):
        start = adapter_directory("qwen3_5-moe")
        tables = reference_job("lora/qwen3_5-moe", model={"path": FIXTURES / "qwen3_5-moe-tiny"}, lora={"start": start},
                               export={"path": self.directory / "trained", "at_end": True})
        whole, output = self.run_job(1, "whole.toml", **tables)
        self.expect(whole, 0, "adapters of")
        with h5py.File(output / "dump.h5") as dump:
            final = dump["train/final/model.layers.0.linear_attn.out_proj.lora_B.weight"][()]
        written = checkpoint.read_tensors(self.directory / "trained/adapter_model.safetensors")
        found = written["base_model.model.model.layers.0.linear_attn.out_proj.lora_B.weight"]
        self.assertEqual(numpy.frombuffer(found[2], numpy.float32).tolist(), final.ravel().tolist())
        config = json.loads((self.directory / "trained/adapter_config.json").read_text())
        self.assertEqual((config["r"], config["lora_alpha"], config["use_rslora"]), (3, 5, True))
        first = []  # step of a training that begins with what was exported, and with what was saved
        for name, begin in (("exported", self.directory / "trained"), ("saved", output)):
            again, run = self.run_job(2, f"{name}.toml", **reference_job(
                "lora/qwen3_5-moe", model={"path": FIXTURES / "qwen3_5-moe-tiny"}, lora={"start": begin}, train={"steps": 1}))
            self.expect(again, 0)
            with h5py.File(run / "metrics.h5") as metrics:
                first.append((metrics["train/loss"][0], metrics["train/grad_norm"][0]))
        self.assertEqual(first[0], first[1])

    def test_a_saved_step_is_written_as_training_writes_its_end(self):
        """From any directory, though the job's paths are relative to the one that it was started in."""
        output, trained = self.train_with_relative_paths()
        self.expect(elsewhere("checkpoint", "export", output, self.directory / "saved"), 0, "step 8: ", "43 weights")
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            self.assertEqual((self.directory / "saved" / name).read_bytes(), (trained / name).read_bytes())
        self.expect(sluice("checkpoint", "export", output, self.directory / "saved"), 64, "saved")
        self.expect(elsewhere("checkpoint", "ls", output), 0, "whole")
        self.answer_as_with_the_exported_adapter(output, trained)

    def train_with_relative_paths(self):
        base, start, steps = (os.path.relpath(path) for path in
                              (FIXTURES / "qwen3_5-moe-tiny", adapter_directory("qwen3_5-moe"), self.directory / "steps"))
        result, output = self.run_job(2, **reference_job(
            "lora/qwen3_5-moe", model={"path": base}, lora={"start": start}, checkpoint={"every_steps": 8, "path": steps},
            export={"path": self.directory / "trained", "at_end": True}))
        self.expect(result, 0)
        self.assertFalse((output / "checkpoints").exists())
        return output, self.directory / "trained"

    def answer_as_with_the_exported_adapter(self, output, trained):
        ask = ["--prompt-tokens", "5,17,42,7,99", "--max-tokens", "12", "--dtype", "float32", "--print-tokens"]
        base = FIXTURES / "qwen3_5-moe-tiny"
        def answer(*source):
            result = elsewhere("generate", *source, *ask)
            self.expect(result, 0)
            return re.search(r"^[0-9,]+$", result.output, re.MULTILINE)[0]

        expected = answer(base, "--adapter", trained)
        self.assertNotEqual(answer(base), expected)
        for source in ((base, "--adapter", output), (output,), (self.directory / "steps", "--step", 8)):
            self.assertEqual(answer(*source), expected)
        self.expect(elsewhere("generate", output, *ask, "--step", 7), 78, "[checkpoint.no_such_step]", "which holds 8")

    def test_training_can_write_the_merged_model(self):
        tables = reference_job("lora/qwen3-moe", model={"path": FIXTURES / "qwen3-moe-tiny"}, lora={"start": adapter_directory("qwen3-moe")},
                               checkpoint={"every_steps": 8}, export={"path": self.directory / "merged", "at_end": True, "adapters": "merge"})
        result, output = self.run_job(3, **tables)
        self.expect(result, 0)
        self.expect(sluice("checkpoint", "export", output, self.directory / "saved", "--merge"), 0, "step 8")
        exported, _ = self.run_job(1, "again.toml", job={"kind": "export"}, model={"path": output, "dtype": "float32"},
                                   export={"path": self.directory / "exported", "adapters": "merge"})
        self.expect(exported, 0)
        for name in ("saved", "exported"):
            self.expect_same_files(self.directory / name, self.directory / "merged")
        name = "model.layers.0.self_attn.q_proj"
        with h5py.File(output / "dump.h5") as dump:
            a, b = (dump[f"train/final/{name}.lora_{part}.weight"][()] for part in "AB")
        before = checkpoint.read_tensors(FIXTURES / "qwen3-moe-tiny/model.safetensors")[name + ".weight"]
        after = checkpoint.read_tensors(self.directory / "merged/model.safetensors")[name + ".weight"]
        expected = bfloat16(numpy.frombuffer(before[2], numpy.uint16)) + 2 * (b @ a).ravel()
        found = bfloat16(numpy.frombuffer(after[2], numpy.uint16))
        self.assertTrue(numpy.isclose(found, expected, rtol=2**-8 * 1.01, atol=1e-6).all())

    def test_a_saved_step_is_merged_into_weights_in_whatever_form_they_are_published(self):
        for model in ("qwen3-moe-tiny-int4", "gpt_oss-tiny", "gpt_oss-tiny-mxfp4"):
            with self.subTest(model=model):
                result, output = self.run_job(2, f"{model}.toml", **reference_job(
                    model.removesuffix("-int4"), model={"path": FIXTURES / model}, lora={"rank": 2, "targets": ["q_proj"]},
                    train={"steps": 2}, checkpoint={"every_steps": 2}, debug={"dump": ""}))
                self.expect(result, 0)
                saved, exported = self.directory / f"saved-{model}", self.directory / f"exported-{model}"
                self.expect(sluice("checkpoint", "export", output, saved, "--merge"), 0, "step 2")
                found, _ = self.run_job(1, f"{model}-again.toml", job={"kind": "export"}, model={"path": output, "dtype": "float32"},
                                        export={"path": exported, "adapters": "merge"})
                self.expect(found, 0)
                self.expect_same_files(saved, exported)


def per_expert(name, values):
    """A parameter of transformers' tree under the names of a checkpoint."""
    if not name.endswith("_proj") or ".experts." not in name:
        return {name: values}
    prefix, _, projection = name.rpartition(".")
    if projection != "gate_up_proj":
        return {f"{prefix}.{e}.{projection}.weight": values[e] for e in range(len(values))}
    half = values.shape[1] // 2
    return {f"{prefix}.{e}.{part}_proj.weight": values[e, first:first + half]
            for e in range(len(values)) for part, first in (("gate", 0), ("up", half))}


class Refused(AdapterTest):
    def refuse(self, status, *parts, **tables):
        job = self.write_job(**tables)
        self.expect(sluice("check", job), status, *parts)
        self.expect(run_job(2, job), status, *parts)

    def copy(self, name, **changes):
        """A copy of an adapter with other settings."""
        directory = self.directory / f"copy-of-{name}"
        shutil.copytree(adapter_directory(name), directory)
        config = json.loads((directory / "adapter_config.json").read_text()) | changes
        (directory / "adapter_config.json").write_text(json.dumps(config))
        return directory

    def training(self, directory, base="qwen3-moe-tiny", **lora):
        return reference_job(base, lora={"start": directory} | lora)

    def test_an_adapter_of_another_model(self):
        self.refuse(65, "lora.start", "adapts a weight that this model does not have", "tensors are missing",
                    **self.training(adapter_directory("qwen3-moe"), "qwen3_5-moe-tiny"))

    def test_a_saved_step_whose_bytes_are_not_what_was_saved(self):
        model = FIXTURES / "qwen3-moe-tiny"
        result, output = self.run_job(2, "train.toml", **reference_job(
            model.name, lora={"rank": 2, "targets": ["q_proj"]}, train={"steps": 1}, debug={"dump": ""}))
        self.expect(result, 0)
        path = next(output.glob("checkpoints/step-*/rank-00001.safetensors"))
        raw = bytearray(path.read_bytes())
        raw[-1] ^= 1
        path.write_bytes(raw)
        tables = {"model": {"path": model, "adapter": output}, "data": {"tokens": model / "reference.h5", "sequence_length": 48}}
        result, _ = self.run_job(2, "evaluate.toml", job={"kind": "evaluate"}, **tables)
        self.expect(result, 65, "rank-00001.safetensors", "[checkpoint.damaged]")

    def test_an_adapter_of_another_rank(self):
        self.refuse(78, "lora.rank: found 8, expected 4 or 0", **self.training(adapter_directory("qwen3-moe"), rank=8))
        self.refuse(65, "is [4, 64], expected [5, 64] of this model at rank 5", **self.training(self.copy("qwen3-moe", r=5)))

    def test_a_file_with_tensors_missing(self):
        directory = self.copy("qwen3-moe")
        path = directory / "adapter_model.safetensors"
        missing = "base_model.model.model.layers.2.mlp.experts.base_layer.lora_B.weight"
        header, body = checkpoint.split(path.read_bytes())
        header["rest"] = header.pop(missing)  # the same bytes under a name that means nothing
        path.write_bytes(checkpoint.joined(header, body))
        self.refuse(65, "1 tensor is missing", missing, "rest is neither a lora_A nor a lora_B", **self.training(directory))

    def test_methods_that_are_not_plain_lora(self):
        self.refuse(65, "model.adapter", "use_dora is set: DoRA",
                    job={"kind": "export"}, model={"path": FIXTURES / "qwen3-moe-tiny", "adapter": self.copy("qwen3-moe", use_dora=True)},
                    export={"path": self.directory / "out"})

    def test_an_adapter_where_none_is_used(self):
        start = adapter_directory("qwen3-moe")
        self.refuse(78, "model.adapter: found a directory, expected none, because training begins with the adapter of lora.start",
                    **reference_job("qwen3-moe-tiny", model={"adapter": start}))
        self.refuse(78, "export.adapters: found \"merge\", expected \"keep\", because the job has no adapter",
                    job={"kind": "export"}, model={"path": FIXTURES / "qwen3-moe-tiny"},
                    export={"path": self.directory / "out", "adapters": "merge"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
