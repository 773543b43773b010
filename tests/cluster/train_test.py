"""Real training by real processes over tcp: every policy, daemons started by hand, a strategy that is
found."""
import csv
import json
import os
import re
import shutil
import signal
import socket
import struct
import unittest

from cluster import SOURCE, ClusterTestCase, descendants


class TrainTest(ClusterTestCase):

    def check(self, policy, *flags):
        running = self.train(f"--policy={policy}", "--strict", *flags)
        running.wait_for("started")
        children = descendants(running.pid)
        code = running.wait(120)
        self.assertEqual(code, 0, running.output())
        self.assert_nothing_left(children)
        self.assertGreaterEqual(self.accuracy(running.output()), 0.95, running.output())
        # Without servers there are no reads of shards whose guarantee could break.
        if not policy.startswith(("allreduce", "eager", "gossip")):
            self.assertIn("broken 0 times", running.output())
        return running

    def test_nothing_said_is_the_example(self):
        running = self.run_program("soapstone", "train", f"--log_dir={self.dir}/logs")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertRegex(running.output(), r"no job was named: lenet5 on the digits .*; servers: 1, workers: \d")
        self.assertGreater(float(running.wait_for(r"test accuracy +([\d.]+)").group(1)), 0.9)

    def test_bsp(self):
        self.check("bsp")

    def test_ssp_0(self):
        self.check("ssp:s=0")

    def test_ssp_3(self):
        self.check("ssp:s=3")

    def test_async(self):
        self.check("async")

    def test_backup(self):
        running = self.check("backup:b=1", "--stragglers=slow:workers=1,factor=4", "--base_ms=4")
        self.assertRegex(running.output(), r"left out +[0-9,]+ updates")

    def test_tree(self):
        self.check("tree:group=2,s=1", "--epochs=20", "--workers=4", "--transport=sockets")
        with open(f"{self.dir}/logs/ledger.json") as file:
            nodes = json.load(file)["nodes"]
        # A branch talks to its root on one connection, which the kernel counts both ways.
        self.assertGreaterEqual(sum(node["sockets"]["given_bytes"] for node in nodes),
                                0.99 * sum(sum(node["sent"].values()) for node in nodes))

    def test_what_degenerates_to_bsp_has_its_bits(self):
        hashes = set()
        for policy in ("bsp", "backup:b=0", "tree:group=3,s=2"):
            running = self.train(f"--policy={policy}", "--epochs=2", "--shards_per_server=2")
            self.assertEqual(running.wait(120), 0, running.output())
            hashes.add(self.sha256(running.output()))
        self.assertEqual(len(hashes), 1)

    def test_easgd_sync(self):
        self.check("easgd:tau=4,mode=sync", "--epochs=20")

    def test_easgd_async(self):
        self.check("easgd:tau=4,mode=async", "--epochs=20")

    def test_allreduce_ends_as_bsp_does(self):
        ring = self.check("allreduce")
        bsp = self.check("bsp")
        self.assertAlmostEqual(self.accuracy(ring.output()), self.accuracy(bsp.output()), delta=0.01)

    def test_hierarchical_allreduce(self):
        self.check("allreduce:group=2", "--workers=4", "--epochs=20")

    def test_eager(self):
        self.check("eager:mode=majority")

    def test_gossip_in_lock_step(self):
        self.check("gossip:mode=dpsgd")

    def test_gossip_in_pairs(self):
        self.check("gossip:mode=adpsgd")

    def test_gossip_without_waiting(self):
        self.check("gossip:mode=pushsum")

    def test_allreduce_bits_do_not_depend_on_timing(self):
        hashes = set()
        for delays in ("none", "slow:workers=1,factor=3"):
            running = self.train("--policy=allreduce", "--epochs=2", "--base_ms=5",
                                 f"--stragglers={delays}")
            self.assertEqual(running.wait(120), 0, running.output())
            hashes.add(self.sha256(running.output()))
        self.assertEqual(len(hashes), 1)

    def test_bsp_bits_do_not_depend_on_the_cluster(self):
        hashes = set()
        for servers, workers in ((1, 1), (3, 2), (1, 4)):
            running = self.train("--policy=bsp", f"--servers={servers}", f"--workers={workers}",
                                 "--epochs=2")
            self.assertEqual(running.wait(120), 0, running.output())
            hashes.add(self.sha256(running.output()))
        self.assertEqual(len(hashes), 1)

    def test_model_and_logs_are_written(self):
        path = os.path.join(self.dir, "model.safetensors")
        running = self.train("--epochs=1", f"--model_path={path}")
        self.assertEqual(running.wait(60), 0, running.output())
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        self.assertIn("conv1.weight", header)
        self.assertEqual(header["__metadata__"]["sha256"], self.sha256(running.output()))
        for name in ("scheduler", "server-0", "server-1", "worker-0", "worker-1", "worker-2"):
            self.assertGreater(os.path.getsize(f"{self.dir}/logs/{name}.log"), 0)

    def test_the_closing_table_ends_with_the_loss(self):
        os.environ["LC_ALL"] = "C.UTF-8"
        self.addCleanup(os.environ.pop, "LC_ALL")
        running = self.train("--epochs=4", "--base_ms=15", "--heartbeat_s=0.2")
        self.assertEqual(running.wait(60), 0, running.output())
        lines = [line for line in running.lines if line]
        match = re.search(r"^  training loss by time  [▁-█]{2,40}  ([\d.]+) to ([\d.]+), (.*/loss.csv)$", lines[-1])
        self.assertIsNotNone(match, running.output())
        self.assertGreater(float(match.group(1)), float(match.group(2)))
        with open(match.group(3)) as file:
            rows = list(csv.DictReader(file))
        self.assertAlmostEqual(float(rows[0]["loss"]), float(match.group(1)), places=4)
        self.assertEqual(int(rows[-1]["samples"]), 4 * 1438)
        # Of ten classes each held-out sample is in the table.
        counts = re.findall(r"^    \d((?: +\d+){10})$", running.output(), re.MULTILINE)
        self.assertEqual(sum(int(n) for row in counts for n in row.split()), 359)

    def test_progress_is_sparse_in_a_log(self):
        """Ten seconds from line to line, unless something else is asked for."""
        running = self.run_program("soapstone", "train", f"--config={self.config}", f"--log_dir={self.dir}/logs",
                                   "--epochs=4", "--base_ms=15", "--heartbeat_s=0.2")
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertEqual(len(re.findall("^epoch ", running.output(), re.MULTILINE)), 1, running.output())
        running = self.run_program("soapstone", "train", f"--config={self.config}", f"--log_dir={self.dir}/again",
                                   "--epochs=4", "--base_ms=15", "--heartbeat_s=0.2", "--progress_every=0")
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertGreater(len(re.findall("^epoch ", running.output(), re.MULTILINE)), 1, running.output())
        self.assertIn("  training loss by time  ", running.output())

    def test_the_kernel_counts_the_bytes_that_we_count(self):
        running = self.train("--policy=ssp:s=2", "--epochs=4", "--transport=sockets")
        self.assertEqual(running.wait(60), 0, running.output())
        with open(f"{self.dir}/logs/ledger.json") as file:
            ledger = json.load(file)
        nodes = {node["name"]: node for node in ledger["nodes"]}
        # The ends of connections on which something was received: ZeroMQ's, and between a worker and
        # a server a stream. Servers 0 and 1 connect to each other; on the connection of its own a server
        # hears acknowledgements, which the end may come before.
        ends = {"scheduler": (5, 5), "server-0": (5 + 3, 6 + 3), "server-1": (5 + 3, 6 + 3),
                "worker-0": (3 + 2, 3 + 2), "worker-1": (3 + 2, 3 + 2), "worker-2": (3 + 2, 3 + 2)}
        for name, (least, most) in ends.items():
            self.assertTrue(least <= nodes[name]["sockets"]["connections"] <= most, nodes[name]["sockets"])
        for name, node in nodes.items():
            sockets = node["sockets"]
            self.assertLessEqual(abs(sockets["taken_bytes"] - sockets["given_bytes"]),
                                 0.005 * sockets["given_bytes"], name)
        sent = sum(node["sent"]["push"] for node in nodes.values())
        self.assertEqual(sent, ledger["result"]["pushed_bytes"])
        # All but what servers send on connections where nothing comes back.
        self.assertGreaterEqual(sum(node["sockets"]["given_bytes"] for node in nodes.values()),
                                0.99 * sum(sum(node["sent"].values()) for node in nodes.values()))
        self.assertIn("sent again", running.output())

    def test_the_ledger_has_every_worker_at_every_shard(self):
        running = self.train("--policy=ssp:s=2", "--epochs=1")
        self.assertEqual(running.wait(60), 0, running.output())
        with open(f"{self.dir}/logs/ledger.json") as file:
            ledger = json.load(file)
        rows = [row for node in ledger["nodes"] for row in node["ledger"]]
        self.assertEqual({(row["worker"], row["shard"]) for row in rows},
                         {(worker, shard) for worker in range(3) for shard in range(2)})
        clocks = ledger["result"]["samples"] // 3 // 16
        for row in rows:
            self.assertEqual(row["violations"], 0)
            self.assertLessEqual(row["read_lags"]["max"], 2)
            self.assertGreaterEqual(sum(n for _, n in row["read_lags"]["counts"]), clocks)
        times = ledger["result"]["times"]
        self.assertEqual([entry["worker"] for entry in times], [0, 1, 2])
        for entry in times:
            spent = entry["compute"] + entry["policy"] + entry["shard"] + entry["network"]
            self.assertLessEqual(spent, 1.1 * ledger["result"]["seconds"] + 0.1)

    def test_daemons_by_hand(self):
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}",
                                     "--scheduler=tcp://127.0.0.1:0", "--progress=json",
                                     "--epochs=1", "--workers=2", "--servers=1")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        rest = [self.run_program(program, f"--config={self.config}", f"--scheduler={endpoint}",
                                 "--epochs=1", "--workers=2", "--servers=1")
                for program in ("soapstone-server", "soapstone-worker", "soapstone-worker")]
        self.assertEqual(scheduler.wait(60), 0, scheduler.output())
        for node in rest:
            self.assertEqual(node.wait(20), 0, node.output())
            self.assertIn("from the scheduler", node.output())

    def test_another_configuration_is_refused(self):
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}",
                                     "--scheduler=tcp://127.0.0.1:0", "--progress=json")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        worker = self.run_program("soapstone-worker", f"--config={self.config}",
                                  f"--scheduler={endpoint}", "--policy=async")
        self.assertEqual(worker.wait(20), 78, worker.output())
        self.assertIn("differs from the scheduler's", worker.output())
        scheduler.wait_for(f"a worker on {re.escape(socket.gethostname())} is refused: the job's configuration", 20)

    def test_the_missing_are_named_at_the_start_timeout(self):
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}",
                                     "--scheduler=tcp://127.0.0.1:0", "--start_timeout_s=1")
        self.assertEqual(scheduler.wait(20), 138, scheduler.output())
        self.assertIn("missing server 0, server 1, worker 0, worker 1, worker 2",
                      scheduler.output())

    def test_the_shipped_example_is_valid(self):
        running = self.run_program("soapstone", "train", "--check",
                                   f"--config={SOURCE}/examples/digits-lenet5.textproto")
        self.assertEqual(running.wait(20), 0, running.output())

    def test_paths_of_a_job_file_are_relative_to_it(self):
        shutil.copy(f"{SOURCE}/data/digits/digits.csv.gz", f"{self.dir}/digits.csv.gz")
        with open(self.config) as file:
            job = file.read()
        job = re.sub(r'path: "[^"]*"', 'path: "digits.csv.gz"', job)
        with open(self.config, "w") as file:
            file.write(job + 'output { model_path: "made.safetensors" log_dir: "logs" }')
        running = self.run_program("soapstone", "train", f"--config={self.config}", "--epochs=1")
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertTrue(os.path.exists(f"{self.dir}/made.safetensors"))
        # The job as it ran can be read from where it lies.
        running = self.run_program("soapstone", "train", "--check",
                                   f"--config={self.dir}/logs/job.textproto")
        self.assertEqual(running.wait(20), 0, running.output())


