"""Daemons of a job with checkpoints that are told to end, by SIGTERM: one of them, some, or all at once as Slurm and
Kubernetes do it. What the job cannot go on without it stops for, with a checkpoint."""
import os
import random
import signal
import sys
import time
import unittest

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from resume_test import CLOCKS, DurabilityTestCase  # noqa: E402
from cluster import descendants  # noqa: E402


class ToldToEndTestCase(DurabilityTestCase):
    TRAINS = ("--base_ms=5",)

    def start(self, *flags):
        """2 servers, 3 workers, on their way."""
        return self.start_by_hand(f"--checkpoint={self.folder}", f"--checkpoint_every={CLOCKS}", "--resume=auto",
                                  *self.TRAINS, *flags)

    def tell(self, nodes, names):
        for name in names:
            os.kill(nodes[name].pid, signal.SIGTERM)

    def end_with(self, nodes, codes, told=(), seconds=30):
        """The scheduler ends with one of them; the others with it or, told to, with 143; without delay."""
        scheduler = nodes["scheduler"]
        code = scheduler.wait(seconds)
        self.assertIn(code, codes, scheduler.output())
        for name, node in nodes.items():
            if name != "scheduler":
                ends = (143, code) if name in told else (code,)  # who is told when the job has stopped ends with its code
                self.assertIn(node.wait(10), ends, (name, node.output()))
        return scheduler.output()

    def goes_on(self, *flags):
        """To the bits of a job that nothing happened to."""
        self.assertEqual(len(self.clocks()), 1)
        running = self.run_job("--resume=auto", *flags, every=CLOCKS)
        self.assertEqual(self.end(running), self.undisturbed(), running.output())
        self.assertGreater(self.resumed_from(running), 0)


class ToldToEndTest(ToldToEndTestCase):

    def test_all_at_once(self):
        self.all_at_once(seeds=2)

    def all_at_once(self, seeds):
        for seed in range(seeds):
            with self.subTest(seed=seed):
                draw = random.Random(seed)
                self.folder = f"{self.dir}/checkpoints-{seed}"
                nodes = self.start()
                names = list(nodes)
                draw.shuffle(names)
                for name in names:
                    self.tell(nodes, [name])
                    time.sleep(draw.random() * 0.1)
                output = self.end_with(nodes, (75, 143), told=names)  # it may have stopped before the scheduler is told
                self.assertRegex(output, "stopped at clock [0-9]+ of [0-9]+: the checkpoint is written")
                self.goes_on()

    def test_all_but_the_scheduler(self):
        nodes = self.start()
        told = [name for name in nodes if name != "scheduler"]
        self.tell(nodes, told)
        self.end_with(nodes, [75], told)
        self.goes_on()

    def test_one_server(self):
        nodes = self.start()
        self.tell(nodes, ["server-1"])
        output = self.end_with(nodes, [75], ["server-1"])
        self.assertIn("server 1 leaves: stopping with a checkpoint", output)
        self.goes_on()

    def test_one_worker_leaves_and_the_others_go_on(self):
        nodes = self.start()
        self.tell(nodes, ["worker-2"])
        self.assertEqual(nodes["worker-2"].wait(10), 143, nodes["worker-2"].output())
        output = nodes["scheduler"]
        self.assertEqual(output.wait(60), 0, output.output())
        self.assertIn("worker 2 left after clock", output.output())
        self.assertNotIn("stopping with a checkpoint", output.output())

    def test_twice_is_at_once(self):
        """And the job is lost, as without checkpoints: what it goes on from is the last one."""
        nodes = self.start()
        nodes["server-0"].process.send_signal(signal.SIGTERM)
        os.kill(nodes["worker-0"].pid, signal.SIGSTOP)  # the stop waits for it
        self.addCleanup(nodes["worker-0"].process.send_signal, signal.SIGCONT)
        time.sleep(0.3)
        nodes["server-0"].process.send_signal(signal.SIGTERM)
        self.assertEqual(nodes["server-0"].wait(5), 143, nodes["server-0"].output())
        os.kill(nodes["worker-0"].pid, signal.SIGCONT)
        self.assertIn(nodes["scheduler"].wait(10), (75, 138), nodes["scheduler"].output())

    def test_before_it_trains_a_server_goes_at_once(self):
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}", "--scheduler=tcp://127.0.0.1:0",
                                     "--progress=json", f"--checkpoint={self.folder}", "--checkpoint_every=10")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        server = self.run_program("soapstone-server", f"--config={self.config}", f"--scheduler={endpoint}", "--rank=0",
                                  f"--checkpoint={self.folder}", "--checkpoint_every=10")
        scheduler.wait_for("server 0 registered")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(5), 143, server.output())


