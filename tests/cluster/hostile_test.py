"""Garbage to every port of a running job: it ends with the same bits, and counts what it refused."""
import os
import random
import re
import socket
import struct
import time
import unittest

from cluster import ClusterTestCase, descendants
from stranger import FRAME

MESSAGES = 1000  # of a connection
CONNECTIONS = 5  # to a port, one after the other


def listening_ports(pids):
    """The tcp ports that these processes listen on."""
    inodes = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                match = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
            except OSError:
                continue
            if match:
                inodes.add(match.group(1))
    ports = []
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:  # LISTEN
                ports.append(int(words[1].split(":")[1], 16))
    return ports


def zmtp_connect(port):
    """A ZMTP 3.0 connection as a DEALER without security. None: it is not a port of ZeroMQ's."""
    peer = socket.create_connection(("127.0.0.1", port), timeout=10)
    peer.sendall(b"\xff" + b"\0" * 8 + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32)
    greeting = b""
    while len(greeting) < 64:
        try:
            came = peer.recv(64 - len(greeting))
        except ConnectionError:
            came = b""
        if not came:
            peer.close()
            return None
        greeting += came
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    peer.sendall(b"\x04" + bytes([len(ready)]) + ready)
    peer.settimeout(0.5)
    return peer


def zmtp_frame(body, more):
    return bytes([2 | more]) + struct.pack(">Q", len(body)) + body


def random_message(rng):
    """Frames that begin as ours do, or not; whole, cut, or changed."""
    frames = []
    for _ in range(rng.randint(1, 3)):
        body = rng.randbytes(rng.choice([0, 1, 15, 16, 40, 200]))
        if rng.random() < 0.5:
            length = rng.choice([0, len(body), 2**31, 2**32 - 1])
            body = FRAME + struct.pack("<II", length, 0) + body
        frames.append(body[:rng.randint(0, len(body))] if rng.random() < 0.3 else body)
    return b"".join(zmtp_frame(f, i + 1 < len(frames)) for i, f in enumerate(frames))


class HostileTest(ClusterTestCase):

    def attack(self, port, rng):
        raw = socket.create_connection(("127.0.0.1", port), timeout=10)
        try:
            raw.sendall(rng.randbytes(20_000))
        except OSError:
            pass  # it hangs up on us: well done
        raw.close()
        peer = zmtp_connect(port)
        if peer is None:
            return []
        peers = []
        # Of each connection no more is taken than may be said before anything of the job.
        for _ in range(CONNECTIONS):
            try:
                for _ in range(MESSAGES):
                    peer.sendall(random_message(rng))
            except OSError:
                pass
            peers.append(peer)
            peer = zmtp_connect(port)
        return [*peers, peer]

    def test_garbage_changes_nothing(self):
        flags = ("--policy=bsp", "--epochs=60")
        quiet = self.train(*flags)
        self.assertEqual(quiet.wait(120), 0, quiet.output())

        running = self.train(*flags, "--transport=sockets")
        running.wait_for("started")
        children = descendants(running.pid)
        ports = []
        deadline = time.monotonic() + 20
        # The scheduler and two servers, which open a port for streams when the first is asked for.
        while len(ports) < 5 and time.monotonic() < deadline:
            ports = listening_ports(children.values())
        self.assertEqual(len(ports), 5)
        rng = random.Random(1)
        peers = [peer for port in ports for peer in self.attack(port, rng)]
        time.sleep(1.2)  # who is held so long is called a stranger
        for peer in peers:
            peer.close()
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertEqual(self.sha256(running.output()), self.sha256(quiet.output()))
        refused = re.search(r"messages refused +([\d,]+) malformed", running.output())
        self.assertGreater(int(refused.group(1).replace(",", "")), 1000)
        sent_away = re.search(r"sent away +([\d,]+) connections", running.output())
        self.assertIsNotNone(sent_away, running.output())


if __name__ == "__main__":
    unittest.main()