class PriorityTest(ClusterTestCase):
    """The order of sending changes when messages move, and nothing else: the model's bits are the same."""

    def hash_of(self, *flags):
        running = self.train("--policy=bsp", *flags)
        self.assertEqual(running.wait(120), 0, running.output())
        return self.sha256(running.output())

    def test_same_bits_on_and_off(self):
        expected = self.hash_of("--epochs=6")
        for shards in (2, 8):
            for transport in ("sockets", "auto"):
                self.assertEqual(self.hash_of("--epochs=6", "--communication=priority",
                                              f"--shards_per_server={shards}",
                                              f"--transport={transport}"), expected)

    def test_same_bits_after_the_loss_of_a_worker(self):
        expected = self.hash_of("--epochs=35")
        running = self.train("--policy=bsp", "--transport=sockets", "--epochs=35",
                             "--communication=priority", "--shards_per_server=4")
        running.wait_for(r"^epoch \d+/")
        children = descendants(running.pid)
        os.kill(children["worker-1"], signal.SIGKILL)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("worker 1 lost", running.output())
        self.assertEqual(self.sha256(running.output()), expected)
        self.assert_nothing_left(children)


DIGITS = os.path.join(SOURCE, "data", "digits", "digits.csv.gz")
SLOW_LINK = "nics { count: 1 connection { gbytes_per_s: 0.02 latency_us: 50 } direct: true }"
SLOW_LINKS = """name: "slow_links"
kinds { name: "core" tflops: 0.02 memory_gbytes_per_s: 10 memory_gib: 4 launch_us: 5 }
nodes { name: "w" count: 2 devices: 1 kind: "core" %s }
nodes { name: "s" count: 1 servers: 1 server_apply_gbytes_per_s: 4 %s }
""" % (SLOW_LINK, SLOW_LINK)


