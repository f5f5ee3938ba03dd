"""Saved steps on a disk that fails, as the system reports it. It mounts file systems: run it under `unshare --mount`."""
import shutil
import unittest

from failing_disk import SIZE, FailingDisk, SmallDisk
from saving import SavingTest


class FailingWrites(SavingTest):
    """The disk takes the first step and no other."""
    SHARES_RANKS = False

    def setUp(self):
        super().setUp()
        self.small = SmallDisk(self.directory, SIZE)
        self.addCleanup(self.small.unmount)
        self.disk = FailingDisk(self.directory, self.small.path)
        self.addCleanup(self.disk.unmount)

    def checkpoints(self, job):
        return self.disk.path / "steps"

    def fails_after_step_2(self, **checkpoint):
        job = self.job(checkpoint={"path": self.checkpoints(None)} | checkpoint, train={"steps": 2})
        self.run_job(job)
        before = {path.name: path.read_bytes() for path in self.step(job, 2).iterdir()}
        self.small.fill(2 << 20)  # enough for a file that is tried at the start, and half a step
        result = self.run_job(job, arguments=["--set", "train.steps=6"], status=74)
        self.assertRegex(result.output, "write .*(Input/output|No space)")
        self.assertEqual(self.steps(job), [2])
        self.assertEqual({path.name: path.read_bytes() for path in self.step(job, 2).iterdir()}, before)
        # Once the disk is repaired the run goes on from there.
        self.small.empty()
        self.expect_resumed(self.run_job(job, arguments=["--set", "train.steps=6"]), 2, "saved     step 6")
        return result

    def test_training_goes_on_and_the_last_step_is_missed(self):
        result = self.fails_after_step_2()
        self.expect(result, 74, "STEP 4 ", "STEP 6 ", "[io.", "step 6/6", "is step 2")

    def test_the_run_ends_if_it_is_to_stop(self):
        result = self.fails_after_step_2(on_failure="stop")
        self.assertNotIn("step 6/6", result.output)


class FailingReads(SavingTest):
    SHARES_RANKS = False

    def test_a_step_that_cannot_be_read_is_named_with_the_one_before(self):
        """It may be readable tomorrow, so the run does not fall back by itself, and nothing of it is deleted."""
        job = self.job(train={"steps": 4})
        self.run_job(job)
        disk = FailingDisk(self.directory, self.directory)
        self.addCleanup(disk.unmount)
        newest, moved = self.step(job, 4), disk.path / "moved"
        shutil.move(newest, moved)
        newest.symlink_to(moved)
        disk.forget(moved.glob("rank-*"))
        disk.lose_blocks_from(min(block for path in moved.glob("rank-*") for block in disk.blocks_of(path)))
        result = self.run_job(job, arguments=["--set", "train.steps=6"], status=74)
        self.expect(result, 74, "cannot read", "step-00000004/rank-", "Input/output error", "checkpoint.resume = 2")
        self.assertEqual(self.steps(job), [2, 4])
        older = self.run_job(job, arguments=["--set", "train.steps=3", "--set", "checkpoint.resume=2"])
        self.expect_resumed(older, 2, "step 3/3", "saved     step 3")


if __name__ == "__main__":
    unittest.main(verbosity=2)
