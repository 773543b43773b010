"""Ways between two processes on which bytes stop for a while, in one direction or in both, without a reset: nothing
is lost, nobody hangs, nobody is counted out, and under bsp not a bit differs."""
import collections
import os
import random
import re
import time
import unittest

from blocked_links import Block, BlockedLinkTestCase, connected_pairs
from cluster import descendants

# How long stalls last at most, in seconds: a moment here, more with what continuous integration runs beside ./check.
LONGEST = float(os.environ.get("SOAPSTONE_STALL_S", "1.6"))
LONG = LONGEST > 2
DURATIONS = [1 + (LONGEST - 1) * number / 4 for number in range(5)]
BETWEEN = 1.2 if LONG else 0.6  # from the beginning of one to that of the next
# What is held up, heartbeats too, comes when TCP tries again, or by another connection: up to twice as late.
TIMEOUT = 3 * LONGEST
EPOCHS = 70 if LONG else 40
# On every machine a run lasts longer than stalls begin: a delay of 5 ms in each of an epoch's 30 clocks.
SLOW = "--base_ms=5"
ASKED_AGAIN_MAX = 2 * 3  # one read of each worker at each server
OVER_STREAMS = ["async"] + ["ssp:s=2", "softsync:n=2,rate=mean", "backup:b=1", "easgd:tau=2,mode=async",
                            "gossip:mode=adpsgd", "eager"] * LONG
OVER_ZEROMQ = ["allreduce"] + ["ssp:s=2", "localsgd:h=2", "gossip:mode=pushsum", "gossip:mode=dpsgd"] * LONG


class StalledLinkTest(BlockedLinkTestCase):

    def stall_links(self, running, children, seed):
        """Stalls the ways of five pairs, each kind of pair in its turn, and waits until all have passed. None twice:
        what comes of two stalls in a row is one that is as long as both, and what lies between."""
        draw = random.Random(seed)
        before = set()
        stalled = collections.Counter()
        blocks = []  # (when it ends, block, what it is)
        idle = 0
        begins = time.monotonic()
        while blocks or sum(stalled.values()) < len(DURATIONS):
            now = time.monotonic()
            for ends, block, what in [b for b in blocks if b[0] <= now]:
                blocks.remove((ends, block, what))
                dropped = block.lift()
                print(f"  {what}: {dropped} packets", flush=True)
                idle += dropped == 0
            number = sum(stalled.values())
            if number < len(DURATIONS) and now >= begins + number * BETWEEN:
                self.assertIsNone(running.process.poll(), "over before all stalls:\n" + running.output())
                pairs = {kind: [pair for pair in both if pair not in before]
                         for kind, both in connected_pairs(children).items()}
                pairs = {kind: left for kind, left in pairs.items() if left}
                self.assertTrue(pairs, running.output())
                kind = min(sorted(pairs), key=lambda k: (stalled[k], draw.random()))
                pair = draw.choice(pairs[kind])
                before.add(pair)
                a, b = draw.sample(pair, 2)
                both = number % 2 == 0
                block = Block(children, a, b, both)
                what = f"{a} {'and' if both else 'to'} {b} for {DURATIONS[number]:.1f} s"
                blocks.append((now + DURATIONS[number], block, what))
                stalled[kind] += 1
            time.sleep(0.02)
        self.assertLess(idle, 2, "ways on which nothing was sent")
        return stalled

    def check(self, policy, transport):
        running = self.train(f"--policy={policy}", f"--transport={transport}", f"--epochs={EPOCHS}", SLOW,
                             f"--heartbeat_timeout_s={TIMEOUT}", "--strict")
        running.wait_for(r"^epoch \d+/")
        children = descendants(running.pid)
        self.assertEqual(len(children), 6, children)
        stalled = self.stall_links(running, children, f"{policy} {transport}")
        self.assertEqual(running.wait(60 + 2 * LONGEST), 0, running.output())
        print(f"{policy} over {transport}: {dict(stalled)}, {time.monotonic() - running.started:.1f} s", flush=True)
        self.assertNotIn("lost", running.output())
        self.assertRegex(running.output(), "messages refused +0 malformed or foreign, 0 by shards, 0 duplicates")
        for times in re.findall(r"broken (\d+) times", running.output()):
            self.assertEqual(times, "0")
        self.assertGreaterEqual(self.accuracy(running.output()), 0.9)
        return running.output()

    def check_bsp(self, transport):
        undisturbed = self.train("--policy=bsp", f"--epochs={EPOCHS}", "--strict")
        self.assertEqual(undisturbed.wait(60), 0, undisturbed.output())
        stalled = self.check("bsp", transport)
        self.assertEqual(self.sha256(stalled), self.sha256(undisturbed.output()))
        # What a worker has waited for as long as TIMEOUT it asks for again, and is answered again.
        reads, expected = self.reads(stalled), self.reads(undisturbed.output())
        self.assertGreaterEqual(reads, expected)
        self.assertLessEqual(reads, expected + ASKED_AGAIN_MAX)

    def reads(self, output):
        match = re.search(r"broken 0 times in ([0-9,]+) reads", output)
        self.assertIsNotNone(match, output)
        return int(match.group(1).replace(",", ""))

    def test_bsp_over_streams(self):
        self.check_bsp("sockets")

    def test_bsp_over_zeromq(self):
        self.check_bsp("zeromq")

    def test_others_over_streams(self):
        for policy in OVER_STREAMS:
            self.check(policy, "sockets")

    def test_others_over_zeromq(self):
        for policy in OVER_ZEROMQ:
            self.check(policy, "zeromq")


if __name__ == "__main__":
    unittest.main()
