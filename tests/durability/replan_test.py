"""Jobs whose strategy is planned anew while they run, because a worker has become slow for good."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import BIN, ClusterTestCase, alive, descendants  # noqa: E402

BATCH, STEPS = 48, 240
# By a plan that has servers keep the parameters, or workers.
WHY = "(of the only team|with its parameters)"
JOB = """
model: "gnmt:hidden=128"
data {{ format: "copy" length: 20 vocabulary: 1000 samples: {samples} }}
policy: "bsp"
training {{ epochs: 1 batch: {batch} seed: 1 optimizer: "momentum:lr=0.01,mu=0.9" steps: {steps} }}
cluster {{ servers: 1 workers: {workers} threads: 1 }}
"""
MACHINE = """
name: "all"
kinds { name: "core" tflops: 0.02 memory_gbytes_per_s: 10 memory_gib: 4 launch_us: 5 }
nodes { name: "w" count: %d devices: 1 kind: "core" nics { count: 1 connection { gbytes_per_s: 4 latency_us: 10 } direct: true } }
nodes { name: "s" count: 1 servers: 1 server_apply_gbytes_per_s: 4
  nics { count: 1 connection { gbytes_per_s: 4 latency_us: 10 } direct: true } }
"""


class ReplanTestCase(ClusterTestCase):
    WORKERS = 2
    STEPS = STEPS

    def setUp(self):
        super().setUp()
        self.machine = f"{self.dir}/all.machine.textproto"
        self.strategy = f"{self.dir}/even.strategy.textproto"
        self.logs = f"{self.dir}/logs"
        with open(self.config, "w") as file:
            file.write(JOB.format(samples=-(-self.STEPS * BATCH * 5 // 4), batch=BATCH, steps=self.STEPS,
                                  workers=self.WORKERS))
        with open(self.machine, "w") as file:
            file.write(MACHINE % self.WORKERS)

    def plan(self, *flags):
        subprocess.run([f"{BIN}/soapstone", "plan", f"--config={self.config}", f"--machine={self.machine}", f"--devices={self.WORKERS}",
                        "--for_workers", f"--output={self.strategy}", *flags], check=True, stdout=subprocess.DEVNULL)

    def job(self, *flags):
        return self.run_program("soapstone", "train", f"--config={self.config}", f"--strategy={self.strategy}",
                                f"--log_dir={self.logs}", *flags)


class RefusedReplanTest(ReplanTestCase):

    def refused(self, said, *flags):
        running = self.run_program("soapstone", "train", f"--config={self.config}", *flags)
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertRegex(running.output(), said)
        self.assertEqual(len(running.output().strip().splitlines()), 1, running.output())

    def test_what_does_not_go_is_one_line(self):
        self.refused("--replan is of jobs with a strategy", "--replan")
        self.plan("--search=data")
        strategy = f"--strategy={self.strategy}"
        self.refused("--machine is of", strategy, f"--machine={self.machine}")
        self.refused("nowhere", strategy, "--replan", "--machine=/nowhere")
        self.refused("strategy|easgd", strategy, "--replan", f"--machine={self.machine}", "--policy=easgd:tau=4")


class ReplanCiTest(ReplanTestCase):

    def stopped_at(self, output):
        """The clock of the stop: all clocks are of one of the two runs, and none is of both."""
        [clock] = re.findall(r"stopped at clock (\d+) of", output)
        self.assertIn(f"--replan: going on from clock {clock} by {self.logs}/replan-1.strategy.textproto", output)
        with open(f"{self.logs}/ledger.json") as file:
            samples = json.load(file)["result"]["samples"]
        self.assertEqual(samples, (STEPS - int(clock)) * BATCH, output)
        return int(clock)

    def test_a_worker_that_becomes_slow(self):
        self.plan("--search=data")
        running = self.job("--replan", f"--machine={self.machine}", "--stragglers=slow:workers=1,factor=4,from=60")
        self.assertEqual(running.wait(150), 0, running.output())
        output = running.output()
        self.assertRegex(output, r"--replan: seat 0 takes \d\.\d\d times as long as at first")
        self.assertGreater(self.stopped_at(output), 80)
        self.assertFalse(os.path.exists(f"{self.logs}/replan"), "the checkpoint of the stop is still there")

    def test_into_the_checkpoints_of_the_job(self):
        self.plan("--search=data")
        folder = f"{self.dir}/checkpoints"
        running = self.job("--replan", f"--machine={self.machine}", "--stragglers=slow:workers=1,factor=4,from=60",
                           f"--checkpoint={folder}", "--checkpoint_every=30")
        self.assertEqual(running.wait(150), 0, running.output())
        self.stopped_at(running.output())
        self.assertTrue([name for name in os.listdir(folder) if name.isdigit()])

    def become_slow(self, *flags):
        self.plan("--search=data")
        running = self.job("--replan", f"--machine={self.machine}", "--stragglers=slow:workers=1,factor=4,from=60", *flags)
        running.wait_for(r"^started")
        return running, descendants(running.pid)

    def test_a_signal_while_it_stops_ends_the_job_which_can_go_on(self):
        running, children = self.become_slow()
        running.wait_for(r"stopped at clock \d+ of", 120)
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())
        self.assert_nothing_left(children)
        self.assertEqual(len(os.listdir(f"{self.logs}/replan")), 1)
        running = self.job(f"--checkpoint={self.logs}/replan", "--resume=auto")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertRegex(running.output(), r"resumed from checkpoint \d+")

    def test_a_disk_that_is_full_at_the_stop(self):
        """Training goes on by the strategy that it has, to its end."""
        disk = f"{self.dir}/disk"
        os.mkdir(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "soapstone-test", disk],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("NOT TESTED: no disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        running, children = self.become_slow(f"--checkpoint={disk}/checkpoints", "--checkpoint_every=1000", "--grace_s=3")
        self.assertEqual(running.wait(150), 0, running.output())
        self.assert_nothing_left(children)
        self.assertRegex(running.output(), "no checkpoint was written in time: training goes on")
        self.assertNotIn("going on from", running.output())
        with open(f"{self.logs}/ledger.json") as file:
            self.assertEqual(json.load(file)["result"]["samples"], STEPS * BATCH, running.output())

    def test_what_passes_changes_nothing(self):
        self.plan("--search=data")
        # A step rests until 80 ms are over, so that tests beside this one slow no seat down.
        running = self.job("--replan", f"--machine={self.machine}", "--stragglers=stall:p=0.05,factor=4", "--base_ms=80")
        self.assertEqual(running.wait(150), 0, running.output())
        self.assertNotIn("going on from", running.output())


class LeavingTestCase(ReplanTestCase):
    """Workers of a job's only team that are told to end."""
    WORKERS = 4
    STEPS = 120

    def begin(self, *flags, search="--search=data"):
        self.plan(search)
        running = self.job(*flags)
        running.wait_for(r"^started")
        time.sleep(0.5)
        return running, descendants(running.pid)

    def stopped_at(self, output):
        [clock] = re.findall(r"stopped at clock (\d+) of", output)
        return int(clock)

    def samples(self):
        with open(f"{self.logs}/ledger.json") as file:
            return json.load(file)["result"]["samples"]

    def leave(self, *ranks, steps=None):
        """Of what is left every clock is of one of the two runs, and none of both."""
        running, children = self.begin("--replan", f"--machine={self.machine}")
        for rank in ranks:
            os.kill(children[f"worker-{rank}"], signal.SIGTERM)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assert_nothing_left(children)
        output = running.output()
        self.assertEqual(self.samples(), (self.STEPS - self.stopped_at(output)) * BATCH, output)
        self.assertRegex(output, f"worker [{''.join(map(str, ranks))}] leaves, {WHY}: stopping with a checkpoint")
        return output


