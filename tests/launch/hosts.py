"""What tests of `soapstone train --hosts` have in common: a launcher whose --ssh is a stand-in or ssh, and who runs where."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(FOLDER), "cluster"))

import machines  # noqa: E402
from cluster import BIN, SOURCE, ClusterTestCase, Running, alive  # noqa: E402

PROGRAM = os.path.join(BIN, "soapstone")


def marked(mark):
    """The processes whose environment has the mark: agents, what they started, and stand-ins."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if f"HOSTS_TEST={mark}\0".encode() in file.read() and alive(int(entry)):
                    found.append(int(entry))
        except OSError:
            continue
    return found


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().replace("\0", " ")
    except OSError:
        return ""


def listening_at(pid):
    """{address} at which its machine takes connections, but for ssh's."""
    with open(f"/proc/{pid}/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    ends = [row[1].split(":") for row in rows if row[3] == "0A" and not row[1].endswith(":0016")]
    return {socket.inet_ntoa(bytes.fromhex(address)[::-1]) for address, _ in ends}


class HostsTestCase(ClusterTestCase):

    before = ()  # words before the launcher's command

    def ssh(self):
        """Of a stand-in, which does for each host as self.how says (stand_in.py)."""
        config = os.path.join(self.dir, "stand_in.json")
        with open(config, "w") as file:
            json.dump(self.how, file)
        return f"{sys.executable} {FOLDER}/stand_in.py {config}"

    def over(self, hosts, *flags, how=None):
        """Trains over the hosts of the text."""
        self.how = how or {}
        path = os.path.join(self.dir, "hosts")
        with open(path, "w") as file:
            file.write(hosts)
        running = Running([*self.before, "env", f"HOSTS_TEST={self.dir}", PROGRAM, "train", f"--config={self.config}",
                           f"--log_dir={self.dir}/logs", "--progress_every=2", "--http=off", f"--hosts={path}",
                           f"--ssh={self.ssh()}", *flags])
        self.addCleanup(self.stop, running)
        return running

    def left(self):
        return marked(self.dir)

    def assert_nothing_runs(self, seconds=5):
        begin = time.monotonic()
        while time.monotonic() < begin + seconds and self.left():
            time.sleep(0.02)
        self.assertEqual([words_of(pid) for pid in self.left()], [])
        return time.monotonic() - begin


class MachinesTestCase(HostsTestCase):
    """Three machines and the launcher's. Skipped where namespaces are not allowed."""

    hosts = "10.77.0.1 slots=2 role=server addr=10.77.0.1\n10.77.0.2 slots=2 cpus=0\n10.77.0.3\n"

    def setUp(self):
        if not machines.are_allowed():
            self.skipTest("NOT TESTED: this process may have no network of its own")
        super().setUp()
        self.machines = machines.Machines(3)
        self.addCleanup(self.machines.close)
        self.of_machines = set()  # processes that run there in any case
        self.before = self.machines.enter(0)
        self.how = {f"10.77.0.{number}": {"enter": self.machines.enter(number)} for number in (1, 2, 3)}

    def train_over(self, *flags):
        return self.over(self.hosts, *flags, how=self.how)

    def left(self, numbers=None):
        return [pid for pid in self.machines.running(numbers) if pid not in self.of_machines]

    def of_agents(self):
        """{words: pid} on the hosts."""
        return {words_of(pid): pid for pid in self.machines.running([1, 2, 3])}

    def assert_nothing_runs_on(self, number, seconds=5):
        begin = time.monotonic()
        while time.monotonic() < begin + seconds and self.left([number]):
            time.sleep(0.02)
        self.assertEqual([words_of(pid) for pid in self.left([number])], [])
        return time.monotonic() - begin

    def train_as_one_machine_does(self):
        running = self.train_over("--policy=bsp", "--epochs=3", f"--model_path={self.dir}/model.safetensors")
        self.assertEqual(running.wait(60), 0, running.output())
        alone = self.train("--policy=bsp", "--epochs=3")
        self.assertEqual(alone.wait(60), 0, alone.output())
        self.assertEqual(self.sha256(running.output()), self.sha256(alone.output()))
        running.wait_for(r"^10\.77\.0\.1:server-0: ")
        running.wait_for(r"^10\.77\.0\.2:worker-0: ")
        running.wait_for(rf"model +10\.77\.0\.1:{self.dir}/model.safetensors")
        for name in ("scheduler", "server-0", "server-1", "worker-0", "worker-1", "worker-2"):
            self.assertGreater(os.path.getsize(f"{self.dir}/logs/{name}.log"), 0, name)
        self.assert_nothing_runs()

    def kill_the_launcher(self):
        running = self.train_over("--epochs=100000")
        running.wait_for("epoch ")
        nodes = [pid for words, pid in self.of_agents().items() if " node " in words]
        self.assertEqual(len(nodes), 5)
        self.assertEqual({pid: listening_at(pid) for pid in nodes if pid in self.machines.running([1])},
                         {pid: {"10.77.0.1"} for pid in nodes if pid in self.machines.running([1])})
        for pid in self.machines.running([2]):
            if pid in nodes:
                with open(f"/proc/{pid}/status") as file:
                    self.assertIn("Cpus_allowed_list:\t0\n", file.read())
        os.kill(running.pid, signal.SIGKILL)
        print(f"nothing runs {self.assert_nothing_runs():.2f} s after SIGKILL of the launcher")

    def kill_an_ssh(self):
        running = self.train_over("--epochs=100000")
        running.wait_for("epoch ")
        ssh = [pid for pid in self.machines.running([0]) if " 10.77.0.1 exec " in words_of(pid)]
        self.assertEqual(len(ssh), 1)
        os.kill(ssh[0], signal.SIGKILL)
        took = self.assert_nothing_runs_on(1)
        print(f"nothing runs on the host {took:.2f} s after SIGKILL of its ssh")
        self.assertEqual(running.wait(40), 138, running.output())  # the servers were there
        running.wait_for("10.77.0.1: the host is lost: the connection ended, killed by SIGKILL")
        self.assert_nothing_runs()

    def another_build(self):
        other = os.path.join(self.dir, "other")
        with open(PROGRAM, "rb") as program, open(other, "wb") as copy:
            copy.write(program.read() + b"another build")
        os.chmod(other, 0o755)
        return other

    def assert_all_are_listed(self, why):
        running = self.train_over()
        self.assertEqual(running.wait(40), 78, running.output())
        running.wait_for(f"host 10.77.0.1: not reached: .*{why}$")
        running.wait_for("host 10.77.0.2: another build of soapstone")
        running.wait_for("host 10.77.0.3: .*digits.csv.gz")
        self.assertNotIn("registered", running.output())
        self.assert_nothing_runs()
