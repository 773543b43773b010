"""train --restarts: a job that has lost a process that it cannot go on without is started again from its newest
checkpoint, and ends with the parameters of a job that nothing happened to."""
import os
import random
import re
import signal
import sys
import time
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import descendants  # noqa: E402
from resume_test import DurabilityTestCase  # noqa: E402


class RestartsTest(DurabilityTestCase):

    def start(self, *flags, restarts=2, every=20):
        return self.run_job(f"--restarts={restarts}", "--resume=auto", *flags, every=every, step_ms=5)

    def kill(self, running, name):
        """Once it is there."""
        deadline = time.monotonic() + 60
        while name not in (children := descendants(running.pid)):
            self.assertIsNone(running.process.poll(), running.output())
            self.assertLess(time.monotonic(), deadline, running.output())
            time.sleep(0.01)
        os.kill(children[name], signal.SIGKILL)

    def test_servers_and_the_scheduler_are_lost_and_no_bit_changes(self):
        expected = self.undisturbed()
        running = self.start()
        draw = random.Random(1)
        for again, name in enumerate(("server-0", "scheduler", f"server-{draw.randrange(2)}"), start=1):
            newest = max([0, *self.clocks()])
            self.wait_for_checkpoint(running, at_least=1 + newest)
            self.kill(running, name)
            running.wait_for(f"logs/restart-{again}$", 60)
            begun = [int(clock) for clock in re.findall("a process was lost; from clock (\\d+), start 1 of 2",
                                                        running.output())]
            self.assertEqual(len(begun), again)
            self.assertGreater(begun[-1], newest)
        # Each had a new checkpoint before it: three losses are not too many for two.
        self.assertEqual(self.end(running), expected, running.output())
        self.assertEqual(running.output().count("--restarts: a process was lost"), 3, running.output())
        self.assertTrue(os.path.exists(f"{self.dir}/logs/server-0.log"))
        self.assertTrue(os.path.exists(f"{self.dir}/logs/restart-3/server-0.log"))

    def test_what_is_lost_each_time_is_given_up(self):
        running = self.start(restarts=1, every=1_000_000)
        for start in range(2):
            running.wait_for("--restarts: a process was lost" if start else "started", 60)
            self.kill(running, "server-0")
        self.assertEqual(running.wait(60), 138, running.output())
        self.assertIn("--restarts: 1 of 1 without a new checkpoint", running.output())
        self.assertEqual(running.output().count("a process was lost"), 1)

    def test_what_the_job_was_told_not_to_go_on_from_is_not_gone_on_from(self):
        """Checkpoints of a run before stay until the first of this one is written."""
        self.end(self.run_job())
        early, late = self.clocks()
        for clock in (0, early):
            with self.subTest(clock=clock):
                running = self.run_job("--restarts=1", f"--resume={clock}", every=1_000_000, step_ms=5)
                running.wait_for("started", 60)
                self.kill(running, "server-0")
                running.wait_for(f"--restarts: a process was lost; from clock {clock},", 60)
                os.kill(running.pid, signal.SIGKILL)
                running.process.wait(10)
                self.assertIn(late, self.clocks())

    def test_a_damaged_one_is_passed_over(self):
        expected = self.undisturbed()
        running = self.start()
        self.wait_for_checkpoint(running, at_least=40)
        os.kill(running.pid, signal.SIGSTOP)  # it looks when all is damaged
        self.kill(running, "server-0")
        time.sleep(1)  # what was being committed is
        clock = max(self.clocks())
        with open(f"{self.folder}/{clock:09}/shard-0.safetensors", "r+b") as part:
            part.seek(2000)
            byte = part.read(1)
            part.seek(2000)
            part.write(bytes([byte[0] ^ 1]))
        os.kill(running.pid, signal.SIGCONT)
        self.assertEqual(self.end(running), expected, running.output())
        self.assertRegex(running.output(), rf"--restarts: checkpoint {clock} passed over: .*MiB 0")

    def test_a_job_that_is_told_to_end_ends(self):
        running = self.start()
        self.wait_for_checkpoint(running)
        os.kill(running.pid, signal.SIGTERM)
        self.assertEqual(running.wait(60), 143, running.output())
        self.assertNotIn("--restarts", running.output())

    def test_what_cannot_be_started_again_is_refused(self):
        for flags, why in (((), "--restarts goes on from checkpoints: give --checkpoint=DIR too"),
                           ((f"--checkpoint={self.folder}", f"--curve={self.dir}/curve.csv"), "--restarts: output.curve_path"),
                           ((f"--checkpoint={self.folder}", "--replan"), "--restarts does not go with --replan")):
            running = self.train("--restarts=1", *flags)
            self.assertEqual(running.wait(30), 78, running.output())
            self.assertIn(why, running.output())
            self.assertFalse(os.path.exists(self.folder))


if __name__ == "__main__":
    unittest.main()
