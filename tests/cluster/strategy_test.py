"""Strategies of `soapstone plan` run by real processes: the bits of one process where operators are whole, one hash
whatever carries the blocks where they are split, and what becomes of a team that loses a seat."""
import os
import re
import signal
import unittest

from broken_link_test import BREAKS, BrokenLinkTest
from cluster import ClusterTestCase, descendants

JOB = """
model: "%(model)s"
data { %(data)s }
policy: "bsp"
training { epochs: %(epochs)d batch: 48 micro_batches: %(micro_batches)d seed: 1 optimizer: "momentum:lr=0.03,mu=0.9" }
cluster { servers: 1 workers: 1 heartbeat_s: 0.2 heartbeat_timeout_s: 3 }
"""
MACHINE = """
name: "lab"
kinds { name: "core" tflops: 0.02 memory_gbytes_per_s: 10 memory_gib: 4 launch_us: 5 }
nodes { name: "w" count: %d devices: 1 kind: "core" %s }
nodes { name: "s" count: %d servers: 1 server_apply_gbytes_per_s: 4 %s }
"""
NIC = "nics { count: 1 connection { gbytes_per_s: 1.25 latency_us: 10 } direct: true }"


class StrategyTestCase(ClusterTestCase):

    def write_job(self, model="lenet5", data=None, epochs=1, micro_batches=1):
        data = data or f'format: "digits" path: "{os.environ["SOAPSTONE_SOURCE"]}/data/digits/digits.csv.gz"'
        with open(self.config, "w") as file:
            file.write(JOB % {"model": model, "data": data, "epochs": epochs, "micro_batches": micro_batches})

    def plan(self, search, seats, micro_batches=1, servers=1, sync="servers"):
        """The path of a strategy of the job's model, by that searcher."""
        machine = f"{self.dir}/m{seats}.machine.textproto"
        with open(machine, "w") as file:
            file.write(MACHINE % (seats, NIC, servers, NIC))
        path = f"{self.dir}/{search}{seats}x{micro_batches}{sync}.strategy.textproto"
        planning = self.run_program("soapstone", "plan", f"--machine={machine}", f"--config={self.config}",
                                    f"--devices={seats}", f"--micro_batches={micro_batches}", f"--search={search}",
                                    "--proposals=200", "--for_workers", f"--sync={sync}", f"--output={path}")
        self.assertEqual(planning.wait(120), 0, planning.output())
        return path

    def place(self, seats, micro_batches, seat_of, sync="servers", search="model"):
        """The path of a strategy of whole operators: the i-th of n, all its micro-batches, on seat_of(i, n)."""
        with open(self.plan(search, seats, micro_batches, sync=sync)) as file:
            text = file.read()
        names = re.findall(r'^ops \{\n  name: "([^"]+)"', text, re.MULTILINE)
        order = list(dict.fromkeys(name.split("#")[0] for name in names))
        head = text[:text.index("ops {")] + "".join(re.findall(r"^micro_batches: .*\n", text, re.MULTILINE))
        path = f"{self.dir}/placed{seats}.strategy.textproto"
        with open(path, "w") as file:
            file.write(head)
            for name in names:
                file.write('ops { name: "%s" devices: %d }\n' %
                           (name, seat_of(order.index(name.split("#")[0]), len(order))))
        return path

    def hash_of(self, *flags):
        running = self.train(*flags)
        self.assertEqual(running.wait(170), 0, running.output())
        return self.sha256(running.output())

    def split(self, strategy, seats, *flags):
        return self.hash_of(f"--strategy={strategy}", f"--workers={seats}", *flags)


