"""A Slurm of its own on this machine: munged, slurmctld and a slurmd for each of a few virtual nodes, as root, with every file
in a directory and every port its own."""
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
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
TmpFS={directory}/tmp-%n
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
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}] CPUs={cores} CoresPerSocket={cores} RealMemory=4000 State=UNKNOWN
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
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sluice-slurm-"))
        self.directory.chmod(0o755)
        self.daemons = []
        (self.directory / "state").mkdir()
        (self.directory / "munge.key").write_bytes(os.urandom(1024))
        (self.directory / "munge.key").chmod(0o400)
        for node in range(1, NODES + 1):
            (self.directory / f"tmp-n{node}").mkdir(mode=0o1777)
        port = free_ports(NODES + 1)
        config = self.directory / "slurm.conf"
        config.write_text(CONFIG.format(host=socket.gethostname(), directory=self.directory, controller_port=port, nodes=NODES,
                                        first_port=port + 1, last_port=port + NODES, cores=CORES))
        os.environ["SLURM_CONF"] = str(config)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        munge = {part: self.directory / f"munge.{part}" for part in ("socket", "key", "pid", "log", "seed")}
        self.daemon("munged", "--foreground", "--force", f"--socket={munge['socket']}", f"--key-file={munge['key']}",
                    f"--pid-file={munge['pid']}", f"--log-file={munge['log']}", f"--seed-file={munge['seed']}", "--num-threads=2")
        self.wait_until(munge["socket"].exists, "munged's socket")
        self.daemon("slurmctld", "-D", "-f", self.directory / "slurm.conf")
        for node in range(1, NODES + 1):
            self.daemon("slurmd", "-D", "-f", self.directory / "slurm.conf", "-N", f"n{node}")
        self.wait_until(lambda: set(self.command("sinfo", "-h", "-N", "-o", "%T").stdout.split()) == {"idle"}, "idle nodes")

    def daemon(self, *words):
        output = open(self.directory / f"{words[0]}.out", "ab")
        self.daemons.append(subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=output, stderr=output))
        output.close()

    def command(self, *words, limit=LIMIT_SECONDS):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=limit)

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
