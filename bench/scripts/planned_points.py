#!/usr/bin/env python3
"""Steps of strategies on slow links: the planner's prediction beside real processes, over many points.

    bench/scripts/planned_points.py [--bin=build/release/bin] [--models=lenet5,mlp,gnmt] [--rates=100,300,1000] [--workers=2,3,4]

A point is a model, a strategy for it (data parallelism over a server, owners or a ring, a pipeline, what the search finds),
so many workers, and the rate of every link. Needs root, ip and tc, as strategy_on_shaped_links.py, whose network this
is: each process has a namespace, and tc limits each one's link in both directions.

    costs      `soapstone profile --config --costs`: the model's operators, alone on the machine, for several sizes
    machine    links as the system's own sockets fill them at that rate, both ways at once; what a message takes is
               measured at each rate by a small model
    predicted  `soapstone plan --for_workers` with both
    real       the median time from the end of a worker's step to its next one's, without the first ones

With more workers than processors everything computes so many times as slow: each worker rests after its kernels
(training.stragglers, "slow") and the machine file has devices as slow, so that who waits for whom stays the planner's
affair and not the operating system's. Nothing is fitted to the points. Prints a line a point, the mean and the worst
error, and the pairs of points of one model and one number of workers whose order is predicted wrong though they are
more than a tenth apart. Exit code 1: a mean above --mean, a worst above --worst, or such a pair.
"""
import argparse
import csv
import glob
import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import strategy_on_shaped_links as links

WARM_UP = 4
# What a link carries while both directions are full: bytes a second of one end, by the system's own sockets.
STREAM = r'''
import socket, sys, threading, time
me, other, port, size = sys.argv[1], sys.argv[2], 7917, int(sys.argv[3])
if me < other:
    listener = socket.create_server(("", port))
    peer = listener.accept()[0]
else:
    for _ in range(100):
        try:
            peer = socket.create_connection((other, port))
            break
        except OSError:
            time.sleep(0.05)
def send():
    block = b"x" * 65536
    for _ in range(size // len(block)):
        peer.sendall(block)
    peer.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send)
sender.start()
begin, got = time.perf_counter(), 0
while data := peer.recv(1 << 18):
    got += len(data)
print(got / (time.perf_counter() - begin))
sender.join()
'''
JOB = """
model: "{model}"
data {{ {data} }}
policy: "bsp"
training {{ epochs: 1000 steps: {steps} batch: {batch} seed: 1 optimizer: "sgd:lr=0.001" evaluation: "none" {slow} }}
cluster {{ servers: 1 workers: {workers} heartbeat_timeout_s: 30 threads: 1 scheduler: "tcp://{net}.1:7918" {strategy} }}
output {{ trace_path: "{folder}/trace.csv" }}
"""
KIND = 'kinds {{ name: "core" tflops: {tflops} memory_gbytes_per_s: {memory} memory_gib: 8 }}'
MACHINE = """
name: "shaped"
{kind}
nodes {{ name: "w" count: {workers} devices: 1 kind: "core" {nic} }}
nodes {{ name: "s" count: 1 servers: 1 server_apply_gbytes_per_s: {apply} {nic} }}
"""
NIC = "nics {{ count: 1 connection {{ gbytes_per_s: {rate:.6g} latency_us: {latency:.6g} }} direct: true }}"
MODELS = {
    "softmax": 'format: "csv" path: "{folder}/small.csv" height: 4 width: 4',
    "lenet5": 'format: "csv" path: "{folder}/images.csv" height: 28 width: 28',
    "mlp:hidden=256": 'format: "csv" path: "{folder}/images.csv" height: 28 width: 28',
    "gnmt:hidden=96": 'format: "copy" length: 12 vocabulary: 500 samples: 2000',
    "alexnet:tiny": 'format: "images" path: "{folder}/images" channels: 3 height: 32 width: 32',
}
BATCH = {"softmax": 24, "lenet5": 96, "mlp:hidden=256": 96, "gnmt:hidden=96": 48, "alexnet:tiny": 96}
STRATEGIES = {
    "servers": ["--search=data", "--sync=servers"],
    "owner": ["--search=data", "--sync=owner"],
    "ring": ["--search=data", "--sync=ring"],
    "pipeline": ["--search=gpipe", "--micro_batches=4", "--sync=owner"],
    "found": ["--search=mcmc"],
}


