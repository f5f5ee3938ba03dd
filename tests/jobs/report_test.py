"""sluice report and sluice metrics export: what they make of runs, and what they refuse."""
import csv
import json
import math
import os
import re
import struct
import sys
import unittest

import h5py
import numpy

from program import FIXTURES, SLUICE, JobTest, Program, mpirun, reference_job, sluice, wait_until

STEPS = 4  # of the run, and as many again when it goes on


def crc32c(data):
    """Bit by bit, unlike the program's."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Of a TFRecord file, with its checksums looked at."""
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        message, (of_message,) = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])
        if masked(data[:8]) != of_length or masked(message) != of_message:
            raise AssertionError("a checksum is wrong")
        yield message
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, value) of a protocol buffer."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            size, code = {1: (8, "<d"), 5: (4, "<f")}[kind]
            value, at = struct.unpack(code, data[at:at + size])[0], at + size
        yield key >> 3, value


def events(path):
    """{tag: {step: value}} and the wall times of an event file."""
    scalars, times = {}, []
    first, *others = (dict(fields(record)) for record in records(path.read_bytes()))
    if first[3] != b"brain.Event:2":
        raise AssertionError(f"begins with {first}")
    for event in others:
        times.append(event[1])
        for _, value in fields(event[5]):
            entry = dict(fields(value))
            scalars.setdefault(entry[1].decode(), {})[event[2]] = entry[2]
    return scalars, times


