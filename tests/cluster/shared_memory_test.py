"""Processes of one machine through shared memory: the same bits, nothing left behind, no growth."""
import glob
import json
import os
import re
import signal
import subprocess
import time
import unittest

from cluster import BIN, ClusterTestCase, descendants


def traces():
    """What there is of links: processes that map their memory, and names of their sockets."""
    mapping = []
    for path in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(path) as maps:
                if "/memfd:soapstone" in maps.read():
                    mapping.append(int(path.split("/")[2]))
        except OSError:
            pass
    with open("/proc/net/unix") as sockets:
        return mapping, re.findall(r"@soapstone/\S+", sockets.read())


class SharedMemoryTest(ClusterTestCase):

    def ledger(self, *flags):
        running = self.train("--policy=bsp", "--epochs=2", *flags)
        self.assertEqual(running.wait(60), 0, running.output())
        with open(f"{self.dir}/logs/ledger.json") as file:
            nodes = json.load(file)["nodes"]
        sent = sum(sum(node["sent"].values()) for node in nodes)
        by_memory = sum(node["shared_bytes"] for node in nodes)
        by_sockets = sum(node["sockets"]["given_bytes"] for node in nodes)
        self.assertEqual("in shared memory" in running.output(), by_memory > 0)
        return self.sha256(running.output()), sent, by_memory, by_sockets

    def test_it_carries_the_bytes_and_changes_no_bit(self):
        shared, sent, by_memory, by_sockets = self.ledger()
        self.assertLess(by_sockets, 0.02 * sent)
        # All but what server 1 sends server 0, which does not answer it, was counted as one of them.
        self.assertGreater(by_memory + by_sockets, 0.98 * sent)
        self.assertLessEqual(by_memory + by_sockets, sent)
        for without in ("sockets", "zeromq"):
            plain, sent, by_memory, by_sockets = self.ledger(f"--transport={without}")
            self.assertEqual(by_memory, 0)
            self.assertGreater(by_sockets, 0.98 * sent)
            self.assertEqual(shared, plain)

    def test_another_transport_is_a_configuration_error(self):
        running = self.train("--transport=pigeons")
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertIn('cluster.transport: "pigeons" is neither auto nor sockets nor zeromq',
                      running.output())
        self.assertEqual(len(running.lines), 1, running.output())

    def test_processes_that_are_killed_leave_nothing(self):
        for victim in ("worker-1", "server-0", None):
            running = self.train("--policy=async", "--epochs=1000")
            running.wait_for("epoch")
            children = descendants(running.pid)
            linked = [pid for pid in traces()[0] if pid in children.values()]
            self.assertEqual(len(linked), len(children), (linked, children))
            os.kill(children[victim] if victim else running.pid, signal.SIGKILL)
            if victim == "worker-1":
                running.wait_for("worker 1 lost")
                running.process.kill()
            running.wait(30)
            endpoints = re.findall(r"tcp://[0-9.]+:[0-9]+", running.output())

            def left():
                mapping, sockets = traces()
                return ([pid for pid in mapping if pid in children.values()],
                        [s for s in sockets if any(e in s for e in endpoints)])

            # The kernel takes a moment for descriptors that were on their way.
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and left() != ([], []):
                time.sleep(0.05)
            self.assertEqual(left(), ([], []))

    def test_memory_does_not_grow(self):
        running = self.train("--policy=ssp:s=2", "--epochs=120")
        running.wait_for("epoch")
        children = {name: pid for name, pid in descendants(running.pid).items()
                    if not name.startswith("scheduler")}
        seen = {name: [] for name in children}
        while running.process.poll() is None:
            for name, pid in children.items():
                try:
                    with open(f"/proc/{pid}/status") as status:
                        match = re.search(r"VmRSS:\s+(\d+)", status.read())
                except OSError:
                    continue
                if match:
                    seen[name].append(int(match.group(1)))
            time.sleep(0.1)
        self.assertEqual(running.wait(60), 0, running.output())
        for name, sizes in seen.items():
            self.assertGreater(len(sizes), 6, name)
            third = len(sizes) // 3
            self.assertLess(max(sizes[2 * third:-1]), 1.1 * max(sizes[:third]) + 4096, (name, sizes))


class BenchTest(ClusterTestCase):

    def test_every_row_is_measured_and_written(self):
        path = f"{self.dir}/bench.json"
        result = subprocess.run(
            [os.path.join(BIN, "soapstone-bench"), "--repeats=1", "--seconds=0.02",
             "--sizes=4096,1048576", "--rows=100000", f"--json={path}"], capture_output=True,
            text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(path) as file:
            rows = json.load(file)["rows"]
        links = {(row["what"], row["link"]) for row in rows if row["link"]}
        for what in ("push", "pull", "push, pulling as much", "push and pull, in turn"):
            for link in ("shared", "tcp", "ipc"):
                self.assertIn((what, link), links)
        for link in ("TCP", "ZeroMQ tcp", "ZeroMQ ipc"):
            self.assertIn(("raw push", link), links)
        for row in rows:
            self.assertGreater(row["gb_per_s"], 0, row)
            self.assertIn(row["what"], result.stdout)
        self.assertIn("push over shared, 1 MB", result.stdout)

    def test_bad_flags_are_a_configuration_error(self):
        for flag in ("--sizes=3", "--repeats=0", "--nonsense", "--json", "--json=/nowhere/x.json", "--only=typo"):
            result = subprocess.run([os.path.join(BIN, "soapstone-bench"), flag],
                                    capture_output=True, text=True, timeout=20)
            self.assertEqual(result.returncode, 78, result)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
