"""Token files that are broken, too large or made to do harm: refused by name within seconds, and never read as something
else. `sluice check` reads as a job does."""
import os
import random
import shutil
import unittest

import h5py
import numpy
import program
from program import FIXTURES, JobTest, reference_job
from suite import run_job

COUNT = 4000


class Tokens(JobTest):
    PROCESSOR_SECONDS = 10  # many times what the check of a small file takes

    def setUp(self):
        super().setUp()
        self.path = self.directory / "tokens.h5"

    def ids(self, count=COUNT):
        return numpy.arange(count, dtype=numpy.int32) % 500

    def check(self, path=None):
        """`sluice check` as any user's shell starts it, and in little processor time."""
        job = self.write_job(**reference_job("qwen3-moe-tiny", debug={"dump": ""}, data={"tokens": path or self.path}))
        before = program.processor_seconds()
        result = program.sluice("check", job)
        self.assertLess(program.processor_seconds() - before, self.PROCESSOR_SECONDS * program.SLOWDOWN, result.output)
        return result

    def expect_refused(self, *parts, status=65):
        result = self.check()
        self.expect(result, status, str(self.path), *parts)
        self.assertNotIn("invariant", result.output)

    def virtual(self, shape, *sources, **options):
        """A virtual dataset of (first, count, file, source shape)."""
        layout = h5py.VirtualLayout(shape=shape, dtype=numpy.int32)
        for first, count, name, length in sources:
            layout[first:first + count] = h5py.VirtualSource(name, "tokens", shape=(length,))[:count]
        with h5py.File(self.path, "w", libver="latest") as file:
            file.create_virtual_dataset("tokens", layout, **options)


class Elsewhere(Tokens):
    """What leads out of the file."""

    def setUp(self):
        super().setUp()
        os.mkfifo(self.directory / "fifo")

    def test_an_external_link(self):
        with h5py.File(self.path, "w") as file:
            file["tokens"] = h5py.ExternalLink("fifo", "/tokens")
        self.expect_refused("external link", "/tokens", "fifo")

    def test_a_symbolic_link(self):
        with h5py.File(self.path, "w") as file:
            file["data"] = self.ids()
            file["tokens"] = h5py.SoftLink("/data")
        self.expect_refused("symbolic link", "/data")

    def test_external_storage(self):
        with h5py.File(self.path, "w") as file:
            file.create_dataset("tokens", (COUNT,), numpy.int32, external=[("fifo", 0, 4 * COUNT)])
        self.expect_refused("other files", "fifo")

    def test_a_virtual_source_that_is_no_file(self):
        self.virtual((COUNT,), (0, COUNT, "fifo", COUNT))
        result = self.check()
        self.expect(result, 65, str(self.directory / "fifo"), "regular file")

    def test_a_virtual_source_that_is_virtual(self):
        self.virtual((COUNT,), (0, COUNT, "fifo", COUNT))
        shutil.copy(self.path, self.directory / "inner.h5")
        self.virtual((COUNT,), (0, COUNT, "inner.h5", COUNT))
        self.expect_refused("source inner.h5", "virtual")


class Holes(Tokens):
    """What HDF5 would read as token 0."""

    def part(self, name, count):
        with h5py.File(self.directory / name, "w") as file:
            file["tokens"] = self.ids(count)

    def test_a_virtual_dataset_that_is_whole(self):
        self.part("a.h5", 1000)
        self.part("b.h5", 3000)
        self.virtual((COUNT,), (0, 1000, "a.h5", 1000), (1000, 3000, "b.h5", 3000))
        self.expect(self.check(), 0)

    def test_a_virtual_dataset_that_is_mapped_in_part(self):
        self.part("a.h5", 1000)
        self.virtual((COUNT,), (0, 1000, "a.h5", 1000))
        self.expect_refused("1000 of", "4000 elements")

    def test_a_virtual_source_that_is_missing(self):
        self.virtual((COUNT,), (0, COUNT, "none.h5", COUNT))
        self.expect_refused("sources none.h5", "not there")

    def test_a_virtual_source_that_is_too_short(self):
        self.part("a.h5", 100)
        self.virtual((COUNT,), (0, COUNT, "a.h5", COUNT))
        self.expect_refused("source a.h5", "too early")

    def test_a_virtual_source_that_was_not_written(self):
        with h5py.File(self.directory / "a.h5", "w") as file:
            file.create_dataset("tokens", (COUNT,), numpy.int32)
        self.virtual((COUNT,), (0, COUNT, "a.h5", COUNT))
        self.expect_refused("source a.h5", "nothing was ever")


class Sizes(Tokens):
    def test_a_stream_of_2_to_the_60_tokens(self):
        for options in ({}, {"chunks": (1 << 20,)}, {"chunks": (1 << 20,), "fillvalue": 3}):
            with h5py.File(self.path, "w") as file:
                file.create_dataset("tokens", (1 << 60,), numpy.int8, **options)
            self.expect_refused("written")

    def test_a_virtual_stream_of_2_to_the_60_tokens(self):
        with h5py.File(self.directory / "a.h5", "w") as file:
            file["tokens"] = self.ids()
        self.virtual((1 << 60,), (0, COUNT, "a.h5", COUNT))
        self.expect_refused("4000 of")

    def test_more_tokens_than_can_be_counted(self):
        with h5py.File(self.path, "w") as file:
            file.create_dataset("tokens", (1 << 40, 1 << 40), numpy.int8, chunks=(1024, 1024))
        self.expect_refused("[1099511627776, 1099511627776]", "can be counted")

    def test_compressed_chunks_that_are_too_large(self):
        with h5py.File(self.path, "w") as file:
            tokens = file.create_dataset("tokens", (COUNT,), numpy.int32, chunks=(1 << 25,), maxshape=(None,), compression="gzip")
            tokens[:] = self.ids()
        self.expect_refused("compressed", "134.22 MB each", "67.11 MB", "chunks=(1 << 20,)")

    def test_compressed_chunks_of_a_sound_size(self):
        with h5py.File(self.path, "w") as file:
            file.create_dataset("tokens", data=self.ids(), chunks=(1000,), compression="gzip")
        self.expect(self.check(), 0)


class Damaged(Tokens):
    def test_is_refused_or_read_but_ends_in_time(self):
        """Some of these crash the library, some make it run for ever; whatever it is, the job is told."""
        with h5py.File(self.path, "w") as file:
            file.create_dataset("tokens", data=self.ids(), chunks=(100,), maxshape=(None,), compression="gzip")
            file.create_dataset("document_starts", data=numpy.arange(0, COUNT, 400), chunks=(2,), maxshape=(None,))
        sound = self.path.read_bytes()
        chance = random.Random(24)
        statuses = []
        for _ in range(24):
            raw = bytearray(sound)
            for _ in range(3):
                raw[chance.randrange(min(len(raw), 4096))] = chance.randrange(256)
            self.path.write_bytes(raw)
            result = self.check()
            self.assertIn(result.status, (0, 65, 78), result.output)
            statuses.append(result.status)
        self.assertEqual(set(statuses) & {0, 65}, {0, 65})

    def test_is_refused_by_a_job_as_well(self):
        self.path.write_bytes((FIXTURES / "qwen3-moe-tiny/reference.h5").read_bytes()[:3000])
        job = self.write_job(**reference_job("qwen3-moe-tiny", debug={"dump": ""}, data={"tokens": self.path}))
        self.expect(run_job(2, job), 65, str(self.path))


if __name__ == "__main__":
    unittest.main(verbosity=2)
