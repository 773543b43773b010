"""Jobs whose shards have replicas, with the real programs: a server is killed, stopped, told to end, cut off; the job
goes on, under bsp to the same bits."""
import csv
import os
import random
import re
import signal
import sys
import time
import unittest
import urllib.request

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from resume_test import DurabilityTestCase  # noqa: E402
from cluster import alive, descendants  # noqa: E402

TIMEOUT = 1.0  # s
SLACK = 2.0  # s, of a machine that does other things


class ReplicasTestCase(DurabilityTestCase):

    def setUp(self):
        super().setUp()
        self.trace = f"{self.dir}/trace.csv"

    def start(self, *flags, policy="bsp", servers=3, replicas=2, step_ms=6, pages=False):
        """A job that has begun to step."""
        running = self.train(f"--policy={policy}", f"--servers={servers}", f"--replicas={replicas}",
                             f"--heartbeat_timeout_s={TIMEOUT}", f"--base_ms={step_ms}", f"--record_trace={self.trace}",
                             *flags, progress_every=1, pages=pages)
        running.wait_for("started")
        running.wait_for("samples/s")
        return running, descendants(running.pid)

    def ends_well(self, running, children):
        self.assertEqual(running.wait(150), 0, running.output())
        self.assert_nothing_left(children)
        self.assertIn("broken 0 times", running.output())
        return self.sha256(running.output())

    def pause(self):
        """The longest that a worker has waited for a step's values, in seconds."""
        with open(self.trace) as file:
            return max(float(row["blocked_us"]) for row in csv.DictReader(file)) / 1e6

    def kill(self, children, name, number=signal.SIGKILL):
        os.kill(children[name], number)


