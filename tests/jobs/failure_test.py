"""Whatever goes wrong on one rank ends the whole job soon, with one explanation and the right exit code."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import h5py
import numpy
import program
from program import FIXTURES, JobTest, fault, mpirun, reference_job, sluice, start_mpirun, with_fault, with_faults
from suite import run_job

FIXTURE = "qwen3-moe-tiny"
EXPLANATION = "failed, so the job ends with exit code"


def steps_in(text):
    """{step: loss} of the step lines."""
    lines = (line.split() for line in text.splitlines() if line.startswith("step "))
    return {int(words[1].split("/")[0]): float(words[3]) for words in lines}


class Failure(JobTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.expect_no_process)

    def expect_no_process(self):
        """None is left of the job: their command lines name this test's directory."""
        program.wait_until(lambda: program.run("pgrep", "-af", self.directory.name).output == "", "the job's processes to end")

    def loading_job(self):
        """Only loads: the same code as before training."""
        return self.job(job={"kind": "load"}, data={"tokens": ""})

    def job(self, name="job.toml", **changes):
        """Loads in about a dozen chunks, and saves nothing."""
        defaults = {"debug": {"dump": ""}, "load": {"chunk": "64KiB"}, "checkpoint": {"every_minutes": 0}}
        return self.write_job(name, **reference_job(FIXTURE, **defaults | changes))

    def run_job(self, job, *start, arguments=()):
        """In processes of its own, started by those words."""
        return mpirun(3, *(start or [program.SLUICE]), "run", job, *arguments)

    def run_shared(self, job, *arguments, fault=""):
        """In ranks that this program's jobs share: the failure is one that all ranks find."""
        return run_job(3, job, *arguments, fault=fault)

    def status(self, job):
        return json.loads((self.output_of(job) / "status.json").read_text())

    def expect_end_after_fault(self, result):
        self.assertLess(result.seconds_after("injected fault"), program.GUARD_SECONDS, result.output)

    def expect_one_explanation(self, result, rank, status):
        self.expect(result, status, f"rank {rank} of 3 {EXPLANATION} {status}:")
        self.expect_once(result, EXPLANATION)
        if program.open_mpi_version() == 4:  # a later one cannot be kept from its banner
            self.assertNotIn("MPI_ABORT", result.output)

    def expect_metrics(self, job, result):
        """Every step that was printed is in the file, with its loss."""
        printed = steps_in(result.output)
        self.assertTrue(printed, result.output)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            rows = metrics["train/step"].shape[0]
            self.assertEqual(metrics["train/step"][:].tolist(), list(range(1, rows + 1)))
            losses = metrics["train/loss"][:rows]
        for step, loss in printed.items():
            self.assertAlmostEqual(losses[step - 1], loss, delta=1e-5)


class KilledRank(Failure):
    def kill_while_loading(self, rank):
        result = self.run_job(self.loading_job(), *with_fault("load.chunk", rank, 4, "kill"))
        self.assertNotEqual(result.status, 0)
        self.expect_end_after_fault(result)
        self.assertIn("signal 9", result.output)

    def kill_while_training(self, rank):
        job = self.job()
        result = self.run_job(job, *with_fault("train.step", rank, 4, "kill"))
        self.assertNotEqual(result.status, 0)
        self.expect_end_after_fault(result)
        self.assertIn("signal 9", result.output)
        self.expect_metrics(job, result)

    def test_rank_0_while_loading(self):
        self.kill_while_loading(0)

    def test_rank_1_while_loading(self):
        self.kill_while_loading(1)

    def test_rank_0_while_training(self):
        self.kill_while_training(0)

    def test_rank_1_while_training(self):
        self.kill_while_training(1)


