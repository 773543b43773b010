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

    def test_an_error_that_nobody_reads_ends_a_daemon(self):
        """Its pipe is full before it starts: what it cannot say it does not wait to say."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{taken.getsockname()[1]}"]
            reader, writer = os.pipe()
            self.addCleanup(os.close, reader)
            self.addCleanup(os.close, writer)
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            os.write(writer, b"x" * 4096)
            for role, more in {"scheduler": [], "worker": ["--data_path=/nonexistent"]}.items():
                with self.subTest(role):
                    done = subprocess.run([f"{BIN}/soapstone-{role}", *flags, *more], stderr=writer, timeout=30)
                    self.assertEqual(done.returncode, 78)

    def test_a_log_that_could_not_be_written_goes_on(self):
        """Its reader goes, and another comes."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        path = f"{self.dir}/log"
        os.mkfifo(path)
        first = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{port}", "--servers=1", "--workers=2"]
        with open(path, "wb") as writer:
            scheduler = subprocess.Popen([f"{BIN}/soapstone-scheduler", *flags], stderr=writer, stdout=subprocess.DEVNULL)
        self.addCleanup(scheduler.wait)
        self.addCleanup(scheduler.kill)
        time.sleep(1)
        self.assertIn(b"scheduler at", os.read(first, 65536))
        os.close(first)
        servers = [subprocess.Popen([f"{BIN}/soapstone-server", *flags, "--rank=0"], stderr=subprocess.DEVNULL)]
        time.sleep(1)  # what is said of the server is lost
        second = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, second)
        scheduler.send_signal(signal.SIGTERM)
        self.assertEqual(scheduler.wait(30), 143)
        text = os.read(second, 65536)
        self.assertRegex(text, rb"^\([1-9][0-9]* lines are missing here\)\n")
        self.assertIn(b"143", text)
        for server in servers:
            server.wait(30)

    def test_descriptors_that_are_closed_are_no_others(self):
        """What a process opens next must not get the number of its standard error."""
        def closed():
            for fd in range(3):
                os.close(fd)

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        scheduler = subprocess.Popen([f"{BIN}/soapstone-scheduler", f"--config={self.config}",
                                      f"--scheduler=tcp://127.0.0.1:{port}"], preexec_fn=closed)
        self.addCleanup(scheduler.wait)
        self.addCleanup(scheduler.kill)
        time.sleep(1)
        self.assertEqual([os.readlink(f"/proc/{scheduler.pid}/fd/{fd}") for fd in range(3)], ["/dev/null"] * 3)
        errors = subprocess.run([f"{BIN}/soapstone", "policies"], stderr=subprocess.PIPE, timeout=60,
                                preexec_fn=lambda: (os.close(0), os.close(1)))
        self.assertEqual(errors.returncode, 78)
        self.assertIn(b"standard output", errors.stderr)

    def test_a_daemons_result_that_cannot_be_written_is_said(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{port}", "--servers=1", "--workers=1",
                 "--epochs=1"]
        with open("/dev/full", "wb") as full:
            scheduler = subprocess.Popen([f"{BIN}/soapstone-scheduler", *flags], stdout=full, stderr=subprocess.PIPE)
            others = [subprocess.Popen([f"{BIN}/soapstone-{role}", *flags, "--rank=0"], stderr=subprocess.DEVNULL)
                      for role in ("server", "worker")]
            _, errors = scheduler.communicate(timeout=60)
        self.assertEqual(scheduler.returncode, 78)
        self.assertIn(b"standard output: No space left on device", errors)
        self.assertEqual([process.wait(30) for process in others], [0, 0])

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
