"""A stranger without the job file at the ports of a job: learns nothing, stops nobody, costs little.

With SOAPSTONE_LONG=1 the floods last longer and the rate beside them is asserted, not only printed.
"""
import os
import re
import socket
import subprocess
import sys
import time
import unittest

import stranger
from cluster import ClusterTestCase, alive, descendants
from hostile_test import listening_ports

LONG = os.environ.get("SOAPSTONE_LONG") == "1"
CONNECTIONS = 50
BEYOND_QUIET = 128 << 20


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def connect(port, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return stranger.Peer(port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class StrangerTest(ClusterTestCase):

    def assert_learns_nothing(self, port, role=stranger.WORKER):
        """Says Hello as somebody who does not know the digest; the answer helps no further."""
        peer = connect(port)
        digest = 0x1234567890ABCDEF
        peer.send(stranger.hello(role, 5, digest))
        answer = peer.answer()
        self.assertIsNotNone(answer)
        self.assertIn(b"start all with the same job file", answer)
        told = re.findall(rb"[0-9a-f]{16}", answer)
        self.assertEqual(told, [b"%016x" % digest])
        self.assertNotIn(b"\x41", answer[16:answer.index(b"the job")])  # field 8: the session
        peer.close()

    def say_what_is_not_so(self, ports):
        """To every port, in everybody's name."""
        for port in ports:
            try:
                peer = stranger.Peer(port)
            except OSError:
                continue  # of streams
            for sender in ((stranger.SCHEDULER, 0), (stranger.SERVER, 0), (stranger.WORKER, 1)):
                peer.send(stranger.shutdown(sender))
                peer.send(stranger.message(stranger.PULL, sender))
            self.assertIsNone(self.short_answer(peer))
            peer.close()

    @staticmethod
    def short_answer(peer):
        peer.socket.settimeout(0.2)
        return peer.answer()

    def test_before_the_start(self):
        port, at = free_port(), free_port()
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{port}",
                 "--transport=sockets", "--servers=1", "--workers=1", "--epochs=2"]
        # A server before it is welcomed knows no session.
        server = self.run_program("soapstone-server", *flags, f"--bind=tcp://127.0.0.1:{at}")
        connect(at).close()
        self.say_what_is_not_so([at])
        self.assertIsNone(server.process.poll(), server.output())
        scheduler = self.run_program("soapstone-scheduler", *flags)
        self.assert_learns_nothing(port)
        self.assert_learns_nothing(port, stranger.SERVER)
        self.say_what_is_not_so([port, at])
        worker = self.run_program("soapstone-worker", *flags)
        for running in (scheduler, server, worker):
            self.assertEqual(running.wait(60), 0, running.output())

    def test_during_the_run_and_after_a_loss(self):
        running = self.train("--policy=bsp", "--epochs=2000", "--transport=sockets")
        running.wait_for("started")
        children = descendants(running.pid)
        scheduler = listening_ports([children["scheduler"]])[0]
        ports = listening_ports(children.values())
        self.assert_learns_nothing(scheduler)
        self.say_what_is_not_so(ports)
        os.kill(children.pop("worker-2"), 9)
        running.wait_for("worker 2 lost")
        self.assert_learns_nothing(scheduler)
        self.say_what_is_not_so(ports)
        self.assertEqual([name for name, pid in children.items() if not alive(pid)], [])
        running.process.terminate()
        self.assertEqual(running.wait(30), 143, running.output())

    def flood(self, ports, seconds):
        """What the five kinds of flooders, 50 connections in all, did: (bytes said, ended)."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stranger.py")
        each = CONNECTIONS // len(stranger.FLOODS)
        flooders = [subprocess.Popen([sys.executable, script, str(kind), str(each), str(seconds)] +
                                     [str(port) for port in ports], stdout=subprocess.PIPE,
                                     text=True) for kind in range(len(stranger.FLOODS))]
        said = ended = 0
        for flooder in flooders:
            words = flooder.communicate(timeout=seconds + 60)[0].split()
            self.assertEqual(flooder.returncode, 0)
            said += int(words[0])
            ended += int(words[1])
        return said, ended

    def samples(self, running):
        found = re.findall(r"epoch (\d+)/", running.output())
        return int(found[-1]) if found else 0

    def rate_beside(self, running, ports, seconds):
        before, began = self.samples(running), time.monotonic()
        said = self.flood(ports, seconds)
        return (self.samples(running) - before) / (time.monotonic() - began), said

    def test_floods_cost_little(self):
        running = self.train("--policy=bsp", "--epochs=100000", "--transport=sockets")
        running.wait_for("started")
        running.wait_for(r"epoch [2-9]\d*/")
        children = descendants(running.pid)
        ports = listening_ports(children.values())
        quiet = {name: stranger.memory_of(pid)[0] for name, pid in children.items()}
        seconds = 20 if LONG else 3
        sink = stranger.Sink()
        self.addCleanup(sink.close)
        alone, _ = self.rate_beside(running, [sink.port], seconds)
        beside, (said, ended) = self.rate_beside(running, ports, seconds)
        most = {name: stranger.memory_of(pid)[1] for name, pid in children.items()}
        growth = {name: most[name] - quiet[name] for name in children}
        print(f"{CONNECTIONS} flooders said {said:,} bytes, were sent away {ended:,} times; growth "
              f"{max(growth.values()) >> 20} MiB at most; epochs/s {beside:.2f}, beside a sink "
              f"{alone:.2f}")
        self.assertLess(max(growth.values()), BEYOND_QUIET, growth)
        self.assertGreater(ended, CONNECTIONS)
        running.wait_for("sent away [0-9]+ connections of strangers")
        self.assertEqual([name for name, pid in children.items() if not alive(pid)], [])
        if LONG:
            self.assertGreaterEqual(beside, 0.9 * alone)
        running.process.terminate()
        self.assertEqual(running.wait(30), 143, running.output())


if __name__ == "__main__":
    unittest.main()