class LeavingTest(LeavingTestCase):
    STEPS = 40

    def test_without_replan_it_ends_and_can_go_on(self):
        folder = f"{self.dir}/checkpoints"
        running, children = self.begin(f"--checkpoint={folder}", "--checkpoint_every=1000")
        os.kill(children["worker-2"], signal.SIGTERM)
        self.assertEqual(running.wait(60), 75, running.output())
        self.assert_nothing_left(children)
        self.assertRegex(running.output(), rf"ended with exit code 75: worker 2 leaves, {WHY}")
        with open(f"{self.logs}/worker-2.log") as log:
            self.assertRegex(log.read(), "told to end: (asking the scheduler|serving until)")
        clock = self.stopped_at(running.output())
        self.assertEqual(os.listdir(folder), [f"{clock:09}"] if clock else [])
        running = self.run_program("soapstone", "train", f"--config={self.config}", "--workers=1",
                                   f"--log_dir={self.logs}", f"--checkpoint={folder}", "--resume=auto")
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertEqual(self.samples(), (self.STEPS - clock) * BATCH)


class LeavingCiTest(LeavingTestCase):

    def test_one_leaves(self):
        output = self.leave(1)
        self.assertRegex(output, rf"--replan: going on from clock \d+ by {self.logs}/replan-1.strategy.textproto")
        self.assertIn("3 workers", output)

    def test_two_leave_at_once(self):
        self.assertIn("2 workers", self.leave(0, 3))

    def test_but_one_leave_at_once(self):
        self.assertRegex(self.leave(0, 1, 3), r"going on from clock \d+, by one worker")

    def test_all_leave(self):
        running, children = self.begin("--replan", f"--machine={self.machine}")
        for rank in range(self.WORKERS):
            os.kill(children[f"worker-{rank}"], signal.SIGTERM)
        self.assertEqual(running.wait(60), 75, running.output())
        self.assert_nothing_left(children)
        self.assertRegex(running.output(), "nothing was found for the workers that stay: no worker is left")
        self.assertTrue(os.listdir(f"{self.logs}/replan"))

    def test_a_signal_to_the_job_behind_it_ends_it(self):
        running, children = self.begin("--replan", f"--machine={self.machine}")
        os.kill(children["worker-1"], signal.SIGTERM)
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())
        self.assert_nothing_left(children)
        self.assertNotIn("going on from", running.output())

    def test_a_stopped_server_and_no_checkpoint_in_time(self):
        """The worker goes when its time is over, and the job is lost with it."""
        running, children = self.begin("--replan", f"--machine={self.machine}", "--grace_s=1",
                                       "--heartbeat_timeout_s=20")
        os.kill(children["server-0"], signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(children["worker-1"], signal.SIGTERM)
        code = running.wait(60)
        os.kill(children["server-0"], signal.SIGCONT) if alive(children["server-0"]) else None
        self.assertEqual(code, 138, running.output())
        self.assertNotIn("going on from", running.output())
        self.assert_nothing_left(children)


if __name__ == "__main__":
    unittest.main()