class BitsTest(StrategyTestCase):
    """Operators that are whole, on whatever seats: the bits of one process that sums the same micro-batches."""

    def test_a_pipeline_has_the_bits_of_one_process(self):
        self.write_job(micro_batches=4)
        whole = self.hash_of("--workers=1")
        for seats in (2, 3):
            strategy = self.place(seats, 4, lambda i, n, seats=seats: i * seats // n)
            self.assertEqual(self.split(strategy, seats), whole, seats)

    def test_scattered_operators_have_the_bits_of_one_process(self):
        self.write_job(micro_batches=2)
        whole = self.hash_of("--workers=1")
        strategy = self.place(3, 2, lambda i, n: (2 * i + 1) % 3)
        self.assertEqual(self.split(strategy, 3), whole)

    def test_a_placement_has_the_bits_of_one_process_with_two_servers(self):
        self.write_job()
        whole = self.hash_of("--workers=1")
        strategy = self.plan("model", 3, servers=2)
        self.assertEqual(self.split(strategy, 3, "--servers=2"), whole)


class SameTest(StrategyTestCase):
    """Operators that are split: one hash over transports and runs."""

    def check(self, search, seats):
        self.write_job()
        strategy = self.plan(search, seats)
        hashes = {self.split(strategy, seats, f"--transport={transport}")
                  for transport in ("auto", "sockets", "zeromq")}
        self.assertEqual(len(hashes), 1)

    def test_samples_over_three_workers(self):
        self.check("data", 3)

    def test_outputs_of_linears_over_two_workers(self):
        self.check("expert", 2)


class OwnerTest(StrategyTestCase):
    """Workers that keep the parameters themselves: no process is a server, and no bit differs."""

    def test_placements_have_the_bits_of_one_process(self):
        self.write_job(micro_batches=4)
        whole = self.hash_of("--workers=1")
        for seats in (2, 3):
            strategy = self.place(seats, 4, lambda i, n, seats=seats: i * seats // n, sync="owner")
            self.assertEqual(self.split(strategy, seats), whole, seats)

    def test_splits_have_the_bits_that_they_have_with_servers(self):
        self.write_job()
        for search in ("data", "expert"):
            kept = self.plan(search, 3)
            owned = self.plan(search, 3, sync="owner")
            hashes = {self.split(kept, 3)} | {self.split(owned, 3, f"--transport={transport}")
                                              for transport in ("auto", "sockets", "zeromq")}
            self.assertEqual(len(hashes), 1, search)

    def start(self, *flags, epochs=1000, seats=2):
        self.write_job(epochs=epochs)
        strategy = self.plan("expert", seats, sync="owner")
        return self.train(f"--strategy={strategy}", f"--workers={seats}", *flags)

    def test_processes_are_workers_and_a_scheduler(self):
        running = self.start("--servers=1", seats=3)
        running.wait_for(r"clock|epoch")
        self.assertEqual(set(descendants(running.pid)), {"scheduler", "worker-0", "worker-1", "worker-2"})
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())

    def test_it_learns_under_a_bound_with_ledgers(self):
        running = self.start("--policy=ssp:s=2", "--strict", epochs=10)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertGreaterEqual(self.accuracy(running.output()), 0.95, running.output())
        # Told by the servers beside the workers.
        self.assertRegex(running.output(), r"broken 0 times in [1-9][0-9,]* reads")

    def test_with_keys(self):
        keys = f"{self.dir}/keys"
        self.assertEqual(self.run_program("soapstone", "keygen", f"--out={keys}").wait(20), 0)
        open_hash = self.start(epochs=1)
        self.assertEqual(open_hash.wait(100), 0, open_hash.output())
        sealed = self.start(f"--key={keys}", epochs=1)
        self.assertEqual(sealed.wait(100), 0, sealed.output())
        self.assertEqual(self.sha256(sealed.output()), self.sha256(open_hash.output()))

    def test_an_owner_that_is_killed_ends_the_job(self):
        running = self.start()
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        os.kill(children["worker-1"], signal.SIGKILL)
        self.assertEqual(running.wait(60), 138, running.output())
        self.assert_nothing_left(children)

    def test_an_owner_that_is_asked_to_stop_ends_the_job(self):
        running = self.start()
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        os.kill(children["worker-0"], signal.SIGTERM)
        self.assertEqual(running.wait(60), 138, running.output())
        self.assertIn("server 0, in the process of worker 0, lost: stopped by a signal", running.output())
        self.assert_nothing_left(children)

    def test_by_hand_with_what_the_job_leaves_open(self):
        """Daemons take from the strategy what `train` does: here servers and micro-batches."""
        self.write_job()
        with open(self.config) as file:
            text = file.read()
        with open(self.config, "w") as file:
            file.write(text.replace("servers: 1 workers: 1", "workers: 2").replace("micro_batches: 1", ""))
        strategy = self.plan("data", 2, sync="owner")
        expected = self.hash_of(f"--strategy={strategy}")
        run = (f"--config={self.config}", f"--strategy={strategy}", f"--scheduler=ipc://{self.dir}/scheduler")
        scheduler = self.run_program("soapstone-scheduler", *run)
        workers = [self.run_program("soapstone-worker", *run, f"--rank={rank}") for rank in range(2)]
        for process in (scheduler, *workers):
            self.assertEqual(process.wait(100), 0, process.output())
        self.assertEqual(self.sha256(scheduler.output()), expected)

    def test_the_key_of_a_worker_alone_is_not_enough(self):
        keys = f"{self.dir}/keys"
        self.assertEqual(self.run_program("soapstone", "keygen", f"--out={keys}").wait(20), 0)
        self.write_job()
        strategy = self.plan("data", 2, sync="owner")
        running = self.run_program("soapstone-worker", f"--config={self.config}", f"--strategy={strategy}",
                                   "--workers=2", "--rank=0", f"--key={keys}/worker.key",
                                   "--scheduler=tcp://127.0.0.1:1")
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertIn("worker.key and server.key: give the folder", running.output())

    def test_a_worker_that_fails_says_why_and_is_not_said_to_be_stopped(self):
        self.write_job()
        strategy = self.plan("data", 2, sync="owner")
        running = self.run_program("soapstone-worker", f"--config={self.config}", f"--strategy={strategy}",
                                   "--workers=2", "--scheduler=tcp://127.0.0.1:1")
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertIn("start it with --rank=N", running.output())
        self.assertNotIn("stopped by a signal", running.output())

    def test_sequential_bits_are_claimed_of_whole_operators_alone(self):
        self.write_job()
        for strategy, whole in ((self.plan("data", 2), False), (self.place(2, 1, lambda i, n: 2 * i // n), True)):
            running = self.train(f"--strategy={strategy}", "--workers=2")
            self.assertEqual(running.wait(100), 0, running.output())
            self.assertEqual("bits of sequential SGD" in running.output(), whole, running.output())

    def test_a_server_has_no_place_in_it(self):
        self.write_job()
        strategy = self.plan("data", 2, sync="owner")
        running = self.run_program("soapstone-server", f"--config={self.config}", f"--strategy={strategy}",
                                   "--workers=2", "--scheduler=tcp://127.0.0.1:1")
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertIn("workers keep the parameters", running.output())


class EmbeddingsTest(StrategyTestCase):
    """dlrm_hashed: embeddings on seats of their own, layers on others or split by samples."""

    def test_embeddings_apart_have_the_bits_of_one_process(self):
        self.write_job("dlrm_hashed:tiny,dense=2,categorical=5", 'format: "clicks" vocabulary: 300 samples: 600')
        whole = self.hash_of("--workers=1")
        for sync in ("owner", "servers"):
            strategy = self.place(3, 1, lambda i, n: i % 3 if i < 5 else 2, sync=sync)
            self.assertEqual(self.split(strategy, 3), whole, sync)

    def test_the_example_runs(self):
        example = f"{os.environ['SOAPSTONE_SOURCE']}/examples/clicks-dlrm-hybrid.textproto"
        running = self.run_program("soapstone", "train", f"--config={example}", "--samples=4000", "--epochs=1")
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertIn("servers are within the workers' processes", running.output())


class LearnsTest(StrategyTestCase):

    def check(self, policy):
        self.write_job(epochs=10)
        strategy = self.plan("expert", 2)
        running = self.train(f"--strategy={strategy}", "--workers=2", f"--policy={policy}", "--strict")
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertGreaterEqual(self.accuracy(running.output()), 0.95, running.output())
        self.assertIn("broken 0 times", running.output())

    def test_under_bsp(self):
        self.check("bsp")

    def test_under_ssp(self):
        self.check("ssp:s=2")

    def test_under_async(self):
        self.check("async")


class EvaluationTest(StrategyTestCase):

    def test_places_of_samples_on_several_seats_add_up(self):
        """Of a language model a sample counts by the share of its places: seats must not round theirs."""
        text = f"{self.dir}/text"
        with open(text, "w") as file:
            file.write("a parameter server keeps what workers read and write. " * 60)
        self.write_job("rnnlm:tiny", f'format: "bytes" path: "{text}" length: 16 test_fraction: 0.3', epochs=2,
                       micro_batches=2)
        whole = self.train("--workers=1")
        self.assertEqual(whole.wait(100), 0, whole.output())
        self.write_job("rnnlm:tiny", f'format: "bytes" path: "{text}" length: 16 test_fraction: 0.3', epochs=2)
        strategy = self.plan("data", 2)
        team = self.train(f"--strategy={strategy}", "--workers=2")
        self.assertEqual(team.wait(100), 0, team.output())
        self.assertEqual(self.sha256(team.output()), self.sha256(whole.output()))
        self.assertEqual(self.accuracy(team.output()), self.accuracy(whole.output()))
        self.assertGreater(self.accuracy(team.output()), 0)


class BrokenTeamLinkTest(StrategyTestCase):
    """Connections that break while blocks are under way: not a bit differs."""

    def check(self, transport):
        self.write_job(epochs=60 if BREAKS > 3 else 25)
        strategy = self.plan("expert", 3)
        run = (f"--strategy={strategy}", "--workers=3", f"--transport={transport}", "--strict")
        undisturbed = self.hash_of(*run)
        running = self.train(*run)
        running.wait_for(r"^epoch \d+/")
        children = descendants(running.pid)
        broken = BrokenLinkTest.break_links(self, running, children, BREAKS, transport)
        self.assertEqual(running.wait(150), 0, running.output())
        print(f"over {transport}: {sum(broken.values())} breaks: {dict(broken)}", flush=True)
        self.assertGreaterEqual(sum(broken.values()), BREAKS, "the run was over before all breaks")
        self.assertEqual(self.sha256(running.output()), undisturbed)
        self.assertRegex(running.output(), "messages refused .* 0 by shards, 0 duplicates")

    def test_streams(self):
        self.check("sockets")

    def test_zeromq(self):
        self.check("zeromq")

    def test_shared_memory(self):
        self.check("auto")


class LostSeatTest(StrategyTestCase):

    def test_a_team_that_loses_a_seat_ends(self):
        self.write_job(epochs=1000)
        strategy = self.plan("expert", 2)
        running = self.train(f"--strategy={strategy}", "--workers=2")
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        os.kill(children["worker-1"], signal.SIGKILL)
        self.assertEqual(running.wait(60), 138, running.output())
        self.assertIn("2 seats", running.output())
        self.assert_nothing_left(children)

    def test_a_launcher_that_is_asked_to_stop_ends_all(self):
        self.write_job(epochs=1000)
        strategy = self.plan("data", 2)
        running = self.train(f"--strategy={strategy}", "--workers=2")
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())
        self.assert_nothing_left(children)

    def test_a_loss_that_diverges_is_said(self):
        self.write_job(epochs=20)
        strategy = self.plan("expert", 2)
        running = self.train(f"--strategy={strategy}", "--workers=2", "--optimizer=sgd:lr=1e4")
        self.assertEqual(running.wait(60), 79, running.output())

    def test_a_stopped_seat_is_counted_out(self):
        self.write_job(epochs=1000)
        strategy = self.plan("data", 2)
        running = self.train(f"--strategy={strategy}", "--workers=2")
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        os.kill(children["worker-0"], signal.SIGSTOP)
        self.addCleanup(os.kill, children["worker-0"], signal.SIGKILL)
        running.wait_for("worker 0 lost", 60)


class IdleDeviceTest(StrategyTestCase):

    def test_a_plan_that_leaves_a_worker_without_work_is_none(self):
        self.write_job()
        slow = NIC.replace("gbytes_per_s: 1.25", "gbytes_per_s: 0.0001")
        machine = f"{self.dir}/slow.machine.textproto"
        with open(machine, "w") as file:
            file.write(MACHINE % (2, slow, 1, slow))
        path = f"{self.dir}/idle.strategy.textproto"
        planning = self.run_program("soapstone", "plan", f"--machine={machine}", f"--config={self.config}", "--devices=2",
                                    "--proposals=200", "--for_workers", f"--output={path}")
        self.assertEqual(planning.wait(60), 78, planning.output())
        self.assertIn("has work for 1 of 2 devices: more do not help; plan with --devices=1", planning.output())
        self.assertFalse(os.path.exists(path) and os.path.getsize(path) > 0)


class RefusedTest(StrategyTestCase):
    """One line, 78, and nothing is started."""

    def refuse(self, *flags):
        running = self.train(*flags)
        self.assertEqual(running.wait(60), 78, running.output())
        lines = [line for line in running.output().splitlines() if "cluster.strategy" in line or "strategy" in line]
        self.assertEqual(len(lines), 1, running.output())
        return lines[0]

    def test_what_does_not_go_with_it(self):
        self.write_job()
        strategy = self.plan("data", 2)
        run = (f"--strategy={strategy}", "--workers=2")
        self.assertIn("is for 2 devices", self.refuse(f"--strategy={strategy}", "--workers=3"))
        self.assertIn("batch of 48", self.refuse(*run, "--batch=32"))
        self.assertIn("is for 1 micro-batch;", self.refuse(*run, "--micro_batches=2"))
        self.assertIn("is for lenet5; model is mlp", self.refuse(*run, "--model=mlp"))
        for policy in ("eager:mode=solo", "backup:b=1", "value:v0=1", "tree:group=2"):
            self.assertIn("does not take a model that is split", self.refuse(*run, f"--policy={policy}"))
        self.assertIn("on_nonfinite", self.refuse(*run, "--on_nonfinite=skip"))
        self.assertIn("shards_per_server", self.refuse(*run, "--shards_per_server=7"))
        self.assertIn("No such file", self.refuse("--strategy=/nowhere", "--workers=2"))
        self.assertIn("is a folder", self.refuse(f"--strategy={self.dir}", "--workers=2"))
        simulated = self.run_program("soapstone", "simulate", f"--job={self.config}", *run,
                                     "--stragglers=failstop:p=0.1,down_ms=10")
        self.assertEqual(simulated.wait(60), 78, simulated.output())
        self.assertIn("failstop is not simulated", simulated.output())

    def test_a_file_that_is_cut_short_or_not_one(self):
        self.write_job()
        strategy = self.plan("data", 2)
        with open(strategy) as file:
            text = file.read()
        for i, wrong in enumerate((text[:len(text) // 2], text.replace("devices: 1", "devices: 7"), "", "\0\0",
                                   text.replace('synchronization: "servers"', 'synchronization: "tree"'),
                                   text + 'kept { op: "conv1" servers: 0 servers: 0 }')):
            path = f"{self.dir}/wrong{i}.strategy.textproto"
            with open(path, "w") as file:
                file.write(wrong)
            self.assertIn(path, self.refuse(f"--strategy={path}", "--workers=2"))


class WindowTestCase(StrategyTestCase):
    """Pipelines with several steps under way: the first stages run forward ahead, with parameters that they keep."""

    def pipeline(self, seats, staleness, micro_batches=1, sync="servers", policy="ssp:s=%d"):
        """A strategy of so many stages; the job's policy allows its staleness, or is left out."""
        path = self.place(seats, micro_batches, lambda i, n: i * seats // n, sync=sync, search="data")
        with open(path, "a") as file:
            file.write(f"staleness: {staleness}\n")
        with open(self.config) as file:
            text = file.read()
        line = f'policy: "{policy % staleness}"' if policy else ""
        with open(self.config, "w") as file:
            file.write(re.sub(r'policy: ".*"', line, text) + ("strict: true\n" if "strict" not in text else ""))
        return path


class BitsOfWindowTest(WindowTestCase):
    """What each stage reads is a function of the strategy, not of who was faster."""

    def test_three_stages_over_transports(self):
        self.write_job(epochs=2)
        strategy = self.pipeline(3, 2)
        hashes = {self.split(strategy, 3, f"--transport={transport}") for transport in ("auto", "sockets", "zeromq")}
        self.assertEqual(len(hashes), 1)

    def test_owners_have_the_bits_of_servers(self):
        self.write_job(micro_batches=2)
        hashes = {self.split(self.pipeline(2, 1, micro_batches=2, sync=sync), 2) for sync in ("servers", "owner")}
        self.assertEqual(len(hashes), 1)

    def test_a_greater_bound_changes_no_bit_of_one_team(self):
        self.write_job()
        strategy = self.pipeline(2, 1)
        hashes = {self.split(strategy, 2, f"--policy={policy}") for policy in ("ssp:s=1", "ssp:s=8", "async")}
        self.assertEqual(len(hashes), 1)
        self.assertNotIn(self.split(self.place(2, 1, lambda i, n: i * 2 // n), 2), hashes)


class LearnsWithWindowTest(WindowTestCase):

    def test_four_stages_learn_by_the_policy_that_the_strategy_implies(self):
        self.write_job(epochs=12)
        strategy = self.pipeline(4, 3, policy=None)
        running = self.train(f"--strategy={strategy}", "--workers=4", "--optimizer=sgd:lr=0.03")
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertIn("ssp:s=3", running.output())
        self.assertGreater(self.accuracy(running.output()), 0.95)


class LostSeatOfWindowTest(WindowTestCase):

    def end(self, worker, number, code):
        self.write_job(epochs=1000)
        running = self.train(f"--strategy={self.pipeline(3, 2)}", "--workers=3")
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        os.kill(children[f"worker-{worker}"], number)
        self.assertEqual(running.wait(60), code, running.output())
        self.assert_nothing_left(children)

    def test_a_stage_that_is_killed_ends_the_job(self):
        self.end(1, signal.SIGKILL, 138)

    def test_a_stage_that_is_asked_to_stop(self):
        self.end(0, signal.SIGTERM, 143)


class RefusedWindowTest(WindowTestCase):

    def test_policies_that_allow_less(self):
        self.write_job()
        strategy = self.pipeline(3, 2)
        for policy in ("bsp", "ssp:s=1", "dssp:lower=1,upper=4", "psp:sample=1,s=2"):
            running = self.train(f"--strategy={strategy}", "--workers=3", f"--policy={policy}")
            self.assertEqual(running.wait(60), 78, running.output())
            self.assertIn("take --policy=ssp:s=2 or more", running.output())
        running = self.train(f"--strategy={self.pipeline(2, 2**32 - 1, policy=None)}", "--workers=2")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertRegex(running.output(), "staleness: 4294967295 is more than 64")


if __name__ == "__main__":
    unittest.main()
