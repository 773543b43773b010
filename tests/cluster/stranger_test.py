"""A stranger without the job file at the ports of a job: learns nothing, stops nobody, costs little.

With SOAPSTONE_LONG=1 the floods last longer and the rate beside them is asserted, not only printed.
"""
import concurrent.futures
import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import stranger
from broken_link_test import take_descriptor, tcp_links
from cluster import ClusterTestCase, alive, descendants
from hostile_test import listening_ports

LONG = os.environ.get("SOAPSTONE_LONG") == "1"
CONNECTIONS = 50
FLOODERS_START = 1  # seconds, at their niceness
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

    def start_with_descriptors(self, most, workers):
        """(port, flags of the job, its scheduler, which may open so many)"""
        port = free_port()
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{port}", "--transport=sockets", "--http=off",
                 "--servers=1", workers, "--epochs=2"]
        return port, flags, self.run_program("/usr/bin/prlimit", f"--nofile={most}:{most}",
                                             f"{self.bin}/soapstone-scheduler", *flags)

    def test_where_descriptors_are_few(self):
        """Sixty-four who say nothing: who cannot accept one more does not try without pause, and is reached all the same."""
        port, flags, scheduler = self.start_with_descriptors(48, "--workers=1")
        connect(port).close()
        with contextlib.ExitStack() as silent:
            for _ in range(64):
                silent.enter_context(socket.create_connection(("127.0.0.1", port)))
            time.sleep(1)
            before = stranger.cpu_of(scheduler.process.pid)
            time.sleep(2)
            self.assertLess(stranger.cpu_of(scheduler.process.pid) - before, 1)
            nodes = [self.run_program(f"soapstone-{role}", *flags) for role in ("server", "worker")]
            for running in (scheduler, *nodes):
                self.assertEqual(running.wait(60), 0, running.output())

    def test_members_find_a_way_in_where_descriptors_are_few(self):
        _, flags, scheduler = self.start_with_descriptors(64, "--workers=12")
        nodes = [self.run_program(f"soapstone-{role}", *flags) for role in ("server", *["worker"] * 12)]
        for running in (scheduler, *nodes):
            self.assertEqual(running.wait(60), 0, running.output())

    def test_a_job_starts_while_many_say_a_greeting(self):
        # Each takes the place of one that is unproven by chance, where a newcomer has yet to be heard.
        port = free_port()
        flags = [f"--config={self.config}", f"--scheduler=tcp://127.0.0.1:{port}", "--epochs=10",
                 "--transport=sockets"]
        scheduler = self.run_program("soapstone-scheduler", *flags)
        connect(port).close()
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            flood = pool.submit(stranger.greet, port, stop, 2000)
            try:
                time.sleep(2)  # so that the door is shut
                nodes = [self.run_program(f"soapstone-{role}", *flags)
                         for role in ("server",) * 2 + ("worker",) * 3]
                for node in [*nodes, scheduler]:
                    self.assertEqual(node.wait(60), 0, f"{node.output()}\n{scheduler.output()}")
            finally:
                stop.set()
        self.assertGreater(flood.result(), 1000)

    def test_refused_strangers_fill_no_log(self):
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}", "--scheduler=tcp://127.0.0.1:0",
                                     "--progress=json", "--start_timeout_s=30")
        port = int(scheduler.wait_for('"endpoint":"tcp://127.0.0.1:([0-9]+)"').group(1))
        for nonce in range(60):
            peer = connect(port)
            peer.send(stranger.hello(stranger.WORKER, 1000 + nonce, 0x1234567890ABCDEF))
            self.assertIsNotNone(peer.answer())
            peer.close()
        time.sleep(6)  # until a link is given up
        lines = scheduler.output().splitlines()
        for said in ("is refused", "is lost"):  # by the log and by news
            self.assertLess(len([line for line in lines if said in line]), 26, lines)

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

    def start_flood(self, ports, seconds):
        """The flooders of all kinds, CONNECTIONS connections in all at least."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stranger.py")
        each = -(-CONNECTIONS // len(stranger.FLOODS))
        return [subprocess.Popen([sys.executable, script, str(kind), str(each), str(seconds)] +
                                 [str(port) for port in ports], stdout=subprocess.PIPE,
                                 text=True) for kind in range(len(stranger.FLOODS))]

    def end_flood(self, flooders, seconds):
        """What they did: (bytes said, connections ended)."""
        said = ended = 0
        for flooder in flooders:
            words = flooder.communicate(timeout=seconds + 60)[0].split()
            self.assertEqual(flooder.returncode, 0)
            said += int(words[0])
            ended += int(words[1])
        return said, ended

    def epochs(self, running, since=0):
        """[(when it was said, epoch)] of the lines of progress."""
        with running.changed:
            lines = list(zip(running.times, running.lines))
        said = [(at, re.match(r"epoch (\d+)/", line)) for at, line in lines if at >= since]
        return [(at, int(match.group(1))) for at, match in said if match]

    def rate_beside(self, running, ports, seconds):
        """Epochs a second, from the first line of progress to the last that came while all flooders were at it."""
        began = time.monotonic()
        did = self.end_flood(self.start_flood(ports, seconds), seconds)
        said = self.epochs(running, began + FLOODERS_START)
        self.assertGreater(len(said), 1)
        return (said[-1][1] - said[0][1]) / (said[-1][0] - said[0][0]), did

    def counted(self, running):
        """Strangers that the processes have said they sent away or held back."""
        logs = running.output()
        return sum(int(n) for n in re.findall(r"sent away or held back (\d+) connections", logs))

    def growth(self, children, quiet):
        return {name: stranger.memory_of(pid)[1] - quiet[name] for name, pid in children.items()}

    def flooded(self, *flags):
        """A running job: (it, its processes, its ports, their memory before)."""
        running = self.train(*flags, "--transport=sockets", progress_every=1)
        running.wait_for("started")
        running.wait_for(r"epoch [2-9]\d*/", 120)
        children = descendants(running.pid)
        quiet = {name: stranger.memory_of(pid)[0] for name, pid in children.items()}
        return running, children, listening_ports(children.values()), quiet

    def end(self, running, children):
        self.assertEqual([name for name, pid in children.items() if not alive(pid)], [])
        running.process.terminate()
        self.assertEqual(running.wait(30), 143, running.output())

    def test_floods_of_a_job_with_keys_cost_as_little(self):
        keys = self.run_program("soapstone", "keygen", f"--out={self.dir}/keys")
        self.assertEqual(keys.wait(20), 0, keys.output())
        running, children, ports, quiet = self.flooded("--policy=bsp", "--epochs=100000",
                                                       f"--key={self.dir}/keys")
        rate, (said, ended) = self.rate_beside(running, ports, 4)
        growth = self.growth(children, quiet)
        print(f"flooders said {said:,} bytes, {ended:,} connections were ended; growth "
              f"{max(growth.values()) >> 20} MiB at most; {rate:.1f} epochs a second")
        self.assertGreater(said, 16 << 20)
        self.assertGreater(rate, 0)
        self.assertLess(max(growth.values()), BEYOND_QUIET, growth)
        self.end(running, children)

    def test_floods_cost_little(self):
        running, children, ports, quiet = self.flooded("--policy=bsp", "--epochs=100000")
        seconds, pairs = (12, 9) if LONG else (4, 1)
        sink = stranger.Sink()
        self.addCleanup(sink.close)
        ratios = []
        # Who is held sleeps, who is ended fills the buffers of a new connection: the sink ends connections as often as the
        # job did, so that flooders have the same to do beside both.
        said, ended = self.rate_beside(running, ports, seconds)[1]
        sink.stay = CONNECTIONS * seconds / max(ended, 1)
        for pair in range(pairs):
            # By turns, and the one first as often as the other.
            rates = {}
            for at in ([sink.port], ports)[::1 if pair % 2 == 0 else -1]:
                rates[at is ports], (bytes_said, ends) = self.rate_beside(running, at, seconds)
                if at is ports:
                    said, ended = said + bytes_said, ended + ends
                    sink.stay = CONNECTIONS * seconds / max(ends, 1)
                else:
                    print(f"the sink took {bytes_said:,} bytes and ended {ends:,} connections")
            ratios.append(rates[True] / max(rates[False], 1e-9))
        growth = self.growth(children, quiet)
        median = statistics.median(ratios)
        low, _, high = statistics.quantiles(ratios, method="inclusive") if pairs > 1 else 3 * ratios
        print(f"flooders said {said:,} bytes, were ended {ended:,} times; growth "
              f"{max(growth.values()) >> 20} MiB at most; rate by that beside a sink: median "
              f"{median:.2f}, quartiles {low:.2f} and {high:.2f}, of", " ".join(f"{ratio:.2f}" for ratio in ratios))
        self.assertLess(max(growth.values()), BEYOND_QUIET, growth)
        running.wait_for("sent away or held back [0-9]+ connections of strangers")
        deadline = time.monotonic() + 60  # where others compute too, flooders get through less
        while self.counted(running) <= CONNECTIONS // 2 and time.monotonic() < deadline:
            self.end_flood(self.start_flood(ports, seconds), seconds)
        self.assertGreater(self.counted(running), CONNECTIONS // 2)
        if LONG:
            # By turns: what is within half the distance of the quartiles cannot be told from the line.
            self.assertGreaterEqual(median + (high - low) / 2, 0.9)
        self.end(running, children)

    def test_a_member_comes_again_while_flooded(self):
        running, children, ports, _ = self.flooded("--policy=bsp", "--epochs=100000")
        flooders = self.start_flood(ports, 6)
        time.sleep(2)  # all are at it
        before = self.epochs(running)[-1][1]
        broken = 0
        for pid, fd in tcp_links(children)["server–worker"]:
            peer = take_descriptor(pid, fd)
            if peer is not None:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
                    broken += 1
                peer.close()
        began = time.monotonic()
        # Under bsp all must be there again; the first of the two was perhaps under way.
        while self.epochs(running)[-1][1] < before + 2 and time.monotonic() < began + 30:
            time.sleep(0.01)
        took = time.monotonic() - began
        print(f"{broken} connections of members broken while flooded: two epochs in {took:.2f} s")
        self.assertGreater(broken, 0)
        self.assertLess(took, 2.0 if LONG else 5.0)
        self.end_flood(flooders, 6)
        self.end(running, children)

    def test_floods_of_a_large_model_cost_as_little(self):
        hidden = int((2 * 10_000_000) ** 0.5) // 2 * 2  # mlp: hidden * hidden / 2 parameters
        data = os.path.join(self.dir, "data.csv")
        with open(data, "w") as file:
            for i in range(16):
                file.write(f"{(i % 8) / 8 + i / 100},{i % 2}\n")
        with open(self.config, "w") as file:
            file.write(f"""
model: "mlp:hidden={hidden}"
data {{ format: "csv" path: "{data}" test_fraction: 0.25 }}
policy: "bsp"
training {{ epochs: 100000 batch: 12 micro_batches: 2 seed: 1 optimizer: "sgd:lr=0.001" }}
cluster {{ servers: 1 workers: 2 }}
""")
        running, children, ports, _ = self.flooded()
        time.sleep(3)  # what the job itself takes
        quiet = {name: stranger.memory_of(pid)[1] for name, pid in children.items()}
        with mock.patch.dict(os.environ, SOAPSTONE_FRAME=str(2 * hidden * hidden // 2)):
            flooders = self.start_flood(ports, 6)
        said, _ = self.end_flood(flooders, 6)
        growth = self.growth(children, quiet)
        print(f"{hidden * hidden // 2:,} parameters, flooders said {said:,} bytes; growth "
              f"{max(growth.values()) >> 20} MiB at most")
        self.assertLess(max(growth.values()), BEYOND_QUIET, growth)
        self.end(running, children)


if __name__ == "__main__":
    unittest.main()
