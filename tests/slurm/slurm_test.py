"""The shipped job scripts under a real Slurm: preempted, out of time, signalled, cancelled, requeued, in arrays, one after the other.

    slurm_test.py [CLASS[.TEST]]...      as root, with Debian's packages slurmctld, slurmd, slurm-client and munge
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "jobs"))
from cluster import LIMIT_SECONDS, Cluster  # noqa: E402
from program import GUARD_SECONDS, SLUICE, SLUICE_WITH_FAULTS, SOURCE, JobTest, mpirun, reference_job, sluice  # noqa: E402

FIXTURE = "qwen3-moe-tiny"
STEPS = 9
SCRIPTS = SOURCE / "slurm"
# Ranks share a node, whose memory they exchange through: TCP between processes of one host is not what Open MPI is made for.
RANKS = ["--nodes=1", "--ntasks-per-node=3", "--cpus-per-task=1", "--mem=300", "--exclusive"]
NODES = ["--nodes=3", "--cpus-per-task=1", "--mem=300", "--exclusive"]
# mpirun takes a virtual node for another machine than the one it runs on.
NO_SLURM_IN_MPIRUN = {"OMPI_MCA_plm": "^slurm", "OMPI_MCA_ras": "^slurm", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
SLOW = "train.step:0:1+:delay"  # each step takes two seconds more
cluster = None


def setUpModule():
    global cluster
    os.environ |= {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    cluster = Cluster()


def tearDownModule():
    cluster.stop()


class SlurmJob:
    """A submitted job; `log` is where its script writes."""

    def __init__(self, test, number, log):
        self.test, self.number, self.log = test, number, log

    def state(self):
        """"COMPLETED" and its like, with the exit status."""
        text = cluster.command("scontrol", "show", "job", self.number, "--oneliner").stdout
        found = re.search(r"JobState=(\S+).*ExitCode=(\d+):", text)
        self.test.assertTrue(found, text)
        return found[1], int(found[2])

    def output(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def wait_for(self, part, count=1, limit=LIMIT_SECONDS):
        """Until the log holds it so many times."""
        self.wait_until(lambda: self.output().count(part) >= count, f"{count} times '{part}'", limit)

    def wait_until(self, is_true, what, limit=LIMIT_SECONDS):
        deadline = time.monotonic() + limit
        while not is_true():
            if time.monotonic() > deadline:
                self.test.fail(f"waited for {what} of job {self.number}, {self.state()}:\n{self.output()}\n{cluster.logs()}")
            time.sleep(0.1)

    def wait_for_end(self, limit=LIMIT_SECONDS):
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL"}
        self.wait_until(lambda: self.state()[0] in over, "the end", limit)
        return self.state()


class SlurmTest(JobTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_jobs)
        for name in ("SLUICE", "SLUICE_FAULT"):
            os.environ.pop(name, None)

    def end_jobs(self):
        cluster.command("scancel", "--user=root")
        cluster.wait_until(lambda: not cluster.command("squeue", "-h").stdout.strip(), "an empty queue", 60)

    def job(self, name="job.toml", steps=STEPS, **changes):
        tables = {"debug": {"dump": ""}, "train": {"steps": steps}, "checkpoint": {"margin_seconds": 5}, "optimizer": {"eps": 1e-3}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        return self.write_job(name, **reference_job(FIXTURE, **tables))

    def sbatch(self, *words, environment=None):
        """Submits from the test's directory and returns sbatch's answer."""
        done = subprocess.run([str(word) for word in words], cwd=self.directory, env=os.environ | (environment or {}),
                              capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def submit(self, job, *options, program=SLUICE_WITH_FAULTS, fault=SLOW, arguments=()):
        """By `sluice submit`."""
        answer = self.sbatch(program, "submit", job, *arguments, "--", *RANKS, *options, environment={"SLUICE_FAULT": fault})
        number = answer.split()[-1]
        return SlurmJob(self, number, self.directory / f"{job.stem}-{number}.out")

    def preempt(self, job, count):
        """By a job of a partition that goes first; returns when the preempted one waits again."""
        self.sbatch("sbatch", "--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
        job.wait_for(f"restart {count}")

    def requeues(self, job):
        """How often `sluice requeue` has asked for it."""
        record = self.output_of(job) / "requeues.json"
        return json.loads(record.read_text())["count"] if record.exists() else 0

    def losses(self, job, name):
        merged = self.directory / name
        self.expect(sluice("metrics", "merge", self.output_of(job), "-o", merged), 0)
        with h5py.File(merged) as file:
            self.assertEqual(file.attrs["rows"], len(file["train/step"]))
            return dict(zip(file["train/step"][:].tolist(), file["train/loss"][:].tolist()))


class Survives(SlurmTest):
    def test_two_preemptions_and_a_time_limit(self):
        cut, whole = self.job("cut.toml"), self.job("whole.toml")
        # Its time is one minute, of which 45 s are margin: it ends after some steps.
        slurm = self.submit(cut, "--time=1", arguments=["--set", "checkpoint.margin_seconds=48"])
        slurm.wait_for("ended     by the end of the allocation")
        cluster.command("scontrol", "update", f"JobId={slurm.number}", "TimeLimit=10")
        slurm.wait_for("restart 1")
        for count in (2, 3):
            slurm.wait_for("restart ", count)
            slurm.wait_until(lambda: self.trains(cut), "training")
            self.preempt(slurm, count)
        self.assertEqual(slurm.wait_for_end(90), ("COMPLETED", 0), slurm.output())
        self.assertIn("ended     by SIGTERM", slurm.output())
        self.assertEqual(self.requeues(cut), 1)  # the other two times Slurm has done it
        self.assertIn("Restarts=3", cluster.command("scontrol", "show", "job", slurm.number).stdout)
        self.expect(mpirun(3, SLUICE, "run", whole), 0)
        self.assertEqual(self.losses(cut, "cut.h5"), self.losses(whole, "whole.h5"))

    def trains(self, job):
        return json.loads((self.output_of(job) / "status.json").read_text())["state"] == "training"

    def test_a_preemption_with_grace(self):
        """The job ends before its grace does, with 75, and is running for Slurm until then: so the script requeues it."""
        job = self.job()
        slurm = self.submit(job, "--partition=patient")
        slurm.wait_for("step 1/")
        self.preempt(slurm, 1)
        self.assertEqual(slurm.wait_for_end(90), ("COMPLETED", 0), slurm.output())
        self.assertEqual(slurm.output().count("ended     by SIGTERM"), 1, slurm.output())
        self.assertIn("ended with 75", slurm.output())
        # Slurm 24 counts two restarts, the script's and its own, which is late: where it begins the job again, nothing is left to do.
        self.assertEqual(slurm.output().count(f"step {STEPS}/{STEPS}"), 1, slurm.output())
        self.assertIn("resume    from step", slurm.output())
        self.assertEqual(self.requeues(job), 1)
        self.assertRegex(cluster.command("scontrol", "show", "job", slurm.number).stdout, r"Restarts=[12]\b")


class Signals(SlurmTest):
    def test_usr1_under_srun_saves_and_requeues(self):
        job = self.job(steps=4)
        slurm = self.submit(job)
        slurm.wait_for("step 1/")
        cluster.command("scancel", "--signal=USR1", slurm.number)
        slurm.wait_for("ended     by SIGUSR1 after step")
        slurm.wait_for("restart 1")
        self.assertEqual(slurm.wait_for_end(), ("COMPLETED", 0), slurm.output())
        self.assertEqual(self.requeues(job), 1)
        self.assertIn("resume    from step", slurm.output())

    def test_a_cancelled_job_saves_and_stays_away(self):
        job = self.job()
        slurm = self.submit(job)
        slurm.wait_for("step 1/")
        cluster.command("scancel", slurm.number)
        self.assertEqual(slurm.wait_for_end()[0], "CANCELLED", slurm.output())
        slurm.wait_for("is not requeued")
        self.assertIn("ended     by SIGTERM", slurm.output())

    def test_a_rank_that_dies_ends_the_job_within_ten_seconds(self):
        job = self.job()
        slurm = self.submit(job, fault="train.step:1:3:kill")
        slurm.wait_for("step 2/")
        began = time.monotonic()
        self.assertEqual(slurm.wait_for_end(), ("FAILED", 137), slurm.output())
        self.assertLess(time.monotonic() - began, GUARD_SECONDS, slurm.output())
        self.assertEqual(slurm.output().count("task 1: Killed"), 1, slurm.output())
        self.assertEqual(self.requeues(job), 0)
        status = json.loads((self.output_of(job) / "status.json").read_text())
        self.assertEqual(status["state"], "failed", status)
        self.assertIn("another rank", status["message"])


class Mpirun(SlurmTest):
    """In place of srun, where that has no pmix."""

    def test_usr1_under_mpirun_saves_and_requeues(self):
        job = self.job(steps=4)
        answer = self.sbatch(SLUICE_WITH_FAULTS, "submit", "--mpirun", job, "--", "--nodes=1", "--ntasks-per-node=3",
                             "--cpus-per-task=1", "--mem=300",
                             environment={"SLUICE_FAULT": SLOW} | NO_SLURM_IN_MPIRUN)
        number = answer.split()[-1]
        slurm = SlurmJob(self, number, self.directory / f"job-{number}.out")
        slurm.wait_for("step 1/")
        cluster.command("scancel", "--signal=USR1", "--batch", number)
        slurm.wait_for("ended     by SIGUSR1 after step")
        slurm.wait_for("restart 1")
        self.assertEqual(slurm.wait_for_end(), ("COMPLETED", 0), slurm.output())
        self.assertEqual(self.requeues(job), 1)


class Scripts(SlurmTest):
    def test_restarts_without_progress_end(self):
        """A stand-in for the program, whose run always ends with 75 and never saves. Like the program's, its ranks end together, and
        with 75 also where the TERM finds them that srun sends once the first has ended."""
        program = self.directory / "sluice"
        program.write_text(f"""#!/bin/sh
