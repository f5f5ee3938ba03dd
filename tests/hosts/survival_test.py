"""Training on three test hosts that share no disk, by `sluice launch --restarts`: it goes on when hosts are lost with their disks."""
import json
import re
import time
import unittest

from on_disks import OnDisks
from on_hosts import DEADLINES, GUARD_SECONDS, program

INTERVAL = 4
# The time after which a rank misses another one, in seconds.
LIMIT = 10
# By when a training goes on without a host, in seconds.
RESTART_SECONDS = 60
# Each save waits for two seconds where it begins: so losses come between two saves, and not after the last one.
PACED = program.fault("checkpoint.create", 0, "1+", "delay")


class Survival(OnDisks):
    def job(self, run="run", steps=40, **changes):
        deadlines = dict.fromkeys(DEADLINES, LIMIT)
        return super().job(run, train={"steps": steps}, checkpoint={"every_steps": INTERVAL, "every_minutes": 0}, deadline=deadlines, **changes)

    def start_paced(self, job, restarts=3, **changes):
        self.saved = 0
        return self.start("--hosts", "h1,h2,h3", "--restarts", restarts, "--min-ranks", 2, job, "--", "-x", f"SLUICE_FAULT={PACED}",
                          starter=(program.SLUICE_WITH_FAULTS,), **changes)

    def expected_losses(self, **changes):
        """Losses of the training that nothing happens to, on three hosts, by step."""
        self.train([1, 2, 3], self.job("whole", **changes), limit=10 * GUARD_SECONDS)
        return self.losses(run="whole")

    def saved_steps(self, running):
        return [int(step) for step in re.findall(r"^saved     step (\d+):", running.output(), re.MULTILINE)]

    def await_saved(self, running, step):
        """The number of the last step that is whole, once that is one from `step` on."""
        program.wait_until(lambda: max(self.saved_steps(running), default=0) >= step or running.process.poll() is not None, f"step {step} to be saved")
        self.assertIsNone(running.process.poll(), running.output())
        return self.saved_steps(running)[-1]

    def await_resumed(self, running, count):
        """The step that the start that is number `count` after a loss goes on from."""
        self.await_text(running, "resume    from step ", count)
        return int(re.findall(r"resume    from step (\d+)", running.output())[count - 1])

    def status(self, k=1):
        return json.loads((self.disk(k) / "status.json").read_text())


class Survives(Survival):
    def test_without_a_host_lost_with_its_disk_and_with_it_when_it_is_back_and_empty(self):
        expected = self.expected_losses()
        running = self.start_paced(self.job())
        saved = self.await_saved(running, 2 * INTERVAL)
        self.lose(2)
        began = time.monotonic()
        resumed = self.await_resumed(running, 1)
        seconds = time.monotonic() - began
        print(f"{self.id()}: resumed from step {resumed} after {seconds:.1f} s")
        self.assertLess(seconds, RESTART_SECONDS, running.output())
        self.assertGreaterEqual(resumed, saved)
        self.await_text(running, "copied    ")
        for k in (1, 3):
            self.assertEqual(self.files_of(k, resumed), [f"rank-{rank:05}.safetensors" for rank in range(3)])
        self.await_saved(running, resumed + INTERVAL)
        self.assertEqual(self.status()["world_size"], 2)
        self.bring_back(2)
        self.kill_rank(3)
        again = self.await_resumed(running, 2)
        self.assertGreater(again, resumed)
        result = self.finish(running, 2 * GUARD_SECONDS)
        self.expect(result, 0, "restart   1 of 3", "step 40/40")
        self.assertEqual(self.status()["world_size"], 3)
        for k in (2, 3):
            self.assertEqual(self.steps(k), self.steps(1))
        found = self.losses()
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual({step: found[step] for step in range(1, resumed + 1)}, {step: expected[step] for step in range(1, resumed + 1)})
        self.expect_near(found, expected)


class LaunchLost(Survival):
    def test_on_another_host_by_the_same_command_from_the_copies(self):
        expected = self.expected_losses()
        job = self.job()
        running = self.start_paced(job)
        saved = self.await_saved(running, 2 * INTERVAL)
        self.lose(1)
        self.assertNotEqual(self.finish(running).status, 0)
        running = self.start_paced(job, on=2)
        resumed = self.await_resumed(running, 1)
        self.assertGreaterEqual(resumed, saved)
        result = self.finish(running, 2 * GUARD_SECONDS)
        self.expect(result, 0, "h1", "step 40/40")
        found = self.losses(2)
        self.assertEqual(sorted(found), list(range(resumed + 1, 41)))
        self.expect_near(found, expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
