"""Jobs that are told to end: they write a checkpoint at a clock that all workers come to, and go on from it."""
import json
import os
import random
import re
import signal
import sys
import time
import unittest

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from resume_test import CLOCKS, DurabilityTestCase  # noqa: E402
from cluster import alive, descendants  # noqa: E402

SEED = 1


class StopTestCase(DurabilityTestCase):

    def stop_at(self, running, target=None, number=signal.SIGTERM, code=143, seconds=60):
        """Tells it, or a process of it, to end; the clock of the checkpoint that it ended with."""
        children = descendants(running.pid)
        os.kill(children[target] if target else running.pid, number)
        self.assertEqual(running.wait(seconds), code, running.output())
        self.assert_nothing_left(children)
        self.assert_tidy()
        match = re.search(r"stopped at clock (\d+) of (\d+): the checkpoint is written; go on with --resume=auto",
                          running.output())
        self.assertIsNotNone(match, running.output())
        self.assertEqual(int(match.group(2)), CLOCKS)
        self.assertEqual(self.clocks()[-1], int(match.group(1)), running.output())
        return int(match.group(1))

    def start(self, *flags, every=CLOCKS, step_ms=5):
        running = self.run_job("--resume=auto", *flags, every=every, step_ms=step_ms)
        running.wait_for(r"^started")
        time.sleep(0.3)
        return running


class StopTest(StopTestCase):

    def test_the_job_goes_on_to_the_same_bits(self):
        running = self.start()
        clock = self.stop_at(running)
        self.assertRegex(running.output(), "terminated: stopping with a checkpoint")
        self.assertRegex(running.output(), "ended with exit code 143: terminated")
        self.assertEqual(self.clocks(), [clock])
        running = self.run_job("--resume=auto", every=CLOCKS)
        self.assertEqual(self.end(running), self.undisturbed())
        self.assertEqual(self.resumed_from(running), clock)

    def test_again_and_again_at_random_moments(self):
        self.stop_again_and_again(seeds=1)

    def stop_again_and_again(self, seeds):
        expected = self.undisturbed()
        for seed in range(seeds):
            with self.subTest(seed=seed):
                draw = random.Random(SEED + seed)
                self.folder = f"{self.dir}/checkpoints-{seed}"
                before = 0
                for _ in range(3):
                    running = self.start(f"--workers={draw.choice([2, 3])}", f"--servers={draw.choice([1, 2])}",
                                         every=draw.choice([1, 7, CLOCKS]))
                    time.sleep(draw.random() * 0.3)
                    target, number = draw.choice([(None, signal.SIGTERM), ("scheduler", signal.SIGTERM),
                                                  (None, signal.SIGINT)])
                    clock = self.stop_at(running, target, number, 130 if number == signal.SIGINT else 143)
                    self.assertGreaterEqual(clock, before)
                    before = clock
                running = self.run_job("--resume=auto")
                self.assertEqual(self.end(running), expected, running.output())
                self.assertEqual(self.resumed_from(running), before)

    def test_a_worker_that_does_not_answer_is_counted_out_and_what_it_owed_is_in_the_checkpoint(self):
        running = self.start("--heartbeat_timeout_s=1.5")
        worker = descendants(running.pid)["worker-1"]
        os.kill(worker, signal.SIGSTOP)
        os.kill(running.pid, signal.SIGTERM)
        running.wait_for(r"worker 1 lost")
        running.wait_for(r"stopped at clock \d+ of \d+: the checkpoint is written")
        self.assertEqual(running.wait(60), 143, running.output())
        self.assertFalse(alive(worker))
        running = self.run_job("--resume=auto", every=CLOCKS)
        self.assertEqual(self.end(running), self.undisturbed())

    def test_longer_than_the_grace_it_ends_without_one(self):
        running = self.start("--heartbeat_timeout_s=30", "--grace_s=1")
        children = descendants(running.pid)
        os.kill(children["server-1"], signal.SIGSTOP)
        began = time.monotonic()
        os.kill(running.pid, signal.SIGTERM)
        running.wait_for(r"no checkpoint was written in time: there is none of this run")
        self.assertEqual(running.wait(60), 143, running.output())
        self.assertGreaterEqual(time.monotonic() - began, 1)
        self.assert_nothing_left(children)
        self.assertEqual(self.clocks(), [])

    def test_a_second_signal_is_at_once(self):
        running = self.start("--heartbeat_timeout_s=60", "--grace_s=60")
        children = descendants(running.pid)
        os.kill(children["server-1"], signal.SIGSTOP)
        os.kill(running.pid, signal.SIGTERM)
        running.wait_for("stopping with a checkpoint")
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(20), 143, running.output())
        self.assert_nothing_left(children)
        self.assertEqual(self.clocks(), [])

    def test_before_the_start_there_is_nothing_to_write(self):
        running = self.run_job(step_ms=5)
        running.wait_for("scheduler at")
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(30), 143, running.output())
        self.assertEqual(self.clocks(), [])