class Signal(Failure):
    """What ends a job from outside leaves its line in status.json, and every row that was printed."""

    def expect_told(self, job, *parts):
        status = self.status(job)
        self.assertEqual(status["state"], "failed")
        self.assertGreater(status["step"], 0)
        for part in parts:
            self.assertIn(part, status["message"])

    def interrupt(self, send, *parts, ranks=3):
        job = self.job(train={"steps": 100000})
        running = start_mpirun(ranks, program.SLUICE, "run", job) if ranks > 1 else program.Program([program.SLUICE, "run", job])
        self.addCleanup(running.stop)
        program.wait_until(lambda: "step 2/" in running.output(), "the second step")
        send(running.process.pid)
        result = running.finish()
        self.assertNotEqual(result.status, 0)
        self.expect_told(job, *parts)
        self.expect_metrics(job, result)

    def test_sigterm_to_the_ranks_is_in_the_status(self):
        """Slurm tells the ranks themselves; the mpirun of Open MPI 5, asked to end, kills them without a word."""
        ranks = f"sluice-train run.*{self.directory.name}"
        self.interrupt(lambda _: program.run("pkill", "-TERM", "-f", ranks), "ended by SIGTERM")

    def test_ctrl_c_on_a_single_rank_is_in_the_status(self):
        self.interrupt(lambda rank: os.kill(rank, signal.SIGINT), "ended by SIGINT", ranks=1)

    def test_sigusr1_is_in_the_status(self):
        self.interrupt(lambda launcher: os.kill(launcher, signal.SIGUSR1), "ended by SIGUSR1")

    def test_a_killed_rank_is_in_the_status(self):
        job = self.job()
        self.run_job(job, *with_fault("train.step", 1, 4, "kill"))
        self.expect_told(job, "ended by SIGTERM", "another rank")

    def test_the_error_of_another_rank_is_kept_in_the_status(self):
        job = self.job()
        self.run_job(job, *with_fault("train.step", 1, 4, "throw"))
        self.assertIn("injected", self.status(job)["message"])

    def test_a_closed_stdout_does_not_end_the_job(self):
        job = self.job()
        self.expect(program.run("sh", "-c", f"{program.SLUICE} run {job} | head -n 1"), 0)
        program.wait_until(lambda: self.status(job)["state"] == "done", "the job to finish")


class Shipped(Failure):
    """The programs that users run have no faults to switch on."""

    def test_they_run_through_every_fault_point(self):
        for site, kind in (("load.chunk", "load"), ("train.step", "train"), ("metrics.append", "train")):
            job = self.job(f"{site}.toml", job={"kind": kind}, **({"data": {"tokens": ""}} if kind == "load" else {}))
            with self.subTest(site=site):
                result = self.run_job(job, "env", f"SLUICE_FAULT={site}:*:1+:throw", program.SLUICE)
                self.expect(result, 0)
                self.assertNotIn("injected", result.output)

    def test_they_do_not_even_name_the_variable(self):
        for shipped in ("sluice", "sluice-train"):
            self.assertNotIn(b"SLUICE_FAULT", pathlib.Path(program.SLUICE).with_name(shipped).read_bytes())
        self.assertIn(b"SLUICE_FAULT", pathlib.Path(program.SLUICE_WITH_FAULTS).read_bytes())


