"""What [trace] leaves behind, and the file that `sluice trace` makes of it for Perfetto and chrome://tracing."""
import collections
import json
import re
import subprocess
import unittest

import h5py

from program import FIXTURES, SLUICE, JobTest, reference_job, run, sluice
from suite import run_job

FIXTURE = "qwen3-moe-tiny"
RANKS = 3
THREAD_THAT_COMPUTES, PHASES = 0, 1


class Trace(JobTest):
    def traced(self, steps, name="job.toml", **changes):
        """The run directory and the output of a training of four steps on three ranks."""
        tables = {"trace": {"steps": steps}, "debug": {"dump": ""}, "train": {"steps": 4}, "checkpoint": {"every_minutes": 0}}
        for table, keys in changes.items():
            tables[table] = tables.get(table, {}) | keys
        job = self.write_job(name, **reference_job(FIXTURE, **tables))
        result = run_job(RANKS, job)
        self.expect(result, 0)
        return self.output_of(job), result

    def write_prompts(self, count):
        path = self.directory / "prompts.jsonl"
        path.write_text('{"tokens": [5, 17, 42]}\n' * count)
        return path

    def events_of(self, directory):
        output = self.directory / "trace.json"
        result = sluice("trace", directory, "-o", output)
        self.expect(result, 0, "records", str(output))
        with open(output, encoding="utf-8") as file:
            return json.load(file)["traceEvents"]

    def by_thread(self, events):
        threads = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                threads[event["pid"], event["tid"]].append(event)
        return threads

    def expect_nested(self, events):
        """Each event lies within the one that is open, or begins after it."""
        open_until = []
        for event in events:
            begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            if open_until:
                self.assertLessEqual(end, open_until[-1], event)
            open_until.append(end)

    def within(self, events, outer):
        begin, end = outer["ts"], outer["ts"] + outer["dur"]
        return [event for event in events if event["ts"] < end and event["ts"] + event["dur"] > begin]

    def seconds_inside(self, event, outer):
        begin = max(event["ts"], outer["ts"])
        return (min(event["ts"] + event["dur"], outer["ts"] + outer["dur"]) - begin) / 1e6

    def expect_table(self, text, whole, ranks):
        """The kinds of work in a table of --summary, whose seconds add up to the whole."""
        rows = {name: [float(seconds) for seconds in re.findall(r"([-\d.]+) \(", cells)]
                for name, cells in re.findall(r"^ *([a-z][a-z0-9, ]*?)  +(.*%\).*)$", text, re.MULTILINE)}
        sums = rows.pop(whole)
        self.assertEqual(len(sums), ranks)
        for rank in range(ranks):
            self.assertTrue(all(seconds[rank] >= 0 for seconds in rows.values()), rows)
            self.assertAlmostEqual(sum(seconds[rank] for seconds in rows.values()), sums[rank], delta=0.001 + 0.01 * sums[rank])
        return rows.keys()


class Format(Trace):
    def test_three_ranks_make_one_file_of_the_format(self):
        directory, result = self.traced("2-3")
        self.assertRegex(result.output, r"steps 2-3: \d+ records")
        events = self.events_of(directory)
        self.assertLessEqual({event["ph"] for event in events}, {"M", "X", "b", "e"})
        self.assertEqual({event["pid"] for event in events}, set(range(RANKS)))
        times = [event["ts"] for event in events if event["ph"] != "M"]
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[0], 0)
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual({name.split(" on ")[0] for name in names}, {f"rank {rank}" for rank in range(RANKS)})
        for thread in self.by_thread(events).values():
            self.expect_nested(thread)

    def test_a_summary_has_each_ranks_seconds_by_kind_of_work(self):
        directory, _ = self.traced("2-3")
        result = sluice("trace", directory, "--summary")
        self.expect(result, 0, "steps 2-3")
        self.assertFalse((directory / "trace.json").exists())
        table = self.expect_table(result.output, "step", RANKS)
        self.assertLessEqual({"products of projections, 128 x 64", "products of experts, 96 x 64", "products of experts, 64 x 48",
                              "loops of experts", "attention", "router", "norms", "optimizer", "exchange", "waiting for ranks"}, table)

    def test_answers_within_a_training_have_a_table_of_their_own(self):
        prompts = self.write_prompts(RANKS)
        directory, _ = self.traced(2, generate={"prompts": str(prompts), "every_steps": 2, "max_tokens": 5})
        result = sluice("trace", directory, "--summary")
        self.expect(result, 0, "steps 2-2")
        steps, passes = result.output.split("seconds a pass")
        self.assertIn("optimizer", self.expect_table(steps, "step", RANKS))
        self.assertNotIn("optimizer", self.expect_table(passes, "pass", RANKS))

    def test_a_message_has_an_id_of_its_own_and_ends_after_it_began(self):
        events = self.events_of(self.traced(2)[0])
        begun, ended = ({event["id"]: event for event in events if event["ph"] == phase} for phase in "be")
        self.assertEqual(len(begun), sum(event["ph"] == "b" for event in events))
        self.assertEqual(begun.keys(), ended.keys())
        for name, begin in begun.items():
            end = ended[name]
            self.assertLessEqual(begin["ts"], end["ts"])
            self.assertEqual((begin["name"], begin["cat"], begin["pid"]), (end["name"], end["cat"], end["pid"]))
        self.assertGreater(sum(event["args"]["bytes"] for event in begun.values()), 0)

    def test_phases_add_up_to_each_step(self):
        directory, _ = self.traced("2-3")
        with h5py.File(directory / "metrics.h5") as metrics:
            seconds = dict(zip(metrics["train/step"][:].tolist(), metrics["train/step_seconds"][:].tolist()))
        threads = self.by_thread(self.events_of(directory))
        for rank in range(RANKS):
            steps = [event for event in threads[rank, THREAD_THAT_COMPUTES] if event["cat"] == "step"]
            self.assertEqual([event["args"]["number"] for event in steps], [2, 3])
            for step in steps:
                duration = step["dur"] / 1e6
                phases = self.within(threads[rank, PHASES], step)
                self.assertLessEqual({"gather", "forward", "backward", "reduce", "optimizer"}, {event["name"] for event in phases})
                self.assertAlmostEqual(sum(self.seconds_inside(event, step) for event in phases), duration, delta=0.02 * duration)
                if rank == 0:
                    self.assertAlmostEqual(seconds[step["args"]["number"]], duration, delta=0.02 * duration)
                inside = {(event["cat"], event["name"]) for event in self.within(threads[rank, THREAD_THAT_COMPUTES], step)}
                self.assertLessEqual({("operation", "attention"), ("operation", "experts backward"), ("operation", "update"),
                                      ("wait", "all_gather")}, inside)

    def test_waits_and_transfers_of_a_disk(self):
        directory, _ = self.traced(2, model={"dtype": "bfloat16"}, optimizer={"gradients": "release"}, memory=self.memory_on_disk())
        events = self.events_of(directory)
        disk = [event for event in events if event.get("cat") == "disk"]
        self.assertLessEqual({"read", "write"}, {event["name"] for event in disk})
        self.assertTrue(all(event["tid"] > PHASES and event["args"]["bytes"] > 0 for event in disk))


