#!/usr/bin/env python3
"""A model whose step needs more memory than a worker may have, trained by four that share it.

    bench/scripts/larger_than_a_worker.py [--bin=build/release/bin] [--limit_mb=525] [--model=NAME:OPTIONS]

Needs root: each worker gets a control group whose memory is --limit_mb (either version of control groups; the
scheduler and the server are in none).

1. One worker is started with the job. Its step does not fit, so it is refused: exit code 78, and a line with what the
   step needs, --times as much as the group has, or more.
2. `soapstone plan --for_workers` finds a strategy for --workers of them, parameters kept by the workers.
3. Those train the job by it, to its end.

Prints for each seat what it needs by plan, and what its group took at most beyond what its process had before its part
of the model was made. Exit code 1: one of the three did not come about, or a seat took more than 1.05 of the plan
and 16 MiB.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 900
SIZES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
JOB = """
model: "{model}"
data {{ format: "words" path: "text.txt" length: {length} test_fraction: 0.1 }}
policy: "bsp"
training {{ epochs: 1 batch: {batch} seed: 1 optimizer: "sgd:lr=0.1" }}
cluster {{ heartbeat_timeout_s: 60 threads: 1 scheduler: "tcp://127.0.0.1:{port}" {more} }}
"""
MACHINE = """
name: "small workers"
kinds {{ name: "core" tflops: 0.05 memory_gbytes_per_s: 8 memory_gib: {gib} launch_us: 5 }}
nodes {{ name: "w" count: {workers} devices: 1 kind: "core"
        nics {{ count: 1 connection {{ gbytes_per_s: 1 latency_us: 50 }} direct: true }} }}
"""


class Group:
    """A control group with so many bytes of memory, for as long as it is entered."""

    def __init__(self, name, limit):
        first = "/sys/fs/cgroup/memory"
        self.first = os.path.isdir(first)
        self.dir = f"{first if self.first else '/sys/fs/cgroup'}/{name}"
        self.limit = limit

    def __enter__(self):
        os.mkdir(self.dir)
        self.write("memory.limit_in_bytes" if self.first else "memory.max", self.limit)
        return self

    def __exit__(self, *_):
        os.rmdir(self.dir)

    def write(self, name, value):
        with open(f"{self.dir}/{name}", "w") as file:
            file.write(str(value))

    def start(self, command, output):
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=os.path.dirname(output.name),
                                preexec_fn=lambda: self.write("cgroup.procs", os.getpid()))

    def peak(self):
        """Bytes, of which pages of the program's file are some."""
        with open(f"{self.dir}/{'memory.max_usage_in_bytes' if self.first else 'memory.peak'}") as file:
            return int(file.read())


def bytes_of(number, unit):
    return float(number) * SIZES[unit]


def write_text(path, words, vocabulary):
    rng = random.Random(1)
    at = 0
    with open(path, "w") as file:
        for i in range(words):
            at = (7 * at + rng.randrange(5)) % vocabulary
            file.write(f"w{at}" + ("\n" if i % 20 == 19 else " "))


