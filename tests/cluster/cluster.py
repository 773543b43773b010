"""Runs the real programs for tests: `soapstone train` and single daemons, over tcp."""
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

BIN = os.environ["SOAPSTONE_BIN"]
SOURCE = os.environ["SOAPSTONE_SOURCE"]

JOB = """
model: "lenet5"
data { format: "digits" path: "%s/data/digits/digits.csv.gz" }
policy: "ssp:s=2"
training {
  epochs: 12 batch: 48 micro_batches: 12 seed: 1
  optimizer: "momentum:lr=0.03,mu=0.9,decay=1e-4" schedule: "cosine:min=0.01,warmup=20"
}
cluster { servers: 2 workers: 3 heartbeat_s: 0.2 heartbeat_timeout_s: 3 }
""" % SOURCE


def alive(pid):
    """Whether the process runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def needs_bf16(test):
    with open("/proc/cpuinfo") as file:
        if not re.search(r"avx512_bf16|amx_bf16", file.read()):
            test.skipTest("NOT TESTED: this processor has no bf16")


def descendants(pid):
    """{name: pid} of the children of a launcher: "scheduler", "server-0", "worker-2"."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{entry}/cmdline") as cmdline:
                words = cmdline.read().split("\0")
        except OSError:
            continue
        match = re.search(r"soapstone-(\w+)$", words[0])
        if parent != pid or not match:
            continue
        rank = [word[len("--rank="):] for word in words if word.startswith("--rank=")]
        found["-".join([match.group(1)] + rank)] = int(entry)
    return found


class Running:
    """A program whose output is collected while it runs."""

    def __init__(self, command):
        self.started = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, cwd=SOURCE)
        self.lines = []
        self.times = []  # when each came, by time.monotonic()
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.times.append(time.monotonic())
                self.changed.notify_all()

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        with self.changed:
            return "\n".join(self.lines)

    def wait_for(self, pattern, seconds=60):
        """Waits until a line matches; returns the match."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                for line in self.lines:
                    match = re.search(pattern, line)
                    if match:
                        return match
                left = deadline - time.monotonic()
                if left <= 0 or not self.reader.is_alive():
                    text = "\n".join(self.lines)
                    raise AssertionError(f"no line matches {pattern!r} in:\n{text}")
                self.changed.wait(min(left, 0.5))

    def wait(self, seconds):
        """The exit code; kills the program when it takes longer."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise AssertionError(f"still running after {seconds} s:\n{self.output()}") from None
        self.reader.join(10)
        return code


class ClusterTestCase(unittest.TestCase):
    """Offers a scratch folder, and kills what a test leaves running."""

    bin = BIN  # where the programs are that it starts

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="soapstone-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.config = os.path.join(self.dir, "job.textproto")
        with open(self.config, "w") as file:
            file.write(JOB)

    def run_program(self, program, *flags):
        running = Running([os.path.join(self.bin, program), *flags])
        self.addCleanup(self.stop, running)
        return running

    def stop(self, running):
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait(10)
        running.reader.join(10)
        running.process.stdout.close()

    def train(self, *flags, pages=False, progress_every=2):
        """With progress (seconds) as often as tests look for it. Without `pages` the scheduler listens at one port."""
        if not pages:
            flags = ("--http=off", *flags)
        return self.run_program("soapstone", "train", f"--config={self.config}",
                                f"--log_dir={self.dir}/logs",
                                f"--progress_every={progress_every}", *flags)

    def start_by_hand(self, *flags, before=lambda name, nodes: None):
        """Daemons without a launcher: they must notice by themselves. `before` each of them it is called with those
        that are there."""
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}",
                                     "--scheduler=tcp://127.0.0.1:0", "--progress=json", *flags)
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        nodes = {"scheduler": scheduler}
        for role, count in (("server", 2), ("worker", 3)):
            for rank in range(count):
                before(f"{role}-{rank}", nodes)
                nodes[f"{role}-{rank}"] = self.run_program(
                    f"soapstone-{role}", f"--config={self.config}", f"--scheduler={endpoint}",
                    f"--rank={rank}", *flags)
        scheduler.wait_for('"event":"progress"')
        return nodes

    def assert_nothing_left(self, children):
        """All of {name: pid} have ended (a moment is given to the kernel)."""
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline and any(alive(pid) for pid in children.values()):
            time.sleep(0.02)
        left = [name for name, pid in children.items() if alive(pid)]
        self.assertEqual(left, [])

    def accuracy(self, output):
        match = re.search(r"test accuracy +([0-9.]+)", output)
        self.assertIsNotNone(match, output)
        return float(match.group(1))

    def sha256(self, output):
        match = re.search(r"sha256 +([0-9a-f]{64})", output)
        self.assertIsNotNone(match, output)
        return match.group(1)


