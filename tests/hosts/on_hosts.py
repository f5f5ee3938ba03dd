"""What tests of `sluice launch --hosts` have in common: three test hosts, and a training on them."""
import os
import pathlib
import re
import signal
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "jobs"))
import hosts as test_hosts  # noqa: E402
import program  # noqa: E402
import trajectories  # noqa: E402

EXPLANATION = "failed, so the job ends with exit code"
# The time after which a rank misses another one, of every section; in setup there is more, as machines that are busy start slowly.
LIMIT = 3
DEADLINES = {"load_seconds": LIMIT, "step_seconds": LIMIT, "evaluate_seconds": LIMIT, "save_seconds": LIMIT, "finish_seconds": LIMIT}
# Behind the limit all is to end in 15 s; a machine that is busy with other tests may take so much more.
BOUND_SECONDS = LIMIT + 15
GRACE_SECONDS = 30
# A guard against hanging, in seconds.
GUARD_SECONDS = 60


class OnHosts(program.JobTest):
    DISK_SIZE = None
    NAME = "h"  # h1, h2, h3
    IS_ONE_MACHINE = False

    def setUp(self):
        super().setUp()
        self.hosts = test_hosts.Hosts(3, "1gbit", self.DISK_SIZE, self.NAME, self.IS_ONE_MACHINE)
        self.addCleanup(self.hosts.down)
        self.directory = self.hosts.shared
        self.hosts.await_agents()

    def job(self, **changes):
        tables = {"debug": {"dump": ""}, "deadline": DEADLINES, "train": {"steps": 100000}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        return self.write_job(**program.reference_job("qwen3-moe-tiny", **tables))

    def start(self, *arguments, **changes):
        """`sluice launch` on host `on`, the first one by default."""
        return self.start_program("launch", *arguments, **changes)

    def start_program(self, *arguments, starter=(program.SLUICE,), on=1):
        environment = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", f"OMPI_MCA_plm_rsh_agent={test_hosts.AGENT}"]
        running = program.Program(self.hosts.words(on, *environment, *starter, *arguments))
        self.addCleanup(self.stop, running)
        return running

    def stop(self, running):
        self.hosts.down()  # only that ends what runs on them
        running.stop()

    def finish(self, running, limit=GUARD_SECONDS):
        try:
            program.wait_until(lambda: running.process.poll() is not None, "the end of the command", limit)
        except AssertionError as late:
            self.stop(running)
            raise AssertionError(f"{late}:\n{running.output()}") from None
        return running.finish()

    def start_training(self, *arguments):
        return self.await_text(self.start(*arguments), "step 20/")

    def await_text(self, running, text, count=1):
        """The program, once it has printed the text so many times."""
        program.wait_until(lambda: running.output().count(text) >= count or running.process.poll() is not None, repr(text), 2 * GUARD_SECONDS)
        self.assertIsNone(running.process.poll(), running.output())
        return running

    def signal_launch(self, number):
        launch = next(process for process, command in self.hosts.processes_of(1).items() if re.match(r"\S*/sluice launch ", command))
        os.kill(launch, number)

    def kill_rank(self, k):
        """Ends the rank on host k, which cannot say a word."""
        rank = next(process for process, command in self.hosts.processes_of(k).items() if "sluice-train" in command)
        os.kill(rank, signal.SIGKILL)

    def expect_nothing_left(self, *numbers):
        for k in numbers:
            self.assertEqual(self.hosts.processes_of(k), {}, f"on h{k}")

    def expect_one_explanation(self, result, *parts, code=70):
        self.expect(result, code, f"of 3 {EXPLANATION} {code}:", *parts)
        self.expect_once(result, EXPLANATION)
        self.assertNotIn("-" * 60, result.output)  # of Open MPI's blocks

    def expect_near(self, losses, expected):
        """Each loss is that of an uninterrupted training; both are {step: loss}. Of steps that follow one another, the first one that is not
        the same to the bit is one of equal weights, as those of a saved step are: there sums over another number of ranks are rounded
        otherwise, and no more. From then on each goes its own way."""
        parted = min((step for step in losses if losses[step] != expected[step]), default=None)
        if parted and len(losses) > 1:
            self.assertAlmostEqual(losses[parted], expected[parted], delta=trajectories.LOSS["float32"] * expected[parted], msg=f"step {parted}")
        for step, loss in losses.items():
            self.assertAlmostEqual(loss, expected[step], delta=trajectories.least_allowed(expected.values()), msg=f"step {step}")
