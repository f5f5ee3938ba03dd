"""The command line: what needs no launch."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import unittest

import checkpoint
import h5py
import numpy
import program
from program import FIXTURES, SOURCE, JobTest, mpirun, reference_job, sluice

MODELS = FIXTURES / "configs"
TINY = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_act": "silu", "vocab_size": 512,
    "hidden_size": 48, "intermediate_size": 96, "moe_intermediate_size": 40, "num_hidden_layers": 2,
    "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 16, "num_experts": 6, "num_experts_per_tok": 2,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "initializer_range": 0.02, "max_position_embeddings": 512, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}


def too_large(told):
    """Ranks that `sluice plan` says do not fit."""
    return [int(rank) for rank in re.findall(r"rank (\d+): does not", told.output)]


def check(file, ranks=1, memory="100TB", **options):
    """`sluice check` of a file from configs/; options are keys with __ for the point."""
    settings = [f"--set={key.replace('__', '.')}={value}" for key, value in options.items()]
    return sluice("check", SOURCE / "configs" / file, "--ranks", ranks, "--memory", memory, *settings)


class CommandLine(JobTest):
    def test_the_version_lists_what_it_was_built_with(self):
        self.expect(sluice("--version"), 0, "sluice ", "LibTorch ", "oneDNN", "MPI ", "HDF5 ", "NCCL", "BLAS: sluice-train --version")

    def test_the_version_of_the_program_that_computes_names_its_blas_and_the_kernel_of_each_form(self):
        shown = program.run(pathlib.Path(program.SLUICE).with_name("sluice-train"), "--version")
        self.assertEqual(shown.status, 0)
        self.assertRegex(shown.output, r"\nBLAS: (OpenBLAS|another) ")
        self.assertRegex(shown.output, r"\nkernels: .*bfloat16.*codes.*int8")

    def test_help(self):
        self.expect(sluice("--help"), 0, "run", "check", "plan", "inspect", "synthesize", "verify")
        for command in ["run", "check", "plan", "inspect", "synthesize", "verify"]:
            self.expect(sluice(command, "--help"), 0, f"sluice {command} [OPTIONS]")
        self.expect(sluice("run", "--help"), 0, "learning_rate", "memory_limit")

    def test_no_line_of_help_is_wider_than_100_columns(self):
        for words in [[], ["run"], ["check"], ["plan"], ["inspect"], ["synthesize"], ["verify"]]:
            lines = sluice(*words, "--help").output.splitlines()
            self.assertEqual([line for line in lines if len(line) > 100], [])

    def test_a_copy_without_the_program_that_computes(self):
        alone = shutil.copy(program.SLUICE, self.directory / "sluice")
        job = self.write_job(**reference_job("qwen3-moe-tiny"))
        self.expect(program.run(alone, "run", job), 78, "job.kind", "sluice-train")
        self.expect(program.run(alone, "run", job, "--set", "job.kind=load"), 0, "received")

    def test_threads_keep_their_cores_for_a_moment_between_pieces_of_work_unless_they_share_them(self):
        cores = len(os.sched_getaffinity(0))
        for threads, policy in [(0, "'10000'"), (cores, "'0'")]:  # a fraction of a millisecond, and not at all
            job = self.write_job(**reference_job("qwen3-moe-tiny", train={"steps": 1}, parallel={"threads": threads}))
            shown = mpirun(2, "env", "OMP_DISPLAY_ENV=verbose", program.SLUICE, "run", job, "--set", "job.overwrite=true")
            self.expect(shown, 0)
            self.assertEqual(shown.output.count(f"GOMP_SPINCOUNT = {policy}"), 2, shown.output)

    def test_words_that_it_does_not_know(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny"))
        for words in [[], ["fly"], ["check", job, "--fast"], ["check", job, "--ranks", "0"], ["check", job, "--set", "steps"],
                      ["plan", job, "--ranks", "3", "--memory", "much"], ["check", job, "--memory", "much"]]:
            with self.subTest(words=words):
                self.assertEqual(sluice(*words).status, 64)

    def test_a_command_that_is_misspelled(self):
        self.expect(sluice("chek"), 64, "no command chek", "check?")
        self.expect(sluice("help"), 0, "run", "check", "plan")

    def test_sizes_without_a_unit(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny"))
        self.expect(sluice("plan", job, "--ranks", "3", "--memory", "128.5"), 64, "128.5", "unit")
        self.expect(sluice("plan", job, "--ranks", "3", "--memory", "128.5G"), 0)
        self.expect(sluice("check", job, "--set", "load.chunk=8388608"), 78, "load.chunk", "with its unit")

    def test_blanks_around_the_sign_of_an_override(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny"))
        self.expect(sluice("plan", job, "--ranks", "3", "--set", "train.steps = 10"), 0)

    def test_a_seed_below_zero(self):
        result = sluice("synthesize", self.directory, self.directory / "out", "--seed", "-1")
        self.expect(result, 64, "--seed")
        self.assertLess(max(map(len, result.output.splitlines())), 160)

    def test_a_job_file_that_is_missing(self):
        path = self.directory / "absent.toml"
        self.expect(sluice("check", path), 78, str(path))

    def test_a_job_file_that_can_be_read_but_once(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny"))
        result = program.run("sh", "-c", f"cat {job} | {program.SLUICE} run /dev/stdin")
        self.expect(result, 78, "/dev/stdin", "regular file")

    def test_output_that_does_not_arrive(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny"))
        for words in ["--version", "--help", f"check {job}", f"plan {job} --ranks 3 --json",
                      f"inspect {FIXTURES / 'qwen3-moe-tiny'}", f"verify {FIXTURES / 'qwen3-moe-tiny'} --json"]:
            with self.subTest(words=words):
                result = program.run("sh", "-c", f"{program.SLUICE} {words} > /dev/full")
                self.expect(result, 74, "written to stdout")

    def test_every_mistake_in_a_job_file_at_once(self):
        tables = reference_job("qwen3-moe-tiny", train={"stepz": 3, "batch_sequences": 0}, optimizer={"eps": "small"})
        tables["optimiser"] = {"kind": "adamw"}
        result = sluice("check", self.write_job(**tables))
        self.expect(result, 78, "stepz", "steps", "batch_sequences", "eps", "optimiser", "optimizer")
        self.assertGreaterEqual(result.output.count("job.toml:"), 4, result.output)


class Launch(JobTest):
    """With a launcher that says what it was started with, and which signals it gets."""

    def setUp(self):
        super().setUp()
        self.job = self.write_job(**reference_job("qwen3-moe-tiny"))

    def launch(self, *before):
        launcher = pathlib.Path(tempfile.mkdtemp(dir=self.directory)) / "launcher"
        launcher.write_text("""#!/bin/bash
            for name in USR1 USR2 HUP INT TERM QUIT XCPU; do trap "echo got $name" $name; done
            echo began "$@"
            while [ -e "$0" ]; do sleep 0.05; done
            exit 75""")
        launcher.chmod(0o755)
        running = program.Program(["env", f"MPIRUN={launcher}", *before, program.SLUICE, "launch", "-n", 2, self.job])
        self.addCleanup(lambda: self.assertEqual(running.finish().status, 75))
        self.addCleanup(launcher.unlink)
        program.wait_until(lambda: "began" in running.output(), "the launcher")
        return running

    def pass_on(self, running, number, got, count=1):
        running.process.send_signal(number)
        program.wait_until(lambda: running.output().count(f"got {got}") == count, f"{got} for {number}: {running.output()}")

    def test_the_first_signal_asks_the_ranks_to_save(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGXCPU, signal.SIGUSR1, signal.SIGUSR2):
            self.pass_on(self.launch(), number, "USR1")

    def test_the_second_one_ends_them_unless_it_is_the_first_once_more(self):
        running = self.launch()
        self.pass_on(running, signal.SIGHUP, "USR1")
        running.process.send_signal(signal.SIGHUP)  # as a shell does behind its terminal
        self.pass_on(running, signal.SIGINT, "INT")
        self.pass_on(running, signal.SIGQUIT, "TERM")
        self.assertNotIn("got HUP", running.output())

    def test_why_a_launcher_does_not_start(self):
        launcher = self.directory / "launcher"
        launcher.write_text("#!/bin/sh\nexit 127\n")
        for mode, status, part in ((0o644, 64, "Permission denied"), (0o755, 127, "")):
            launcher.chmod(mode)
            self.expect(program.run("env", f"MPIRUN={launcher}", program.SLUICE, "launch", "-n", 2, self.job), status, part)
        self.expect(program.run("env", "MPIRUN=none", program.SLUICE, "launch", "-n", 2, self.job), 64, "PATH")

    def test_what_the_parent_ignored_stays_ignored(self):
        running = self.launch("sh", "-c", 'trap "" HUP CHLD; exec "$0" "$@"')
        self.assertIn("""sh -c trap '' HUP && exec "$0" "$@" """, running.output())
        running.process.send_signal(signal.SIGHUP)
        self.pass_on(running, signal.SIGTERM, "USR1")
        self.assertEqual(running.output().count("got"), 1, running.output())


class Inspect(JobTest):
    def inspect(self, path):
        result = sluice("inspect", path, "--json")
        self.expect(result, 0)
        return json.loads(result.output)

    def test_published_models_have_what_transformers_counts(self):
        active = {"Qwen3-8B": 8190735360, "Qwen3-32B": 32762123264, "Qwen3-30B-A3B": 3353032704,
                  "Qwen3.5-35B-A3B": 3454988928}
        for name, parameters in active.items():
            with self.subTest(model=name):
                expected = json.loads((MODELS / name / "expected.json").read_text())
                found = self.inspect(MODELS / name / "config.json")
                self.assertEqual(found["parameters"], expected["language_parameters"])
                self.assertEqual(found["tensors"], expected["language_tensors"])
                self.assertEqual(sum(role["parameters"] for role in found["roles"].values()), found["parameters"])
                self.assertEqual(found["active_parameters"], parameters)
                self.assertNotIn("files", found)

    def test_every_published_model_and_its_plan_by_config_json_alone(self):
        for model in sorted(MODELS.iterdir()):
            with self.subTest(model=model.name):
                self.assertLessEqual({path.name for path in model.iterdir()}, {"config.json", "expected.json"})
                found = self.inspect(model)
                self.assertEqual(found["unknown_keys"], [])
                plan = sluice("plan", SOURCE / "configs/quickstart.toml", "--ranks", 3, f"--set=model.path={model}", "--set=train.aux_loss_coefficient=0",
                              "--memory", "30TB", "--json")
                self.expect(plan, 0)
                self.assertEqual(json.loads(plan.output)["parameters"], found["parameters"])

    def test_layers_by_kind(self):
        found = self.inspect(MODELS / "Qwen3.5-35B-A3B")
        self.assertEqual(found["layers"], {"full_attention": 10, "sliding_attention": 0, "latent_attention": 0, "linear_attention": 30, "kimi_delta_attention": 0, "short_convolution": 0, "mamba2": 0, "dense": 0, "moe": 40})
        self.assertEqual((found["experts"], found["experts_per_token"], found["bytes"]), (256, 8, 2 * 34660610688))

    def test_a_directory_with_weights(self):
        found = self.inspect(FIXTURES / "qwen3_5-moe-vlm")
        self.assertEqual(found["files"]["count"], 1)
        self.assertEqual(found["files"]["bytes"], 2 * found["files"]["dtypes"]["bfloat16"]["elements"])
        self.assertGreater(found["files"]["tensors"], found["tensors"])  # experts one by one, and a vision tower
        text = sluice("inspect", FIXTURES / "qwen3_5-moe-vlm")
        self.expect(text, 0, found["structure_hash"], "a shared one", "in 1 file", "linear_attention")

    def test_a_directory_without_a_model(self):
        self.expect(sluice("inspect", self.directory), 65, "config.json")

    def test_a_file_that_is_no_config(self):
        other = shutil.copy(FIXTURES / "qwen3-moe-tiny/config.json", self.directory / "other.json")
        self.expect(sluice("inspect", other), 64, str(other))
        self.expect(sluice("inspect", FIXTURES / "qwen3-moe-tiny/config.json"), 0, "qwen3_moe")


class Check(JobTest):
    def test_the_quickstart(self):
        result = check("quickstart.toml", ranks=3, model__path=SOURCE / "configs/quickstart-model", model__init="random",
                       data__tokens=FIXTURES / "moby-dick.tokens.h5", evaluate__tokens=FIXTURES / "moby-dick.tokens.h5")
        self.expect(result, 0, "63020416 parameters", "256 tokens", "rank 2", "3 ranks")

    def test_the_quickstart_with_preferences(self):
        example = SOURCE / "configs/quickstart-model"
        result = check("quickstart-preferences.toml", ranks=3, model__path=example, model__init="random", data__tokens=example / "preferences.jsonl",
                       generate__prompts=example / "prompts.jsonl")
        self.expect(result, 0, "rows of JSON", "3 ranks")

    def test_the_student_of_the_quickstart(self):
        result = check("quickstart-student.toml", ranks=3, model__path=SOURCE / "configs/quickstart-student", data__tokens=FIXTURES / "moby-dick.tokens.h5",
                       evaluate__tokens=FIXTURES / "moby-dick.tokens.h5")
        self.expect(result, 65, "4333504 parameters", "distil.teacher: ", "runs/teacher/scores.h5")

    def test_the_case_of_three_nodes(self):
        file = "qwen3.5-35b-a3b-3-nodes.toml"
        case = {"ranks": 3, "model__path": MODELS / "Qwen3.5-35B-A3B", "checkpoint__every_minutes": 0}
        plan = ["qwen3_5_moe, 40 layers (40 with experts), 34660610688 parameters, 693 tensors", "rank 2    holds 23.0"]
        told = check(file, **case)
        self.expect(told, 65, *plan, "1. data.tokens: ", "[io.not_found]", "2. ", "[weights.not_found]")
        self.expect(check(file, **case, memory="50GB"), 65, "1. data.tokens: ", "2. optimizer.fit: ",
                    "50.00 GB", "[job.memory] (exit code 71)", "3. ")
        self.expect(check(file, **case, memory="50GB", optimizer__fit="as_written"), 65, "2. the machine ",
                    "50.00 GB (--memory)", "[job.memory] (exit code 71)")
        self.expect(check(file, ranks=3, model__path=MODELS / "Qwen3-30B-A3B", checkpoint__every_minutes=0), 65, "30532122624 parameters")

    def test_the_case_of_eight_gpus(self):
        told = sluice("plan", SOURCE / "configs/qwen3.5-35b-a3b-gpus.toml", "--ranks", 8, "--memory", "80GB", "--set",
                      f"model.path={MODELS / 'Qwen3.5-35B-A3B'}")
        self.expect(told, 0, "rank 7: fits")

    def test_a_gpu_that_this_build_or_machine_has_not(self):
        job = self.write_job(job={"kind": "load"}, model={"path": FIXTURES / "qwen3-moe-tiny"}, device={"kind": "cuda"})
        told = sluice("run", job)
        if "\nno CUDA" in sluice("--version").output:
            self.expect(told, 78, 'device.kind is "cuda"', "no CUDA", "-DSLUICE_CUDA=ON -DSLUICE_NCCL=ON")
        else:
            self.expect(told, 71, 'device.kind is "cuda"', "no GPU")
        self.assertFalse(self.output_of(job).exists())

    def test_what_the_job_would_be_refused_for(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny", train={"steps": 1}, checkpoint={"every_minutes": 0}))
        self.expect(sluice("run", job), 0)
        self.expect(sluice("check", job), 78, "job.output", "job.overwrite")
        self.expect(sluice("check", job, "--set", "job.overwrite=true"), 0)
        self.expect(sluice("check", job, "--set", f"job.output={job}/run"), 74, "job.output", "not a directory")

    def test_all_that_is_wrong_in_the_order_in_which_a_run_would_meet_it(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny", train={"steps": 1}, checkpoint={"every_minutes": 0}))
        self.expect(sluice("run", job), 0)
        wrong = ["--set", "data.tokens=none.h5", "--set", f"model.path={MODELS / 'Qwen3-8B'}", "--memory", "1MB"]
        told = sluice("check", job, *wrong)
        self.expect(told, 78, "1. job.output: ", "[job.output_taken]", "2. data.tokens: ", "none.h5", "[io.not_found]",
                    "3. the machine ", "rank 0", "[job.memory]", "4. ", "[weights.not_found]", "8190735360 parameters")
        told = sluice("check", job, *wrong, "--set", "job.overwrite=true")
        self.expect(told, 65, "1. data.tokens: ", "none.h5", "3. ")
        self.assertNotIn("4. ", told.output)

    def test_what_it_fails_for_is_what_a_run_fails_for(self):
        for name, status, said, changes in [
                ("tokens", 65, "[io.not_found]", {"data": {"tokens": "none.h5"}}),
                ("weights", 65, "[weights.not_found]", {"model": {"path": self.bare_config(TINY)}}),
                ("memory", 71, "[job.memory]", {"model": {"path": self.bare_config(TINY | {"num_hidden_layers": 9000,
                                                                                       "vocab_size": 1 << 30})}})]:
            job = self.write_job(f"{name}.toml", **reference_job("qwen3-moe-tiny", checkpoint={"every_minutes": 0}, **changes))
            for command in ("check", "run"):
                with self.subTest(name=name, command=command):
                    self.expect(sluice(command, job), status, said)

    def write_tokens(self, name, tokens, mask=None):
        with h5py.File(self.directory / name, "w") as file:
            file["tokens"] = numpy.asarray(tokens, dtype=numpy.int32)
            if mask is not None:
                file["loss_mask"] = numpy.asarray(mask, dtype=numpy.int16)
        return self.directory / name

    def test_held_out_files_masks_and_prompts_are_looked_at_as_a_run_does(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny", train={"steps": 2}, checkpoint={"every_minutes": 0}))
        mask = numpy.ones(100)
        mask[7] = -100
        bad, masked = self.write_tokens("bad.h5", numpy.ones(100), mask), self.write_tokens("masked.h5", numpy.ones(100), 0 * mask)
        empty, prompts = self.write_tokens("empty.h5", []), self.directory / "prompts.jsonl"
        prompts.write_text('{"tokens": [1]}\n{"tokens": [1, 9999999]}\n')
        for changes, said in [
                (["evaluate.tokens=none.h5"], ["none.h5", "[io.not_found]"]),
                ([f"evaluate.tokens={empty}"], ["empty.h5", "0 tokens"]),
                ([f"evaluate.tokens={masked}"], ["masked.h5", "target", "loss_mask"]),
                ([f"evaluate.tokens={bad}"], ["bad.h5", "loss_mask[7]", "-100"]),
                ([f"data.tokens={bad}", "train.steps=50"], ["bad.h5", "loss_mask[7]", "-100"]),
                ([f"data.tokens={masked}", "evaluate.every_steps=0"], ["masked.h5", "target", "loss_mask"]),
                (["generate.prompts=none.jsonl"], ["none.jsonl"]),
                ([f"generate.prompts={prompts}"], ["prompts.jsonl:2", "9999999"]),
                (["job.kind=generate", f"generate.prompts={prompts}"], ["prompts.jsonl:2", "9999999"])]:
            with self.subTest(changes=changes):
                every = [f"{change.split('.')[0]}.every_steps=1" for change in changes[:1] if not change.startswith(("data", "job"))]
                told = sluice("check", job, *(word for change in every + changes for word in ("--set", change)))
                self.expect(told, 65, *said)

    def bare_config(self, config):
        directory = self.directory / f"model-{config['num_hidden_layers']}"
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(config))
        return directory

    def test_a_model_that_is_missing_is_named_with_its_key_and_its_place_from_the_root_on(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny", model={"path": "no-model"}))
        for command in ("check", "run"):
            self.expect(sluice(command, job), 65, "model.path: ", f"{os.getcwd()}/no-model")
        self.expect(sluice("check", job, "--set", "data.tokens=none.h5"), 65, "1. model.path: ", "2. data.tokens: ", "none.h5")

    def test_its_findings_tell_the_file_and_the_key(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny", model={"path": "no-model"}))

        def found():
            return json.loads(sluice("check", job, "--json").output)["findings"][0]
        self.assertEqual((found()["key"], found()["file"]), ("model.path", ""))
        job.write_text(job.read_text().replace("[train]", "[train]\nstep = 3"))
        self.assertEqual((found()["key"], found()["file"], found()["id"]), ("train.step", str(job), "config.unknown_key"))

    def test_it_says_whether_a_rank_fits_as_plan_does(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny"))
        peak = json.loads(sluice("plan", job, "--ranks", 1, "--json").output)["ranks"][0]["peak_bytes"]
        for memory, verdict, status in ((peak, "fits", 0), (peak - 1, "may not fit", 0), (1 << 20, "does not fit", 71)):
            for command in ("plan", "check"):
                with self.subTest(memory=memory, command=command):
                    words = (command, job, "--ranks", 1, "--memory", f"{memory}B")
                    self.expect(sluice(*words), status if command == "check" else 0, f"rank 0: {verdict}")
                    self.assertEqual(json.loads(sluice(*words, "--json").output)["ranks"][0]["verdict"], verdict)

    def test_it_proves_the_plan_that_a_run_makes(self):
        job = self.write_job(**reference_job("qwen3-moe-mixed"))
        told = sluice("check", job, "--ranks", 3)
        self.expect(told, 0, "reads 780.54 kB")
        self.assertNotIn("rank 1 reads", told.output)
        for readers in ("all", "node"):
            told = sluice("check", job, "--ranks", 3, "--set", f"load.readers={readers}")
            self.expect(told, 0, *(f"rank {rank} reads " for rank in range(3)))
            self.assertEqual(told.output.count("sends 0 B"), 3, told.output)

    def test_what_a_job_does_that_its_file_does_not_say(self):
        job = self.write_job(**reference_job("qwen3-tiny-yarn", train={"steps": 1, "batch_sequences": 2}, data={"sequence_length": 48}))
        expected = ["note      train.batch_sequences is 2, so 1 of 3 ranks compute no sequence of their own in any step",
                    " 1 step of 2 sequences is "]
        self.expect(sluice("check", job, "--ranks", 3), 0, *expected)
        self.expect(mpirun(3, program.SLUICE, "run", job), 0, *expected)
        alone = program.run("env", "SLURM_NTASKS=3", program.SLUICE, "run", job, "--set", "job.overwrite=true")
        self.expect(alone, 0, "note ", "one rank", "3 tasks")
        long = self.write_job("long.toml", model={"path": self.bare_config(TINY), "init": "random"}, train={"steps": 1},
                              data={"tokens": FIXTURES / "moby-dick.tokens.h5", "sequence_length": 513})
        self.expect(sluice("check", long), 0, "note ", "data.sequence_length is 513", "max_position_embeddings 512")

    def test_a_checkpoint_in_parts_without_an_index(self):
        model = shutil.copytree(FIXTURES / "qwen3-moe-mixed", self.directory / "model")
        (model / "model.safetensors.index.json").unlink(missing_ok=True)
        (model / "model.safetensors").unlink(missing_ok=True)
        shutil.copy(FIXTURES / "qwen3-moe-tiny/model.safetensors", model / "model-00001-of-00002.safetensors")
        for command in ("check", "run"):
            job = self.write_job(f"{command}.toml", **reference_job("qwen3-moe-mixed", model={"path": model}))
            self.expect(sluice(command, job), 65, "[weights.not_found]", "model-00001")

    def test_a_head_that_is_no_copy_of_what_it_is_tied_to(self):
        fixture = FIXTURES / "qwen3-tiny-tied"
        tensors = checkpoint.read(fixture)
        for name, head, status in [("copy", tensors["model.embed_tokens.weight"], 0),
                                   ("other", 0.5 * tensors["model.embed_tokens.weight"], 65)]:
            model = checkpoint.write(self.directory / name, tensors | {"lm_head.weight": head}, fixture)
            job = self.write_job(f"{name}-load.toml", job={"kind": "load"}, model={"path": model})
            said = "set tie_word_embeddings to false" if status else ""
            self.expect(sluice("check", job), status, said)
            self.expect(mpirun(2, program.SLUICE, "run", job), status, said)

    def test_every_file_of_configs_is_tested_here(self):
        files = {path.name for path in (SOURCE / "configs").glob("*.toml")}
        self.assertEqual(files, {"quickstart.toml", "quickstart-preferences.toml", "quickstart-student.toml", "qwen3.5-35b-a3b-1-node-disk.toml", "qwen3.5-35b-a3b-3-nodes.toml",
                                 "qwen3.5-35b-a3b-lora-1-node.toml", "qwen3.5-35b-a3b-lora-3-nodes.toml", "qwen3.5-35b-a3b-gpus.toml",
                                 *(f"{name.lower()}-{kind}.toml" for name in Plan.THREE_NODES for kind in ("3-nodes", "lora-3-nodes"))})

    def test_published_models_have_their_published_size(self):
        for name in ["Qwen3-30B-A3B", "Qwen3-8B", "Qwen3-32B"]:
            expected = json.loads((MODELS / name / "expected.json").read_text())
            with self.subTest(model=name):
                result = check("quickstart.toml", ranks=5, model__path=MODELS / name, data__tokens=self.directory / "none.h5")
                parameters, tensors = expected["language_parameters"], expected["language_tensors"]
                self.expect(result, 65, f" {parameters} parameters", f" {tensors} tensors", "cannot open ")

    def test_sequences_of_which_an_indexer_leaves_out_tokens(self):
        for fixture in ("deepseek_v32-tiny", "glm_moe_dsa-tiny"):
            job = self.write_job(f"{fixture}.toml", **reference_job(fixture))
            self.expect(sluice("check", job), 0)
            self.expect(sluice("check", job, "--set=data.sequence_length=49"), 78, "data.sequence_length: found 49", "index_topk = 48")

    def test_sequences_in_which_queries_grow_with_their_position(self):
        job = self.write_job(**reference_job("mistral4-tiny"))
        self.expect(sluice("check", job), 0)
        self.expect(sluice("check", job, "--set=data.sequence_length=49"), 78, "data.sequence_length: found 49",
                    "original_max_position_embeddings = 48", "llama_4_scaling_beta")

    def test_the_fixtures_at_any_number_of_ranks(self):
        cases = [("qwen3-moe-mixed", ranks) for ranks in range(1, 6)] + [("qwen3-tiny-tied", 4), ("qwen3-moe-tiny", 5)]
        for fixture, ranks in cases:
            with self.subTest(fixture=fixture, ranks=ranks):
                job = self.write_job(**reference_job(fixture))
                self.expect(sluice("check", job, "--ranks", ranks), 0, "weights   ", "data      ", "fine ", f"for {ranks} rank")


class Plan(JobTest):
    def plan(self, *options, ranks=3):
        """Of a job on three nodes that keeps everything in float32."""
        keys = ["state", "master", "gradients"]
        return sluice("plan", SOURCE / "configs/qwen3.5-35b-a3b-3-nodes.toml", "--ranks", ranks,
                      f"--set=model.path={MODELS / 'Qwen3-30B-A3B'}",
                      "--set=optimizer.fit=as_written", *[f"--set=optimizer.{key}=float32" for key in keys], *options)

    def test_the_parts_of_each_rank(self):
        result = self.plan("--memory", "128.5GB", "--json")
        self.expect(result, 0)
        plan = json.loads(result.output)
        ranks = plan["ranks"]
        self.assertEqual((plan["parameters"], len(ranks)), (30532122624, 3))
        for part, bytes_per_parameter in [("weights", 2), ("gradients", 4), ("optimizer", 10)]:
            total = sum(rank[f"{part}_bytes"] for rank in ranks)
            exact = bytes_per_parameter * plan["parameters"]
            self.assertLess(abs(total / exact - 1), 1e-3, part)
            self.assertGreaterEqual(total, exact, part)
        for rank in ranks:
            parts = sum(rank[f"{part}_bytes"] for part in
                        ["weights", "gradients", "optimizer", "gather_buffers", "gradient_buffer", "batch", "activations",
                         "runtime", "save_buffers"])
            self.assertEqual(rank["peak_bytes"], parts)
            self.assertFalse(rank["fits"])
            self.assertLessEqual(rank["staging_bytes"], (64 << 20) + (1 << 16))
        self.assertFalse(plan["staging_is_exact"])
        self.expect(self.plan(), 0, "Staging is ", "at most", "no weights in")

    def test_any_number_of_ranks_is_planned_at_once(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny"))
        before = program.processor_seconds()
        self.expect(sluice("plan", job, "--ranks", 65536), 0, "rank 65535 ")
        self.assertLess(program.processor_seconds() - before, 4 * program.SLOWDOWN)  # mostly the tables of 65536 rows

    def test_what_is_lacking(self):
        result = self.plan("--memory", "128.5GB")
        self.expect(result, 0, "128.50")
        self.assertEqual(too_large(result), [0, 1, 2])

    def test_steps_of_any_number_of_tokens_are_refused_or_do_not_fit(self):
        length, most = "--set=data.sequence_length=1048576", 1024
        for recompute in ("none", "layer", "all"):
            words = [length, "--memory", "128.5GB", f"--set=train.recompute={recompute}"]
            for micro in (1, most):
                micro_batch = f"--set=train.micro_batch_sequences={micro}"
                told = self.plan(*words, f"--set=train.batch_sequences={most}", micro_batch)
                self.expect(told, 0)
                self.assertEqual(too_large(told), [0, 1, 2])
        self.expect(self.plan(*words, "--set=train.batch_sequences=1048576"), 78, "train.batch_sequences", "data.sequence_length",
                    "1073741824 tokens")

    # Model, parameters without correction biases, and the state, master and gradients that full training on three nodes of 128.5 GB has room for.
    THREE_NODES = {"Moonlight-16B-A3B": (15_960_108_544, ("float32", "float32", "float32")),
                   "GLM-4.7-Flash": (29_943_390_976, ("bfloat16", "float32", "bfloat16")),
                   "gpt-oss-20b": (20_914_757_184, ("float32", "float32", "bfloat16"))}

    def test_models_of_other_families_on_three_nodes(self):
        for name, (parameters, mode) in self.THREE_NODES.items():
            for kind in ("3-nodes", "lora-3-nodes"):
                with self.subTest(model=name, kind=kind):
                    told = sluice("plan", SOURCE / f"configs/{name.lower()}-{kind}.toml", "--ranks", 3, "--memory", "128.5GB",
                                  "--json", f"--set=model.path={MODELS / name}")
                    self.expect(told, 0)
                    plan = json.loads(told.output)
                    self.assertTrue(all(rank["fits"] for rank in plan["ranks"]))
                    if kind == "lora-3-nodes":  # beside the model's own
                        self.assertGreater(plan["parameters"], parameters)
                    else:
                        self.assertEqual(plan["parameters"], parameters)
                        self.assertEqual(tuple(plan["mode"][key] for key in ("state", "master", "gradients")), mode)

    def test_what_is_left(self):
        self.expect(self.plan("--memory", "1TB"), 0, "rank 2: fits")

    def test_the_case_on_one_node_with_a_disk(self):
        told = sluice("plan", SOURCE / "configs/qwen3.5-35b-a3b-1-node-disk.toml", "--ranks", 1, "--memory", "128.5GB",
                      "--disk-rate", "3GB", "--json", f"--set=model.path={MODELS / 'Qwen3.5-35B-A3B'}")
        self.expect(told, 0)
        rank = json.loads(told.output)["ranks"][0]
        self.assertTrue(rank["fits"])
        self.assertLess(rank["peak_bytes"], 0.9 * 128.5e9)
        self.assertEqual(rank["disk"]["weights_bytes"], 0)
        self.assertLess(rank["disk"]["optimizer_bytes"], 100e9)
        self.assertLess(rank["disk"]["step_seconds"], 30)

    def test_the_case_of_three_nodes(self):
        file, model = SOURCE / "configs/qwen3.5-35b-a3b-3-nodes.toml", MODELS / "Qwen3.5-35B-A3B"
        words = ["plan", file, "--ranks", 3, f"--set=model.path={model}"]
        told = sluice(*words, "--memory", "128.5GB")
        self.expect(told, 0, "state int8", "master 24bit", "gradients bfloat16", "rank 0: fits", "rank 2: fits")
        self.assertNotIn("not available", told.output)
        plan = json.loads(sluice(*words, "--memory", "128.5GB", "--json").output)
        self.assertEqual(plan["mode"], {"kind": "adamw", "state": "int8", "master": "24bit", "gradients": "bfloat16"})
        for number, rank in enumerate(plan["ranks"]):
            self.assertEqual(rank["phases"]["backward_bytes"], rank["peak_bytes"])
            self.assertEqual((128.5e9 - rank["peak_bytes"]) // 1e9, 43 if number == 0 else 44)
            self.assertLess(rank["phases"]["load_bytes"], 23.4e9)
            # Of the dense parts of two layers, as the head stays sharded: bfloat16 weights, float32 gradients.
            self.assertEqual(rank["gradient_buffer_bytes"], 2 * rank["gather_buffers_bytes"])
            self.assertLess(rank["gather_buffers_bytes"], 2 * 2 * 38e6)
        self.assertLess(abs(sum(rank["weights_bytes"] for rank in plan["ranks"]) / (2 * 34660610688) - 1), 1e-3)

    def test_bytes_that_a_step_sends(self):
        file, model = SOURCE / "configs/qwen3.5-35b-a3b-3-nodes.toml", MODELS / "Qwen3.5-35B-A3B"
        words = ["plan", file, "--ranks", 3, f"--set=model.path={model}", "--set=train.batch_sequences=3",
                 "--set=data.sequence_length=512", "--link-rate", "1Gbit"]
        told = sluice(*words)
        self.expect(told, 0, "sent a step", "dense_weights", "tokens", "vocabulary: sharded")
        for rank in json.loads(sluice(*words, "--json").output)["ranks"]:
            # By hand: hidden states of 512 tokens to two ranks, gradients of 1024 back in float32, and two thirds of 512 rows
            # of the embedding with their gradients.
            self.assertAlmostEqual(rank["sent_bytes"]["vocabulary"] / 1e6, 4.2 + 8.4 + 1.4 + 2.8, delta=0.5)
        gathered = json.loads(sluice(*words, "--set=parallel.vocabulary=gathered", "--json").output)
        for rank in gathered["ranks"]:
            sent = rank["sent_bytes"]
            self.assertEqual(sent["all"], sum(sent[purpose] for purpose in sent if purpose not in ("all", "seconds")))
            self.assertEqual(sent["expert_weights"], 0)
            # By hand: 1.9e9 parameters of layers without experts, a head of 0.51e9, and 40 layers of 512 tokens, each
            # two thirds of it to others.
            for purpose, gigabytes in {"dense_weights": 3.8, "dense_gradients": 3.8, "vocabulary": 2.1, "tokens": 0.84}.items():
                self.assertAlmostEqual(sent[purpose] / 1e9, gigabytes, delta=0.07 * gigabytes)
            self.assertAlmostEqual(sent["seconds"], sent["all"] / 125e6)
        self.expect(sluice(*words[:-1], "quick"), 64, "--link-rate", "quick")

    def test_optimizer_settings_that_are_advised_fit(self):
        advice = json.loads(self.plan("--memory", "128.5GB", "--json").output)["would_fit"]
        change = next(option for option in advice if option["change"].startswith("--set optimizer."))
        self.expect(self.plan("--memory", "128.5GB", *change["change"].split()), 0, "rank 0: fits", "rank 2: fits")

    def mode(self, *options):
        told = json.loads(self.plan("--json", "--set=optimizer.fit=auto", *options).output)
        return tuple(told["mode"][key] for key in ("state", "master", "gradients"))

    def test_a_mode_is_chosen_by_the_memory_of_a_rank(self):
        self.assertEqual(self.mode("--memory", "1TB"), ("float32", "float32", "float32"))
        self.assertEqual(self.mode("--memory", "128.5GB"), ("bfloat16", "float32", "bfloat16"))
        self.assertEqual(self.mode("--set=memory.limit=80GB"), ("int8", "24bit", "release"))
        self.assertEqual(self.mode("--memory", "1TB", "--set=memory.limit=80GB"), ("float32", "float32", "float32"))
        self.expect(self.plan("--memory", "128.5GB", "--set=optimizer.fit=auto"), 0,
                    "state bfloat16", "master float32", "gradients bfloat16, chosen", "rank 2: fits")

    def test_where_no_mode_of_a_kind_fits_another_kind_is_advised(self):
        alone = ("--set=optimizer.fit=auto", "--memory", "80GB")
        told = self.plan(*alone, ranks=1)
        self.expect(told, 0, "optimizer.kind=adafactor", "optimizer.state=factored")
        self.assertEqual(too_large(told), [0])

    def test_a_long_job_that_fits_if_less_is_kept(self):
        words = ["--set=data.sequence_length=32768", "--memory"]
        told = json.loads(self.plan(*words, "1TB", "--json").output)
        peak = max(rank["peak_bytes"] for rank in told["ranks"])
        advice = json.loads(self.plan(*words, f"{peak - 1}B", "--json").output)["would_fit"]
        change = next(option for option in advice if option["change"] == 'train.recompute = "all"')
        # The attention of 48 layers, 32 heads of 128 in bfloat16 for each token, but of the layer that is computed.
        self.assertGreater(peak - change["peak_bytes"], 46 * 32768 * 32 * 128 * 2)

    def test_staging_is_what_a_run_takes(self):
        for readers in ("rank0", "all"):
            job = self.write_job(f"{readers}.toml", job={"kind": "load"}, load={"readers": readers},
                                 model={"path": FIXTURES / "qwen3-moe-mixed", "dtype": "float32"})
            plan = json.loads(sluice("plan", job, "--ranks", 3, "--json").output)
            self.assertTrue(plan["staging_is_exact"])
            self.expect(mpirun(3, program.SLUICE, "run", job), 0)
            with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
                taken = metrics["load/peak_staging_bytes"][:].tolist()
            self.assertEqual([rank["staging_bytes"] for rank in plan["ranks"]], taken)
            self.assertLess(max(taken), 4 << 20)
        drawn = sluice("plan", job, "--ranks", 3, "--json", "--set", "job.kind=train", "--set", "model.init=random",
                       "--set", "data.tokens=none.h5")
        self.assertEqual([rank["staging_bytes"] for rank in json.loads(drawn.output)["ranks"]], [0, 0, 0])

    def test_of_a_model_directory_is_that_of_a_training_job_with_defaults(self):
        model = FIXTURES / "qwen3-moe-mixed"
        job = self.write_job(model={"path": model}, data={"tokens": "none.h5"})
        expected = json.loads(sluice("plan", job, "--ranks", 3, "--json").output)
        for words in [[model], [model / "config.json"]]:
            told = sluice("plan", *words, "--ranks", 3, "--json")
            self.expect(told, 0)
            self.assertEqual(json.loads(told.output), expected)
        told = sluice("plan", model, "--ranks", 3, "--memory", "30MB")
        self.expect(told, 0, 'job.kind = "load"')
        self.assertIn(2, too_large(told))
        evaluates = json.loads(sluice("plan", model, "--ranks", 3, "--json", "--set", "job.kind=evaluate").output)
        self.assertEqual(evaluates["ranks"][0]["optimizer_bytes"], 0)
        self.expect(sluice("plan", self.directory, "--ranks", 3), 65, "model.path: cannot open", "config.json")

    def test_what_lies_on_gpus_and_what_in_main_memory(self):
        told = self.plan("--memory", "128.5GB", "--set=device.kind=cuda")
        self.expect(told, 0, "at the peak", "main memory")
        with_gpus, without = (json.loads(self.plan("--json", f"--set=device.kind={kind}").output)["ranks"] for kind in ("cuda", "cpu"))
        for there, here in zip(with_gpus, without):
            beside = there["batch_bytes"] + there["save_buffers_bytes"]
            self.assertEqual(there["gpu_peak_bytes"], there["peak_bytes"] - beside)
            self.assertGreater(there["peak_bytes"], here["peak_bytes"])  # a GPU works on more at once
            self.assertEqual(there["main_memory_peak_bytes"], max(beside, there["staging_bytes"]))
            self.assertNotIn("gpu_peak_bytes", here)
        gpu = max(rank["gpu_peak_bytes"] for rank in with_gpus)
        for bytes_each, fits in ((gpu, True), (gpu - 1, False)):
            ranks = json.loads(self.plan("--json", "--set=device.kind=cuda", "--memory", f"{bytes_each}B").output)["ranks"]
            self.assertEqual(all(rank["fits"] for rank in ranks), fits)

    def test_loading_alone_needs_the_shard_and_staging(self):
        ranks = json.loads(self.plan("--json", "--set=job.kind=load").output)["ranks"]
        for rank in ranks:
            self.assertEqual(rank["peak_bytes"], rank["weights_bytes"] + rank["staging_bytes"])


class Synthesize(JobTest):
    def setUp(self):
        super().setUp()
        self.config = self.directory / "config"
        self.config.mkdir()
        (self.config / "config.json").write_text(json.dumps(TINY))

    def synthesize(self, name, *options):
        out = self.directory / name
        self.expect(sluice("synthesize", self.config, out, *options), 0)
        return out

    def digest(self, path):
        return hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()

    def first_loss(self, name, **model):
        model["dtype"] = "bfloat16"  # the file's, so that loading changes nothing
        tables = reference_job("qwen3-moe-tiny", model=model, train={"steps": 1}, debug={"dump": ""})
        job = self.write_job(name, **tables)
        result = mpirun(2, program.SLUICE, "run", job)
        self.expect(result, 0)
        return [text.split()[3] for _, text in result.lines if text.startswith("step ")]

    def test_it_trains_as_if_drawn_in_place(self):
        loaded = self.first_loss("loaded.toml", path=self.synthesize("model", "--seed", 7))
        drawn = self.first_loss("drawn.toml", path=self.config, init="random", init_seed=7)
        self.assertEqual(len(loaded), 1)
        self.assertEqual(loaded, drawn)

    def test_equal_seeds_give_equal_bytes(self):
        seeds = {"first": 5, "again": 5, "other": 6}
        first, again, other = (self.digest(self.synthesize(name, "--seed", seed)) for name, seed in seeds.items())
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_holes_take_no_disk(self):
        config = TINY | {"vocab_size": 100000, "hidden_size": 512}
        (self.config / "config.json").write_text(json.dumps(config))
        status = (self.synthesize("model", "--sparse") / "model.safetensors").stat()
        self.assertGreater(status.st_size, 2 * 100000 * 512 * 2)
        self.assertLess(512 * status.st_blocks, 1 << 20)

    def test_a_wrapper_is_written_under_the_names_that_transformers_opens(self):
        fixture = FIXTURES / "qwen3_5-moe-vlm"
        out = self.directory / "model"
        self.expect(sluice("synthesize", fixture, out), 0)
        published = {name for name in checkpoint.read(fixture) if not name.startswith("model.visual.")}
        self.assertEqual(set(checkpoint.read(out)), published)

    def test_it_brings_its_configuration(self):
        out = self.synthesize("model")
        self.assertEqual(json.loads((out / "config.json").read_text()), TINY)

    def test_a_directory_in_use_is_refused(self):
        out = self.directory / "full"
        out.mkdir()
        (out / "notes.txt").write_text("keep me")
        self.expect(sluice("synthesize", self.config, out), 64, str(out))
        self.assertEqual([path.name for path in out.iterdir()], ["notes.txt"])

    def test_a_directory_without_config(self):
        out = self.directory / "out"
        self.expect(sluice("synthesize", self.directory / "nothing", out), 65, "config.json")
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
