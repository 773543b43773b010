#!/usr/bin/env python3
"""What a plan gains over data parallelism on slow links: real processes, real kernels, real bytes.

    bench/scripts/strategy_on_shaped_links.py [--bin=build/release/bin] [--model=alexnet] [--rate_mbps=1000]
    bench/scripts/strategy_on_shaped_links.py --model=gnmt:hidden=256 --sequences=20,8000 --micro_batches=auto
    bench/scripts/strategy_on_shaped_links.py --model=dlrm_hashed:rows=1000001 --clicks=1000000 --batch=512

Needs root: the scheduler, the server and each worker get a network namespace, joined by a bridge; tc (tbf)
limits each one's link in both directions. Each worker computes on a processor of its own. Ways, in turn,
there and back:

    server     data parallelism, parameters on the one server
    ring       data parallelism by all-reduce
    owner      data parallelism, parameters kept by the workers: as `soapstone plan --search=data --sync=owner`
    ranges     the same with --sync=ring: each worker keeps a range of each parameter
    ddp        PyTorch's DistributedDataParallel over gloo, alexnet alone (Debian's python3-torch)
    plan       what `soapstone plan --for_workers` finds for these links

Prints for each the samples a second, their ratio to the fastest data parallelism of ours, what the planner had
predicted for a step, and what worker 0's link carried a step (sent and received; counters of the interface; among it
what is sent once at the start, and for the model at the end).
Exit code 1: the plan gains less than --at_least.
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SWITCH = "soap-switch"
NET = "10.213.78"
PATIENCE_S = 400
PYTHON = "/usr/bin/python3"  # for which Debian has torch
JOB = """
model: "{model}"
data {{ {data} }}
policy: "{policy}"
training {{ epochs: {epochs} batch: {batch} micro_batches: {workers} seed: 1 optimizer: "sgd:lr=0.001" }}
cluster {{ servers: 1 workers: {workers} heartbeat_timeout_s: 30 threads: 1 scheduler: "tcp://{net}.1:7918" {more} }}
"""
MACHINE = """
name: "shaped"
kinds {{ name: "core" tflops: {tflops} memory_gbytes_per_s: 8 memory_gib: 8 launch_us: 5 }}
nodes {{ name: "w" count: {workers} devices: 1 kind: "core" {nic} }}
nodes {{ name: "s" count: 1 servers: 1 server_apply_gbytes_per_s: 4 {nic} }}
"""
NIC = "nics {{ count: 1 connection {{ gbytes_per_s: {rate} latency_us: 50 }} direct: true }}"

DDP = r'''
import sys, time
import torch
import torch.distributed as dist
from torch import nn
rank, world, master, batch, steps, side = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:7])
torch.set_num_threads(1)
torch.manual_seed(1)
dist.init_process_group("gloo", init_method=f"tcp://{master}:7919", rank=rank, world_size=world)
def relu(): return nn.ReLU(True)
net = nn.Sequential(
    nn.Conv2d(3, 64, 11, 4, 2), relu(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, 1, 2), relu(), nn.MaxPool2d(3, 2),
    nn.Conv2d(192, 384, 3, 1, 1), relu(), nn.Conv2d(384, 256, 3, 1, 1), relu(), nn.Conv2d(256, 256, 3, 1, 1), relu(),
    nn.MaxPool2d(3, 2), nn.Flatten(), nn.Dropout(.5), nn.Linear(9216, 4096), relu(), nn.Dropout(.5),
    nn.Linear(4096, 4096), relu(), nn.Linear(4096, 2))
net = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=.001)
x, y = torch.randn(batch // world, 3, side, side), torch.randint(2, (batch // world,))
for step in range(steps + 1):  # the first prepares
    if step == 1:
        dist.barrier()
        begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
dist.barrier()
print(batch * steps / (time.perf_counter() - begin))
'''


def need_tools():
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("ip", "tc", "taskset")):
        sys.exit("needs root, ip and tc (iproute2), and taskset: links are shaped between network namespaces")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def places(workers):
    """Namespace and address of each."""
    return [(f"soap-n{i}", f"{NET}.{10 + i}") for i in range(workers + 1)]


def take_down(workers):
    for name in [SWITCH] + [name for name, _ in places(workers)]:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def shape(namespace, device, rate_mbps):
    subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                    f"{rate_mbps}mbit", "burst", "256kb", "latency", "20ms"], check=True)


def set_up(workers, rate_mbps):
    take_down(workers)
    ip("netns", "add", SWITCH)
    ip("-n", SWITCH, "link", "add", "bridge", "type", "bridge")
    ip("-n", SWITCH, "addr", "add", f"{NET}.1/24", "dev", "bridge")
    ip("-n", SWITCH, "link", "set", "bridge", "up")
    for i, (name, address) in enumerate(places(workers)):
        ip("netns", "add", name)
        ip("link", "add", f"port{i}", "netns", SWITCH, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", SWITCH, "link", "set", f"port{i}", "master", "bridge", "up")
        ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", name, "link", "set", device, "up")
        shape(name, "eth0", rate_mbps)
        shape(SWITCH, f"port{i}", rate_mbps)


def carried(namespace):
    """Bytes that its link has sent and received."""
    out = subprocess.run(["ip", "-n", namespace, "-s", "-j", "link", "show", "eth0"], check=True, capture_output=True)
    stats = json.loads(out.stdout)[0]["stats64"]
    return stats["tx"]["bytes"] + stats["rx"]["bytes"]


class Trial:

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        samples = -(-args.steps * args.batch * 5 // 4)  # a fifth is held out
        if args.clicks:
            self.data = f'format: "clicks" vocabulary: {args.clicks} samples: {samples}'
        elif args.sequences:
            length, vocabulary = args.sequences.split(",")
            self.data = f'format: "copy" length: {length} vocabulary: {vocabulary} samples: {samples}'
        else:
            self.make_images()
        self.nic = NIC.format(rate=args.rate_mbps / 8000)

    def make_images(self):
        """Random images, as large as the model's, two classes."""
        draws = random.Random(1)
        for label in range(2):
            for part, count in (("train", self.args.steps * self.args.batch // 2), ("test", 1)):
                folder = f"{self.folder}/{part}/{label}"
                os.makedirs(folder)
                for i in range(count):
                    with open(f"{folder}/{i}.raw", "wb") as file:
                        file.write(draws.randbytes(3 * self.args.side**2))
        self.data = (f'format: "images" path: "{self.folder}/train" test_path: "{self.folder}/test" channels: 3 '
                     f'height: {self.args.side} width: {self.args.side}')

    def job(self, policy="bsp", strategy=None):
        path = f"{self.folder}/{policy}-{strategy is not None}.textproto"
        more = f'strategy: "{strategy}"' if strategy else ""
        with open(path, "w") as file:
            file.write(JOB.format(model=self.args.model, data=self.data, policy=policy, epochs=1, net=NET,
                                  batch=self.args.batch, workers=self.args.workers, more=more))
        return path

    def plan(self, name, *flags, micro_batches="1"):
        machine = f"{self.folder}/machine.textproto"
        with open(machine, "w") as file:
            file.write(MACHINE.format(tflops=self.args.tflops, workers=self.args.workers, nic=self.nic))
        path = f"{self.folder}/{name}.strategy.textproto"
        command = [f"{self.args.bin}/soapstone", "plan", f"--config={self.job()}", f"--machine={machine}",
                   f"--devices={self.args.workers}", f"--batch={self.args.batch}", f"--micro_batches={micro_batches}",
                   "--for_workers", f"--output={path}", *flags]
        if self.args.costs:
            command.append(f"--costs={self.args.costs}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        with open(path) as file:
            text = file.read()
        return path, text

    def start(self, namespace, cpu, role, config, *flags):
        command = ["ip", "netns", "exec", namespace, "taskset", "-c", str(cpu), f"{self.args.bin}/soapstone-{role}",
                   f"--config={config}", *flags]
        log = open(f"{self.folder}/{role}{namespace[-1]}.log", "w")
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def run(self, config, servers):
        """Samples a second, and bytes a step of worker 0's link."""
        nodes = places(self.args.workers)
        processes = [self.start(SWITCH, 0, "scheduler", config, "--progress=json")]
        time.sleep(0.3)
        cpus = os.cpu_count()
        for i, (name, _) in enumerate(nodes):
            server = i == self.args.workers
            if server and not servers:
                continue
            processes.append(self.start(name, i % cpus, "server" if server else "worker", config,
                                        f"--rank={0 if server else i}"))
        before = carried(nodes[0][0])
        try:
            out, _ = processes[0].communicate(timeout=PATIENCE_S)
            for process in processes[1:]:
                process.wait(timeout=30)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        results = [report for report in map(json.loads, out.splitlines()) if "samples_per_s" in report and
                   "test_loss" in report]
        if processes[0].returncode != 0 or not results:
            sys.exit(f"the scheduler ended with {processes[0].returncode}; logs in {self.folder}")
        return results[-1]["samples_per_s"], (carried(nodes[0][0]) - before) / self.args.steps

    def run_ddp(self):
        nodes = places(self.args.workers)[:self.args.workers]
        environment = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="eth0")
        before = carried(nodes[0][0])
        sizes = [str(n) for n in (self.args.batch, self.args.steps, self.args.side)]
        processes = [
            subprocess.Popen(["ip", "netns", "exec", name, "taskset", "-c", str(i % os.cpu_count()), PYTHON, "-c", DDP,
                              str(i), str(len(nodes)), nodes[0][1], *sizes],
                             stdout=subprocess.PIPE, text=True, env=environment)
            for i, (name, _) in enumerate(nodes)]
        try:
            outs = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        if any(process.returncode for process in processes):
            sys.exit("DDP ended early: python3-torch is needed, with gloo")
        return float(outs[0]), (carried(nodes[0][0]) - before) / self.args.steps


def without_micro_batches(config):
    """The job of a strategy, which says how many micro-batches there are."""
    with open(config) as file:
        text = file.read()
    with open(config, "w") as file:
        file.write(re.sub(r"micro_batches: \d+", "", text))
    return config


def kept_by_workers(strategy):
    return 'synchronization: "servers"' not in strategy


def predicted_ms(text):
    match = re.search(r"iteration_ns: (\d+)", text)
    return float(match.group(1)) / 1e6 if match else 0


def report(args, ways, rates, moved):
    """What the plan has of the fastest data parallelism."""
    others = [way for way in ways if way not in ("plan", "ddp")] or ["plan"]
    fastest = max(statistics.median(rates[way]) for way in others)
    for way, (_, predicted) in ways.items():
        rate = statistics.median(rates[way])
        said = f", predicted {predicted:.0f}" if predicted else ""
        print(f"  {way:7} {rate:8.2f} samples/s ({min(rates[way]):.2f} to {max(rates[way]):.2f})  {rate / fastest:5.2f} "
              f"of the fastest of {', '.join(others)}  step {1e3 * args.batch / rate:7.0f} ms{said}  link "
              f"{statistics.median(moved[way]) / 1e6:.1f} MB a step", flush=True)
    return statistics.median(rates["plan"]) / fastest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--model", default="alexnet")
    parser.add_argument("--side", type=int, default=224, help="of images")
    parser.add_argument("--sequences", default="", help="for models of sequences: length,vocabulary")
    parser.add_argument("--clicks", type=int, default=0, help="for dlrm_hashed: categories of the largest column")
    parser.add_argument("--rate_mbps", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--micro_batches", default="1", help="of the plan, or auto; the others have one")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--pairs", type=int, default=1, help="of rounds there and back")
    parser.add_argument("--budget", default="10s", help="of the search")
    parser.add_argument("--tflops", type=float, default=0.06, help="of a processor")
    parser.add_argument("--costs", default="", help="measured ones (soapstone profile); empty: by the roofline")
    parser.add_argument("--ways", default="", help="those to hold the plan against, such as ddp,owner [all]")
    parser.add_argument("--at_least", type=float, default=2.0)
    args = parser.parse_args()
    need_tools()
    folder = tempfile.mkdtemp(prefix="soapstone-shaped-")
    trial = Trial(args, folder)
    by_owner, owner_text = trial.plan("owner", "--search=data", "--sync=owner")
    by_ranges, ranges_text = trial.plan("ranges", "--search=data", "--sync=ring")
    _, server_text = trial.plan("server", "--search=data", "--sync=servers")
    found, found_text = trial.plan("found", f"--budget={args.budget}", micro_batches=args.micro_batches)
    kept = kept_by_workers(found_text)
    # How one run of each goes, and what a step is predicted to take.
    ways = {
        "server": (lambda: trial.run(trial.job(), True), predicted_ms(server_text)),
        "ring": (lambda: trial.run(trial.job("allreduce"), True), 0),
        "owner": (lambda: trial.run(without_micro_batches(trial.job("bsp", by_owner)), False), predicted_ms(owner_text)),
        "ranges": (lambda: trial.run(without_micro_batches(trial.job("bsp", by_ranges)), False),
                   predicted_ms(ranges_text)),
        "ddp": (trial.run_ddp, 0),
        "plan": (lambda: trial.run(without_micro_batches(trial.job("bsp", found)), not kept),
                 predicted_ms(found_text)),
    }
    ways = {way: of for way, of in ways.items() if (way != "ddp" or args.model == "alexnet") and
            (not args.ways or way in ("plan", *args.ways.split(",")))}
    print(f"{args.model}, batch {args.batch} over {args.workers} workers, {args.rate_mbps} Mb/s each way, "
          f"{args.steps} steps a run; the plan keeps parameters "
          f"{'with the workers' if kept else 'on the server'}", flush=True)
    rates, moved = {way: [] for way in ways}, {way: [] for way in ways}
    try:
        set_up(args.workers, args.rate_mbps)
        for _ in range(args.pairs):
            for way in [*ways, *reversed(ways)]:
                rate, link = ways[way][0]()
                rates[way].append(rate)
                moved[way].append(link)
    finally:
        take_down(args.workers)
    gain = report(args, ways, rates, moved)
    shutil.rmtree(folder)
    sys.exit(0 if gain >= args.at_least else 1)


if __name__ == "__main__":
    main()
