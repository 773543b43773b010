"""Output that nobody reads, as a pager's that is not paged on: the job goes on, and hears signals."""
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest

from cluster import BIN, ClusterTestCase, alive, descendants


class UnreadOutputTest(ClusterTestCase):

    def start_unread(self, program, *flags, errors=False):
        """The program, into a pipe of 4 KiB that is nearly full; (process, the pipe's end to read).

        errors: standard error goes there, and standard output nowhere.
        """
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, b"x" * 4000)
        process = subprocess.Popen([f"{BIN}/{program}", *flags], stdout=subprocess.DEVNULL if errors else writer,
                                   stderr=writer if errors else subprocess.DEVNULL)
        os.close(writer)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, reader

    def test_train_ends_well(self):
        process, _ = self.start_unread("soapstone", "train", f"--config={self.config}", f"--log_dir={self.dir}/logs",
                                       "--progress_every=0")
        self.assertEqual(process.wait(60), 0)
        with open(f"{self.dir}/logs/ledger.json") as file:
            self.assertEqual(len(json.load(file)["nodes"]), 6)

    def test_the_end_is_there_for_who_reads_late(self):
        process, reader = self.start_unread("soapstone", "train", f"--config={self.config}", f"--log_dir={self.dir}/logs",
                                            "--progress_every=0")
        deadline = time.monotonic() + 60
        while not os.path.exists(f"{self.dir}/logs/ledger.json") and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(4)  # as who turns a page
        text = b""
        while piece := os.read(reader, 4096):
            text += piece
        self.assertEqual(process.wait(20), 0)
        self.assertIn(b"parameters, sha256", text)

    def test_what_cannot_be_written_is_said(self):
        for flags in (["train", f"--config={self.config}", f"--log_dir={self.dir}/full", "--epochs=1"], ["policies"]):
            with self.subTest(flags[0]), open("/dev/full", "wb") as full:
                done = subprocess.run([f"{BIN}/soapstone", *flags], stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(done.returncode, 78)
                self.assertIn(b"soapstone: standard output", done.stderr.splitlines()[-1])

    def test_train_hears_a_signal(self):
        process, _ = self.start_unread("soapstone", "train", f"--config={self.config}", f"--log_dir={self.dir}/logs",
                                       "--progress_every=0", "--epochs=100000", "--base_ms=20")
        children, deadline = {}, time.monotonic() + 30
        while len(children) < 5 and time.monotonic() < deadline:
            time.sleep(0.1)
            children = descendants(process.pid) or children
        time.sleep(3)  # more lines than the pipe has room for
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(20), (130, 143))
        self.assertEqual([name for name, pid in children.items() if alive(pid)], [])

    def test_daemons_whose_errors_nobody_reads(self):
        """They log at 64 B a line: each has more to say than its pipe has room for."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{port}", "--servers=1", "--workers=2"]
        end = {"a job ends well": 0, "a signal is heard": 143}
        for what, code in end.items():
            with self.subTest(what):
                more = ["--epochs=100000", "--base_ms=20"] if code else ["--epochs=1"]
                started = [self.start_unread(f"soapstone-{role}", *flags, *more, *rank, errors=True)[0]
                           for role, rank in [("scheduler", []), ("server", ["--rank=0"]), ("worker", ["--rank=0"]),
                                              ("worker", ["--rank=1"])]]
                if code:
                    time.sleep(3)
                    started[0].send_signal(signal.SIGTERM)
                self.assertEqual([process.wait(30) for process in started][0], code)

    def test_a_stopped_launcher_is_waited_for_by_nobody(self):
        """Its scheduler's pipe is full before long."""
        running = self.train("--epochs=100000", "--base_ms=5", "--heartbeat_s=0.05")
        running.wait_for("epoch")
        scheduler = descendants(running.pid)["scheduler"]
        pipe = os.open(f"/proc/{scheduler}/fd/1", os.O_WRONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, pipe)
        os.kill(running.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, running.pid, signal.SIGCONT)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(pipe, b"x")
        time.sleep(8)  # longer than nodes wait for a scheduler that is silent
        self.assertEqual([name for name, pid in descendants(running.pid).items() if not alive(pid)], [])
        self.assertTrue(re.search("^State:\tT", open(f"/proc/{running.pid}/status").read(), re.M))


if __name__ == "__main__":
    unittest.main()
