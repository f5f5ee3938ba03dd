"""Training on three test hosts that share no disk: what they save survives any one of them."""
import re
import shutil
import unittest

import h5py
import numpy

from on_disks import OnDisks
from on_hosts import GUARD_SECONDS, program


class Saving(OnDisks):
    def test_a_host_is_lost_with_its_disk_and_training_goes_on_with_and_without_it(self):
        job = self.job(checkpoint={"every_steps": 2, "keep": 4})
        self.train([1, 2, 3], job, parts=["copy on another"])
        expected = self.losses()
        for k in (1, 2, 3):  # back to step 4
            for step in (6, 8):
                shutil.rmtree(self.disk(k) / f"checkpoints/step-{step:08}")
        self.assertEqual(len(self.files_of(2, 4)), 2)
        self.replace(2)
        self.train([1, 2, 3], job, "--set", "train.steps=6", parts=["from step 4", "fetched ", "step 6/6"])
        self.assertEqual(self.losses(), expected)
        self.replace(2)
        self.train([1, 3], job, "--set", "export.at_end=true", "--set", "export.path=/tmp/out", parts=["from step 6", "step 8/8", "export "])
        self.expect_near(self.losses(), expected)
        self.assertEqual(self.steps(1), self.steps(3))
        self.expect_exported()


class Replicas(OnDisks):
    def test_each_copy_of_the_model_saves_for_itself_and_one_that_is_left_is_enough(self):
        job = self.job(parallel={"replicas": 3}, train={"steps": 2}, checkpoint={"every_steps": 2, "keep": 2})
        self.train([1, 2, 3], job, parts=["every copy of the model saves"])
        self.assertEqual([self.files_of(k, 2) for k in (1, 2, 3)], [["rank-00000.safetensors"]] * 3)
        self.lose(2)
        self.train([1, 3], job, "--set", "parallel.replicas=2", "--set", "train.steps=4", parts=["from step 2", "step 4/4"])
        self.bring_back(2)
        self.train([1, 2, 3], job, "--set", "parallel.replicas=1", "--set", "train.steps=6", parts=["from step 4", "copy on another", "step 6/6"])
        self.assertEqual([len(self.files_of(k, 6)) for k in (1, 2, 3)], [2, 2, 2])

    def test_a_step_that_hosts_keep_in_parts_is_the_model_of_every_copy(self):
        self.train([1, 2, 3], self.job(train={"steps": 2}), parts=["copy on another"])
        losses = []
        for readers, replicas, parts in (("rank0", 3, ["fetched "]), ("all", 3, ["fetched "]), ("rank0", 1, [])):
            name = f"model-{readers}-{replicas}"
            job = self.job(name, job={"kind": "evaluate", "output": f"/tmp/{name}"}, model={"path": "/tmp/run", "step": "newest"},
                           load={"readers": readers, "verify": True}, parallel={"replicas": replicas})
            self.train([1, 2, 3], job, parts=parts)
            with h5py.File(self.disk(1, name) / "metrics.h5") as metrics:
                losses.append(float(metrics["evaluate/total_loss"][0]))
        self.assertLess(numpy.ptp(losses), 1e-5)


class Containers(OnDisks):
    """One machine, and a disk for each of its containers."""
    IS_ONE_MACHINE = True

    def test_each_saves_to_its_own_disk_with_a_copy_on_another(self):
        job = self.job(train={"steps": 2})
        result = self.train([1, 2], job, parts=["no file system is shared", "copy on another", "saved "])
        self.assertEqual([self.steps(1), self.steps(2)], [[2], [2]])
        self.assertEqual(self.files_of(1, 2), ["rank-00000.safetensors", "rank-00001.safetensors"])
        self.assertNotIn("partial-", result.output)
        self.replace(2)
        self.train([1, 2], job, "--set", "train.steps=4", parts=["from step 2", "step 4/4"])