class Reports(JobTest):
    @classmethod
    def setUpClass(cls):
        """One run for all tests: it has ended after STEPS, has gone on, and has answered prompts on its way."""
        maker = cls("make_run")
        maker.setUp()
        cls.addClassCleanup(maker.doCleanups)
        maker.make_run()

    def make_run(self):
        tokens = self.directory / "held.h5"
        with h5py.File(FIXTURES / "moby-dick.tokens.h5") as book, h5py.File(tokens, "w") as file:
            file["tokens"] = (book["tokens"][:150] % 256).astype(numpy.int32)
        prompts = self.directory / "prompts.jsonl"
        prompts.write_text('{"id": "</script><b>", "tokens": [5, 17, 42]}\n')
        job = self.write_job(**reference_job(
            "qwen3-moe-tiny", debug={"dump": ""}, train={"steps": STEPS}, checkpoint={"every_steps": 2},
            evaluate={"tokens": [tokens], "every_steps": 2}, generate={"prompts": prompts, "max_tokens": 5, "positions": 40, "every_steps": 4}))
        self.expect(mpirun(2, SLUICE, "run", job), 0)
        self.expect(sluice("run", job, "--set", f"train.steps={2 * STEPS}"), 0)
        Reports.run_directory = self.output_of(job)

    def column(self, name):
        """Of both files of the run."""
        parts = []
        for file in ("metrics.h5", "metrics.0001.h5"):
            with h5py.File(self.run_directory / file) as metrics:
                parts.append(metrics[name][:])
        return numpy.concatenate(parts)

    def data_of(self, page):
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])

    def test_page_shows_the_run(self):
        page = self.directory / "page.html"
        self.expect(sluice("report", self.run_directory, "-o", page), 0, str(page))
        text = page.read_text()
        self.assertEqual(text.count("<script"), 2, "a prompt's id may not begin another")
        run, = self.data_of(text)["runs"]
        self.assertEqual(run["steps"], list(range(1, 2 * STEPS + 1)))
        numpy.testing.assert_allclose(run["series"]["loss"]["mean"], self.column("train/loss"), rtol=1e-5)
        loads = self.column("moe/expert_tokens")
        numpy.testing.assert_allclose(run["series"]["busiest_load"]["mean"], (loads.max(2) / loads.mean(2)).max(1), rtol=1e-5)
        self.assertEqual(run["series"]["unused_experts"]["mean"], (loads == 0).sum((1, 2)).tolist())
        self.assertEqual([(file["name"], file["steps"]) for file in run["held_out"]], [("held.h5", [2, 4, 6, 8])])
        self.assertEqual(len(run["memory"]["planned"]), 2)  # one of which the second part does not have
        self.assertIsNone(run["memory"]["planned"][1])
        steps = sorted((self.run_directory / "checkpoints").iterdir())
        self.assertEqual([(row[0], row[4].split(";")[0]) for row in run["checkpoints"]], [(str(int(step.name[5:])), "whole") for step in steps])
        best = [row for row in run["checkpoints"] if "the best, held out" in row[4]]
        self.assertEqual([f"step {row[0]}, {row[4].split('best, ')[1]}" for row in best], [dict(run["facts"])["best checkpoint"]])
        self.assertEqual([(sample[0], sample[1]) for sample in run["samples"]], [("8", "</script><b>"), ("4", "</script><b>")])
        self.assertIn("[model]", run["job"])
        facts = dict(run["facts"])
        self.assertEqual([facts[label] for label in ("state", "steps", "metrics files", "ranks", "updates skipped")], ["done", "1 to 8", "2", "2", "0"])
        self.assertEqual(run["notes"], [])

    def test_page_is_left_in_the_run_and_shows_several(self):
        self.expect(sluice("report", self.run_directory, self.run_directory), 0, "report.html")
        page = self.run_directory / "report.html"
        self.assertEqual(len(self.data_of(page.read_text())["runs"]), 2)
        page.unlink()

    def test_csv_and_jsonl_hold_every_number(self):
        for kind in ("csv", "jsonl"):
            self.expect(sluice("metrics", "export", self.run_directory, f"--{kind}", "-o", self.directory / kind), 0, f"{2 * STEPS} steps")
        with open(self.directory / "csv", newline="") as file:
            rows = list(csv.DictReader(file))
        objects = [json.loads(line) for line in (self.directory / "jsonl").read_text().splitlines()]
        for name in ("train/loss", "train/phase_seconds/forward", "train/learning_rate"):
            self.assertEqual([float(row[name]) for row in rows], self.column(name).tolist())
            self.assertEqual([row[name] for row in objects], self.column(name).tolist())
        tokens = self.column("moe/expert_tokens")
        self.assertEqual([row["moe/expert_tokens"] for row in objects], tokens.tolist())
        self.assertEqual([int(row["moe/expert_tokens/1/2"]) for row in rows], tokens[:, 1, 2].tolist())
        self.assertEqual([int(row["step"]) for row in rows], [row["step"] for row in objects])
        self.assertEqual([bool(row["train/held_out_loss/0"]) for row in rows], [False, True] * 4)
        self.assertEqual([row["train/held_out_loss"][0] is None for row in objects], [True, False] * 4)
        self.assertEqual(rows[-1]["memory/peak_bytes/1"], "")

    def test_event_file_holds_the_numbers(self):
        directory = self.directory / "events"
        for _ in range(2):  # the second replaces the first: TensorBoard joins the files of a directory
            self.expect(sluice("metrics", "export", self.run_directory, "--tensorboard", "-o", directory), 0)
        file, = directory.iterdir()
        self.assertIn("tfevents", file.name)
        scalars, times = events(file)
        for name in ("train/loss", "train/grad_norm", "train/phase_seconds/forward"):
            self.assertEqual(list(scalars[name].values()), self.column(name).astype(numpy.float32).tolist())
            self.assertEqual(list(scalars[name]), list(range(1, 2 * STEPS + 1)))
        self.assertEqual(list(scalars["train/held_out_loss/0"]), [2, 4, 6, 8])
        tokens = self.column("moe/expert_tokens")[:, 0]
        numpy.testing.assert_allclose(list(scalars["moe/busiest_expert/0"].values()), tokens.max(1) / tokens.mean(1), rtol=1e-6)
        self.assertEqual(times, sorted(times))
        self.assertTrue(all(math.isfinite(time) and time > 1.7e9 for time in times))

    def test_top_shows_where_the_run_is(self):
        result = sluice("top", self.run_directory)
        self.expect(result, 0, f"step {2 * STEPS}/{2 * STEPS}", f"loss      {self.column('train/loss')[-1]:.5f}",
                    f"held out {self.column('train/held_out_loss')[-1][0]:.5f}", f"after step {2 * STEPS}",
                    "done", "rank 0", "busiest expert")
        self.assertNotIn("rank 1", result.output, "the run goes on with one rank")
        self.assertNotIn("\x1b", result.output, "no terminal")
        self.assertEqual(sluice("status", "--watch", self.run_directory).output, result.output)
        self.expect(sluice("status", "--watch", self.run_directory, self.run_directory), 64, "--watch")

    def test_top_of_a_run_without_rows_says_so(self):
        run = self.directory / "run"
        run.mkdir()
        (run / "status.json").write_text('{"state": "failed", "message": "no \\u001b[31m memory"}')
        self.expect(sluice("top", run), 0, "no \\x1b[31m memory", "no rows")
        self.expect(sluice("top", self.directory / "none"), 65, "no such directory")
        (run / "metrics.h5").write_text("not HDF5")
        self.expect(sluice("top", run), 65, "HDF5")

    def test_needs_metrics_of_a_training(self):
        nothing, text, other, empty = (self.directory / name for name in ("nothing", "text", "other", "empty"))
        for directory in (nothing, text, other, empty):
            directory.mkdir()
        (text / "metrics.h5").write_text("not HDF5")
        with h5py.File(other / "metrics.h5", "w") as file:
            file["evaluate/loss"] = [1.0]
        with h5py.File(empty / "metrics.h5", "w") as file:
            file["train/step"] = numpy.zeros(1, numpy.int64)
        fifo = self.directory / "fifo"
        fifo.mkdir()
        os.mkfifo(fifo / "metrics.h5")
        for directory, part in ((self.directory / "none", "no such directory"), (nothing, "metrics.h5: there is no such file"),
                                (text, "HDF5"), (other, "it is not the metrics file of a training"), (empty, "there are no rows of steps yet"), (fifo, "metrics.h5")):
            for words in (["report", directory], ["report", self.run_directory, directory], ["metrics", "export", directory, "--csv"]):
                result = sluice(*words)
                self.expect(result, 65, part)
                self.assertEqual(len(result.output.strip().splitlines()), 1, result.output)
        self.expect(sluice("metrics", "export", self.run_directory), 64)
        self.expect(sluice("metrics", "export", self.run_directory, "--csv", "--jsonl"), 64)
        self.expect(sluice("report", self.run_directory, "-o", self.directory / "no/such/page.html"), 74, "page.html")
        self.expect(sluice("metrics", "export", self.run_directory, "--csv", "-o", self.directory / "no/such/t.csv"), 74, "t.csv")

    def test_what_is_broken_beside_the_metrics_is_noted_on_the_page(self):
        run = self.directory / "run"
        run.mkdir()
        (run / "metrics.h5").write_bytes((self.run_directory / "metrics.h5").read_bytes())
        (run / "job.toml").write_text("[job]\nkind = 'dance'\n")
        (run / "status.json").write_text("[1]")
        os.mkfifo(run / "answers.jsonl")
        (run / "checkpoints/step-00000002").mkdir(parents=True)
        self.expect(sluice("report", run), 0)
        shown, = self.data_of((run / "report.html").read_text())["runs"]
        notes = " ".join(shown["notes"])
        for part in ("job.kind", "status.json: expected a JSON object", "answers.jsonl"):
            self.assertIn(part, notes)
        self.assertEqual(shown["checkpoints"][0][0], "2")
        self.assertIn("manifest.json", shown["checkpoints"][0][4])


