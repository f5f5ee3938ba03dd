#!/usr/bin/env python3
"""Test hosts: several machines on one, by namespaces. Each has a network, a host name, a boot id, processes, /tmp and /dev/shm of its own; they
reach each other through links to one switch alone, all else (the source, the build, `Hosts.shared`) is a disk that they share.
With `is_one_machine` they have one boot id, as containers on one machine, and the rest of their own all the same.
Each set has a switch of its own, so several sets may be up at once. Needs root; `hosts.py` alone says whether it can be done here.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

AGENT = pathlib.Path(__file__).resolve().parent / "agent.py"
NETWORK = "10.77.0"
# What a host is made of. --pid and --kill-child: all of its processes end with the first one.
NAMESPACES = ["unshare", "--net", "--uts", "--mount", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
# The first process of a host: takes in the orphans of others, as init does.
INIT = """set -e
hostname "$0"
mount --bind "$1" /etc/hosts
mount -t tmpfs -o size=2g tmp /tmp
echo "boot of $2" > /tmp/.boot_id
mount --bind /tmp/.boot_id /proc/sys/kernel/random/boot_id
mount -t tmpfs -o size=2g shm /dev/shm
ip link set lo up
echo up
exec 2> /dev/null  # a shell tells of children that are killed
while :; do sleep 1000 & wait; done"""
SWITCH = """set -e
ip link add switch type bridge
ip link set switch up
echo up
exec 2> /dev/null  # a shell tells of children that are killed
while :; do sleep 1000 & wait; done"""


def call(*words):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def start_namespaces(namespaces, script, *arguments):
    """Starts a shell in namespaces of its own; returns it, when the script has said that it is up, and its process id here."""
    process = subprocess.Popen([*namespaces, "bash", "-c", script, *map(str, arguments)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "up\n":
        process.wait()
        raise OSError(f"{' '.join(namespaces)}: no namespaces of its own for this user")
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return process, int(children[0])


class Hosts:
    """h1, h2, ..., or with another `name` than "h": up when made, and down at the end of a `with` or by down(). Links are shaped to `rate` both ways where one is given.
    With `disk_size` ("64m") there is a small disk, `Hosts.disk`, that all share."""

    def __init__(self, count, rate=None, disk_size=None, name="h", is_one_machine=False):
        self.name = name
        self.is_one_machine = is_one_machine
        self.numbers = range(1, count + 1)
        self.shared = pathlib.Path(tempfile.mkdtemp(prefix="sluice-hosts-", dir="/var/tmp"))  # as /tmp is each host's own
        self.processes = []
        self.inits = {}
        self.disk = self.shared / "disk"
        try:
            if disk_size:
                self.disk.mkdir()
                call("mount", "-t", "tmpfs", "-o", f"size={disk_size}", "disk", self.disk)
            self._start(rate)
        except BaseException:
            self.down()
            raise

    def _start(self, rate):
        names = self.shared / "hosts"
        names.write_text("127.0.0.1 localhost\n" + "".join(f"{NETWORK}.{k} {self.name}{k}\n" for k in self.numbers))
        self.switch = self._add(["unshare", "--net", "--pid", "--fork", "--kill-child"], SWITCH, "switch")
        for k in self.numbers:
            self.inits[k] = self._add(NAMESPACES, INIT, f"{self.name}{k}", names, "all" if self.is_one_machine else f"{self.name}{k}")
            self._in_switch("ip", "link", "add", f"port{k}", "type", "veth", "peer", "name", "eth0", "netns", self.inits[k])
            self._in_switch("ip", "link", "set", f"port{k}", "master", "switch", "up")
            self._in_network(k, "ip", "addr", "add", f"{NETWORK}.{k}/24", "dev", "eth0")
            self._in_network(k, "ip", "link", "set", "eth0", "up")
            # A network that is on every machine and leads nowhere, with the same address on each, as container programs make one.
            self._in_network(k, "ip", "link", "add", "docker0", "type", "bridge")
            self._in_network(k, "ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
            self._in_network(k, "ip", "link", "set", "docker0", "up")
            if rate:
                self.shape(k, rate)
            self.serve(k)

    def _add(self, namespaces, script, *arguments):
        process, init = start_namespaces(namespaces, script, *arguments)
        self.processes.append(process)
        return init

    def _in_switch(self, *words):
        call("nsenter", "-t", self.switch, "-n", *words)

    def _in_network(self, k, *words):
        call("nsenter", "-t", self.inits[k], "-n", *words)

    def serve(self, k):
        """Host k answers the agent, until it is killed."""
        self.processes.append(subprocess.Popen([*map(str, self.words(k, sys.executable, AGENT, "serve"))], stdin=subprocess.DEVNULL))

    def await_agents(self, limit=20):
        """Until every host answers h1."""
        deadline = time.monotonic() + limit
        for k in self.numbers:
            while subprocess.run([*map(str, self.words(1, AGENT, f"{self.name}{k}", "true"))], stderr=subprocess.DEVNULL).returncode != 0:
                if time.monotonic() > deadline:
                    raise OSError(f"{self.name}{k} cannot be reached from {self.name}1")
                time.sleep(0.1)

    def words(self, k, *command):
        """Words that run a command on host k, in the present folder."""
        return ["nsenter", "-t", self.inits[k], "-n", "-u", "-m", "-i", "-p", f"-w{os.getcwd()}", "--", *command]

    def shape(self, k, rate):
        """Both directions of host k's link take so many bits a second, such as "1gbit"."""
        for enter, device in ((self._in_switch, f"port{k}"), (lambda *words: self._in_network(k, *words), "eth0")):
            enter("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "1mb", "latency", "200ms")

    def cut(self, k):
        """Nothing passes host k's link any more, without a word to either side."""
        self._in_switch("ip", "link", "set", f"port{k}", "nomaster")

    def join(self, k):
        self._in_switch("ip", "link", "set", f"port{k}", "master", "switch")

    def kill(self, k):
        """Ends all processes of host k at once; serve() makes it answer again."""
        call(*self.words(k, "bash", "-c", "kill -9 -1 || true"))

    def freeze(self, k):
        """Host k does nothing any more, and its connections stay; thaw() lets it go on."""
        self.signal_all(k, signal.SIGSTOP)

    def thaw(self, k):
        self.signal_all(k, signal.SIGCONT)

    def signal_all(self, k, number):
        for process in self._all_processes(k):
            os.kill(process, number)

    def processes_of(self, k):
        """{process id here: command line} of all that runs on host k, but for what makes it a host."""
        found = self._all_processes(k)
        found.pop(self.inits[k], None)
        # One that has ended and is not yet reaped has no command line any more.
        return {process: command for process, command in found.items()
                if command not in ("", "sleep 1000") and not command.endswith(f"{AGENT} serve")}

    def _all_processes(self, k):
        found = {}
        namespace = os.readlink(f"/proc/{self.inits[k]}/ns/pid")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns/pid") == namespace:
                    found[int(process.name)] = (process / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                pass  # it has ended meanwhile
        return found

    def down(self):
        while self.processes:
            process = self.processes.pop()
            process.send_signal(signal.SIGKILL)
            process.wait()
            if process.stdout:
                process.stdout.close()
        if os.path.ismount(self.disk):
            call("umount", self.disk)
        shutil.rmtree(self.shared, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()


def main():
    try:
        with Hosts(2, "1gbit") as hosts:
            hosts.await_agents()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no test hosts here: {error}")


if __name__ == "__main__":
    main()