class AlignedTest(StopTestCase):
    """Policies under which updates are applied as they come."""

    FEW = ("ssp:s=2", "softsync:n=2", "value:v0=0.5")
    ALL = FEW + ("dssp:lower=1,upper=3", "psp:sample=1,s=2", "pssp:p=0.5,s=2", "async", "essp:s=1",
                 "dcasgd:lambda=0.04,m=0")

    def updates(self):
        """By worker and shard, of the run that ended last: how many were applied."""
        with open(f"{self.dir}/logs/ledger.json") as file:
            nodes = json.load(file)["nodes"]
        self.assertEqual(sum(node["duplicates"] for node in nodes), 0)
        return {(row["worker"], row["shard"]): sum(count for _, count in row["stalenesses"]["counts"])
                for node in nodes for row in node["ledger"]}

    def test_no_update_is_lost_nor_applied_twice(self):
        self.stop_and_count(self.FEW)

    def stop_and_count(self, policies):
        for policy in policies:
            with self.subTest(policy):
                self.folder = f"{self.dir}/checkpoints-{policy}"
                flags = (f"--policy={policy}", "--strict")
                clock = self.stop_at(self.start(*flags, step_ms=3))
                before = self.updates()
                running = self.run_job("--resume=auto", *flags)
                self.end(running)
                self.assertEqual(self.resumed_from(running), clock)
                after = self.updates()
                self.assertEqual(before.keys(), after.keys())
                for row, count in before.items():
                    self.assertEqual(count % clock, 0, (policy, row, count, clock))
                    self.assertEqual(after[row], count // clock * (CLOCKS - clock), (policy, row))

    def test_periodic_ones_hold_nobody_for_long_and_other_numbers_go_on(self):
        self.folder = f"{self.dir}/checkpoints"
        flags = ("--policy=ssp:s=2", "--strict")
        running = self.run_job(*flags, every=7, step_ms=3)
        self.wait_for_checkpoint(running, 21)
        self.kill_all(running)
        self.assertTrue(all(clock % 7 == 0 for clock in self.clocks()), self.clocks())
        running = self.run_job("--resume=auto", *flags, "--workers=2", "--servers=3", every=20)
        self.end(running)
        self.assertGreaterEqual(self.resumed_from(running), 21)
        self.assertRegex(running.output(), "broken 0 times")
        self.assertRegex(running.output(), "[0-9]+ checkpoints in")

    def test_one_worker_goes_on_to_the_same_bits(self):
        flags = ("--policy=async", "--workers=1", "--servers=2")
        expected = self.undisturbed(*flags)
        self.stop_at(self.start(*flags))
        running = self.run_job("--resume=auto", *flags, every=10, step_ms=3)
        self.wait_for_checkpoint(running, 1 + max(self.clocks()))
        self.kill_all(running)
        running = self.run_job("--resume=auto", *flags)
        self.assertEqual(self.end(running), expected)

    def test_policies_without_are_refused(self):
        for policy in ("easgd:tau=4", "localsgd:h=4", "allreduce", "gossip:mode=dpsgd", "backup:b=1", "dcasgd:lambda=0.04,m=0.9"):
            running = self.run_job(f"--policy={policy}")
            self.assertEqual(running.wait(60), 78, running.output())
            self.assertRegex(running.output(), r"^\S*: output.checkpoint_path: not yet with [^\n]*$")


class AlignedCiTest(AlignedTest):

    def test_no_update_is_lost_nor_applied_twice(self):
        self.stop_and_count(self.ALL)


class StopCiTest(StopTest):

    def test_again_and_again_at_random_moments(self):
        self.stop_again_and_again(seeds=4)


if __name__ == "__main__":
    unittest.main()
