"""train --restarts: a job that has lost a process that it cannot go on without is started again from its newest
checkpoint, and ends with the parameters of a job that nothing happened to."""
import os
import random
import signal
import sys
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import descendants  # noqa: E402
from resume_test import DurabilityTestCase  # noqa: E402


class RestartsTest(DurabilityTestCase):

    def start(self, *flags, restarts=2, every=20):
        return self.run_job(f"--restarts={restarts}", "--resume=auto", *flags, every=every, step_ms=5)

    def kill(self, running, names):
        children = descendants(running.pid)
        os.kill(children[names if isinstance(names, str) else names(children)], signal.SIGKILL)

    def test_servers_and_the_scheduler_are_lost_and_no_bit_changes(self):
        expected = self.undisturbed()
        running = self.start()
        draw = random.Random(1)
        for again, name in enumerate(("server-0", "scheduler", f"server-{draw.randrange(2)}")):
            self.wait_for_checkpoint(running, at_least=1 + max([0, *self.clocks()]))
            self.kill(running, name)
            running.wait_for(f"logs/restart-{again}" if again else "--restarts: a process was lost", 60)
            running.wait_for(f"resumed from checkpoint", 60)
        # Each had a new checkpoint before it: three losses are not too many for two.
        self.assertEqual(self.end(running), expected, running.output())
        self.assertEqual(running.output().count("--restarts: a process was lost"), 3, running.output())
        self.assertTrue(os.path.exists(f"{self.dir}/logs/server-0.log"))
        self.assertTrue(os.path.exists(f"{self.dir}/logs/restart-3/server-0.log"))

    def test_what_is_lost_each_time_is_given_up(self):
        running = self.start(restarts=1, every=1_000_000)
        for start in range(2):
            running.wait_for("--restarts: a process was lost" if start else "started", 60)
            while "server-0" not in descendants(running.pid):
                self.assertIsNone(running.process.poll(), running.output())
            self.kill(running, "server-0")
        self.assertEqual(running.wait(60), 138, running.output())
        self.assertIn("--restarts: 1 of 1 without a new checkpoint", running.output())
        self.assertEqual(running.output().count("a process was lost"), 1)

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
