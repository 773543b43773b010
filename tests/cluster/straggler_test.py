"""Delays injected into real workers: they take the time they should, and change no bit under bsp."""
import csv
import os
import re
import unittest

from cluster import ClusterTestCase

# 20 clocks. With --base_ms the time of an iteration is set and for the most part slept, so that a
# busy machine matters little.
SHORT = ("--policy=bsp", "--epochs=1", "--batch=72")
CLOCKS = 20
SAMPLES = 1438  # of the digits, held-out ones aside


class StragglerTest(ClusterTestCase):

    def run_job(self, *flags):
        running = self.train(*SHORT, *flags)
        self.assertEqual(running.wait(120), 0, running.output())
        return running.output()

    def seconds(self, output):
        return float(re.search(r"^  time +([0-9.]+) s", output, re.M).group(1))

    def injected(self, output):
        match = re.search(r"injected delays +([0-9.]+) s", output)
        return float(match.group(1)) if match else 0.0

    def test_a_slow_worker_slows_bsp_and_changes_no_bit(self):
        plain = self.run_job()
        even = self.run_job("--base_ms=60")
        slow = self.run_job("--base_ms=60", "--stragglers=slow:workers=1,factor=2")
        self.assertEqual(self.injected(plain), 0)
        self.assertGreaterEqual(self.seconds(even), CLOCKS * 0.060)
        self.assertGreaterEqual(self.seconds(slow), CLOCKS * 0.120)
        self.assertGreater(self.seconds(slow), 1.5 * self.seconds(even))
        # Three workers rest up to 60, 60 and 120 ms of each iteration, less what they compute.
        self.assertGreater(self.injected(slow), CLOCKS * 0.120)
        self.assertLess(self.injected(slow), CLOCKS * 0.240 * 1.1)
        self.assertEqual({self.sha256(plain)}, {self.sha256(even), self.sha256(slow)})

    def test_without_a_set_time_the_compute_time_is_stretched(self):
        output = self.run_job("--stragglers=slow:workers=3,factor=3")
        match = re.search(r"injected delays +([0-9.]+) s, beside ([0-9.]+) s", output)
        injected, computed = (float(match.group(i)) for i in (1, 2))
        self.assertGreater(injected, 1.5 * computed)  # twice, less what comes after a part's end

    def test_a_worker_that_is_told_to_leave_does_not_rest_any_longer(self):
        running = self.train("--policy=ssp:s=2", "--base_ms=60000")
        running.wait_for("started")
        running.process.terminate()
        self.assertEqual(running.wait(20), 143, running.output())

    def test_a_recorded_trace_is_replayed(self):
        trace = f"{self.dir}/trace.csv"
        self.run_job("--base_ms=40", "--stragglers=slow:workers=1,factor=2",
                     f"--record_trace={trace}")
        with open(trace) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 3 * CLOCKS)
        self.assertEqual(os.listdir(self.dir).count("trace.csv"), 1)
        self.assertFalse([name for name in os.listdir(self.dir) if ".worker-" in name])
        for worker, ms in (("0", 80), ("1", 40), ("2", 40)):
            times = [(float(row["compute_us"]) + float(row["injected_us"])) / 1000
                     for row in rows if row["worker"] == worker]
            # The median: a busy machine may take longer than its set time now and then.
            self.assertAlmostEqual(sorted(times)[CLOCKS // 2], ms, delta=0.1 * ms)
        replayed = self.run_job("--base_ms=40", f"--stragglers=trace:file={trace}")
        self.assertGreaterEqual(self.seconds(replayed), CLOCKS * 0.080 * 0.95)

    def test_a_slow_link_slows_bsp_and_changes_no_bit(self):
        plain = self.run_job()
        # LeNet-5 has 31,294 floats: at 20 Mb/s 0.05 s a step to push and as much to pull, of two
        # servers that have half each.
        slow = self.run_job("--stragglers=link:workers=1,mbps=20")
        pushed_and_pulled = 31294 * 4 * 8 / 20e6
        self.assertGreaterEqual(self.seconds(slow), CLOCKS * 0.95 * pushed_and_pulled)
        self.assertGreater(self.seconds(slow), 1.5 * self.seconds(plain))
        self.assertEqual(self.injected(slow), 0)
        self.assertEqual(self.sha256(plain), self.sha256(slow))

    def test_workers_that_fail_are_replaced_and_bsp_changes_no_bit(self):
        outputs = []
        for model in ("none", "failstop:p=0.015,down_ms=900"):
            running = self.train("--policy=bsp", "--epochs=6", "--heartbeat_s=0.1",
                                 "--heartbeat_timeout_s=0.8", f"--stragglers={model}")
            self.assertEqual(running.wait(120), 0, running.output())
            outputs.append(running.output())
        plain, failing = outputs
        failed = re.findall(r"^worker-(\d): killed by SIGKILL; a successor starts in 1.0 s", failing,
                            re.M)
        self.assertGreaterEqual(len(failed), 2, failing)
        self.assertNotIn("0", failed)
        self.assertIn("lost", failing)
        self.assertIn("asks to join", failing)
        self.assertEqual(self.sha256(plain), self.sha256(failing))
        self.assertEqual(os.path.exists(f"{self.dir}/logs/worker-{failed[0]}.1.log"), True)

    def test_failures_go_without_files_that_would_lack_their_part(self):
        for flag, field in ((f"--curve={self.dir}/c.csv", "curve_path"),
                            (f"--record={self.dir}/r", "record_path"),
                            (f"--record_trace={self.dir}/t.csv", "trace_path")):
            running = self.train("--stragglers=failstop:p=0.1", flag)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertIn(f"failstop does not go with output.{field}", running.output())
            self.assertEqual(len(running.lines), 1, running.output())

    def test_a_trace_that_cannot_be_is_a_configuration_error(self):
        for flag, wanted in (("--record_trace=/nowhere/t.csv", "output.trace_path: cannot write"),
                             ("--stragglers=trace:file=/nowhere/t.csv", "/nowhere/t.csv: No such")):
            running = self.train(flag)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertIn(wanted, running.output())
            self.assertEqual(len(running.lines), 1, running.output())

    def test_rebalancing_shortens_bsp_and_changes_no_bit(self):
        flags = ("--policy=bsp", "--epochs=4", "--micro_batches=48", "--base_ms=30",
                 "--stragglers=slow:workers=1,factor=2")
        outputs = []
        for more in ((), ("--rebalance",)):
            running = self.train(*flags, *more)
            self.assertEqual(running.wait(120), 0, running.output())
            outputs.append(running.output())
        even, balanced = outputs
        self.assertNotIn("re-balanced", even)
        match = re.search(r"re-balanced: (\d+) to (\d+) of 48 micro-batches a worker", balanced)
        self.assertIsNotNone(match, balanced)
        self.assertLess(int(match.group(1)), 13)  # of the slow worker: 9.6 in proportion to speed
        self.assertEqual(self.sha256(even), self.sha256(balanced))
        self.assertLess(self.seconds(balanced), 0.87 * self.seconds(even))

    def test_rebalancing_under_ssp(self):
        running = self.train("--policy=ssp:s=2", "--epochs=4", "--micro_batches=48", "--rebalance",
                             "--base_ms=20", "--stragglers=slow:workers=1,factor=2")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("re-balanced", running.output())
        self.assertIn("broken 0 times", running.output())
        # Each sample once an epoch, whoever computes it.
        self.assertIn(f"({4 * SAMPLES:,} samples)", running.output())

    def test_rebalancing_that_cannot_be_is_a_configuration_error(self):
        for flags, wanted in ((("--micro_batches=3",), "needs more micro-batches"),
                              (("--policy=easgd:tau=4",), "cluster.rebalance: with easgd")):
            running = self.train("--rebalance", *flags)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertIn(wanted, running.output())
            self.assertEqual(len(running.lines), 1, running.output())

    def test_an_unknown_model_is_a_configuration_error(self):
        for flag, wanted in (("--stragglers=slwo", "training.stragglers: unknown straggler model"),
                             ("--base_ms=-1", "training.base_ms: -1")):
            running = self.train(flag)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertIn(wanted, running.output())
            self.assertEqual(len(running.lines), 1, running.output())


if __name__ == "__main__":
    unittest.main()
