"""Jobs whose workers are far away. Packets pass between two machines through this process, which holds or drops them:
the kernel's TCP meets that, not a stand-in."""
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import subprocess
import threading
import time
import unittest

from cluster import BIN, ClusterTestCase, Running
from machines import Machines, are_allowed, run_in

DELAY_S = 0.1  # each way
LOST = 0.01
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
NEAR, FAR = "10.78.0.1", "10.78.0.2"
OF_LOSS = ["--servers=1", "--workers=2", "--policy=bsp", "--batch=256", "--epochs=2", "--strict", "--heartbeat_timeout_s=20"]
# One step: 2.2 million parameters, so that values and gradients take 7 s each at 10 Mb/s.
OF_SLOWNESS = ["--servers=1", "--workers=1", "--policy=bsp", "--batch=1438", "--epochs=1", "--model=mlp:hidden=2000",
               "--bucket_bytes=67108864", "--transport=zeromq", "--strict"]


class FarLink:
    """Joins two machines, each way by itself."""

    def __init__(self, near, far, lost):
        self.passed = self.dropped = 0
        self.lost = lost
        self.draw = random.Random(1)
        self.ends = [self.end(near, "near0", NEAR), self.end(far, "far0", FAR)]
        self.stops, self.stop = os.pipe()
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def end(self, machine, name, address):
        """What leaves the machine by an interface of its own is read here."""
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
        subprocess.run(["ip", "link", "set", name, "netns", str(machine)], check=True)
        run_in(machine, f"ip link set lo up; ip addr add {address}/30 dev {name}; ip link set {name} up")
        return tun

    def carry(self):
        near, far = self.ends
        order = itertools.count()
        under_way = []  # (when it is there, order, to, packet)
        while True:
            wait = max(0, under_way[0][0] - time.monotonic()) if under_way else None
            ready = select.select([near, far, self.stops], [], [], wait)[0]
            if self.stops in ready:
                return
            for source in ready:
                packet = os.read(source, 65536)
                self.passed += 1
                if self.draw.random() < self.lost:
                    self.dropped += 1
                    continue
                to = far if source == near else near
                heapq.heappush(under_way, (time.monotonic() + DELAY_S, next(order), to, packet))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(under_way)
                try:
                    os.write(to, packet)
                except OSError:
                    self.dropped += 1  # its machine takes no more

    def close(self):
        os.write(self.stop, b"!")
        self.thread.join(10)
        for fd in (*self.ends, self.stops, self.stop):
            os.close(fd)


class FarNetworkCiTest(ClusterTestCase):

    def join(self, lost):
        """(two machines, what joins them)"""
        if not are_allowed() or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            self.skipTest("NOT TESTED: no machines, or no way between them, may be made here")
        machines = Machines(0)
        self.addCleanup(machines.close)
        near, far = machines.holders[0].pid, machines.add()
        link = FarLink(near, far, lost)
        self.addCleanup(link.close)
        return near, far, link

    def on(self, machine, program, *flags):
        running = Running(["nsenter", "-t", str(machine), "-n", "-m", "--", os.path.join(BIN, program),
                           f"--config={self.config}", f"--scheduler=tcp://{NEAR}:7070", *flags])
        self.addCleanup(self.stop, running)
        return running

    def train_apart(self, near, far, workers, flags):
        """Its workers on the machine that is far. Seconds; the parameters' SHA-256 is that of one machine's job."""
        began = time.monotonic()
        scheduler = self.on(near, "soapstone-scheduler", *flags, "--progress=json")
        scheduler.wait_for('"endpoint"')
        nodes = [scheduler, self.on(near, "soapstone-server", *flags)]
        nodes += [self.on(far, "soapstone-worker", *flags) for _ in range(workers)]
        for running in nodes:
            self.assertEqual(running.wait(300), 0, running.output())
            self.assertNotIn("reached over ZeroMQ alone", running.output())
        took = time.monotonic() - began
        found = scheduler.wait_for('"sha256":"([0-9a-f]{64})"').group(1)
        undisturbed = self.train(*flags)
        self.assertEqual(undisturbed.wait(60), 0, undisturbed.output())
        self.assertEqual(found, self.sha256(undisturbed.output()))
        return took

    def test_sealed_streams_over_a_long_and_lossy_way(self):
        near, far, link = self.join(LOST)
        keys = os.path.join(self.dir, "keys")
        self.assertEqual(self.run_program("soapstone", "keygen", f"--out={keys}").wait(20), 0)
        took = self.train_apart(near, far, 2, [*OF_LOSS, f"--key={keys}", "--transport=sockets"])
        print(f"{took:.1f} s, {link.passed} packets, {link.dropped} of them lost")
        self.assertGreater(link.dropped, 5)
        self.assertGreater(took, 10 * DELAY_S)

    def test_messages_that_take_longer_than_a_link_may_be_silent(self):
        near, far, _ = self.join(0)
        for machine, name in ((near, "near0"), (far, "far0")):
            run_in(machine, f"tc qdisc add dev {name} root tbf rate 10mbit burst 32kb latency 200ms")
        took = self.train_apart(near, far, 1, OF_SLOWNESS)
        print(f"{took:.1f} s")
        self.assertGreater(took, 12)


if __name__ == "__main__":
    unittest.main()
