"""Jobs whose strategy is planned anew while they run, because a worker has become slow for good."""
import json
import os
import re
import subprocess
import sys
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import BIN, ClusterTestCase  # noqa: E402

BATCH, STEPS = 48, 240
JOB = """
model: "gnmt:hidden=128"
data {{ format: "copy" length: 20 vocabulary: 1000 samples: {samples} }}
policy: "bsp"
training {{ epochs: 1 batch: {batch} seed: 1 optimizer: "momentum:lr=0.01,mu=0.9" steps: {steps} }}
cluster {{ servers: 1 workers: 2 threads: 1 }}
"""
MACHINE = """
name: "two"
kinds { name: "core" tflops: 0.02 memory_gbytes_per_s: 10 memory_gib: 4 launch_us: 5 }
nodes { name: "w" count: 2 devices: 1 kind: "core" nics { count: 1 connection { gbytes_per_s: 4 latency_us: 10 } direct: true } }
nodes { name: "s" count: 1 servers: 1 server_apply_gbytes_per_s: 4
  nics { count: 1 connection { gbytes_per_s: 4 latency_us: 10 } direct: true } }
"""


class ReplanTestCase(ClusterTestCase):

    def setUp(self):
        super().setUp()
        self.machine = f"{self.dir}/two.machine.textproto"
        self.strategy = f"{self.dir}/even.strategy.textproto"
        self.logs = f"{self.dir}/logs"
        with open(self.config, "w") as file:
            file.write(JOB.format(samples=-(-STEPS * BATCH * 5 // 4), batch=BATCH, steps=STEPS))
        with open(self.machine, "w") as file:
            file.write(MACHINE)

    def plan(self, *flags):
        subprocess.run([f"{BIN}/soapstone", "plan", f"--config={self.config}", f"--machine={self.machine}", "--devices=2",
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

    def test_what_passes_changes_nothing(self):
        self.plan("--search=data")
        running = self.job("--replan", f"--machine={self.machine}", "--stragglers=stall:p=0.05,factor=4")
        self.assertEqual(running.wait(150), 0, running.output())
        self.assertNotIn("going on from", running.output())


if __name__ == "__main__":
    unittest.main()
