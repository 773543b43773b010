"""A process that stops reading at full load (SIGSTOP) and comes back: what the others keep for it is bounded, they
wait, and then all goes on; one that stays away too long is counted out, and says so when it wakes."""
import concurrent.futures
import os
import re
import signal
import time
import unittest

from cluster import ClusterTestCase, alive, descendants

MIB = 1 << 20
# 1.1 million parameters: a worker's gradient for one of two servers is 2.2 MB in buckets of 1 MiB at most; what peers
# send one another is the whole of 4.5 MB. A link keeps cluster.link_bytes, or one message where that is larger.
MODEL = ["--model=mlp:hidden=1024", "--strict"]
JOB = [*MODEL, "--epochs=12"]
LONGER = 40  # epochs of who waits for nobody: on a machine that does nothing else 12 take two seconds
BUCKET = MIB
WHOLE = 4_600_000
DEFAULT = 512 * MIB
# What a process' own memory differs by from one second to the next, beside what it keeps for others.
NOISE = 2 * MIB


def resident(pid):
    """Bytes of a process that are in memory, segments that it shares with others among them. 0: it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return sum(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024
    except OSError:
        return 0


class StoppedNodeTestCase(ClusterTestCase):

    def greatest(self, children, seconds):
        """{name: bytes}: the most that each had resident in that time."""
        most = dict.fromkeys(children, 0)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name, pid in children.items():
                most[name] = max(most[name], resident(pid))
            time.sleep(0.02)
        return most

    def stop_one(self, policy, name, seconds, link_bytes=MIB, transport="auto", message=BUCKET, times=1, epochs=12):
        """The output of a job of which `name` stops for so long; others may keep `times` what a link does."""
        bound = times * max(link_bytes or DEFAULT, message)
        flags = [*MODEL, f"--epochs={epochs}", f"--policy={policy}", f"--transport={transport}",
                 "--heartbeat_timeout_s=60"]
        if link_bytes:
            flags.append(f"--link_bytes={link_bytes}")
        # A folder of its own: two jobs run at a time.
        running = self.run_program("soapstone", "train", f"--config={self.config}",
                                   f"--log_dir={self.dir}/logs-{link_bytes}", *flags)
        running.wait_for(r"^epoch \d+/", 120)
        children = descendants(running.pid)
        before = self.greatest(children, 2)
        self.assertIsNone(running.process.poll(), "over before anybody was stopped:\n" + running.output())
        os.kill(children[name], signal.SIGSTOP)
        during = self.greatest(children, seconds)
        self.assertIsNone(running.process.poll(), "over before it was stopped:\n" + running.output())
        os.kill(children[name], signal.SIGCONT)
        self.assertEqual(running.wait(240), 0, running.output())
        grown = {other: during[other] - before[other] for other in children if other != name}
        print(f"{policy} over {transport}, {name} stopped for {seconds} s, a link keeps {bound / MIB:.1f} MiB: others "
              f"grow by {max(grown.values()) / MIB:.1f} MiB at most, to {max(during.values()) / MIB:.0f}", flush=True)
        for other, growth in grown.items():
            self.assertLessEqual(growth, bound + NOISE, f"{other}: {grown}")
        self.assertNotIn("lost", running.output())
        for broken in re.findall(r"broken (\d+) times", running.output()):
            self.assertEqual(broken, "0")
        return running.output()

    def counted_out(self, policy, name, goes_on, *flags):
        """With default timeouts; without a launcher, that would end it before it could say anything. It wakes when
        the others have ended, or gone on without it."""
        nodes = self.start_by_hand(f"--policy={policy}", *flags)
        stopped, scheduler = nodes.pop(name), nodes.pop("scheduler")
        os.kill(stopped.pid, signal.SIGSTOP)
        scheduler.wait_for(f"{name.replace('-', ' ')} lost: no heartbeat", 15)
        for node in [] if goes_on else [scheduler, *nodes.values()]:
            self.assertEqual(node.wait(20), 138, node.output())
        os.kill(stopped.pid, signal.SIGCONT)
        self.assertEqual(stopped.wait(20), 138, stopped.output())
        # Where the job has ended meanwhile, who would have told it may be gone.
        ends = "expelled: was silent for too long" if goes_on else "(expelled: was silent for too long|scheduler lost)"
        self.assertRegex(stopped.output(), "ended: " + ends)
        for node in [scheduler, *nodes.values()] if goes_on else []:
            self.assertEqual(node.wait(120), 0, node.output())


class StoppedNodeTest(StoppedNodeTestCase):

    def test_a_server_under_bsp(self):
        output = self.stop_one("bsp", "server-0", 4)
        undisturbed = self.train(*JOB, "--policy=bsp")
        self.assertEqual(undisturbed.wait(120), 0, undisturbed.output())
        self.assertEqual(self.sha256(output), self.sha256(undisturbed.output()))

    def test_a_peer_where_nobody_waits_for_another(self):
        # What a link keeps, as much that waits for it, and what the step in hand makes.
        self.stop_one("gossip:mode=pushsum", "worker-1", 4, message=WHOLE, times=3, epochs=LONGER)

    def test_a_step_is_not_held_for_who_was_counted_out(self):
        self.counted_out("gossip:mode=pushsum", "worker-1", True, *JOB, f"--link_bytes={MIB}")

    def test_all_at_once_as_when_their_machine_sleeps(self):
        running = self.train("--policy=bsp", "--transport=zeromq", "--epochs=20")
        running.wait_for(r"^epoch \d+/")
        children = descendants(running.pid)
        for number, seconds in [(signal.SIGSTOP, 4), (signal.SIGCONT, 0)]:  # beyond the timeouts of 3 s
            for pid in children.values():
                os.kill(pid, number)
            time.sleep(seconds)
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertNotIn("lost", running.output())


class StoppedForLongTestCase(StoppedNodeTestCase):

    def check(self, policy, name, **more):
        """With little kept for others and with the default, at the same time."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            outputs = [pool.submit(self.stop_one, policy, name, 30, link_bytes, **more) for link_bytes in [MIB, None]]
            return [output.result() for output in outputs]