class Trial:

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.limit = options.limit_mb << 20
        self.outputs = {}
        write_text(f"{folder}/text.txt", options.steps * options.batch * options.length * 10 // 9 + options.length, 200)

    def program(self, role):
        return os.path.abspath(f"{self.options.bin}/soapstone{role}")

    def output(self, name):
        self.outputs[name] = open(f"{self.folder}/{name}.out", "w")
        return self.outputs[name]

    def read(self, name):
        with open(f"{self.folder}/{name}.out") as file:
            return file.read()

    def job(self, name, more):
        path = f"{self.folder}/{name}.textproto"
        with open(path, "w") as file:
            file.write(JOB.format(model=self.options.model, length=self.options.length, batch=self.options.batch,
                                  port=self.options.port, more=more))
        return f"--config={path}"

    def free(self, role, *flags):
        """A process in no group of its own."""
        return subprocess.Popen([self.program(role), *flags], cwd=self.folder, stdout=self.output(role[1:]),
                                stderr=subprocess.STDOUT)

    def end(self, processes):
        deadline = time.monotonic() + PATIENCE_S
        try:
            return [process.wait(max(0, deadline - time.monotonic())) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def one_worker(self):
        flags = [self.job("one", "servers: 1 workers: 1")]
        with Group(f"soapstone-{os.getpid()}-one", self.limit) as group:
            others = [self.free("-scheduler", *flags), self.free("-server", *flags)]
            worker = group.start([self.program("-worker"), *flags], self.output("one"))
            code = self.end([worker])[0]
            self.end(others)
        line = re.search(r"a step of .* needs ([0-9.]+) (\w+) of memory.*", self.read("one"))
        print(f"one worker: exit code {code}; {line.group(0) if line else self.read('one')}")
        needed = bytes_of(*line.groups()) if line else 0
        print(f"its step needs {needed / self.limit:.2f} of its group's {self.options.limit_mb} MiB")
        return code == 78 and needed >= self.options.times * self.limit

    def plan(self):
        with open(f"{self.folder}/machine.textproto", "w") as file:
            file.write(MACHINE.format(workers=self.options.workers, gib=self.options.limit_mb / 1024))
        command = [self.program(""), "plan", self.job("plan", ""), "--machine=machine.textproto", "--for_workers",
                   "--sync=owner", f"--budget={self.options.budget}", "--output=found.strategy.textproto"]
        print(subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout[-600:])

    def many(self):
        flags = [self.job("many", 'strategy: "found.strategy.textproto"')]
        groups = [Group(f"soapstone-{os.getpid()}-{k}", self.limit) for k in range(self.options.workers)]
        codes, peaks = [], []
        try:
            for group in groups:
                group.__enter__()
            scheduler = self.free("-scheduler", *flags)
            workers = [group.start([self.program("-worker"), *flags, f"--rank={k}"], self.output(f"seat-{k}"))
                       for k, group in enumerate(groups)]
            codes = self.end([scheduler, *workers])
            peaks = [group.peak() for group in groups]
        finally:
            for group in groups:
                if os.path.isdir(group.dir):
                    group.__exit__()
        print(f"{self.options.workers} workers: exit codes {codes}")
        fit = all(code == 0 for code in codes)
        for k, peak in enumerate(peaks):
            line = re.search(r"needs ([0-9.]+) (\w+) of memory beside the ([0-9.]+) (\w+)", self.read(f"seat-{k}"))
            if line is None:
                print(self.read(f"seat-{k}")[-500:])
                return False
            planned, before = bytes_of(*line.groups()[:2]), bytes_of(*line.groups()[2:])
            taken = peak - before
            fit = fit and taken <= 1.05 * planned + (16 << 20)
            print(f"seat {k}: planned {planned / 1e6:.1f} MB, took {taken / 1e6:.1f} MB at most ({taken / planned:.2f}) "
                  f"beyond the {before / 1e6:.1f} MB before")
        for line in self.read("scheduler").splitlines():
            if re.search(r"training loss  |samples/s  |  time  ", line):
                print(line)
        return fit


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--model", default="transformer_lm:hidden=128,layers=8,heads=8")
    parser.add_argument("--length", type=int, default=512, help="tokens of a sample")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--limit_mb", type=int, default=525, help="MiB of a worker's control group")
    parser.add_argument("--times", type=float, default=3, help="what the step is to need, in groups")
    parser.add_argument("--budget", default="15s", help="of the search for a plan")
    parser.add_argument("--port", type=int, default=7931)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("larger_than_a_worker: control groups are root's to make")
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(options, folder)
        refused = trial.one_worker()
        trial.plan()
        fit = trial.many()
    print("met" if refused and fit else "not met")
    sys.exit(0 if refused and fit else 1)


if __name__ == "__main__":
    main()
