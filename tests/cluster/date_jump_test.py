"""The machine's date jumps by an hour, forwards and backwards, again and again under a running job, as where NTP
sets it or a machine was suspended: nobody is counted out, no connection is made anew, nothing waits for the hour, and
under bsp not a bit differs."""
import glob
import mmap
import os
import struct
import time
import unittest

from cluster import ClusterTestCase

LIBRARY = os.environ["SOAPSTONE_SHIFTED_DATE"]
HOUR = 3600 * 10**9
JUMPS = [HOUR, -HOUR, 0, 24 * HOUR, HOUR, -HOUR]


class DateJumpTest(ClusterTestCase):

    def setUp(self):
        super().setUp()
        path = os.path.join(self.dir, "shift")
        with open(path, "wb") as file:
            file.write(struct.pack("q", 0))
        with open(path, "r+b") as file:
            self.shift = mmap.mmap(file.fileno(), 8)
        self.addCleanup(self.shift.close)
        self.environment = {"LD_PRELOAD": LIBRARY, "SOAPSTONE_DATE_SHIFT": path}

    def move_to(self, shift):
        self.shift[:8] = struct.pack("q", shift)

    def check(self, policy, transport):
        flags = [f"--policy={policy}", f"--transport={transport}", "--epochs=60", "--strict"]
        for name, value in self.environment.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name, None)
        running = self.train(*flags)
        for name in self.environment:
            os.environ.pop(name)
        running.wait_for(r"^epoch \d+/")
        jumps = 0
        while running.process.poll() is None and jumps < 40:
            self.move_to(JUMPS[jumps % len(JUMPS)])
            jumps += 1
            time.sleep(0.05)
        self.assertEqual(running.wait(90), 0, running.output())
        print(f"{policy} over {transport}: {jumps} jumps", flush=True)
        self.assertGreaterEqual(jumps, 10, "the run was over before the jumps")
        self.assertNotIn("lost", running.output())
        logs = ""
        for path in glob.glob(f"{self.dir}/logs/**", recursive=True):
            if os.path.isfile(path):
                with open(path, errors="replace") as file:
                    logs += file.read()
        self.assertTrue(logs)
        for line in logs.splitlines():
            self.assertNotRegex(line, r"made again|is lost|lost:")
        return running

    def hash_without(self, policy):
        running = self.train(f"--policy={policy}", "--epochs=60")
        self.assertEqual(running.wait(90), 0, running.output())
        return self.sha256(running.output())

    def test_streams(self):
        running = self.check("bsp", "sockets")
        self.assertEqual(self.sha256(running.output()), self.hash_without("bsp"))

    def test_zeromq(self):
        running = self.check("bsp", "zeromq")
        self.assertEqual(self.sha256(running.output()), self.hash_without("bsp"))

    def test_shared_memory(self):
        running = self.check("bsp", "auto")
        self.assertEqual(self.sha256(running.output()), self.hash_without("bsp"))


if __name__ == "__main__":
    unittest.main()