class Answers(Trace):
    PRODUCTS = {"products of projections, 128 x 64", "products of experts, 96 x 64", "loops of experts", "head and loss", "attention",
                "router", "norms", "choice of tokens"}

    def test_a_command_leaves_its_passes_where_it_is_told_and_says_the_same(self):
        asked = ["generate", FIXTURES / FIXTURE, "--prompt-tokens", "5,17,42", "--max-tokens", 6, "--print-tokens"]
        trace = self.directory / "passes"
        for steps, which in ((), "passes 1-6"), (("--set", "trace.steps=2-4"), "passes 2-4"):
            traced = subprocess.run([SLUICE, *map(str, [*asked, "--trace", trace, *steps])], capture_output=True, text=True, check=True)
            self.assertIn(which, traced.stderr)
            result = sluice("trace", trace, "--summary")
            self.expect(result, 0, which + " of 1 rank")
            self.assertLessEqual(self.PRODUCTS, self.expect_table(result.output, "pass", 1))
        plain = subprocess.run([SLUICE, *map(str, asked)], capture_output=True, text=True, check=True)
        self.assertEqual(plain.stdout, traced.stdout)
        passes = [event for event in self.events_of(trace) if event.get("cat") == "pass"]
        self.assertEqual([event["args"]["number"] for event in passes], [2, 3, 4])
        self.expect_nested([event for event in self.by_thread(self.events_of(trace))[0, THREAD_THAT_COMPUTES]])

    def test_passes_without_a_place_for_their_trace_are_refused(self):
        self.expect(sluice("generate", FIXTURES / FIXTURE, "--prompt-tokens", "5", "--set", "trace.steps=2"), 64, "trace.steps", "--trace")

    def test_a_job_that_answers_leaves_them_in_its_run_directory(self):
        prompts = self.write_prompts(RANKS + 1)
        job = self.write_job(**reference_job(FIXTURE, job={"kind": "generate"}, trace={"steps": "2-3"}, debug={"dump": ""},
                                             generate={"prompts": str(prompts), "max_tokens": 5, "ignore_eos": True}))
        self.expect(run_job(RANKS, job), 0, "passes 2-3")
        result = sluice("trace", self.output_of(job), "--summary")
        self.expect(result, 0, f"passes 2-3 of {RANKS} ranks")
        self.assertLessEqual(self.PRODUCTS | {"waiting for ranks"}, self.expect_table(result.output, "pass", RANKS))


class Use(Trace):
    def test_numbers_and_files_are_the_same_without_it(self):
        traced, _ = self.traced("1-4")
        with h5py.File(traced / "metrics.h5") as metrics:
            losses = metrics["train/loss"][:].tolist()
        plain, result = self.traced("", "plain.toml")
        with h5py.File(plain / "metrics.h5") as metrics:
            self.assertEqual(metrics["train/loss"][:].tolist(), losses)
        self.assertFalse((plain / "trace").exists())
        self.assertNotIn("trace  ", result.output)

    def test_steps_beyond_the_last_are_none(self):
        directory, _ = self.traced("4-9")
        events = self.events_of(directory)
        self.assertEqual({event["args"]["number"] for event in events if event.get("cat") == "step"}, {4})

    def test_a_run_without_a_trace_and_one_that_lacks_a_rank_are_refused(self):
        directory, _ = self.traced(2)
        missing = directory / "trace" / "rank-00001.jsonl"
        missing.unlink()
        self.expect(run(SLUICE, "trace", directory), 65, str(missing))
        plain, _ = self.traced("", "plain.toml")
        self.expect(run(SLUICE, "trace", plain), 65, "trace.steps")


if __name__ == "__main__":
    unittest.main()
