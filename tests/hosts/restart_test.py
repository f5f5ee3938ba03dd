"""`sluice launch --restarts`: a training on three test hosts goes on by itself when a rank or a host is lost."""
import json
import re
import signal
import unittest

from on_hosts import GUARD_SECONDS, OnHosts, program

STEPS = 60


class Restart(OnHosts):
    def start_job(self, *options, steps=STEPS, hosts="h1,h2,h3", **changes):
        job = self.job(train={"steps": steps}, checkpoint={"every_steps": 10}, **changes)
        return self.start("--hosts", hosts, *options, job)

    def status(self):
        return json.loads((self.directory / "job/status.json").read_text())


class WithoutHost(Restart):
    def start_without(self, k):
        """A training that goes on by itself without host k, and the step that it goes on from."""
        running = self.await_text(self.start_job("--restarts", 3, "--min-ranks", 2, steps=100000), "saved     step 20")
        self.hosts.kill(k)
        self.await_text(running, "resume    from step ")
        self.assertIn("restart   1 of 3", running.output())
        self.expect_status(2, 2)
        return running, int(re.search(r"resume    from step (\d+)", running.output())[1])

    def expect_status(self, ranks, attempt):
        self.assertEqual((self.status()["world_size"], self.status()["attempt"]), (ranks, attempt))

    def end(self, running, restarts):
        self.signal_launch(signal.SIGTERM)
        result = self.finish(running)
        self.expect(result, 75, "h3")  # and no restart, as that was asked for
        self.assertEqual(result.output.count("restart   "), restarts, result.output)
        self.expect_nothing_left(1, 2, 3)


class GoesOn(WithoutHost):
    def test_on_the_hosts_that_answer(self):
        running, saved = self.start_without(3)
        self.await_text(running, f"saved     step {saved + 10}:")
        self.end(running, 1)


class Returns(WithoutHost):
    def test_a_host_at_the_next_start(self):
        running, saved = self.start_without(3)
        self.await_text(running, f"saved     step {saved + 10}:")
        self.hosts.serve(3)
        self.hosts.await_agents()
        self.kill_rank(2)
        self.await_text(running, "resume    from step ", count=2)
        self.await_text(running, f"saved     step {saved + 20}:")
        self.expect_status(3, 3)
        self.end(running, 2)


class SameNumbers(Restart):
    def test_as_a_training_that_nothing_happens_to(self):
        whole = self.write_job("whole.toml", **program.reference_job("qwen3-moe-tiny", debug={"dump": ""}, train={"steps": STEPS}))
        self.expect(program.sluice("run", whole, limit=GUARD_SECONDS), 0)
        running = self.await_text(self.start_job("--restarts", 3, "--min-ranks", 2), "saved     step 20")
        self.hosts.kill(3)
        self.expect(self.finish(running, 2 * GUARD_SECONDS), 0, "restart   1 of 3", f"step {STEPS}/{STEPS}")
        expected, found = (program.losses(self.directory / run) for run in ("whole", "job"))
        self.assertEqual(sorted(found), list(range(1, STEPS + 1)))
        self.expect_near(found, expected)


class Ends(Restart):
    def test_after_so_many_restarts_without_a_new_saved_step(self):
        running = self.await_text(self.start_job("--restarts", 1, steps=100000), "saved     step 10")
        self.kill_rank(3)
        self.await_text(running, "resume    from step ")
        self.kill_rank(3)
        result = self.finish(running)
        self.expect(result, 70, "restart   1 of 1", "1 restarts in a row")
        self.expect_nothing_left(1, 2, 3)

    def test_not_while_disks_that_the_launch_does_not_see_get_new_steps(self):
        running = self.start_job("--restarts", 1, steps=100000, hosts="h2,h3", job={"output": "/tmp/run"})
        self.await_text(running, "saved     step 10")
        for count in (1, 2):
            self.kill_rank(3)
            self.await_text(running, "resume    from step ", count)
            saved = int(re.findall(r"resume    from step (\d+)", running.output())[-1])
            self.await_text(running, f"saved     step {saved + 10}:")
        self.hosts.kill(2)
        self.hosts.kill(3)
        result = self.finish(running)
        self.expect(result, 70, "restart   1 of 1", "run: last save: step ")
        self.assertEqual(result.output.count("resume    from step "), 2, result.output)

    def test_by_ctrl_c_between_two_attempts(self):
        running = self.await_text(self.start_job("--restarts", 5, steps=100000), "saved     step 10")
        self.hosts.kill(3)
        self.await_text(running, "restart   2 of 5")
        self.signal_launch(signal.SIGINT)
        self.finish(running)
        self.expect_nothing_left(1, 2, 3)

    def test_at_once_where_each_restart_would_begin_anew(self):
        self.expect(self.finish(self.start_job("--restarts", 1, job={"overwrite": True})), 78, "job.overwrite")

    def test_at_once_without_hosts_or_with_more_ranks_than_they_take(self):
        job = self.job()
        self.expect(self.finish(self.start("-n", 2, "--restarts", 1, job)), 64, "--hosts")
        self.expect(self.finish(self.start("--hosts", "h1,h2", "--min-ranks", 3, job)), 64, "--min-ranks")


if __name__ == "__main__":
    unittest.main(verbosity=2)
