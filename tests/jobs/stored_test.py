"""model.frozen_format = "stored": experts that stay in memory as they were published give the bits of the same base in dtype.

    stored_test.py [Training | Using | Source | Refused | Grid]...
"""
import json
import re
import shutil
import sys
import unittest

import checkpoint
import h5py
import numpy
import program
from program import FIXTURES, JobTest, reference_job, sluice
from suite import run_job

sys.path.append(str(FIXTURES))
import make_quantised  # noqa: E402

FORMS = ["fp8-blocks", "fp8-rows", "fp8-tensor", "int4", "mxfp4"]
GPT_OSS = "gpt_oss-tiny-mxfp4"
LORA = {"rank": 4, "alpha": 8, "targets": ["all-linear"]}


def numbers(output):
    """Losses, and every weight and adapter of the dump."""
    with h5py.File(output / "metrics.h5") as metrics, h5py.File(output / "dump.h5") as dump:
        found = {name: values[:] for name, values in dump["train/final"].items()}
        return found | {"loss": metrics["train/loss"][:], "norm": metrics["train/grad_norm"][:]}


class StoredTest(JobTest):
    def base_of(self, form):
        """The model of a form, in bfloat16 for none, and the fixture whose tokens it takes."""
        if form is None:
            return make_quantised.SOURCE, "qwen3-moe-tiny"
        if form == GPT_OSS:
            return FIXTURES / GPT_OSS, GPT_OSS
        if form in make_quantised.FORMS:
            return FIXTURES / f"qwen3-moe-tiny-{form}", "qwen3-moe-tiny"
        model = self.directory / f"model-{form}"
        if not model.exists():
            make_quantised.write(form, make_quantised.SOURCE, model)
        return model, "qwen3-moe-tiny"

    def train(self, form, ranks, frozen_format, status=0, *parts, **changes):
        source, tokens = self.base_of(form)
        model = {"path": source, "dtype": "bfloat16", "frozen_format": frozen_format} | changes.pop("model", {})
        lora = changes.pop("lora", LORA)
        name = f"{form}-{ranks}-{frozen_format}-{len(list(self.directory.iterdir()))}.toml"
        job = self.write_job(name, **reference_job(tokens, model=model, lora=lora, train={"steps": 3} | changes.pop("train", {}),
                                                   optimizer={"learning_rate": 0.01}, **changes))
        result = run_job(ranks, job)
        self.expect(result, status, *parts)
        if status == 0:
            self.assertEqual("as published" in result.output, frozen_format == "stored" and "is quantised" not in parts)
        self.output = result.output
        return self.output_of(job)

    def assert_same(self, first, second):
        first, second = numbers(first), numbers(second)
        self.assertEqual(set(first), set(second))
        for name, values in first.items():
            numpy.testing.assert_array_equal(values, second[name], name)


class Training(StoredTest):
    def compare(self, form, ranks, **changes):
        with self.subTest(form=form, ranks=ranks, **changes):
            self.assert_same(self.train(form, ranks, "dtype", **changes), self.train(form, ranks, "stored", **changes))

    def test_every_form_gives_the_bits_of_dtype_where_experts_are_owned(self):
        for form in [*FORMS, "nvfp4", "mxfp8", "fused-mxfp8", GPT_OSS]:
            self.compare(form, 3)
        self.compare("fp8-blocks", 1)
        self.compare("int4", 2)

    def test_every_form_gives_the_bits_of_dtype_where_experts_are_gathered(self):
        for form in [*FORMS, "mxfp8", GPT_OSS]:
            self.compare(form, 3, parallel={"expert_parallel": 1})
        self.compare("mxfp4", 2, parallel={"expert_parallel": 1})

    def test_weights_in_float32_have_the_same_numbers(self):
        self.compare("fp8-rows", 2, model={"dtype": "float32"})

    def test_its_answers_are_exact_whatever_those_of_other_jobs_are(self):
        prompts = self.directory / "prompts.jsonl"
        prompts.write_text('{"tokens": [5, 17, 42]}\n')
        generate = {"prompts": prompts, "every_steps": 1, "max_tokens": 20, "positions": 32}
        runs = [self.train("int4", 2, "stored", generate=generate | {"products": products}) for products in ("exact", "int8")]
        self.assert_same(*runs)
        self.assertEqual(*((run / "answers.jsonl").read_bytes() for run in runs))

    def test_every_reader_brings_the_same_codes_and_they_are_verified(self):
        rank0 = self.train(GPT_OSS, 3, "stored", load={"readers": "rank0", "verify": True, "chunk": "64KiB"})
        self.assert_same(rank0, self.train(GPT_OSS, 3, "stored", load={"readers": "all"}))