class ReplicasTest(ReplicasTestCase):

    def test_a_killed_server_changes_no_bit(self):
        self.kill_servers(seeds=range(2))

    def kill_servers(self, seeds):
        expected = self.undisturbed()
        for seed in seeds:
            with self.subTest(seed=seed):
                draw = random.Random(seed)
                running, children = self.start()
                time.sleep(draw.random() * 1.5)
                rank = draw.randrange(3)
                self.kill(children, f"server-{rank}")
                running.wait_for(f"server {rank} lost: ", TIMEOUT + 3)
                self.assertEqual(self.ends_well(running, children), expected, running.output())
                # A heartbeat may have been sent just before, and the scheduler looks each heartbeat.
                self.assertLess(self.pause(), TIMEOUT + 0.5 + SLACK)
                self.assertRegex(running.output(), rf"shard {rank} goes on at server {(rank + 1) % 3}")

    def test_what_is_missing_and_the_newest_checkpoint_are_metrics(self):
        running, children = self.start(f"--checkpoint={self.folder}", "--checkpoint_every=10", pages=True)
        page = "http://" + running.wait_for(r"pages at http://([^/]+)/").group(1) + "/metrics"

        def shown(series):
            with urllib.request.urlopen(page, timeout=20) as answer:
                return float(re.search(rf"^{series} (.*)$", answer.read().decode(), re.M).group(1))

        self.assertEqual(shown("soapstone_replicas_missing"), 0)
        self.assertEqual(shown("soapstone_checkpoint_interval_clocks"), 10)
        self.wait_for_checkpoint(running)
        self.kill(children, "server-2")
        running.wait_for("server 2 lost")
        deadline = time.monotonic() + 10
        while shown("soapstone_replicas_missing") != 2 or shown("soapstone_checkpoint_clock") < 10:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.ends_well(running, children)

    def test_two_of_three_replicas_are_lost(self):
        expected = self.undisturbed()
        running, children = self.start(replicas=3)
        self.kill(children, "server-0")
        running.wait_for("server 0 lost")
        self.kill(children, "server-1")
        running.wait_for("server 1 lost")
        self.assertEqual(self.ends_well(running, children), expected)

    def test_the_last_replica_is_lost(self):
        running, children = self.start(servers=2)
        self.kill(children, "server-0")
        running.wait_for("no other replica")
        self.kill(children, "server-1")
        self.assertEqual(running.wait(60), 138, running.output())
        self.assertIn("server 1 lost", running.lines[-1])
        self.assert_nothing_left(children)

    def test_other_policies_keep_their_guarantee(self):
        for policy in ("ssp:s=2", "softsync:n=2", "easgd:tau=4,mode=async"):
            with self.subTest(policy=policy):
                running, children = self.start("--strict", policy=policy)
                self.kill(children, "server-1")
                self.ends_well(running, children)
                self.assertGreater(self.accuracy(running.output()), 0.9)
                self.assertNotIn("rejected", running.output())

    def test_tables_and_a_job_that_evaluates_nothing(self):
        """No last read waits for all updates there: who saves the model does."""
        flags = ("--model=logistic", "--data_format=libsvm", f"--data_path={self.samples()}", "--optimizer=adagrad:lr=0.1",
                 "--evaluation=none", "--epochs=20")
        expected = self.undisturbed(*flags)
        running, children = self.start(*flags, step_ms=2)
        self.kill(children, "server-1")
        self.assertEqual(self.ends_well(running, children), expected, running.output())

    def samples(self):
        path = f"{self.dir}/samples.libsvm"
        draw = random.Random(5)
        with open(path, "w") as file:
            for _ in range(2000):
                keys = sorted(draw.sample(range(1, 400), 8))
                label = 1 if sum(keys) % 400 < 200 else -1
                file.write(f"{label} " + " ".join(f"{key}:1" for key in keys) + "\n")
        return path

    def test_a_worker_and_a_server_are_killed(self):
        expected = self.undisturbed()
        running, children = self.start()
        self.kill(children, "worker-1")
        self.kill(children, "server-2")
        self.assertEqual(self.ends_well(running, children), expected, running.output())

    def test_a_server_that_is_stopped_and_woken_is_heard_by_nobody(self):
        expected = self.undisturbed()
        running, children = self.start()
        self.kill(children, "server-0", signal.SIGSTOP)
        running.wait_for("server 0 lost")
        os.kill(children["server-0"], signal.SIGCONT)
        self.assertEqual(self.ends_well(running, children), expected, running.output())

    def test_a_server_that_is_told_to_end_leaves(self):
        expected = self.undisturbed()
        running, children = self.start()
        self.kill(children, "server-1", signal.SIGTERM)
        deadline = time.monotonic() + 5
        while alive(children["server-1"]) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(alive(children["server-1"]))
        self.assertEqual(self.ends_well(running, children), expected, running.output())

    def test_checkpoints_go_on(self):
        expected = self.undisturbed()
        running, children = self.start(f"--checkpoint={self.folder}", "--checkpoint_every=5")
        self.wait_for_checkpoint(running, 10)
        self.kill(children, "server-1")
        running.wait_for("server 1 lost")
        self.wait_for_checkpoint(running, max(self.clocks()) + 10)
        self.kill_all(running)
        running = self.run_job("--resume=auto")
        self.assertEqual(self.end(running), expected, running.output())
        self.assertGreater(self.resumed_from(running), 10)

    def test_one_server_writes_the_parts_of_all(self):
        """It has more shards than it began with."""
        running, children = self.start(f"--checkpoint={self.folder}", "--checkpoint_every=5", replicas=3)
        for rank in (0, 1):
            self.kill(children, f"server-{rank}")
            running.wait_for(f"server {rank} lost")
        self.ends_well(running, children)
        written = int(re.search(r"(\d+) checkpoints in", running.output()).group(1))
        missed = re.search(r"(\d+) not written", running.output())
        self.assertLess(2 * int(missed.group(1) if missed else 0), written, running.output())
        self.assertIn("the last of clock 35", running.output())

    def test_a_job_with_replicas_stops_with_a_checkpoint(self):
        expected = self.undisturbed()
        running, children = self.start(f"--checkpoint={self.folder}", "--checkpoint_every=50")
        self.kill(children, "server-2")
        running.wait_for("server 2 lost")
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())
        running = self.run_job("--resume=auto")
        self.assertEqual(self.end(running), expected, running.output())

    def test_what_cannot_have_replicas_is_refused(self):
        for flags, wanted in (
                (["--servers=2", "--replicas=3"], "each on another server, and there are 2 servers"),
                (["--servers=2", "--replicas=99"], "16 at most"),
                (["--servers=2", "--replicas=2", "--policy=allreduce"], "no server keeps parameters"),
                (["--servers=2", "--replicas=2", "--policy=backup:b=1"], "as yet"),
                (["--servers=2", "--replicas=2", f"--record={self.dir}/r"], "output.record_path")):
            running = self.train(*flags)
            self.assertEqual(running.wait(30), 78, running.output())
            self.assertEqual(len(running.lines), 1, running.output())
            self.assertIn(wanted, running.lines[0])
            self.assertIn("cluster.replicas", running.lines[0])


class ReplicasLongTest(ReplicasTestCase):

    def test_fifty_servers_killed(self):
        ReplicasTest.kill_servers(self, seeds=range(100, 150))


if __name__ == "__main__":
    unittest.main()