[ "$1" = run ] || exec "{SLUICE}" "$@"
trap 'exit 75' TERM
here="{self.directory}/restart-${{SLURM_RESTART_COUNT:-0}}"
mkdir -p "$here"
: > "$here/$SLURM_PROCID"
until [ "$(ls "$here" | wc -l)" -eq 3 ]; do sleep 0.1; done
exit 75
""")
        program.chmod(0o755)
        job = self.job()
        self.output_of(job).mkdir()
        answer = self.sbatch("sbatch", *NODES, "--output=%x-%j.out", SCRIPTS / "train.sbatch", job, environment={"SLUICE": str(program)})
        number = answer.split()[-1]
        slurm = SlurmJob(self, number, self.directory / f"sluice-{number}.out")
        self.assertEqual(slurm.wait_for_end(240), ("FAILED", 75), slurm.output())
        self.assertEqual(self.requeues(job), 3)
        self.assertIn("restart 3", slurm.output())
        slurm.wait_for("3 restarts in a row have saved no step after step 0")

    def test_a_node_that_is_set_down_is_left_out_under_no_kill(self):
        """A stand-in for the program, whose run ends well on two nodes alone."""
        program = self.directory / "sluice"
        program.write_text("""#!/bin/sh
echo "a rank on $SLURM_STEP_NUM_NODES nodes"
[ "$SLURM_STEP_NUM_NODES" = 2 ] && exit 0
trap 'exit 70' TERM
while :; do sleep 0.1; done
""")
        program.chmod(0o755)
        answer = self.sbatch("sbatch", *NODES, "--no-kill", "--output=%x-%j.out", SCRIPTS / "train.sbatch", self.job(), environment={"SLUICE": str(program)})
        number = answer.split()[-1]
        slurm = SlurmJob(self, number, self.directory / f"sluice-{number}.out")
        slurm.wait_for("a rank on 3 nodes", 3)
        self.addCleanup(cluster.command, "scontrol", "update", "nodename=n3", "state=resume")
        cluster.command("scontrol", "update", "nodename=n3", "state=down", "reason=test")
        self.assertEqual(slurm.wait_for_end(), ("COMPLETED", 0), slurm.output())
        self.assertIn("it goes on with n1 n2 ", slurm.output())
        self.assertEqual(slurm.output().count("a rank on 2 nodes"), 2, slurm.output())

    def test_an_array_of_three(self):
        """The task that is signalled saves and is requeued; the others, which Slurm knows by the same number, do not notice."""
        task = "${SLURM_ARRAY_TASK_ID}"
        job = self.job(steps=4, job={"output": f"{self.directory}/seed-{task}"}, data={"order": "shuffle", "seed": task})
        answer = self.sbatch(SLUICE_WITH_FAULTS, "submit", job, "--", "--array=1-3", "--nodes=1", "--cpus-per-task=1", "--mem=300",
                             environment={"SLUICE_FAULT": SLOW})
        number = answer.split()[-1]
        tasks = [SlurmJob(self, f"{number}_{task}", self.directory / f"seed-{task}-{number}_{task}.out") for task in (1, 2, 3)]
        for one in tasks:
            one.wait_for("step 1/")
        cluster.command("scancel", "--signal=USR1", tasks[2].number)  # the last one has the array's number
        tasks[2].wait_for("restart 1")
        for one in tasks:
            self.assertEqual(one.wait_for_end(90), ("COMPLETED", 0), one.output())
        self.assertEqual([one.output().count(f"job {one.number}, restart") for one in tasks], [1, 1, 2])
        status = json.loads(sluice("status", "--json", *(self.directory / f"seed-{task}" for task in (1, 2, 3))).output)
        self.assertEqual([(run["state"], run["step"], run["steps"]) for run in status], [("done", 4, 4)] * 3, status)
        self.assertEqual(len({run["loss"] for run in status}), 3, status)  # of three seeds

    def test_an_evaluation_after_a_training(self):
        train, evaluate = self.job("train.toml", steps=2), self.job("evaluate.toml", job={"kind": "evaluate"}, debug={"dump": ""})
        answer = self.sbatch(SCRIPTS / "train-then-evaluate.sh", train, evaluate, *RANKS, environment={"SLUICE": SLUICE})
        numbers = re.findall(r"job (\d+)", answer)
        last = SlurmJob(self, numbers[1], self.directory / f"sluice-{numbers[1]}.out")
        self.assertEqual(last.wait_for_end(90), ("COMPLETED", 0), last.output())
        status = json.loads(sluice("status", "--json", self.output_of(train), self.output_of(evaluate)).output)
        self.assertEqual([run["state"] for run in status], ["done", "done"])

    def test_slurm_takes_the_script_that_submit_writes(self):
        result = subprocess.run([SLUICE, "submit", str(self.job()), "--test-only", "--", *NODES], cwd="/", capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("to start at", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