class UsingTest(StoredTest):
    def of_kind(self, kind, form, frozen_format, ranks=3, **tables):
        model, tokens = self.base_of(form)
        job = self.write_job(f"{kind}-{len(list(self.directory.iterdir()))}.toml", job={"kind": kind}, train={"batch_sequences": 4},
                             model={"path": model, "frozen_format": frozen_format} | tables.pop("model", {}),
                             data={"tokens": FIXTURES / tokens / "reference.h5", "sequence_length": 48}, **tables)
        result = run_job(ranks, job)
        self.expect(result, 0)
        self.output = result.output
        return self.output_of(job)

    def answers(self, form, frozen_format, ranks=3, **tables):
        """The tokens of each prompt's answer."""
        prompts = self.directory / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"tokens": list(range(first, first + 9))}) + "\n" for first in (3, 40, 99, 200)))
        generate = {"prompts": prompts, "max_tokens": 12, "positions": 32, "ignore_eos": True} | tables.pop("generate", {})
        output = self.of_kind("generate", form, frozen_format, ranks, generate=generate, **tables)
        found = {answer["prompt"]: answer["tokens"] for answer in map(json.loads, (output / "answers.jsonl").read_text().splitlines())}
        self.assertEqual(len(found), 4)
        return found


class Using(UsingTest):
    """What else is done with a model gives the same in both forms."""

    def test_an_evaluation(self):
        losses = []
        for frozen_format in ("dtype", "stored"):
            with h5py.File(self.of_kind("evaluate", "fp8-blocks", frozen_format) / "metrics.h5") as metrics:
                losses.append(metrics["evaluate/loss"][:])
        numpy.testing.assert_array_equal(*losses)

    def test_answers(self):
        self.assertEqual(self.answers(GPT_OSS, "dtype"), self.answers(GPT_OSS, "stored"))

    def test_answers_by_integers_begin_mostly_as_exact_ones_and_those_of_forms_without_integers_are_exact(self):
        for form in ("int4", "mxfp4", "fp8-blocks"):
            exact = self.answers(form, "stored", 1)
            for ranks in (1, 2):
                with self.subTest(form=form, ranks=ranks):
                    found = self.answers(form, "stored", ranks, generate={"products": "int8"})
                    self.assertIn("compute ", self.output)
                    self.assertEqual(set(map(len, found.values())), {12})
                    # Of a model that learnt nothing, tokens may be as probable as others.
                    self.assertGreaterEqual(sum(tokens[0] == exact[prompt][0] for prompt, tokens in found.items()), 2)
                    if form == "fp8-blocks":
                        self.assertEqual(found, exact)

    def test_answers_by_integers_need_codes(self):
        exact = self.answers("int4", "dtype", 1)
        self.assertEqual(self.answers("int4", "dtype", 1, generate={"products": "int8"}), exact)
        self.assertIn("model.frozen_format", self.output)

    def test_a_run_goes_on_in_the_other_form_and_exports_the_same_merged_model(self):
        exported = []
        for first, second in (("dtype", "dtype"), ("dtype", "stored"), ("stored", "dtype")):
            out = self.directory / f"merged-{first}-{second}"
            common = {"checkpoint": {"every_steps": 2}, "export": {"path": out, "at_end": True, "adapters": "merge"},
                      "job": {"output": self.directory / f"run-{first}-{second}"}, "debug": {"dump": ""}}
            self.train("int4", 3, first, **common, train={"steps": 2})
            shutil.rmtree(out)
            self.train("int4", 3, second, **common, train={"steps": 4})
            exported.append({path.name: path.read_bytes() for path in out.iterdir()})
        self.assertEqual(exported[0], exported[1])
        self.assertEqual(exported[0], exported[2])

    def plan(self, *words):
        result = sluice("plan", *words, "--json", "--set", "lora.rank=8")
        self.expect(result, 0)
        return json.loads(result.output)

    def test_plans_count_codes_and_scales(self):
        for form in ("fp8-tensor", "int4", GPT_OSS):
            with self.subTest(form=form):
                model = self.base_of(form)[0]
                dtype, stored = (self.plan(model, "--ranks", 1, "--set", f"model.frozen_format={one}") for one in ("dtype", "stored"))
                spared = dtype["ranks"][0]["weights_bytes"] - stored["ranks"][0]["weights_bytes"]
                codes = sum(len(data) for path in model.glob("*.safetensors")
                            for name, (kind, _, data) in checkpoint.read_tensors(path).items()
                            if kind == "F8_E4M3" or (name.endswith(("_packed", "_blocks", "_scale", "_scales")) and "input" not in name))
                self.assertLess(abs(2 * stored["stored_parameters"] - codes - spared), 4096)

    def test_plans_choose_it_where_bfloat16_does_not_fit(self):
        words = [FIXTURES / "configs/gpt-oss-20b", "--ranks", 1, "--set", "optimizer.fit=auto"]
        self.assertEqual(self.plan(*words, "--memory", "100GB")["stored_parameters"], 0)
        chosen = self.plan(*words, "--memory", "30GB")
        self.assertGreater(chosen["stored_parameters"], 19e9)
        self.assertLess(chosen["ranks"][0]["peak_bytes"], 30e9)
        self.assertNotIn("disk", chosen["ranks"][0])
        self.assertEqual(chosen["mode"]["state"], "float32")
        # Below that, experts in their files where every rank sees these, still with the same state.
        chosen = self.plan(*words, "--memory", "14GB", "--set", "load.readers=all")
        self.assertGreater(chosen["ranks"][0]["disk"]["weights_bytes"], 1e9)
        self.assertEqual(chosen["mode"]["state"], "float32")
        self.assertNotIn("disk", self.plan(*words, "--memory", "14GB")["ranks"][0])

    def test_plans_leave_experts_in_bfloat16_in_their_files_where_they_do_not_fit(self):
        words = [FIXTURES / "configs/Qwen3-30B-A3B", "--ranks", 1, "--set", "optimizer.fit=auto", "--set", "load.readers=all"]
        fits = self.plan(*words, "--memory", "100GB")
        self.assertEqual(fits["stored_parameters"], 0)
        chosen = self.plan(*words, "--memory", "20GB")
        self.assertGreater(chosen["ranks"][0]["disk"]["weights_bytes"], 40e9)
        self.assertLess(chosen["ranks"][0]["peak_bytes"], 0.9 * 20e9)
        self.assertEqual(chosen["mode"], fits["mode"])


