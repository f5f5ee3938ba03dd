"""A Slurm of its own on this machine: munged, slurmctld and a slurmd for each of a few virtual nodes, as root, with every file
in a directory and every port its own; or on test hosts (tests/hosts/hosts.py), each of which is a node."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

NODES = 4
CORES = 3  # of each node, as Slurm counts; SlurmdParameters=config_overrides lets them be more than there are
DAEMONS = ("munged", "slurmctld", "slurmd")
LIMIT_SECONDS = 300  # until a test gives up on what should have come long ago, on a machine however busy

CONFIG = """
ClusterName=sluice
SlurmctldHost={controller}
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={own}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={own}/spool-%n
TmpFS={own}/tmp-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=1,sched_interval=1,requeue_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=20
MinJobAge=600
InactiveLimit=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={nodes} CPUs={cores} CoresPerSocket={cores} RealMemory=4000 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES PriorityTier=1 OverSubscribe=NO
PartitionName=patient Nodes=ALL PriorityTier=1 OverSubscribe=NO GraceTime=60
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF OverSubscribe=NO
"""


def free_ports(count):
    """The first of so many free ones in a row."""
    for first in range(21000 + os.getpid() % 9000, 60000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("", port))
                return first
            except OSError:
                continue
    raise AssertionError("no free ports")


class Cluster:
    """Virtual nodes n1, n2, ... of this machine."""

    prefix = "n"

    def __init__(self, parent=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-slurm-", dir=parent))
        self.directory.chmod(0o755)
        self.daemons = []
        (self.directory / "state").mkdir()
        (self.directory / "munge.key").write_bytes(os.urandom(1024))
        (self.directory / "munge.key").chmod(0o400)
        config = self.directory / "slurm.conf"
        config.write_text(CONFIG.format(directory=self.directory, cores=CORES, **self.places()))
        os.environ["SLURM_CONF"] = str(config)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def places(self):
        """Where the daemons are, and the directory for what is a node's own."""
        host, port = socket.gethostname(), free_ports(NODES + 1)
        return {"controller": f"{host}(127.0.0.1)", "controller_port": port, "own": self.directory,
                "nodes": f"n[1-{NODES}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{port + 1}-{port + NODES}]"}

    def start(self):
        for node in range(1, NODES + 1):
            (self.directory / f"tmp-n{node}").mkdir(mode=0o1777)
        self.start_munged(self.directory)
        self.wait_until((self.directory / "munge.socket").exists, "munged's socket")
        self.start_slurm()

    def start_munged(self, own, node=1):
        self.daemon(node, "munged", "--foreground", "--force", f"--key-file={self.directory}/munge.key", "--num-threads=2",
                    *(f"--{option}={own}/munge.{part}" for option, part in
                      (("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))))

    def start_slurm(self):
        self.daemon(1, "slurmctld", "-D", "-f", self.directory / "slurm.conf")
        for node in range(1, NODES + 1):
            self.daemon(node, "slurmd", "-D", "-f", self.directory / "slurm.conf", "-N", f"{self.prefix}{node}")
        self.wait_until(lambda: set(self.command("sinfo", "-h", "-N", "-o", "%T").stdout.split()) == {"idle"}, "idle nodes")

    def words(self, _node, *words):
        """Words that run a command on a node."""
        return [str(word) for word in words]

    def daemon(self, node, *words):
        output = open(self.directory / f"{words[0]}.out", "ab")
        self.daemons.append(subprocess.Popen(self.words(node, *words), stdin=subprocess.DEVNULL, stdout=output, stderr=output))
        output.close()

    def command(self, *words, limit=LIMIT_SECONDS):
        return subprocess.run(self.words(1, *words), capture_output=True, text=True, timeout=limit)

    def wait_until(self, is_true, what, limit=LIMIT_SECONDS):
        deadline = time.monotonic() + limit
        while not is_true():
            dead = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise AssertionError(f"waited for {what}; ended: {dead}; {self.logs()}")
            time.sleep(0.1)

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(self.directory.glob("*.out")) + sorted(self.directory.glob("*.log")))

    def stop(self):
        """Jobs first, then who runs them."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.command("scancel", "--state=PENDING"), self.command("scancel", "--signal=KILL", "--full", "--user=root")
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class HostsCluster(Cluster):
    """Nodes h1, h2, ... that are machines of their own; all commands run on h1."""

    prefix = "h"

    def __init__(self, hosts):
        self.hosts = hosts
        super().__init__(hosts.shared)

    def places(self):
        return {"controller": "h1", "controller_port": 6817, "own": "/tmp", "nodes": f"h[1-{NODES}]"}

    def start(self):
        for node in range(1, NODES + 1):
            self.start_munged("/tmp", node)
            self.run_on(node, "mkdir", f"/tmp/tmp-h{node}")
        for node in range(1, NODES + 1):
            self.wait_until(lambda node=node: self.run_on(node, "test", "-S", "/tmp/munge.socket").returncode == 0, "munged's socket")
        self.start_slurm()

    def words(self, node, *words):
        return [str(word) for word in self.hosts.words(node, *words)]

    def run_on(self, node, *words):
        return subprocess.run(self.words(node, *words), capture_output=True, text=True, timeout=LIMIT_SECONDS)
