"""Machines for tests: network and mount namespaces of their own, joined by a switch. Nothing of them is left when the
test's process ends."""
import os
import subprocess
import time

HERE = "10.77.0.254"  # the launcher's machine


def run_in(pid, command):
    subprocess.run(["nsenter", "-t", str(pid), "-n", "-m", "sh", "-ec", command], check=True)


def network_of(pid):
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


def are_allowed():
    command = "ip link add name probe type veth peer name other && command -v setpriv nsenter"
    return subprocess.run(["unshare", "-n", "-m", "sh", "-c", command], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


class Machines:
    """The launcher's and `count` others, 10.77.0.1 and so on."""

    def __init__(self, count):
        self.holders = []
        here = self.add()
        run_in(here, f"ip link set lo up; ip link add name switch type bridge; ip addr add {HERE}/24 dev switch; "
               "ip link set switch up")
        for number in range(1, count + 1):
            pid = self.add()
            run_in(here, f"ip link add name to{number} type veth peer name eth0 netns {pid}; "
                   f"ip link set to{number} master switch up")
            run_in(pid, f"ip link set lo up; ip addr add 10.77.0.{number}/24 dev eth0; ip link set eth0 up")

    def add(self):
        holder = subprocess.Popen(["unshare", "-n", "-m", "setpriv", "--pdeathsig", "KILL", "sleep", "1000"])
        self.holders.append(holder)
        deadline = time.monotonic() + 5
        while network_of(holder.pid) in (None, network_of(os.getpid())):
            if time.monotonic() > deadline:
                raise AssertionError("no namespace was made")
            time.sleep(0.005)
        return holder.pid

    def enter(self, number):
        """Words before a command of machine `number`; 0: the launcher's."""
        return ["nsenter", "-t", str(self.holders[number].pid), "-n", "-m", "--"]

    def running(self, numbers=None):
        """[pid] of what runs on the machines, or on some of them."""
        holders = self.holders if numbers is None else [self.holders[number] for number in numbers]
        networks = {network_of(holder.pid) for holder in holders}
        keep = {holder.pid for holder in holders}
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            if int(entry) not in keep and network_of(entry) in networks:
                found.append(int(entry))
        return found

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
