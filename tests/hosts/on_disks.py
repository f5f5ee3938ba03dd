"""Tests on three test hosts that share no disk: each keeps its saved steps on its own."""
import pathlib
import shutil

from on_hosts import GUARD_SECONDS, OnHosts, program

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

    def files_of(self, k, step):
        """Names of ranks' files that host k has of a saved step."""
        return sorted(path.name for path in (self.disk(k) / f"checkpoints/step-{step:08}").glob("rank-*"))

    def train(self, hosts, job, *arguments, status=0, parts=(), limit=2 * GUARD_SECONDS):
        """A rank on each of these hosts."""
        result = self.finish(self.start("--hosts", ",".join(f"h{k}" for k in hosts), job, *arguments), limit)
        self.expect(result, status, *parts)
        return result

    def lose(self, k):
        """Host k with its disk, until it returns with an empty one."""
        self.hosts.kill(k)
        shutil.rmtree(self.disk(k))

    def bring_back(self, k):
        self.hosts.serve(k)
        self.hosts.await_agents()

    def replace(self, k):
        self.lose(k)
        self.bring_back(k)

    def losses(self, k=1, run="run"):
        return program.losses(self.disk(k, run))

    def expect_exported(self, *step):
        """The exported weights lie on the host of rank 0, as they do when they are exported from the saved step there."""
        self.expect(program.run(*self.hosts.words(1, program.SLUICE, "checkpoint", "export", "/tmp/run", "/tmp/other", *step)), 0)
        one, other = ({path.name: path.read_bytes() for path in self.disk(1, name).glob("*.safetensors")} for name in ("out", "other"))
        self.assertTrue(one)
        self.assertEqual(one, other)