class Used(OnDisks):
    """What is saved on three disks serves all that the steps of one disk serve."""

    def test_copies_need_another_host(self):
        self.train([1], self.job(checkpoint={"every_steps": 2, "storage": "node"}), status=78, parts=["checkpoint.partner_copies", "h1"])

    def tokens(self, name, ids):
        with h5py.File(self.directory / name, "w") as file:
            file["tokens"] = ids.astype(numpy.int32)
        return self.directory / name

    def test_by_rewinds_for_the_best_step_for_its_export_and_as_a_model(self):
        steps, length, batch = 12, 16, 3
        ids = numpy.full(steps * length * batch + 1, 7)
        ids[8 * length * batch:9 * length * batch] = numpy.arange(length * batch) * 5 % 250  # a spike at step 9
        held_out = self.tokens("held_out.h5", numpy.arange(10 * length + 1) * 3 % 250)  # gets worse, the more is trained
        job = self.job(data={"tokens": self.tokens("tokens.h5", ids), "sequence_length": length},
                       train={"steps": steps, "batch_sequences": batch}, optimizer={"learning_rate": 0.01, "eps": 1e-3},
                       evaluate={"tokens": held_out, "every_steps": 3}, checkpoint={"every_steps": 3, "every_minutes": 0, "keep": 1},
                       guard={"on_spike": "rewind", "spike_window": 4, "spike_factor": 2},
                       export={"at_end": "best", "path": "/tmp/out"})
        self.train([1, 2, 3], job, parts=["Rewinding to the checkpoint of step 6", "weights of step 6", "export "])
        with h5py.File(self.disk(1) / "metrics.h5") as metrics:
            losses = {step: float(metrics["train/held_out_loss"][step - 1][0]) for step in (3, 6, 9, 12)}
        best = min(losses, key=losses.get)
        self.assertLess(best, steps, losses)
        for k in (1, 2, 3):
            self.assertEqual(self.steps(k), [best, steps])
        self.expect_model("rank0", held_out, length, losses[best])
        self.expect_exported("--step", "best")
        self.expect_model("all", held_out, length, losses[best])

    def expect_model(self, readers, tokens, length, loss):
        """The run's best step, as model.path names it, has that loss; hosts that read it get the files that they lack."""
        name = f"model-{readers}"
        job = self.job(name, job={"kind": "evaluate", "output": f"/tmp/{name}"}, model={"path": "/tmp/run", "step": "best"},
                       data={"tokens": tokens, "sequence_length": length}, load={"readers": readers})
        self.train([1, 2, 3], job, parts=["fetched "])
        with h5py.File(self.disk(1, name) / "metrics.h5") as metrics:
            self.assertAlmostEqual(float(metrics["evaluate/total_loss"][0]), loss, delta=1e-5)


class KilledInSave(OnDisks):
    """kill -9 at each step of the second save, that of step 4, on one host, or on all of them where it removes step 2."""

    # Place, rank and pass. A save of one block a rank passes once through create and send, twice through write and sync (its file and the copy
    # that it takes in), manifest, commit and remove (before and behind), and through copy for each 256 KiB. Any rank passes as rank 0 through remove.
    PLACES = [("create", 1, 2), ("write", 1, 3), ("sync", 2, 3), ("sync", 2, 4), ("send", 1, 2), ("copy", 2, 8), ("manifest", 0, 3),
              ("manifest", 1, 4), ("commit", 0, 3), ("commit", 1, 3), ("commit", 1, 4), ("commit", 2, 4), ("remove", 0, 1), ("remove", 0, 2)]
    NAMED_AFTER = ("commit", "remove")

    def test_at_every_step_of_a_save_some_step_is_whole(self):
        for number, (site, rank, nth) in enumerate(self.PLACES):
            with self.subTest(site=site, rank=rank, nth=nth):
                job = self.job(f"run{number}", checkpoint={"every_steps": 2, "keep": 1})
                fault = program.fault(f"checkpoint.{site}", rank, nth, "kill")
                words = ["--hosts", "h1,h2,h3", job, "--", "-x", f"SLUICE_FAULT={fault}"]
                killed = self.finish(self.start(*words, starter=(program.SLUICE_WITH_FAULTS,)), 2 * GUARD_SECONDS)
                self.expect(killed, 70, f"'kill' at checkpoint.{site}")
                self.assertNotIn("saved     step 4", killed.output)
                result = self.train([1, 2, 3], job, "--set", "train.steps=5", parts=["step 5/5"])
                resumed = re.search(r"resume    from step (\d+)", result.output)
                self.assertIsNotNone(resumed, result.output)
                self.assertIn(int(resumed[1]), (2, 4) if site in self.NAMED_AFTER else (2,))


if __name__ == "__main__":
    unittest.main(verbosity=2)
