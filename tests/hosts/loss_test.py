"""A host or a link of three is lost in each part of a job: the whole command ends in time, explains once, and leaves nothing behind."""
import time
import unittest

from on_hosts import BOUND_SECONDS, GRACE_SECONDS, GUARD_SECONDS, OnHosts, program


class Loss(OnHosts):
    def start_with_pause(self, site, rank, **changes):
        """A job on three hosts that pauses for two seconds at that place, when it is there."""
        words = program.with_fault(site, rank, 1, "delay")
        running = self.start("--hosts", "h1,h2,h3", self.job(**changes), "--", "-x", "SLUICE_FAULT", starter=words)
        return self.await_text(running, f"'delay' at {site}")

    def expect_end(self, running, *parts, code=70):
        """The command ends in time from now on, with one explanation and nothing left on hosts that can be reached."""
        began = time.monotonic()
        result = self.finish(running, BOUND_SECONDS + GRACE_SECONDS)
        print(f"{self.id()}: ended after {time.monotonic() - began:.1f} s, exit code {result.status}")
        self.expect_one_explanation(result, *parts, code=code)
        self.expect_nothing_left(1, 2)
        return result

    def expect_nothing_left_on(self, k):
        program.wait_until(lambda: not self.hosts.processes_of(k), f"the end of all on h{k}", GUARD_SECONDS)

    def expect_saved_step_whole(self):
        self.expect(program.sluice("checkpoint", "verify", self.directory / "job"), 0)

    def expect_end_after_cut(self, running, *parts):
        self.hosts.cut(3)
        self.expect_end(running, "h3 (rank 2)", *parts)
        self.hosts.join(3)
        self.expect_nothing_left_on(3)


class Cut(Loss):
    def test_in_a_load(self):
        self.expect_end_after_cut(self.start_with_pause("load.chunk", 0), "load")

    def test_in_a_step(self):
        self.expect_end_after_cut(self.start_training("--hosts", "h1,h2,h3", self.job(checkpoint={"every_steps": 10})), "last save: step ")
        self.expect_saved_step_whole()

    def test_in_a_save(self):
        running = self.start("--hosts", "h1,h2,h3", self.job(checkpoint={"every_steps": 10}), "--", "-x", "SLUICE_FAULT",
                             starter=program.with_fault("checkpoint.write", 2, 2, "delay"))
        self.await_text(running, "'delay' at checkpoint.write")
        self.expect_end_after_cut(running, "last save: step 10")
        self.expect_saved_step_whole()

    def test_in_an_export(self):
        changes = {"train": {"steps": 8}, "export": {"at_end": True, "path": str(self.directory / "exported")}}
        self.expect_end_after_cut(self.start_with_pause("export.write", 2, **changes), "export")
        self.assertFalse((self.directory / "exported").exists())


class Frozen(Loss):
    def test_host(self):
        running = self.start_training("--hosts", "h1,h2,h3", self.job(checkpoint={"every_steps": 10}))
        self.hosts.freeze(3)
        self.expect_end(running, "h3 (rank 2)", "last save: step ")
        self.hosts.thaw(3)
        self.expect_nothing_left_on(3)
        self.expect_saved_step_whole()


class Killed(Loss):
    def test_host(self):
        running = self.start_training("--hosts", "h1,h2,h3", self.job(checkpoint={"every_steps": 10}))
        self.hosts.kill(3)
        self.expect_end(running, "h3 (rank 2)", "last save: step ")
        self.expect_nothing_left_on(3)
        self.expect_saved_step_whole()


class Filled(Loss):
    DISK_SIZE = "64m"

    def test_disk_of_the_run(self):
        run = self.hosts.disk / "run"
        job = self.job(job={"output": str(run)}, checkpoint={"every_steps": 10, "on_failure": "stop"})
        running = self.await_text(self.start("--hosts", "h1,h2,h3", "--restarts", 3, job), "saved     step 10")
        with open(self.hosts.disk / "filler", "wb") as filler:
            try:
                while True:
                    filler.write(bytes(1 << 16))
            except OSError:
                pass  # it is full
        self.expect_end(running, "No space left on device", "last save: step ", code=74)
        self.expect_nothing_left(3)
        (self.hosts.disk / "filler").unlink()
        self.expect(program.sluice("checkpoint", "verify", run), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
