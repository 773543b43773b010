#!/usr/bin/env python3
"""A real Prometheus, unpacked from Debian's package, gathers the metrics of a job's daemons, reads deploy/monitoring, and
is asked what the dashboards there ask for.

BIN has the programs. Ends with 0 or 70; each line of what it says is a check."""
import argparse
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from cluster_trial import ROOT, failures, say
from dashboards_test import boards, expressions
from promtool import prometheus
from rules_test import alerts, catalogue

sys.path.append(str(ROOT / "tests/cluster"))
from stranger import GREETING, ready  # noqa: E402

FOLDER = ROOT / "deploy/monitoring"
SERVERS, WORKERS, SLOW = 2, 3, "slow:workers=1,factor=2"
ABSENT_MAYBE = {"soapstone_job_remaining_seconds", "soapstone_job_end_code"}  # while they are not known


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Prometheus:
    def __init__(self, program, folder, targets):
        self.port = free_port()
        text = (FOLDER / "prometheus.yml").read_text()
        text = re.sub(r"targets: \[.*\]", f"targets: {json.dumps(targets)}", text).replace("interval: 5s", "interval: 1s")
        (folder / "prometheus.yml").write_text(text)
        (folder / "rules.yml").write_text((FOLDER / "rules.yml").read_text())
        self.log = open(folder / "prometheus.log", "w")
        self.process = subprocess.Popen(
            [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=subprocess.STDOUT)

    def get(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def ask(self, expression):
        return self.get("query", query=expression)["result"]

    def firing(self):
        return {(a["labels"]["alertname"].removeprefix("Soapstone"), a["labels"].get("worker"))
                for a in self.get("alerts")["alerts"] if a["state"] == "firing"}


def await_(seconds, done):
    deadline = time.monotonic() + seconds
    while True:
        try:
            result = done()
        except OSError:
            result = None
        if result or time.monotonic() > deadline:
            return result
        time.sleep(0.5)


def start_job(bin_folder, folder, port, pages):
    """{name: process} of a job that runs until it is ended, each with its pages at the port that `pages` has for it."""
    text = (ROOT / "deploy/kubernetes/base/job.textproto").read_text()
    text = text.replace("/usr/share/soapstone", f"{ROOT}/data/digits").replace("/out/", f"{folder}/")
    text = text.replace("epochs: 30", f'epochs: 100000\n  base_ms: 10\n  stragglers: "{SLOW}"')
    text = text.replace("heartbeat_timeout_s: 20", "heartbeat_timeout_s: 5\n  replicas: 2")
    text = text.replace("output {", f'output {{\n  checkpoint_path: "{folder}/checkpoints"\n  checkpoint_every: 50')
    (folder / "job.textproto").write_text(text)
    processes = {}
    for name, page in pages.items():
        role = name.split("-")[0]
        processes[name] = subprocess.Popen(
            [f"{bin_folder}/soapstone-{role}", f"--config={folder}/job.textproto", f"--scheduler=tcp://127.0.0.1:{port}",
             f"--http=127.0.0.1:{page}"] + ([] if role == "scheduler" else [f"--rank={name.split('-')[1]}"]),
            stdout=open(folder / f"{name}.log", "w"), stderr=subprocess.STDOUT)
    return processes


def looks(server, processes, port):
    say(await_(30, lambda: len(server.ask("up == 1")) == len(processes)), f"all {len(processes)} nodes are gathered from")
    wanted = set(catalogue()) - ABSENT_MAYBE
    gathered = lambda: set(server.get("label/__name__/values"))
    await_(40, lambda: all(name in gathered() or f"{name}_bucket" in gathered() for name in wanted))
    missing = {name for name in wanted if name not in gathered() and f"{name}_bucket" not in gathered()}
    say(missing == set(), f"all {len(wanted)} series of the catalogue are there {missing or ''}")
    for board, several in ((name, expressions(board)) for name, board in boards().items()):
        shown = [e for e in several if not any(name in e for name in ABSENT_MAYBE)]
        empty = lambda: [e for e in shown if not server.ask(e)]  # noqa: E731
        await_(60, lambda: not empty())
        left = [e for e in empty() if not any(name in e for name in ABSENT_MAYBE)]
        say(left == [], f"dashboard {board}: all {len(several)} expressions have something to show {left or ''}")
    slow = await_(90, lambda: {a for a in server.firing() if a[0] == "WorkerSlow"})
    ratio = {s["metric"]["worker"]: float(s["value"][1]) for s in server.ask("soapstone_worker_slowdown_ratio")}
    named = {("WorkerSlow", max(ratio, key=ratio.get))} if ratio else None
    say(slow == named, f"the slow worker fires, and no other: {slow}, {ratio}")
    say(server.firing() == slow, f"nothing else fires: {server.firing() - (slow or set())}")
    healths = [(r["name"], r["health"], r.get("lastError")) for g in server.get("rules")["groups"] for r in g["rules"]]
    say(len(healths) == len(alerts((FOLDER / "rules.yml").read_text())) and all(h == "ok" for _, h, _ in healths),
        f"all {len(healths)} rules are evaluated without error")
    processes["worker-2"].kill()
    say(await_(60, lambda: ("WorkerLost", None) in server.firing()), "a worker that is killed: WorkerLost fires")
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        stranger.sendall(GREETING + ready() + b"\x02" + (1 << 20).to_bytes(8, "big") + bytes(64 << 10))
        say(await_(60, lambda: ("Strangers", None) in server.firing()), "a stranger at the port: Strangers fires")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    asked = parser.parse_args()
    program = prometheus(asked.bin)
    if program is None:
        print("prometheus_trial: Debian's package `prometheus` cannot be had", file=sys.stderr)
        return 78
    pages = {name: free_port() for name in ["scheduler-0", *(f"server-{i}" for i in range(SERVERS)),
                                            *(f"worker-{i}" for i in range(WORKERS))]}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        port = free_port()
        processes = start_job(asked.bin, folder, port, pages)
        server = Prometheus(program, folder, [f"127.0.0.1:{port}" for port in pages.values()])
        try:
            looks(server, processes, port)
        finally:
            for process in [*processes.values(), server.process]:
                process.kill()
                process.wait()
    return 70 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