class Source(StoredTest):
    """Experts that stay in the files of model.path."""

    FROM_FILES = {"load": {"readers": "all"}}

    def memory_of(self, form, ranks, model={}):
        """A limit that just does with all experts in their files: of what it leaves a plan may fill nine tenths."""
        source, tokens = self.base_of(form)
        memory = {"offload": "source", "limit": "100MiB"}
        job = self.write_job(f"refused-{form}-{ranks}.toml", **self.FROM_FILES, memory=memory, **reference_job(
            tokens, model={"path": source, "dtype": "bfloat16", "frozen_format": "stored"} | model, lora=LORA))
        refused = run_job(ranks, job)
        self.expect(refused, 71)
        lacking = float(re.search(r"([0-9.]+) MB too little", refused.output)[1])
        return memory | {"limit": f"{(100 << 20) + int(lacking * 1e6) + 1_500_000}B"}

    def from_files(self, form, ranks, **changes):
        trained = self.train(form, ranks, "stored", **self.FROM_FILES, memory=self.memory_of(form, ranks, changes.get("model", {})), **changes)
        self.assertRegex(self.output, rf"\noffload  ( [1-9][0-9.]* [kM]B,?){{{ranks}}} in ")
        return trained

    def test_it_trains_the_same_bits_as_memory(self):
        for form, ranks in [("fp8-blocks", 3), ("int4", 2), ("mxfp4", 1), (GPT_OSS, 3), (GPT_OSS, 1)]:
            with self.subTest(form=form, ranks=ranks):
                self.assert_same(self.train(form, ranks, "stored"), self.from_files(form, ranks))

    def test_a_base_in_bfloat16_trains_the_same_bits_as_memory(self):
        model = {"path": FIXTURES / "qwen3-moe-tiny"}
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                memory = self.train("int4", ranks, "dtype", model=model)
                self.assert_same(memory, self.from_files("int4", ranks, model=model))

    def test_a_run_goes_on_between_memory_and_files_with_the_same_bits(self):
        memory, files = {}, self.FROM_FILES | {"memory": self.memory_of("int4", 3)}
        found = []
        for first, second in ((None, memory), (memory, files), (files, memory)):
            out = self.directory / f"merged-{len(found)}"
            common = {"checkpoint": {"every_steps": 2}, "export": {"path": out, "at_end": True, "adapters": "merge"},
                      "job": {"output": self.directory / f"run-{len(found)}"}, "debug": {"dump": ""}}
            if first is not None:
                self.train("int4", 3, "stored", **common, **first, train={"steps": 2})
                shutil.rmtree(out)
            self.train("int4", 3, "stored", 0, "\noffload " if second else "", **common, **second, train={"steps": 4})
            newest = max(common["job"]["output"].glob("metrics*.h5"), key=lambda path: path.stat().st_mtime_ns)
            with h5py.File(newest) as metrics:
                found.append({path.name: path.read_bytes() for path in out.iterdir()} | {"losses": metrics["train/loss"][-2:].tobytes()})
        self.assertTrue(found[0] == found[1] == found[2])

    def job_on_a_copy(self, form, ranks, steps, **tables):
        """A job whose base may be spoiled, and the file with most of it."""
        source, tokens = self.base_of(form)
        model = shutil.copytree(source, self.directory / "model")
        job = self.write_job("spoiled.toml", **self.FROM_FILES, memory=self.memory_of(form, ranks), **reference_job(
            tokens, model={"path": model, "dtype": "bfloat16", "frozen_format": "stored"}, lora=LORA, debug={"dump": ""}, train={"steps": steps}, **tables))
        return job, max(model.glob("*.safetensors"), key=lambda path: path.stat().st_size)

    def test_a_file_that_is_cut_or_changed_meanwhile_ends_the_job_with_its_name(self):
        for what in ("cut", "changed"):
            with self.subTest(what=what):
                job, file = self.job_on_a_copy("fp8-blocks", 2, 100_000)
                running = program.start_mpirun(2, program.SLUICE, "run", job)
                self.addCleanup(running.stop)
                program.wait_until(lambda: "step 2/" in running.output(), "two steps")
                with open(file, "r+b") as spoiled:
                    if what == "cut":
                        spoiled.truncate(16384)
                    else:
                        size = spoiled.seek(0, 2)
                        for offset in range(16384, size, 509):
                            spoiled.seek(offset)
                            spoiled.write(b"\x11\x12")
                self.expect(running.finish(), 65, file.name, "mlp.experts.", "memory.offload")
                shutil.rmtree(file.parent)
                shutil.rmtree(self.output_of(job))

    def test_weights_that_are_not_finite_end_the_job_with_their_place(self):
        for form, ranks in (("fp8-blocks", 3), (None, 1)):
            with self.subTest(form=form):
                job, file = self.job_on_a_copy(form, ranks, 2)
                name = "model.layers.1.mlp.experts.3.up_proj.weight"
                content = file.read_bytes()
                begin = content.index(checkpoint.read_tensors(file)[name][2])
                file.write_bytes(content[:begin] + b"\x7f\x7f\xff\x7f" + content[begin + 4:])
                self.expect(run_job(ranks, job), 65, "NaN", "model.layers.1.mlp.experts.", "(expert 3)", str(file.parent))
                shutil.rmtree(file.parent)

    def test_a_run_over_another_base_ends_before_it_saves(self):
        job, file = self.job_on_a_copy("int4", 2, 2, checkpoint={"every_steps": 2})
        self.expect(run_job(2, job), 0)
        saved = sorted(path.name for path in (self.output_of(job) / "checkpoints").iterdir())
        name = "model.layers.1.mlp.experts.3.up_proj.weight_packed"
        content = file.read_bytes()
        begin = content.index(checkpoint.read_tensors(file)[name][2])
        file.write_bytes(content[:begin] + bytes([content[begin] ^ 1]) + content[begin + 1:])
        self.expect(run_job(2, job, "--set", "train.steps=4"), 65, "model.path", "digest")
        self.assertEqual(sorted(path.name for path in (self.output_of(job) / "checkpoints").iterdir()), saved)

    def test_a_file_that_cannot_be_read_ends_the_job(self):
        job, _ = self.job_on_a_copy("int4", 2, 20)
        self.expect(run_job(2, job, fault=program.fault("in_files.read", 1, 6, "io")), 74)

    def test_plans_tell_what_a_step_reads(self):
        job = self.write_job(model={"path": FIXTURES / "configs/gpt-oss-20b", "frozen_format": "stored"}, lora={"rank": 8}, **self.FROM_FILES,
                             memory={"offload": "source"}, data={"tokens": FIXTURES / "moby-dick.tokens.h5"})
        planned = []
        for memory in ("30GB", "16GB", "11GB"):
            result = sluice("plan", job, "--ranks", 1, "--memory", memory, "--disk-rate", "2GB", "--json")
            self.expect(result, 0)
            planned.append(json.loads(result.output)["ranks"][0])
        self.assertNotIn("disk", planned[0])
        for rank, bound in zip(planned[1:], (16e9, 11e9)):
            self.assertLess(rank["peak_bytes"], 0.9 * bound)
            self.assertGreater(rank["peak_bytes"], 0.9 * bound - 1e9)  # a layer or two
            self.assertGreater(rank["disk"]["step_read_bytes"], 1.5 * rank["disk"]["weights_bytes"])
            self.assertAlmostEqual(rank["disk"]["step_seconds"], rank["disk"]["step_read_bytes"] / 2e9, places=3)
        self.assertLess(planned[1]["disk"]["weights_bytes"], planned[2]["disk"]["weights_bytes"])