class FailingRank(Failure):
    def fail_at(self, site, rank, action, status):
        job = self.loading_job() if site.startswith("load.") else self.job()
        result = self.run_job(job, *with_fault(site, rank, 1, action))
        self.expect_one_explanation(result, rank, status)
        self.expect_end_after_fault(result)
        return job

    def test_a_broken_invariant_while_loading(self):
        self.fail_at("load.chunk", 1, "throw", 70)

    def test_a_read_error_while_loading(self):
        job = self.fail_at("load.chunk", 0, "io", 74)
        status = self.status(job)
        self.assertEqual((status["state"], status["exit_code"]), ("failed", 74))
        self.assertIn("injected read error", status["message"])

    def test_a_broken_invariant_while_training(self):
        job = self.fail_at("train.step", 0, "throw", 70)
        self.assertEqual(self.status(job)["state"], "failed")

    def test_a_read_error_while_training(self):
        self.fail_at("train.step", 2, "io", 74)

    def test_the_rank_that_tells_of_the_end_waits_for_the_one_that_writes_it_down(self):
        # Both fail in the same step: one of them is slow to write status.json, the other one ends the job.
        job = self.job()
        faults = [fault("train.step", rank, 1, "throw") for rank in (0, 1)] + [fault("job.failed", "*", 1, "delay")]
        result = self.run_job(job, *with_faults(",".join(faults)))
        self.expect(result, 70, EXPLANATION)
        self.assertIn("train.step", self.status(job)["message"])

    def test_a_rank_that_exits_early_fails_the_job(self):
        job = self.job()
        result = self.run_job(job, *with_fault("train.step", 1, 3, "exit0"))
        self.assertNotEqual(result.status, 0, result.output)
        self.expect_end_after_fault(result)
        self.assertNotEqual(self.status(job)["state"], "done")


class StoppedRank(Failure):
    """A rank that neither works nor ends: the others name what they waited for, and whom."""

    def stop(self, site, rank, section):
        limit = 3
        deadlines = {"load_seconds": limit, "step_seconds": limit}
        result = self.run_job(self.job(deadline=deadlines), *with_fault(site, rank, 2, "stop"))
        self.expect(result, 70, EXPLANATION)
        self.expect_once(result, EXPLANATION)
        self.assertRegex(result.output, rf"{section}: .* \b{rank} \[comm.deadline\]")
        waited = float(re.search(r"waited (\d+\.\d) s, its limit", result.output)[1])
        self.assertGreaterEqual(waited, limit, result.output)
        self.assertLess(result.seconds_after("injected fault"), limit + program.GUARD_SECONDS, result.output)

    def test_the_reader_while_loading(self):
        self.stop("load.chunk", 0, "load")

    def test_a_receiver_while_loading(self):
        self.stop("load.chunk", 2, "load")

    def test_rank_0_while_training(self):
        self.stop("train.step", 0, "step")

    def test_another_rank_while_training(self):
        self.stop("train.step", 1, "step")


