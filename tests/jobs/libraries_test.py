"""No library is in the process twice: two of OpenMP's runtimes compete for the cores, two of NCCL, CUDA or HDF5 have two of all
their globals."""
import collections
import os
import pathlib
import re
import signal
import unittest

import program
from program import FIXTURES, Program, reference_job, wait_until, with_fault

# A kind of library: the files that are of it.
KINDS = {"OpenMP": r"/lib(gomp|iomp5?|omp)(-[0-9a-f]+)?\.so", "NCCL": r"/libnccl\.so", "CUDA runtime": r"/libcudart\.so",
         "HDF5": r"/libhdf5(_serial)?\.so"}


def mapped(maps):
    """The files of each kind in a text like /proc/PID/maps."""
    found = collections.defaultdict(set)
    for path in re.findall(r"(/\S+)$", maps, re.MULTILINE):
        for kind, pattern in KINDS.items():
            if re.search(pattern, path):
                found[kind].add(os.path.realpath(path))
    return found


class Libraries(program.JobTest):
    def libraries_of(self, job):
        """Of a rank that has started what it computes with, and made its first product."""
        words = with_fault("job.baseline", 0, 1, "stop")
        started = Program([*words, "run", job])
        self.addCleanup(started.stop)
        stat = pathlib.Path(f"/proc/{started.process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the rank to stop")
        maps = pathlib.Path(f"/proc/{started.process.pid}/maps").read_text()
        os.kill(started.process.pid, signal.SIGKILL)
        return mapped(maps)

    def expect_one_of_each(self, job, *kinds):
        libraries = self.libraries_of(job)
        for kind in kinds:
            self.assertEqual(len(libraries[kind]), 1, f"{kind}: {libraries[kind]}")
        for kind in KINDS:
            self.assertLessEqual(len(libraries[kind]), 1, f"{kind}: {libraries[kind]}")

    def cuda(self):
        version = program.sluice("--version").output
        return [kind for kind, text in (("NCCL", "\nNCCL "), ("CUDA runtime", "\nCUDA ")) if text in version]

    def test_in_the_program_that_computes(self):
        job = self.write_job(**reference_job("qwen3-tiny-tied"), device={"kind": "cpu"})
        self.expect_one_of_each(job, "OpenMP", "HDF5", *self.cuda())

    def test_in_the_program_that_loads(self):
        job = self.write_job(job={"kind": "load"}, model={"path": FIXTURES / "qwen3-tiny-tied"}, device={"kind": "cpu"})
        self.expect_one_of_each(job, "HDF5", *self.cuda())

    def test_a_second_one_is_seen(self):
        line = "7f00-7f01 r-xp 00000000 00:00 1          {}\n"
        maps = line.format("/usr/lib/libgomp.so.1") + line.format("/opt/torch/lib/libgomp-24e2ab19.so.1") + line.format("/lib/libc.so.6")
        self.assertEqual(len(mapped(maps)["OpenMP"]), 2)


if __name__ == "__main__":
    unittest.main()
