"""Training on three test hosts that share no disk: what they save survives any one of them."""
import pathlib
import shutil
import sys
import unittest

import h5py

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "jobs"))
import program  # noqa: E402
from launch_test import GUARD_SECONDS, OnHosts  # noqa: E402

STEPS = 8


class OnDisks(OnHosts):
    """Run directories lie in /tmp, which is each host's own."""

    def job(self, run="run", **changes):
        tables = {"job": {"output": f"/tmp/{run}"}, "debug": {"dump": ""}, "train": {"steps": STEPS}, "optimizer": {"eps": 1e-3},
                  "checkpoint": {"every_steps": 2}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        return self.write_job(f"{run}.toml", **program.reference_job("qwen3-moe-tiny", **tables))

    def disk(self, k, run="run"):
        """The run directory on host k, as it is seen from here."""
        return pathlib.Path(f"/proc/{self.hosts.inits[k]}/root/tmp/{run}")

    def steps(self, k):
        return sorted(int(path.name.removeprefix("step-")) for path in (self.disk(k) / "checkpoints").glob("step-*"))

    def train(self, hosts, job, *arguments, status=0, parts=(), limit=2 * GUARD_SECONDS):
        """A rank on each of these hosts. They are one machine, which only their disks tell."""
        nodes = ",".join(str(i) for i in range(len(hosts)))
        result = self.finish(self.start("--hosts", ",".join(f"h{k}" for k in hosts), job, *arguments, "--", "-x", f"SLUICE_NODES={nodes}"), limit)
        self.expect(result, status, *parts)
        return result

    def lose(self, k):
        """Host k with its disk; one in its place is there, with an empty one."""
        self.hosts.kill(k)
        shutil.rmtree(self.disk(k))
        self.hosts.serve(k)
        self.hosts.await_agents()

    def losses(self, run="run"):
        found = {}
        for path in sorted(self.disk(1, run).glob("metrics*.h5"), key=lambda path: (len(path.name), path.name)):
            with h5py.File(path) as file:
                found |= dict(zip(file["train/step"][:].tolist(), file["train/loss"][:].tolist()))
        return found


class Saving(OnDisks):
    def test_a_host_is_lost_with_its_disk_and_training_goes_on_with_and_without_it(self):
        self.train([1, 2, 3], self.job("whole"), parts=["copy on another"])
        expected = self.losses("whole")
        job = self.job()
        self.train([1, 2, 3], job, "--set", "train.steps=4")
        self.assertEqual(len(list((self.disk(2) / "checkpoints/step-00000004").glob("rank-*"))), 2)
        self.lose(2)
        self.train([1, 2, 3], job, "--set", "train.steps=6", parts=["from step 4", "fetched ", "step 6/6"])
        self.assertEqual(self.losses(), {step: loss for step, loss in expected.items() if step <= 6})
        self.lose(2)
        self.train([1, 3], job, "--set", "export.at_end=true", "--set", "export.path=/tmp/out", parts=["from step 6", "step 8/8", "export "])
        for step, loss in self.losses().items():
            self.assertAlmostEqual(loss, expected[step], delta=1e-3)
        self.assertEqual(self.steps(1), self.steps(3))
        self.expect_exported(job)

    def expect_exported(self, job):
        """The last step's weights lie on the host of rank 0, as they do when they are exported from the saved step there."""
        self.expect(program.run(*self.hosts.words(1, program.SLUICE, "checkpoint", "export", "/tmp/run", "/tmp/other")), 0)
        one, other = ({path.name: path.read_bytes() for path in self.disk(1, name).glob("*.safetensors")} for name in ("out", "other"))
        self.assertTrue(one)
        self.assertEqual(one, other)

    def test_copies_need_another_host(self):
        self.train([1], self.job(checkpoint={"every_steps": 2, "storage": "node"}), status=78, parts=["checkpoint.partner_copies", "h1"])


class KilledInSave(OnDisks):
    """kill -9 at each step of the second save, on one host; a mark stands for the pass through it."""

    PLACES = [("checkpoint.create", 1, 2), ("checkpoint.write", 1, 3), ("checkpoint.sync", 2, 4), ("checkpoint.send", 1, 2),
              ("checkpoint.copy", 2, 6), ("checkpoint.manifest", 0, 3), ("checkpoint.manifest", 1, 4), ("checkpoint.commit", 0, 3),
              ("checkpoint.commit", 1, 3), ("checkpoint.commit", 2, 4), ("checkpoint.remove", 0, 1), ("checkpoint.remove", 1, 2)]

    def test_at_every_step_of_a_save_some_step_is_whole(self):
        for site, rank, nth in self.PLACES:
            with self.subTest(site=site, rank=rank, nth=nth):
                job = self.job(checkpoint={"every_steps": 2, "keep": 1})
                fault = f"SLUICE_FAULT={program.fault(site, rank, nth, 'kill')}"
                words = ["--hosts", "h1,h2,h3", job, "--", "-x", "SLUICE_NODES=0,1,2", "-x", fault]
                result = self.finish(self.start(*words, starter=(program.SLUICE_WITH_FAULTS,)), 2 * GUARD_SECONDS)
                self.assertNotEqual(result.status, 0, result.output)
                self.assertNotIn("saved     step 6", result.output)
                result = self.train([1, 2, 3], job, "--set", "train.steps=5", parts=["resume    from step ", "step 5/5"])
                for k in (1, 2, 3):
                    shutil.rmtree(self.disk(k))


if __name__ == "__main__":
    unittest.main(verbosity=2)