class RunDirectory(Failure):
    def test_two_jobs_in_one_directory(self):
        job = self.job(train={"steps": 1000000})
        first = start_mpirun(3, program.SLUICE, "run", job)
        self.addCleanup(first.stop)
        program.wait_until(lambda: steps_in(first.output()), "a step of the first job")
        second = self.run_job(job)
        self.expect_one_explanation(second, 0, 78)
        self.expect(second, 78, "[job.running]", str(self.output_of(job)))
        self.expect_prompt(second)
        seen = len(first.lines)
        program.wait_until(lambda: len(first.lines) > seen + 2, "more steps of the first job")
        self.assertEqual(self.status(job)["state"], "training")

    def test_results_in_folders_of_their_own(self):
        job = self.job(train={"steps": 1}, metrics={"file": "numbers/metrics.h5"}, debug={"dump": "tensors/dump.h5"})
        self.expect(self.run_shared(job), 0)
        for file in ["numbers/metrics.h5", "tensors/dump.h5"]:
            h5py.File(self.output_of(job) / file).close()

    def test_results_of_an_earlier_job_are_kept(self):
        job = self.job(train={"steps": 1})
        self.expect(self.run_shared(job), 0)
        before = (self.output_of(job) / "metrics.h5").read_bytes()
        result = self.run_shared(job)
        self.expect_one_explanation(result, 0, 78)
        self.expect(result, 78, str(self.output_of(job) / "metrics.h5"), "job.overwrite = true")
        self.assertEqual((self.output_of(job) / "metrics.h5").read_bytes(), before)
        self.expect(self.run_shared(job, "--set", "job.overwrite=true", "--set", "train.steps=2"), 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            self.assertEqual(metrics["train/step"].shape, (2,))

    def test_a_job_that_cannot_run_keeps_the_results_it_may_overwrite(self):
        job = self.job(train={"steps": 1}, debug={"dump": "dump.h5"}, job={"overwrite": True})
        self.expect(self.run_shared(job), 0)
        results = [self.output_of(job) / name for name in ("metrics.h5", "dump.h5")]
        before = [path.read_bytes() for path in results]
        tokens = self.directory / "none.h5"
        for status, setting in [(65, f"data.tokens={tokens}"), (78, "parallel.expert_parallel=2")]:
            with self.subTest(setting):
                self.expect(self.run_shared(job, "--set", setting), status)
                self.assertEqual([path.read_bytes() for path in results], before)

    def test_the_status_says_how_far_the_job_came_and_how_it_ended(self):
        job = self.job(train={"steps": 3})
        self.expect(self.run_shared(job), 0)
        status = self.status(job)
        self.assertEqual((status["state"], status["step"], status["exit_code"]), ("done", 3, 0))
        failing = self.job("failing.toml", train={"steps": 5})
        self.run_job(failing, *with_fault("train.step", 0, 3, "throw"))
        status = self.status(failing)
        self.assertEqual((status["state"], status["step"], status["exit_code"]), ("failed", 2, 70))


class BlockedOutput(Failure):
    """Nobody reads what the job writes to stderr, and the pipe is full."""

    def full_pipe(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        os.set_blocking(writer, False)
        for block in (b"x" * 4096, b"x"):
            try:
                while True:
                    os.write(writer, block)
            except BlockingIOError:
                pass
        os.set_blocking(writer, True)
        return writer

    def expect_end(self, status, setting):
        words = [program.SLUICE, "run", str(self.job()), "--set", setting]
        job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=self.full_pipe())
        self.addCleanup(job.kill)
        self.assertEqual(job.wait(program.GUARD_SECONDS), status)

    def test_a_failing_job_ends(self):
        self.expect_end(65, f"data.tokens={self.directory}/none.h5")

    def test_a_job_that_is_refused_ends(self):
        self.expect_end(78, "train.steps=-1")


class FullDisk(Failure):
    """What the metrics file cannot take costs rows, and not the run."""

    REFUSED = "cannot write metrics"

    def test_a_row_that_is_refused_is_missing_and_the_next_is_not(self):
        job = self.job(train={"steps": 6})
        result = self.run_shared(job, fault=fault("metrics.append", 0, 3, "io"))
        self.expect(result, 0, "is written again", "lacks 1 row ")
        self.expect_once(result, self.REFUSED)
        self.assertEqual(list(steps_in(result.output)), [1, 2, 3, 4, 5, 6])
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            self.assertEqual(metrics["train/step"][:].tolist(), [1, 2, 4, 5, 6])
            self.assertEqual(metrics["train/loss"].shape, (5,))

    def expect_export(self, refused, *parts):
        target = self.directory / "trained"
        job = self.job(train={"steps": 4}, export={"at_end": True, "path": target})
        result = self.run_shared(job, fault=refused)
        self.expect(result, 0, *parts)
        self.expect(sluice("verify", target), 0)
        self.assertEqual(self.status(job)["state"], "done")
        return job, result

    def test_training_goes_on_without_its_rows_and_exports(self):
        job, result = self.expect_export(fault("metrics.append", 0, "2+", "io"), "lacks 3 rows")
        self.expect_once(result, self.REFUSED)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            self.assertEqual(metrics["train/step"][:].tolist(), [1])

    def test_weights_are_exported_though_the_metrics_file_cannot_be_closed(self):
        self.expect_export(fault("metrics.close", 0, 1, "io"), "last row: injected")


class BadInput(Failure):
    def copy_of(self, fixture):
        return shutil.copytree(FIXTURES / fixture, self.directory / "model", ignore=shutil.ignore_patterns("*.h5"))

    def tokens(self, ids):
        path = self.directory / "tokens.h5"
        with h5py.File(path, "w") as file:
            file["tokens"] = numpy.array(ids, dtype=numpy.int32)
        return path

    def expect_refused(self, status, *parts, **changes):
        result = self.run_shared(self.job(**changes))
        self.expect_prompt(result)
        self.expect_one_explanation(result, 0, status)
        for part in parts:
            self.expect_once(result, part)

    def test_a_truncated_checkpoint(self):
        model = self.copy_of(FIXTURE)
        with open(model / "model.safetensors", "r+b") as file:
            file.truncate(500000)
        self.expect_refused(65, str(model / "model.safetensors"), model={"path": model})

    def test_a_shard_that_is_missing(self):
        model = self.copy_of("qwen3-moe-mixed")
        (model / "model-00003-of-00006.safetensors").unlink()
        self.expect_refused(65, "model-00003-of-00006.safetensors", model={"path": model})

    def test_a_token_the_model_does_not_know(self):
        """Found before the first step, wherever it is."""
        path = self.tokens([7] * 2000 + [512] + [7] * 400)
        self.expect_refused(65, f"tokens[2000] in {path}", "is 512", data={"tokens": path})
        result = sluice("check", self.directory / "job.toml")
        self.expect(result, 65, f"tokens[2000] in {path}", "is 512")

    def test_tokens_that_are_no_hdf5(self):
        path = self.directory / "tokens.h5"
        path.write_text("It was the best of times\n")
        self.expect_refused(65, str(path), data={"tokens": path})

    def test_tokens_that_were_never_written(self):
        path = self.directory / "tokens.h5"
        with h5py.File(path, "w") as file:
            tokens = file.create_dataset("tokens", (10000,), numpy.int32, chunks=(1000,))
            tokens[:2500] = 7
        self.expect_refused(65, "[data.token_file]", "7 of", "10 chunks", data={"tokens": path})
        with h5py.File(path, "w") as file:
            file.create_dataset("tokens", (10000,), numpy.int32)
        self.expect(sluice("check", self.job(data={"tokens": path})), 65, "nothing was ever")

    def test_tokens_joined_from_files_one_of_which_is_missing(self):
        layout = h5py.VirtualLayout(shape=(2000,), dtype=numpy.int32)
        for i, name in enumerate(["a.h5", "b.h5"]):
            with h5py.File(self.directory / name, "w") as file:
                file["tokens"] = numpy.full(1000, 7, numpy.int32)
            layout[i * 1000:(i + 1) * 1000] = h5py.VirtualSource(name, "tokens", shape=(1000,))
        path = self.directory / "tokens.h5"
        with h5py.File(path, "w", libver="latest") as file:
            file.create_virtual_dataset("tokens", layout)
        job = self.job(data={"tokens": path})
        result = sluice("check", job)
        self.expect(result, 0, "data      41 sequences")
        self.assertNotIn("closed", result.output)
        (self.directory / "b.h5").unlink()
        self.expect(sluice("check", job), 65, "sources b.h5", "not there")

    def test_tokens_that_are_missing(self):
        path = self.directory / "tokens.h5"
        self.expect_refused(65, f"{path}: ", "No such file", data={"tokens": path})

    def test_a_run_directory_below_a_file(self):
        file = self.directory / "file"
        file.write_text("")
        self.expect_refused(74, "create", f"{file / 'run'}: ", job={"output": file / "run"})

    def test_a_metrics_file_below_a_file(self):
        file = self.directory / "file"
        file.write_text("")
        result = self.run_shared(self.job(metrics={"file": file / "metrics.h5"}))
        self.expect_one_explanation(result, 0, 74)
        self.assertNotIn("shards    ", result.output)  # found before the weights were read


if __name__ == "__main__":
    unittest.main(verbosity=2)