class Refused(StoredTest):
    def test_files_that_a_rank_cannot_read_in_place(self):
        memory = {"offload": "source"}
        self.train("int4", 1, "dtype", 78, "memory.offload", "model.frozen_format", memory=memory, load={"readers": "all"})
        self.train("int4", 1, "stored", 78, "memory.offload", "load.readers", memory=memory)
        self.train("int4", 2, "stored", 78, "memory.offload", "parallel.expert_parallel", memory=memory, load={"readers": "all"},
                   parallel={"expert_parallel": 1})

    def test_weights_that_are_trained(self):
        self.train("int4", 1, "stored", 78, "model.frozen_format", '"stored"', '"dtype"', "lora.rank", lora={})

    def test_weights_that_lie_on_a_disk(self):
        self.train("int4", 1, "stored", 78, "model.frozen_format", "memory.offload", memory={"offload": "disk"})

    def test_nothing_where_no_expert_is_quantised(self):
        model = {"path": FIXTURES / "qwen3-moe-tiny"}
        stored = self.train("int4", 2, "stored", 0, "model.frozen_format", "is quantised", model=model)
        self.assert_same(stored, self.train("int4", 2, "dtype", model=model))


class Grid(UsingTest):
    """Every form on every number of ranks, against its dequantised twin in bfloat16 on the same ranks."""

    def compare(self, form):
        twin = self.directory / "twin"
        job = self.write_job("export.toml", job={"kind": "export"}, model={"path": self.base_of(form)[0]}, export={"path": twin})
        self.expect(run_job(3, job), 0)
        for ranks in (1, 2, 3):
            for experts in (0, 1):
                with self.subTest(ranks=ranks, expert_parallel=experts):
                    parallel = {"parallel": {"expert_parallel": experts}}
                    of_twin = {"model": {"path": twin}} | parallel
                    self.assert_same(self.train(form, ranks, "dtype", **of_twin), self.train(form, ranks, "stored", **parallel))
                    self.assertEqual(self.answers(form, "dtype", ranks, **of_twin), self.answers(form, "stored", ranks, **parallel))

    def test_fp8_in_blocks(self):
        self.compare("fp8-blocks")

    def test_fp8_by_row(self):
        self.compare("fp8-rows")

    def test_fp8_by_tensor(self):
        self.compare("fp8-tensor")

    def test_int4(self):
        self.compare("int4")

    def test_mxfp4(self):
        self.compare("mxfp4")

    def test_mxfp4_as_gpt_oss_has_it(self):
        self.compare(GPT_OSS)


if __name__ == "__main__":
    unittest.main()