class Following(JobTest):
    """metrics export --tensorboard --follow beside a run."""

    def test_the_file_grows_with_the_run_to_what_an_export_makes_of_it(self):
        job = self.write_job(**reference_job("qwen3-moe-tiny", debug={"dump": ""}, train={"steps": 60}, checkpoint={"every_minutes": 0}))
        run_directory = self.output_of(job)
        training = Program([SLUICE, "run", job])
        self.addCleanup(training.stop)
        wait_until((run_directory / "metrics.h5").exists, "the metrics of the run")
        following = Program([SLUICE, "metrics", "export", run_directory, "--tensorboard", "--follow", "--every", "0.1"])
        self.addCleanup(following.stop)
        self.expect(training.finish(), 0)
        self.expect(following.finish(), 0, "tensorboard")
        followed, = (run_directory / "tensorboard").iterdir()
        self.expect(sluice("metrics", "export", run_directory, "--tensorboard", "-o", self.directory / "whole"), 0)
        whole, = (self.directory / "whole").iterdir()
        self.assertEqual(list(events(followed)[0]["train/loss"]), list(range(1, 61)))
        self.assertEqual(followed.read_bytes(), whole.read_bytes())

    def test_other_formats_are_not_followed(self):
        self.expect(sluice("metrics", "export", self.directory, "--csv", "--follow"), 64, "--tensorboard")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
