#!/usr/bin/env python3
"""Runs fuzzers, as many at a time as there are processors, and says what they did.

usage: run_fuzzers.py BUILD SECONDS NAME|all...
SECONDS: of each, or ten million executions.
BUILD: the folder of the fuzz preset. What a fuzzer learns is kept in BUILD/corpus/NAME and used the
next time; what it finds is in BUILD/findings. Progress goes to standard error; the last line on
standard output is "passed failed", a fuzzer being one test.
"""
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
# A parser takes no memory for a length that is only announced, and no input takes seconds; sanitized, and beside
# others, it may take some. The sanitizer keeps freed memory for a while, which is not the parser's.
LIMITS = ["-timeout=30", "-rss_limit_mb=512", "-malloc_limit_mb=256", "-max_len=4096"]
SANITIZER = "quarantine_size_mb=32"
PROGRESS_S = 30
EXECUTIONS_MAX = 10_000_000  # then it ends before its time


class Fuzzer:
    def __init__(self, build, name):
        self.name = name
        self.program = build / "bin" / f"{name}_fuzz"
        self.learned = build / "corpus" / name
        self.findings = build / "findings"
        self.log = build / "findings" / f"{name}.log"
        self.executions = 0
        self.edges = 0
        self.code = None

    def run(self, seconds):
        for folder in (self.learned, self.findings):
            folder.mkdir(parents=True, exist_ok=True)
        command = ["nice", "-n", "10", str(self.program), *LIMITS, f"-max_total_time={seconds}",
                   f"-runs={EXECUTIONS_MAX}",
                   f"-artifact_prefix={self.findings}/{self.name}-", "-print_final_stats=1",
                   str(self.learned), str(CORPUS / self.name)]
        with open(self.log, "w", errors="replace") as log:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                       errors="replace", env={**os.environ, "ASAN_OPTIONS": SANITIZER})
            for line in process.stderr:
                log.write(line)
                if match := re.match(r"#(\d+)\s.*cov: (\d+)", line):
                    self.executions, self.edges = map(int, match.groups())
                if match := re.match(r"stat::number_of_executed_units:\s+(\d+)", line):
                    self.executions = int(match.group(1))
            self.code = process.wait()

    def text(self):
        what = f"{self.name}: {self.executions:,} executions, {self.edges:,} edges"
        if self.code in (None, 0):
            return what
        summary = [line.strip() for line in open(self.log, errors="replace")
                   if re.search(r"SUMMARY|Check failed|runtime error|Test unit written", line)]
        return "\n  ".join([f"{what}, FOUND (log: {self.log})", *summary[:4]])


def main(build, seconds, names):
    waiting = [Fuzzer(build, name) for name in names]
    running, done = [], []
    said = time.monotonic()
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            fuzzer = waiting.pop(0)
            thread = threading.Thread(target=fuzzer.run, args=(seconds,))
            thread.start()
            running.append((fuzzer, thread))
        running[0][1].join(timeout=1)
        for pair in [p for p in running if not p[1].is_alive()]:
            running.remove(pair)
            done.append(pair[0])
            print(f"fuzz: {pair[0].text()}", file=sys.stderr)
        if running and time.monotonic() - said >= PROGRESS_S:
            said = time.monotonic()
            print(f"fuzz: {len(done)} of {len(names)} done; " +
                  "; ".join(fuzzer.text() for fuzzer, _ in running), file=sys.stderr)
    # Killed, or not even started, is no success either.
    passed = sum(f.code == 0 and f.executions > 0 for f in done)
    print(f"{sum(f.executions for f in done):,} executions of {len(done)} fuzzers, "
          f"{len(done) - passed} with a finding", file=sys.stderr)
    print(passed, len(done) - passed)


if __name__ == "__main__":
    everything = sorted(path.name for path in CORPUS.iterdir())
    wanted = everything if sys.argv[3:] == ["all"] else sys.argv[3:]
    unknown = set(wanted) - set(everything)
    if unknown or not wanted:
        sys.exit(f"no fuzzer {', '.join(sorted(unknown))}; there are {', '.join(everything)}")
    main(pathlib.Path(sys.argv[1]), int(float(sys.argv[2])), wanted)