class AutoStrategyTest(ClusterTestCase):
    """`soapstone train --strategy=auto`: what it chooses, what it leaves, and what it refuses."""

    def setUp(self):
        super().setUp()
        self.machine = os.path.join(self.dir, "slow.machine.textproto")
        with open(self.machine, "w") as file:
            file.write(SLOW_LINKS)

    def start(self, *flags, model="lenet5"):
        return self.run_program("soapstone", "train", f"--model={model}", f"--data_path={DIGITS}", "--workers=2",
                                "--batch=48", "--epochs=1", "--seed=1", f"--log_dir={self.dir}/logs", *flags)

    def hash_of(self, *flags, model="lenet5"):
        running = self.start(*flags, model=model)
        self.assertEqual(running.wait(170), 0, running.output())
        return self.sha256(running.output()), running.output()

    def test_a_small_model_stays_whole_on_this_machine(self):
        whole, _ = self.hash_of()
        found, said = self.hash_of("--strategy=auto", "--plan_budget=1s")
        self.assertRegex(said, "--strategy=auto: measuring this machine as 2 workers .* planning for 1 s")
        self.assertRegex(said, "without a strategy, by data parallelism: .* a step and data parallelism [0-9.]+ ms")
        self.assertEqual(found, whole)

    def test_large_linears_over_slow_links_are_split(self):
        model = "mlp:hidden=2048"
        path = f"{self.dir}/m.strategy.textproto"
        flags = ["--strategy=auto", "--plan_budget=2s", f"--machine={self.machine}"]
        found, said = self.hash_of(*flags, f"--model_path={self.dir}/m.safetensors", model=model)
        self.assertRegex(said, fr"a step of [0-9.]+ ms is predicted, [0-9.]+ ms by .* kept by the workers(, in a ring)?: {path}")
        again, _ = self.hash_of(f"--strategy={path}", model=model)
        self.assertEqual(found, again)
        with open(path, "a") as file:  # by hand from now on
            file.seek(0)
            file.truncate()
        running = self.start(*flags, f"--model_path={self.dir}/m.safetensors", model=model)
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn("is not written over", running.output())

    def test_what_takes_no_strategy_runs_without(self):
        _, said = self.hash_of("--strategy=auto", "--policy=backup")
        self.assertRegex(said, "without a strategy, by data parallelism: policy backup:b=1 does not take")

    def test_an_interrupt_leaves_nothing(self):
        os.environ["TMPDIR"] = self.dir
        self.addCleanup(os.environ.pop, "TMPDIR")
        running = self.start("--strategy=auto", "--plan_budget=1m", f"--machine={self.machine}")
        running.wait_for("--strategy=auto: measuring")
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.wait(20), 130, running.output())
        self.assertEqual(sorted(os.listdir(self.dir)), ["job.textproto", "slow.machine.textproto"])

    def test_who_does_not_find_one_says_what_to_do(self):
        with open(self.config) as file:
            job = file.read().replace("workers: 3", 'workers: 3 strategy: "auto"')
        with open(self.config, "w") as file:
            file.write(job)
        hosts = os.path.join(self.dir, "hosts")
        with open(hosts, "w") as file:
            file.write("localhost\n")
        at = "--scheduler=tcp://127.0.0.1:7"
        for wanted, program, *flags in (
                ("plan first", "soapstone-worker", f"--config={self.config}", at),
                ("plan first", "soapstone-scheduler", f"--config={self.config}", at),
                ("plan first", "soapstone", "train", f"--config={self.config}", f"--hosts={hosts}"),
                ("cluster.strategy: auto", "soapstone", "simulate", f"--job={self.config}"),
                ("--plan_budget is of --strategy=auto", "soapstone", "train", "--plan_budget=3s"),
                ("nix.*No such file", "soapstone", "train", f"--config={self.config}", f"--machine={self.dir}/nix"),
                ("./auto", "soapstone", "train", f"--data_path={DIGITS}", "--model=mlp", "--strategy=./auto")):
            running = self.run_program(program, *flags)
            self.assertEqual(running.wait(60), 78, running.output())
            self.assertRegex(running.output(), wanted)
            self.assertEqual(len(running.lines), 1, running.output())


if __name__ == "__main__":
    unittest.main()