def write_data(folder):
    for name, side, rows in (("small", 4, 60), ("images", 28, 600)):
        with open(f"{folder}/{name}.csv", "w") as file:
            for i in range(rows):
                file.write(",".join(str((i * 31 + p * 17) % 16) for p in range(side * side)) + f",{i % 10}\n")
    for label in "0123456789":
        os.makedirs(f"{folder}/images/{label}")
        for i in range(40):
            with open(f"{folder}/images/{label}/{i}.raw", "wb") as file:
                file.write(bytes((i * 31 + p * 17) % 256 for p in range(3 * 32 * 32)))


def shape(namespace, device, rate_mbps):
    """With so small a bucket that no step is carried for nothing."""
    subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate_mbps}mbit",
                    "burst", f"{max(32, rate_mbps // 8)}kb", "latency", "50ms"], check=True)


links.shape = shape


class Bench:

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.cores = os.cpu_count()
        self.costs = {}
        self.carries = {}  # bytes a second, by rate

    def slowness(self, workers):
        """How much slower than a core each worker is to compute, so that all have room."""
        return 1 if workers <= self.cores else -(-workers * 4 // (self.cores * 3))

    def job(self, model, workers, strategy=""):
        path = f"{self.folder}/job.textproto"
        slow = self.slowness(workers)
        stragglers = f'stragglers: "slow:workers={workers},factor={slow}"' if slow > 1 else ""
        with open(path, "w") as file:
            file.write(JOB.format(model=model, data=MODELS[model].format(folder=self.folder), steps=self.args.steps + WARM_UP,
                                  batch=BATCH[model], workers=workers, slow=stragglers, net=links.NET, folder=self.folder,
                                  strategy=f'strategy: "{strategy}"' if strategy else ""))
        return path

    def run(self, *words):
        done = subprocess.run([f"{self.args.bin}/soapstone", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().split("\n")[-1])
        return done.stdout

    def costs_of(self, model, workers):
        key = (model, workers)
        if key not in self.costs:
            path = f"{self.folder}/{len(self.costs)}.costs.textproto"
            self.run("profile", f"--config={self.job(model, 1)}", f"--batch={BATCH[model]}", "--seconds=0.5", f"--costs={path}")
            self.costs[key] = path
        return self.costs[key]

    def machine(self, model, workers, rate_mbps, latency_us, apply):
        costs = open(self.costs_of(model, workers)).read()
        flops, moved = (float(re.search(rf"{key}: (\d+)", costs).group(1)) / self.slowness(workers)
                        for key in ("flops_per_second", "bytes_per_second"))
        path = f"{self.folder}/machine.textproto"
        nic = NIC.format(rate=self.carries[rate_mbps] / 1e9, latency=latency_us)
        with open(path, "w") as file:
            file.write(MACHINE.format(kind=KIND.format(tflops=flops / 1e12, memory=moved / 1e9), workers=workers, nic=nic,
                                      apply=apply))
        return path

    def plan(self, model, workers, rate_mbps, latency_us, name):
        """(path, predicted ms, parameters are with workers)."""
        path = f"{self.folder}/{name}.strategy.textproto"
        machine = self.machine(model, workers, rate_mbps, latency_us, 2)
        self.run("plan", f"--config={self.job(model, workers)}", f"--machine={machine}", f"--devices={workers}",
                 f"--batch={BATCH[model]}", f"--costs={self.costs_of(model, workers)}", "--for_workers", "--budget=3s",
                 f"--output={path}", *STRATEGIES[name])
        text = open(path).read()
        return path, links.predicted_ms(text), links.kept_by_workers(text)

    def start(self, namespace, cpu, role, config, *flags):
        log = open(f"{self.folder}/{role}.log", "a")
        command = ["ip", "netns", "exec", namespace, "taskset", "-c", cpu, f"{self.args.bin}/soapstone-{role}",
                   f"--config={config}", *flags]
        return subprocess.Popen(command, stdout=log, stderr=log, text=True)

    def real(self, config, workers, servers):
        """ms of a step, the median over workers and steps."""
        for old in glob.glob(f"{self.folder}/trace.csv*"):
            os.remove(old)
        nodes = links.places(workers)
        anywhere = f"0-{self.cores - 1}"
        processes = [self.start(links.SWITCH, anywhere, "scheduler", config)]
        time.sleep(0.3)
        for i, (name, _) in enumerate(nodes[:workers]):
            cpu = str(i % self.cores) if workers <= self.cores else anywhere
            processes.append(self.start(name, cpu, "worker", config, f"--rank={i}"))
        if servers:
            processes.append(self.start(nodes[workers][0], anywhere, "server", config, "--rank=0"))
        try:
            codes = [process.wait(timeout=links.PATIENCE_S) for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        if any(codes):
            raise RuntimeError(f"ended with {codes}; logs in {self.folder}")
        steps = []
        for part in glob.glob(f"{self.folder}/trace.csv*"):
            ends = [float(row["end_us"]) for row in csv.DictReader(open(part))]
            steps += [b - a for a, b in zip(ends[WARM_UP:], ends[WARM_UP + 1:])]
        return statistics.median(steps) / 1000

    def latency_us(self, rate_mbps):
        """Of a message: half of what a step of the smallest model takes."""
        links.set_up(2, rate_mbps)
        ends = links.places(2)[:2]
        streams = [subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-c", STREAM, address, other,
                                     str(rate_mbps * 125000)], stdout=subprocess.PIPE, text=True)
                   for (name, address), (_, other) in zip(ends, reversed(ends))]
        self.carries[rate_mbps] = statistics.mean(float(stream.communicate(timeout=60)[0]) for stream in streams)
        path, predicted, _ = self.plan("softmax", 2, rate_mbps, 0, "servers")
        real = self.real(self.job("softmax", 2, path), 2, True)
        return max(1, (real - predicted) * 1000 / 2)


def points(args):
    models = [model for model in MODELS if model != "softmax" and
              (not args.models or model.split(":")[0] in args.models.split(","))]
    for workers, rate in itertools.product(map(int, args.workers.split(",")), map(int, args.rates.split(","))):
        for model in models:
            yield workers, rate, model


def report(args, results):
    errors = [abs(predicted / real - 1) for _, predicted, real in results]
    print(f"{len(errors)} points: mean error {100 * statistics.mean(errors):.1f}%, worst {100 * max(errors):.1f}%")
    wrong = 0
    for (a, pa, ra), (b, pb, rb) in itertools.combinations(results, 2):
        if a[:1] + a[2:3] == b[:1] + b[2:3] and max(ra, rb) > 1.1 * min(ra, rb) and (pa < pb) != (ra < rb):
            print(f"  in another order: {a} {pa:.2f} {ra:.2f}, {b} {pb:.2f} {rb:.2f}")
            wrong += 1
    return 100 * statistics.mean(errors) <= args.mean and 100 * max(errors) <= args.worst and not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--models", default="", help="those alone, without their options")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--rates", default="100,300,1000", help="of links, in Mb/s")
    parser.add_argument("--workers", default="2,3,4")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--mean", type=float, default=8)
    parser.add_argument("--worst", type=float, default=20)
    args = parser.parse_args()
    links.need_tools()
    folder = tempfile.mkdtemp(prefix="soapstone-points-")
    bench = Bench(args, folder)
    write_data(folder)
    latencies, results, most = {}, [], 0
    try:
        for workers, rate, model in points(args):
            most = max(most, workers)
            if rate not in latencies:
                latencies[rate] = bench.latency_us(rate)
                print(f"{rate} Mb/s: carries {bench.carries[rate] * 8e-6:.0f} Mb/s, a message takes {latencies[rate]:.0f} us",
                      flush=True)
            links.set_up(workers, rate)
            for name in args.strategies.split(","):
                try:
                    path, predicted, owned = bench.plan(model, workers, rate, latencies[rate], name)
                    real = bench.real(bench.job(model, workers, path), workers, not owned)
                except RuntimeError as error:
                    print(f"{workers} {rate} {model} {name}: left out: {error}", flush=True)
                    continue
                results.append(((workers, rate, model, name), predicted, real))
                print(f"{workers} workers {rate:5} Mb/s {model:16} {name:9} predicted {predicted:8.2f} ms  real "
                      f"{real:8.2f} ms  {100 * (predicted / real - 1):+6.1f}%", flush=True)
            links.take_down(workers)
    finally:
        links.take_down(most)
    good = report(args, results)
    shutil.rmtree(folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