class GroupTest(DurabilityTestCase):
    """As systemd ends a service: every process of the group is told, and the launcher tells the scheduler too."""

    def test_the_launcher_first(self):
        self.group_ends(lambda launcher, children: [launcher, *children])

    def test_the_launcher_last(self):
        self.group_ends(lambda launcher, children: [*children, launcher])

    def group_ends(self, order):
        running = self.run_job("--resume=auto", every=CLOCKS, step_ms=5)
        running.wait_for("^started")
        time.sleep(0.5)
        children = descendants(running.pid)
        for pid in order(running.pid, list(children.values())):
            os.kill(pid, signal.SIGTERM)
        self.assertEqual(running.wait(30), 143, running.output())
        self.assert_nothing_left(children)
        self.assertRegex(running.output(), "stopped at clock [0-9]+ of [0-9]+: the checkpoint is written")
        running = self.run_job("--resume=auto", every=CLOCKS)
        self.assertEqual(self.end(running), self.undisturbed(), running.output())


class ToldToEndCiTest(ToldToEndTestCase):

    def test_who_is_dead_does_not_go_on(self):
        """Two of three are told, and the third is gone: nobody knows that yet."""
        nodes = self.start()
        nodes["worker-2"].process.kill()
        self.tell(nodes, ["worker-0", "worker-1"])
        del nodes["worker-2"]
        self.end_with(nodes, [75], ["worker-0", "worker-1"])
        self.goes_on()

    def test_a_scheduler_that_answers_late(self):
        self.TRAINS = ("--base_ms=25",)
        nodes = self.start()
        scheduler = nodes["scheduler"].process
        scheduler.send_signal(signal.SIGSTOP)
        self.addCleanup(scheduler.send_signal, signal.SIGCONT)
        told = ["worker-0", "worker-1", "worker-2"]
        self.tell(nodes, told)
        time.sleep(1.7)
        scheduler.send_signal(signal.SIGCONT)
        self.end_with(nodes, [75], told)
        self.goes_on()

    def test_who_comes_again_has_not_asked(self):
        self.TRAINS = ("--base_ms=25",)
        nodes = self.start()
        flags = (f"--config={self.config}", f"--checkpoint={self.folder}", f"--checkpoint_every={CLOCKS}", "--base_ms=25")
        endpoint = nodes["scheduler"].wait_for('"endpoint":"([^"]+)"').group(1)
        for rank in (1, 2):
            self.tell(nodes, [f"worker-{rank}"])
            self.assertEqual(nodes[f"worker-{rank}"].wait(10), 143)
        again = self.run_program("soapstone-worker", *flags, f"--scheduler={endpoint}", "--rank=1")
        nodes["scheduler"].wait_for("worker 1 join")
        time.sleep(0.3)
        self.tell(nodes, ["worker-0"])
        self.assertEqual(nodes["worker-0"].wait(10), 143, nodes["worker-0"].output())
        scheduler = nodes["scheduler"]
        self.assertEqual(scheduler.wait(60), 0, scheduler.output())
        self.assertEqual(again.wait(10), 0, again.output())
        self.assertNotIn("stopping with a checkpoint", scheduler.output())

    def test_all_at_once_at_random_moments(self):
        ToldToEndTest.all_at_once(self, seeds=4)

    def test_under_periodic_bounds_a_worker_leaves(self):
        """Where updates are applied as they come a checkpoint holds all workers at a clock for a moment."""
        for seed in range(4):
            with self.subTest(seed=seed):
                self.folder = f"{self.dir}/checkpoints-{seed}"
                nodes = self.start_by_hand("--policy=ssp:s=2", f"--checkpoint={self.folder}", "--checkpoint_every=3",
                                           "--base_ms=5")
                time.sleep(random.Random(seed).random())
                self.tell(nodes, ["worker-1"])
                self.assertEqual(nodes["worker-1"].wait(10), 143, nodes["worker-1"].output())
                scheduler = nodes["scheduler"]
                self.assertEqual(scheduler.wait(60), 0, scheduler.output())
                self.assertIn("worker 1 left after clock", scheduler.output())

    def test_a_server_leaves_while_another_is_stopped(self):
        """No checkpoint in time: the job is lost, and says so."""
        nodes = self.start("--grace_s=1", "--heartbeat_timeout_s=10")
        os.kill(nodes["server-1"].pid, signal.SIGSTOP)
        self.addCleanup(nodes["server-1"].process.send_signal, signal.SIGCONT)
        time.sleep(0.2)
        self.tell(nodes, ["server-0"])
        self.assertIn(nodes["server-0"].wait(8), (138, 143), nodes["server-0"].output())  # who gives up first
        self.assertEqual(nodes["scheduler"].wait(15), 138, nodes["scheduler"].output())


if __name__ == "__main__":
    unittest.main()
