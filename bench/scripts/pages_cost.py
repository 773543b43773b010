#!/usr/bin/env python3
"""What looking at a job costs: a real job of 1 scheduler, 1 server and 3 workers, each with pages, is scraped every second.

    bench/scripts/pages_cost.py [SECONDS]

Prints how long a scrape took, and the processors' time of the threads that serve pages beside that of the whole job.
"""
import argparse
import os
import subprocess
import tempfile
import time
import urllib.request

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(SOURCE, "build", "release", "bin")
JOB = os.path.join(SOURCE, "examples", "digits-lenet5.textproto")


def ports(count):
    """Free ports of the loopback."""
    import socket
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def thread_seconds(pid):
    """{name: seconds} of the processors, by the names of a process's threads."""
    seconds = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            nanos = int(file.read().split()[0])
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as file:
            name = file.read().strip()
        seconds[name] = seconds.get(name, 0) + nanos / 1e9
    return seconds


def scrape(port):
    began = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        size = len(answer.read())
    return time.perf_counter() - began, size


def start(folder):
    """[(process, port)] of the job."""
    scheduler, *pages = ports(6)
    roles = ["scheduler", "server", "worker", "worker", "worker"]
    nodes = []
    for role, port in zip(roles, pages):
        command = [f"{BIN}/soapstone-{role}", f"--config={JOB}", "--servers=1", "--workers=3", "--epochs=1000000",
                   f"--http=127.0.0.1:{port}", f"--scheduler=tcp://127.0.0.1:{scheduler}"]
        with open(f"{folder}/{len(nodes)}.log", "w", encoding="utf-8") as log:
            nodes.append((subprocess.Popen(command, stdout=log, stderr=log), port))
    return nodes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", metavar="SECONDS", nargs="?", type=float, default=60, help="[60]")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        nodes = start(folder)
        try:
            time.sleep(10)
            before = [thread_seconds(process.pid) for process, _ in nodes]
            took, size = [], []
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                second = time.monotonic() + 1
                for _, port in nodes:
                    one = scrape(port)
                    took.append(one[0])
                    size.append(one[1])
                time.sleep(max(0, second - time.monotonic()))
            after = [thread_seconds(process.pid) for process, _ in nodes]
        finally:
            for process, _ in nodes:
                process.kill()
                process.wait()
    spent = {}
    for first, last in zip(before, after):
        for name, value in last.items():
            spent[name] = spent.get(name, 0) + value - first.get(name, 0)
    took.sort()
    whole = sum(spent.values())
    pages = sum(value for name, value in spent.items() if name.startswith("MHD"))
    print(f"{len(took)} scrapes, {min(size)} to {max(size)} bytes: median {1e3 * took[len(took) // 2]:.2f} ms, "
          f"99th of 100 {1e3 * took[int(len(took) * .99)]:.2f} ms, longest {1e3 * took[-1]:.2f} ms")
    print(f"threads that serve pages: {pages:.3f} of {whole:.1f} CPU seconds of the job, {100 * pages / whole:.3f}%")


if __name__ == "__main__":
    main()
