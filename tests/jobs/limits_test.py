"""Limits that a shell or a cluster sets on processes: too small ones are one error within seconds."""
import unittest

import program
from program import JobTest, reference_job


class Limits(JobTest):
    def run_limited(self, *limit):
        job = self.write_job(**reference_job("qwen3-moe-tiny", debug={"dump": ""}, checkpoint={"every_minutes": 0}))
        return program.mpirun(2, *limit, program.SLUICE, "run", job)

    def expect_refused(self, result, *parts):
        self.expect(result, 71, *parts)
        self.expect_once(result, parts[0])
        self.expect_prompt(result)

    def test_address_space(self):
        """OpenBLAS would try for ever to get the memory that it starts with."""
        for kib in (1000000, 700000, 400000):
            result = self.run_limited("sh", "-c", f'ulimit -v {kib}; exec "$@"', "sh")
            self.expect_refused(result, "address space", "ulimit -v")

    def test_data(self):
        self.expect_refused(self.run_limited("prlimit", "--data=150000000"), "[job.process_limit]", "150.00 MB", "ulimit -d")

    def test_data_that_suffices(self):
        limit = 700_000_000
        result = self.run_limited("env", "OMP_NUM_THREADS=1", "prlimit", f"--data={limit}")
        self.expect(result, 0)

    def test_descriptors(self):
        result = self.run_limited("sh", "-c", 'ulimit -n 40; exec "$@"', "sh")
        self.expect_refused(result, "[job.process_limit]", "40 files", "ulimit -n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
