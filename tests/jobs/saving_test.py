"""Whatever happens to a save, a whole step is left, and the run goes on from it to the same bits."""
import json
import os
import shutil
import signal
import unittest

import h5py
import program
from program import FIXTURES, SLUICE, fault, mpirun, sluice, with_fault
from saving import FIXTURE, SavedTest, SavingTest

LAUNCH = ["env", *(f"{name}_ALLOW_RUN_AS_ROOT{confirm}=1" for name in ("OMPI", "PRTE") for confirm in ("", "_CONFIRM"))]


class Killed(SavingTest):
    """By SIGKILL, at every write of a save; the step before goes when the new one is there."""

    CHANGES = {"train": {"steps": 8}, "checkpoint": {"every_steps": 2, "keep": 1}}
    # Site, rank and pass: before each call of one save that changes the disk, on each rank that makes it.
    PLACES = [*((site, rank, 1) for site in ("checkpoint.create", "checkpoint.write", "checkpoint.sync") for rank in range(3)),
              *((site, 0, nth) for site in ("checkpoint.manifest", "checkpoint.commit", "checkpoint.remove") for nth in (1, 2))]
    REAL = [("checkpoint.write", 1, 1), ("checkpoint.commit", 0, 1), ("checkpoint.remove", 0, 2)]

    def setUp(self):
        super().setUp()
        self.job_of_all = self.whole(**self.CHANGES)

    def expect_whole_step(self, run, before):
        """Some step of the run directory is whole: `before` or the next one saved."""
        self.expect(sluice("checkpoint", "verify", run), 0)
        self.assertIn(self.last_step(run) - before, (0, 2))

    def last_step(self, run):
        return max(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*"))

    def test_in_a_chain(self):
        """Each run goes on from what the one before has left, and is killed while it saves the next step."""
        job = self.job(**self.CHANGES)
        self.run_job(job, arguments=["--set", "train.steps=2"])
        for place in self.REAL:
            with self.subTest(place=place):
                before = self.last_step(self.output_of(job))
                result = mpirun(3, *with_fault(*place, "kill"), "run", job)
                self.assertNotEqual(result.status, 0)
                for part in ("injected fault", f"resume    from step {before}"):
                    self.assertIn(part, result.output)
                self.expect_whole_step(self.output_of(job), before)
        self.expect_end_of_all(job)

    def test_at_every_write(self):
        """A copy of the run directory, made at that moment, is what a kill would leave."""
        job = self.job("run.toml", **self.CHANGES)
        self.run_job(job, arguments=["--set", "train.steps=2"])
        self.run_job(job, arguments=["--set", "train.steps=4"], fault=",".join(fault(*place, "copy") for place in self.PLACES))
        for site, rank, nth in self.PLACES:
            with self.subTest(site=site, rank=rank, nth=nth):
                run = self.directory / f"run-{site}-{rank}-{nth}"
                self.expect_whole_step(run, 2)
                self.expect_end_of_all(self.job(f"{run.name}.toml", **self.CHANGES))

    def expect_end_of_all(self, job):
        """Going on from what is there, the run ends as one that nothing has ended."""
        self.expect(self.run_job(job), 0, "step 8/8")
        self.expect_same_files(self.step(self.job_of_all, 8), self.step(job, 8))
        self.assertEqual(self.losses(job), self.losses(self.job_of_all))


class Beside(SavingTest):
    """Steps that are saved while training goes on."""

    CHANGES = {"optimizer": {"eps": 1e-3}, "checkpoint": {"every_steps": 1, "keep": 10}}

    def expect_steps_of_runs_that_end_with_them(self, beside=None, **tables):
        """`beside`: tables of the run that saves beside its steps alone."""
        changes = self.CHANGES | tables
        changes["optimizer"] = self.CHANGES["optimizer"] | tables.get("optimizer", {})
        saves = self.job("beside.toml", train={"steps": 4}, **changes | (beside or {}))
        self.run_job(saves)
        self.assertEqual(self.steps(saves), [1, 2, 3, 4])
        for last in (1, 3):
            ends = self.job(f"ends-{last}.toml", train={"steps": last}, **changes | {"checkpoint": {"every_steps": 100}})
            self.run_job(ends)
            self.expect_same_files(self.step(ends, last), self.step(saves, last))

    def test_are_as_they_were_before_the_next_update(self):
        self.expect_steps_of_runs_that_end_with_them()

    def test_are_as_they_were_where_gradients_are_released(self):
        self.expect_steps_of_runs_that_end_with_them(optimizer={"gradients": "release", "clip": "unit", "state": "int8"})

    def test_are_as_those_of_a_run_in_memory_where_state_lies_on_a_disk(self):
        self.expect_steps_of_runs_that_end_with_them(optimizer={"gradients": "release"}, model={"dtype": "bfloat16"},
                                                     beside={"memory": self.memory_on_disk()})


class Refused(SavingTest):
    """By the system."""

    def test_training_goes_on_and_tries_again(self):
        job = self.job(train={"steps": 6})
        result = self.run_job(job, fault=fault("checkpoint.write", 1, 2, "io"))
        self.expect(result, 0, "STEP 4 ", "step 6/6")
        self.assertEqual(self.steps(job), [2, 6])
        self.assertEqual(sorted(path.name for path in self.checkpoints(job).iterdir()), ["step-00000002", "step-00000006"])

    def test_the_run_ends_if_it_is_to_stop(self):
        job = self.job(train={"steps": 6}, checkpoint={"on_failure": "stop"})
        result = self.run_job(job, fault=fault("checkpoint.write", 1, 2, "io"), status=74)
        self.expect(result, 74, "injected")
        self.assertEqual(self.steps(job), [2])

    def test_a_last_step_that_was_not_saved_is_an_error(self):
        job = self.job(train={"steps": 4})
        result = self.run_job(job, fault=fault("checkpoint.manifest", 0, 3, "io"), status=74)
        self.expect(result, 74, "the last step", "is step 2")
        self.assertEqual(self.steps(job), [2])
        self.run_job(job)
        self.assertEqual(self.steps(job), [2, 4])

    def test_a_full_disk_leaves_the_steps_before(self):
        """Files may not become as long as those of a rank, but longer than what Open MPI 5 shares as a file."""
        shape = self.directory / "shape"
        shape.mkdir()
        config = json.loads((FIXTURES / FIXTURE / "config.json").read_text()) | {"hidden_size": 256, "vocab_size": 32768}
        (shape / "config.json").write_text(json.dumps(config))
        job = self.job(model={"path": shape, "init": "random"}, train={"steps": 2})
        self.run_job(job)
        before = {path.name: path.read_bytes() for path in self.step(job, 2).iterdir()}
        limited = ["bash", "-c", f"ulimit -f $((48 << 10)); exec {SLUICE} \"$@\"", "sluice"]
        result = self.run_job(job, 3, ["--set", "train.steps=4"], start=limited, status=74)
        self.expect(result, 74, "[io.write]", "STEP 4 ", "File too large")
        self.assertEqual(self.steps(job), [2])
        self.assertEqual({path.name: path.read_bytes() for path in self.step(job, 2).iterdir()}, before)

    def test_a_place_that_cannot_be_written(self):
        file = self.directory / "file"
        file.write_text("")
        job = self.job(checkpoint={"path": file / "steps"})
        for command in ("check", "run"):
            self.expect(sluice(command, job), 74, "[job.not_writable]", "checkpoint.path")

    def test_a_disk_without_room(self):
        job = self.job(checkpoint={"keep": 1000000})
        for command in ("check", "run"):
            self.expect(sluice(command, job), 74, "[job.disk_room]", "4.35 TB")


class Broken(SavedTest):
    """Steps that are not what was saved."""

    CHANGES = {"train": {"steps": 4}}

    def expect_older(self, *parts):
        result = self.run_job(self.saved, arguments=["--set", "train.steps=6"])
        self.expect(result, 0, "step 3/6", *parts)
        self.expect(sluice("checkpoint", "verify", self.output_of(self.saved)), 0)
        self.assertEqual(self.steps(self.saved), [2, 4, 6])

    def test_a_changed_byte(self):
        path = self.step(self.saved, 4) / "rank-00001.safetensors"
        with open(path, "r+b") as file:
            file.seek(100000)
            file.write(b"broken")
        listed = sluice("checkpoint", "verify", self.output_of(self.saved))
        self.expect(listed, 65, "[checkpoint.damaged]", "step 2: ", "rank-00001.safetensors: ")
        self.expect_older("rank-00001.safetensors: ", "Step 2 ")

    def test_a_file_that_is_missing(self):
        (self.step(self.saved, 4) / "rank-00002.safetensors").unlink()
        self.expect(sluice("checkpoint", "ls", self.output_of(self.saved)), 65, "whole", "rank-00002.safetensors")
        listed = sluice("checkpoint", "ls", self.output_of(self.saved), "--json")
        self.assertEqual(listed.status, 65)
        self.assertEqual([(step["step"], step["whole"], step.get("code")) for step in json.loads(listed.output)],
                         [(2, True, None), (4, False, 65)])
        self.expect_older("rank-00002.safetensors")

    def test_a_file_that_is_too_short(self):
        os.truncate(self.step(self.saved, 4) / "rank-00000.safetensors", 1000)
        self.expect_older("has 1000 bytes")

    def test_a_file_of_another_step(self):
        shutil.copy(self.step(self.saved, 2) / "rank-00000.safetensors", self.step(self.saved, 4))
        self.expect_older("what was saved")

    def test_a_manifest_of_something_else(self):
        (self.step(self.saved, 4) / "manifest.json").write_text("{}")
        self.expect_older("not the manifest")

    def test_a_disk_that_does_not_give_a_step(self):
        result = mpirun(3, *with_fault("checkpoint.read", 1, 1, "io"), "run", self.saved, "--set", "train.steps=6")
        self.expect(result, 74, "injected read error", "checkpoint.resume = 2")
        self.assertEqual(self.steps(self.saved), [2, 4])
        self.expect_resumed(self.run_job(self.saved, arguments=["--set", "train.steps=6"]), 4, "step 6/6")

    def test_no_step_that_is_whole(self):
        for step in (2, 4):
            (self.step(self.saved, step) / "manifest.json").unlink()
        result = self.run_job(self.saved, status=65)
        self.expect(result, 65, "[checkpoint.damaged]", "2 checkpoints", "manifest.json")
        self.expect(sluice("check", self.saved), 65, "[checkpoint.damaged]")


class Changed(SavedTest):
    """Jobs that are not those that saved."""

    CHANGES = {"train": {"steps": 2}}

    def test_keys_that_may_change_are_listed(self):
        result = self.run_job(self.saved, arguments=["--set", "train.steps=3", "--set", "optimizer.learning_rate=0.5"])
        self.expect(result, 0, "train.steps is 3", "was 2", "optimizer.learning_rate is 0.5", "step 3/3")

    def test_keys_that_may_not_change_are_refused(self):
        job_toml = (self.output_of(self.saved) / "job.toml").read_text()
        changes = ["--set", "data.seed=5", "--set", "train.batch_sequences=3", "--set", "train.steps=3"]
        for result in (sluice("check", self.saved, *changes), self.run_job(self.saved, arguments=changes, status=78)):
            self.expect(result, 78, "data.seed is 5", "was 0", "train.batch_sequences is 3", "was 6")
            self.assertNotIn("train.steps is", result.output)
        self.assertEqual((self.output_of(self.saved) / "job.toml").read_text(), job_toml)

    def test_a_mode_that_may_be_chosen_stays_the_saved_one(self):
        job = self.job("mode.toml", train={"steps": 2}, model={"dtype": "bfloat16"}, optimizer={"state": "int8", "master": "24bit"})
        self.run_job(job)
        result = self.run_job(job, arguments=["--set", "optimizer.fit=auto", "--set", "optimizer.state=float32", "--set", "train.steps=3"])
        self.expect_resumed(result, 2, "step 3/3")
        self.assertIn('state = "int8"', (self.output_of(job) / "job.toml").read_text())

    def test_another_model(self):
        arguments = ["--set", f"model.path={program.FIXTURES / 'olmoe-tiny'}"]
        for result in (self.run_job(self.saved, arguments=arguments, status=78), sluice("check", self.saved, *arguments)):
            self.expect(result, 78, "[job.resume]", "model.path")

    def test_other_tokens(self):
        with h5py.File(self.directory / "tokens.h5", "w") as file:
            file["tokens"] = [7] * 500
        arguments = ["--set", f"data.tokens={self.directory}/tokens.h5"]
        for result in (self.run_job(self.saved, arguments=arguments, status=65), sluice("check", self.saved, *arguments)):
            self.expect(result, 65, "[job.resume]", "data.tokens: ")

    def test_one_other_token_of_a_small_file(self):
        copy = self.directory / "copy.h5"
        shutil.copyfile(FIXTURES / FIXTURE / "reference.h5", copy)
        arguments = ["--set", f"data.tokens={copy}", "--set", "train.steps=3"]
        self.expect_resumed(sluice("check", self.saved, *arguments), 2)
        with h5py.File(copy, "a") as file:
            ids = file["tokens"][...]
            ids.flat[-1] = (ids.flat[-1] + 1) % 500
            file["tokens"][...] = ids
        self.expect(sluice("check", self.saved, *arguments), 65, "[job.resume]", "data.tokens: ")

    def test_a_named_step(self):
        result = self.run_job(self.saved, arguments=["--set", "checkpoint.resume=7"], status=78)
        self.expect(result, 78, "[checkpoint.no_such_step]", "checkpoint.resume: ", "which holds 2")
        self.run_job(self.saved, arguments=["--set", "train.steps=6"])
        self.assertEqual(self.steps(self.saved), [2, 4, 6])
        result = self.run_job(self.saved, arguments=["--set", "checkpoint.resume=2", "--set", "train.steps=3"])
        self.expect_resumed(result, 2)
        self.assertEqual(self.steps(self.saved), [2, 3])  # later ones are of another course

    def test_a_finished_run_has_nothing_left_to_do(self):
        files = sorted(self.output_of(self.saved).iterdir())
        self.expect_resumed(self.run_job(self.saved), 2, "done already: ")
        self.assertEqual(self.steps(self.saved), [2])
        self.assertEqual(sorted(self.output_of(self.saved).iterdir()), files, "no metrics of a run without steps")
        status, = json.loads(sluice("status", "--json", self.output_of(self.saved)).output)
        self.assertEqual((status["state"], status["step"], status["steps"], status["saved_step"]), ("done", 2, 2, 2))
        self.assertEqual(status["loss"], self.losses(self.saved)[2])

    def test_results_stay_unless_they_may_be_overwritten(self):
        self.expect(self.run_job(self.saved, arguments=["--set", "checkpoint.resume=never"], status=78), 78, "an earlier run")
        result = self.run_job(self.saved, arguments=["--set", "job.overwrite=true", "--set", "train.steps=3"])
        self.expect(result, 0, "1 checkpoints", "earlier training", "step 1/3")
        self.assertEqual(self.steps(self.saved), [2, 3])
        self.assertEqual(list(self.losses(self.saved)), [1, 2, 3])

    def test_a_job_that_was_ended_before_its_first_save_begins_again(self):
        job = self.job("early.toml", train={"steps": 2})
        mpirun(3, *self.stop_at(1), "run", job)
        self.assertEqual(self.steps(job), [])
        self.run_job(job)
        self.assertEqual(list(self.losses(job)), [1, 2])
        self.assertTrue((self.output_of(job) / "metrics.0001.h5").exists())

    def test_a_job_that_keeps_nothing_says_so(self):
        job = self.job("lost.toml", checkpoint={"every_steps": 0, "every_minutes": 0}, train={"steps": 1})
        for result in (sluice("check", job), sluice("run", job)):
            self.expect(result, 0, "neither saves", "nor exports", "no training state")
        self.assertFalse(self.checkpoints(job).exists())


class Ended(SavingTest):
    """By a signal: the step is finished and saved."""

    ENDLESS = {"train": {"steps": 100000}, "checkpoint": {"every_steps": 0, "every_minutes": 30}}

    def start(self, words, job):
        running = program.Program(words)
        self.addCleanup(running.stop)
        program.wait_until(lambda: "step 3/" in running.output(), "the third step")
        return running

    def expect_saved(self, job, result):
        self.expect(result, 75, "saved: run again")
        step, = self.steps(job)
        self.assertGreaterEqual(step, 3)
        self.expect(sluice("checkpoint", "verify", self.output_of(job)), 0)
        again = self.run_job(job, arguments=["--set", f"train.steps={step + 1}"])
        self.expect(again, 0, "resume ", f"from step {step}", f"step {step + 1}/{step + 1}")

    def test_sigusr1_to_mpirun(self):
        job = self.job(**self.ENDLESS)
        running = self.start([program.MPIRUN, "-np", 3, SLUICE, "run", job], job)
        running.process.send_signal(signal.SIGUSR1)
        self.expect_saved(job, running.finish())

    def test_sigterm_to_one_rank(self):
        job = self.job(**self.ENDLESS)
        running = self.start([program.MPIRUN, "-np", 3, SLUICE, "run", job], job)
        ranks = program.run("pgrep", "-f", f"sluice-train run.*{self.directory.name}").output.split()
        os.kill(int(ranks[-1]), signal.SIGTERM)
        self.expect_saved(job, running.finish())

    def test_numbers_that_are_not_finite(self):
        """What was trained before that step is kept."""
        job = self.job(train={"steps": 40}, optimizer={"learning_rate": 100.0, "weight_decay": 100.0}, checkpoint={"every_steps": 0})
        result = self.run_job(job, status=76)
        step, = self.steps(job)
        self.expect(result, 76, f"saved     step {step}", f"step {step + 1}: ")
        self.expect(self.run_job(job, status=76), 76, "resume ", f"from step {step}")

    def launch(self, job, words=(SLUICE,)):
        flags = ["--bind-to", "none", "--oversubscribe"] if (program.open_mpi_version() or 5) < 5 else ["--map-by", ":OVERSUBSCRIBE"]
        return self.start([*LAUNCH, *words, "launch", "-n", 3, job, "--", *flags], job)

    def test_ctrl_c_once_under_launch_that_nohup_has_begun(self):
        job = self.job(**self.ENDLESS)
        running = self.launch(job, ("nohup", SLUICE))
        rank, *_ = program.run("pgrep", "-f", f"sluice-train run.*{self.directory.name}").output.split()
        for process in (running.process.pid, int(rank)):
            os.kill(process, signal.SIGHUP)
        running.process.send_signal(signal.SIGINT)
        self.expect_saved(job, running.finish())

    def test_ctrl_c_twice_under_launch(self):
        job = self.job(**self.ENDLESS)
        running = self.launch(job, with_fault("checkpoint.create", "*", 1, "delay"))
        running.process.send_signal(signal.SIGINT)
        program.wait_until(lambda: "injected fault" in running.output(), "the save to begin")
        running.process.send_signal(signal.SIGINT)
        result = running.finish()
        self.assertNotIn(result.status, (0, 75), result.output)
        self.assertEqual(self.steps(job), [])

    def test_launch_returns_the_code_of_the_job(self):
        job = self.job(train={"steps": 1})
        self.expect(program.run(*LAUNCH, SLUICE, "launch", "-n", 1, job), 0, "step 1/1")
        self.expect(program.run(*LAUNCH, SLUICE, "launch", "-n", 1, job, "--set", "data.tokens=none.h5"), 65, "none.h5")


class Used(SavingTest):
    """By other commands and jobs."""

    def setUp(self):
        super().setUp()
        self.target = self.directory / "trained"
        self.saved = self.job(train={"steps": 2}, model={"dtype": "bfloat16"}, export={"at_end": True, "path": self.target})
        self.run_job(self.saved)
        self.run = self.output_of(self.saved)

    def test_the_list_of_steps(self):
        for place in (self.run, self.checkpoints(self.saved), self.step(self.saved, 2)):
            self.expect(sluice("checkpoint", "ls", place), 0, "whole", " 3 ")
            listed = json.loads(sluice("checkpoint", "ls", place, "--json").output)
            self.assertEqual([(step["step"], step["ranks"], step["whole"]) for step in listed], [(2, 3, True)])
        self.expect(sluice("checkpoint", "ls", self.directory), 65, "[checkpoint.no_such_step]")

    def test_an_export_is_what_the_run_would_export(self):
        self.expect(sluice("checkpoint", "export", self.run, self.directory / "out"), 0, "export    step 2")
        self.expect(sluice("verify", self.directory / "out", self.target), 0)
        self.expect(sluice("checkpoint", "export", self.run, self.directory / "out"), 64, "[io.exists]")
        self.expect(sluice("checkpoint", "export", self.run, self.directory / "other", "--step", 3), 64, "[checkpoint.no_such_step]")

    def evaluate(self, name, path):
        job = self.job(name, job={"kind": "evaluate"}, model={"path": path, "dtype": "bfloat16"})
        result = self.run_job(job, 2)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return metrics["evaluate/total_loss"][0], result.output

    def test_an_evaluation_of_a_run(self):
        expected, _ = self.evaluate("exported.toml", self.target)
        for name, path in (("run.toml", self.run), ("step.toml", self.step(self.saved, 2))):
            self.assertEqual(self.evaluate(name, path)[0], expected)

    def test_a_load_with_every_reader_is_verified(self):
        for readers in ("rank0", "node", "all"):
            job = self.job(f"{readers}.toml", job={"kind": "load"}, data={"tokens": ""}, model={"path": self.run},
                           load={"readers": readers, "verify": True})
            self.expect(sluice("check", job), 0)
            self.expect(self.run_job(job, 2), 0, "verified")


if __name__ == "__main__":
    unittest.main(verbosity=2)