class StoppedNodeCiTest(StoppedForLongTestCase):

    def test_a_server_under_async(self):
        self.check("async", "server-0")

    def test_a_peer_where_nobody_waits_for_another(self):
        self.check("gossip:mode=pushsum", "worker-1", message=WHOLE, times=3, epochs=LONGER)

    def test_a_server_that_is_away_too_long_ends_the_job(self):
        for policy in ["bsp", "async"]:
            for transport in ["auto", "sockets"]:
                self.counted_out(policy, "server-0", False, "--epochs=1000", f"--transport={transport}")


class StoppedNodeLongTest(StoppedForLongTestCase):

    def test_a_server_under_bsp(self):
        undisturbed = self.train(*JOB, "--policy=bsp")
        self.assertEqual(undisturbed.wait(120), 0, undisturbed.output())
        for transport in ["auto", "sockets", "zeromq"]:
            for output in self.check("bsp", "server-0", transport=transport):
                self.assertEqual(self.sha256(output), self.sha256(undisturbed.output()))

    def test_a_server_of_a_tree(self):
        self.check("tree:group=2,s=1", "server-0")

    def test_a_peer(self):
        self.check("gossip:mode=adpsgd", "worker-1", message=WHOLE)

    def test_a_step_is_not_held_for_who_was_counted_out(self):
        for policy in ["gossip:mode=pushsum", "gossip:mode=dpsgd"]:
            for transport in ["auto", "sockets", "zeromq"]:
                self.counted_out(policy, "worker-1", True, *JOB, f"--link_bytes={MIB}", f"--transport={transport}")

    def test_the_others_go_on_without_a_peer_that_is_away_too_long(self):
        for transport in ["auto", "sockets"]:
            self.counted_out("gossip:mode=adpsgd", "worker-1", True, "--epochs=40", f"--transport={transport}")


class StoppedAtTheEndTest(StoppedNodeTestCase):

    def stop_scheduler(self, and_then):
        """Stops it between its last word and its end, if it can be caught there; calls and_then(running, scheduler).
        The job, ended."""
        for attempt in range(8):
            folder = f"{self.dir}/end-{attempt}"
            running = self.run_program("soapstone", "train", f"--config={self.config}", f"--log_dir={folder}",
                                       "--epochs=1", "--heartbeat_timeout_s=1")
            running.wait_for("started", 60)
            children = descendants(running.pid)
            scheduler = children.pop("scheduler")
            until = time.monotonic() + 60
            while running.process.poll() is None and time.monotonic() < until:
                with open(f"{folder}/scheduler.log") as log:
                    if "ended with" in log.read():
                        os.kill(scheduler, signal.SIGSTOP)
                        break
            while any(alive(pid) for pid in children.values()) and time.monotonic() < until:
                time.sleep(0.01)
            if running.process.poll() is None:
                and_then(running, scheduler)
                running.wait(30)
                return running
            self.assertEqual(running.wait(1), 0, running.output())
        return self.fail("its scheduler was never caught")

    def test_the_scheduler_when_all_others_have_ended(self):
        """The launcher ends within twice the heartbeat's timeout and some seconds, and says why."""
        running = self.stop_scheduler(lambda *_: None)
        self.assertIn("scheduler: killed, for it has not ended", running.output())
        if running.process.returncode != 0:  # its result had not come
            self.assertEqual(running.process.returncode, 138, running.output())
            self.assertRegex(running.output(), "ended with exit code 138: scheduler lost: it was stopped for 4.0 s")

    def test_the_scheduler_and_the_launcher_as_when_their_machine_sleeps(self):

        def sleep(running, scheduler):
            time.sleep(0.3)
            os.kill(running.pid, signal.SIGSTOP)
            time.sleep(6)
            os.kill(scheduler, signal.SIGCONT)
            os.kill(running.pid, signal.SIGCONT)

        running = self.stop_scheduler(sleep)
        self.assertEqual(running.process.returncode, 0, running.output())


if __name__ == "__main__":
    unittest.main()
