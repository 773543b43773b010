"""A job from outside: metrics that Prometheus takes, health, who is missing, who is slow, `soapstone top`; the scheduler's
TensorBoard event file, read by a reader that shares nothing with what wrote it; and JSON logs."""
import concurrent.futures
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

from cluster import BIN, SOURCE, ClusterTestCase
from stopped_thread import reap, stop_thread

sys.path.append(f"{SOURCE}/tests/deploy")
from promtool import promtool  # noqa: E402

LONG = "--epochs=100000"


def get(url):
    """(code, body)"""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        body, of_body = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])[0]
        assert of_length == masked(data[:8]) and of_body == masked(body) and len(body) == length
        yield body
        data = data[16 + length:]


def fields(message):
    """{number: [value]} of a protobuf message: bytes, whole numbers, or the bytes of fixed ones."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
            value = message[at:at + size]
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def scalars(event):
    """(step, {tag: value})"""
    event = fields(event)
    values = [fields(value) for value in fields(event[5][0]).get(1, [])] if 5 in event else []
    return event.get(2, [0])[0], {v[1][0].decode(): struct.unpack("<f", v.get(2, [b"\0" * 4])[0])[0] for v in values}


class StatusTestCase(ClusterTestCase):

    def start_with_pages(self, *flags):
        """{name: (Running, address of its pages)}"""
        nodes = {}
        running = self.run_program("soapstone-scheduler", f"--config={self.config}", "--scheduler=tcp://127.0.0.1:0",
                                   "--progress=json", "--http=127.0.0.1:0", *flags)
        endpoint = running.wait_for('"endpoint":"([^"]+)"').group(1)
        nodes["scheduler"] = (running, running.wait_for(r"pages at (http://[^/]+)/").group(1))
        for role, count in (("server", 2), ("worker", 2)):
            for rank in range(count):
                running = self.run_program(f"soapstone-{role}", f"--config={self.config}", f"--scheduler={endpoint}",
                                           f"--rank={rank}", "--http=127.0.0.1:0", *flags)
                nodes[f"{role}-{rank}"] = (running, running.wait_for(r"pages at (http://[^/]+)/").group(1))
        return nodes, endpoint


class StatusTest(StatusTestCase):

    def test_pages_of_all_roles(self):
        nodes, endpoint = self.start_with_pages(LONG, "--start_timeout_s=600")
        scheduler, pages = nodes["scheduler"]
        scheduler.wait_for("server 1 registered")
        scheduler.wait_for("worker 1 registered")
        time.sleep(1)
        self.assertEqual(get(pages + "/readyz"), (200, "ok, waiting for worker 2\n"))
        code, why = get(nodes["server-0"][1] + "/readyz")
        self.assertEqual((code, why), (503, "waiting for the other nodes to register\n"))
        for _, address in nodes.values():
            self.assertEqual(get(address + "/healthz"), (200, "ok\n"))
        last = self.run_program("soapstone-worker", f"--config={self.config}", f"--scheduler={endpoint}", "--rank=2", LONG)
        scheduler.wait_for('"event":"progress"')
        time.sleep(1.5)
        for name, (_, address) in nodes.items():
            self.assertEqual(get(address + "/readyz"), (200, "ok\n"), name)
        status = json.loads(get(pages + "/statusz.json")[1])
        self.assertEqual((status["phase"], status["servers_there"], status["progress"]["workers"]), ("running", 2, 3))
        self.assertEqual([worker["worker"] for worker in status["workers"]], [0, 1, 2])
        self.assertIn("all registered: 2 servers, 3 workers", status["news"])
        self.assertEqual({worker["host"] for worker in status["workers"]}, {socket.gethostname()})
        self.assertEqual((status["missing"], status["ended"]), ("", None))
        self.check_shards(status["shards"])
        self.check_saving(nodes)
        self.check_metrics(nodes)
        last.process.send_signal(signal.SIGSTOP)  # its silence ends no page
        self.assertEqual(get(pages + "/healthz")[0], 200)
        last.process.send_signal(signal.SIGCONT)

    def test_a_server_that_waits_for_a_name_has_pages(self):
        server = self.run_program("soapstone-server", f"--config={self.config}", "--rank=0", "--http=127.0.0.1:0",
                                  "--scheduler=tcp://soapstone.invalid:7070")
        address = server.wait_for(r"pages at (http://[^/]+)/").group(1)
        server.wait_for("does not resolve yet")
        self.assertEqual(get(address + "/healthz"), (200, "ok\n"))
        self.assertEqual(get(address + "/readyz"), (503, "starting\n"))
        server.process.terminate()
        self.assertEqual(server.wait(20), 143, server.output())

    def test_a_job_that_diverges_is_seen_so_by_who_scrapes(self):
        running = self.train("--policy=bsp", "--optimizer=sgd:lr=1e4", "--base_ms=300", pages=True)
        address = "http://" + running.wait_for(r"pages at http://([^/]+)/").group(1)
        last = ""
        while running.process.poll() is None:
            try:
                last = get(address + "/metrics")[1]
            except OSError:
                break
            time.sleep(0.1)
        self.assertEqual(running.wait(30), 79, running.output())
        self.assertIn("\nsoapstone_job_end_code 79\n", last)

    def check_shards(self, shards):
        """As each server tells of its own, within the bound of ssp:s=2."""
        self.assertEqual([(shard["shard"], shard["server"]) for shard in shards], [(0, 0), (1, 1)])
        for shard in shards:
            self.assertLess(shard["age_s"], 3)
            self.assertEqual((shard["read_lag_max"], shard["clock_gap_max"], shard["groups"]), (2, 3, False))
            self.assertEqual([reader[0] for reader in shard["readers"]], [0, 1, 2])
            clocks = [reader[1] for reader in shard["readers"]]
            self.assertLessEqual(max(clocks) - min(clocks), 3)
            for _, _, reads, lags, most, _ in shard["readers"]:
                self.assertGreater(reads, 0)
                self.assertTrue(most <= lags <= most * reads and most <= 2, shard)

    def check_saving(self, nodes):
        for name, path, why in (("server-0", f"{self.dir}/page.html", "are the pages of a server"),
                                ("scheduler", "/proc/nothing/page.html", "cannot write")):
            done = subprocess.run([f"{BIN}/soapstone", "top", nodes[name][1], f"--save={path}"], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 78, name)
            self.assertIn(why, done.stderr)
            self.assertFalse(os.path.exists(path))

    def check_metrics(self, nodes):
        bounds = {"scheduler": 64 + 10 * 3, "server": 42 + 40, "worker": 62}
        pages = {name: get(address + "/metrics")[1] for name, (_, address) in nodes.items()}
        for name, page in pages.items():
            lines = [line for line in page.splitlines() if not line.startswith("#")]
            self.assertLessEqual(len(lines), bounds[name.split("-")[0]], page)
        value = lambda name, line: float(re.search(rf"^{re.escape(line)} (\S+)$", pages[name], re.M).group(1))
        self.assertGreater(value("server-0", 'soapstone_shard_updates_total{shard="0",outcome="applied"}'), 0)
        reads = value("server-0", 'soapstone_shard_read_lag_clocks_count{shard="0"}')
        self.assertEqual(reads, value("server-0", 'soapstone_shard_read_lag_clocks_bucket{shard="0",le="2"}'))  # ssp:s=2
        self.assertGreater(value("worker-0", "soapstone_samples_total"), 0)
        self.assertEqual(value("scheduler", 'soapstone_job_phase{phase="running"}'), 1)
        self.assertEqual(value("scheduler", 'soapstone_job_members{role="worker"}'), 3)
        for name in pages:
            self.assertGreater(value(name, "process_resident_memory_bytes"), 1e6)
            self.assertLess(abs(value(name, "process_start_time_seconds") - time.time()), 120)
        tool = promtool(BIN)
        if tool is None:
            print("NOT TESTED: promtool cannot be had")
            return
        for name, page in pages.items():
            done = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), f"{name}: {done.stdout}{done.stderr}")

    def test_a_job_is_unharmed_by_clients(self):
        """Two hundred that say nothing or read nothing, and some that ask for much."""
        undisturbed = self.train("--epochs=12", "--policy=bsp")
        self.assertEqual(undisturbed.wait(60), 0, undisturbed.output())
        running = self.train("--epochs=12", "--policy=bsp", "--base_ms=20", pages=True)
        address = running.wait_for(r"pages at http://([^/]+)/").group(1)
        host, port = address.split(":")
        silent = []
        for i in range(200):
            client = socket.create_connection((host, int(port)), timeout=5)
            if i % 2:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + (b"\r\n" if i % 4 == 1 else b"X: y\r\n"))
            silent.append(client)
        self.assertEqual(running.wait(90), 0, running.output())
        for client in silent:
            client.close()
        self.assertEqual(self.sha256(running.output()), self.sha256(undisturbed.output()))

    def test_top_shows_a_job_by_its_log_folder_until_it_ends(self):
        running = self.train(LONG, "--base_ms=20", pages=True)
        running.wait_for("pages at")
        running.wait_for("started")
        time.sleep(2)
        once = subprocess.run([f"{BIN}/soapstone", "top", f"{self.dir}/logs", "--once"], capture_output=True, text=True,
                              timeout=30)
        self.assertEqual(once.returncode, 0, once.stderr)
        self.assertIn("scheduler  running", once.stdout)
        self.assertIn("servers 2 of 2  workers 3 of 3", once.stdout)
        self.assertEqual(len(re.findall(r"^ +[012] +\d+ .*%.* on \S+$", once.stdout, re.M)), 3, once.stdout)
        self.assertEqual(len(re.findall(r"^ +[01] +\d+ +\d of 3 +0: \d.* 2: \d", once.stdout, re.M)), 2, once.stdout)
        watching = self.run_program("soapstone", "top", f"{self.dir}/logs", "--every=0.2")
        watching.wait_for("scheduler  running")
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(40), 143)
        self.assertEqual(watching.wait(20), 0, watching.output())
        self.assertIn("the job has ended with 143", watching.output())
        with open(f"{self.dir}/logs/http") as file:  # no address: another job may listen there
            self.assertEqual(file.read(), "ended\n")
        running = self.train("--epochs=100000", pages=True)  # what another job has written there since is that job's
        running.wait_for("started")
        with open(f"{self.dir}/logs/http", "w") as file:
            file.write("http://127.0.0.1:1\n")
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(40), 143)
        with open(f"{self.dir}/logs/http") as file:
            self.assertEqual(file.read(), "http://127.0.0.1:1\n")
        with open(f"{self.dir}/logs/http", "w") as file:
            file.write("ended\n")
        for where, why in ((f"{self.dir}/logs", "logs has ended, or cannot be reached"), (self.dir, "no log folder"),
                           ("http://127.0.0.1:1", "127.0.0.1:1")):
            gone = subprocess.run([f"{BIN}/soapstone", "top", where], capture_output=True, text=True, timeout=30)
            self.assertEqual(gone.returncode, 78)
            self.assertIn(why, gone.stderr)

    def test_a_port_that_is_taken_is_said(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            at = f"127.0.0.1:{taken.getsockname()[1]}"
            running = self.train("--epochs=1", f"--http={at}", pages=True)
            self.assertEqual(running.wait(30), 78, running.output())
            self.assertIn(f"--http={at}: cannot listen there: Address already in use", running.output())
        off = self.train("--epochs=1")
        self.assertEqual(off.wait(60), 0, off.output())
        self.assertNotIn("pages at", off.output())

    def test_a_slow_worker_is_named(self):
        running = self.train(LONG, "--base_ms=20", "--stragglers=slow:workers=1,factor=2", "--workers=4", pages=True)
        running.wait_for("started")
        began = time.monotonic()
        named = running.wait_for(r"worker (\d) is slow: (\d+) ms a step, median (\d+) ms", 15)
        self.assertLess(time.monotonic() - began, 10)
        self.assertGreater(int(named.group(2)), 1.5 * int(named.group(3)))
        address = re.search(r"pages at (http://[^/]+)/", running.output()).group(1)
        status = json.loads(get(address + "/statusz.json")[1])
        slow = [worker["worker"] for worker in status["workers"] if worker["slowdown"] > 1.5]
        self.assertEqual(slow, [int(named.group(1))])
        self.assertIn(f'soapstone_worker_slowdown_ratio{{worker="{named.group(1)}"}}', get(address + "/metrics")[1])


class StatusLongTest(StatusTestCase):

    def test_even_workers_are_not_named_slow(self):
        def run(seed):
            running = self.run_program("soapstone", "train", f"--config={self.config}", f"--log_dir={self.dir}/logs-{seed}",
                                       "--http=off", "--base_ms=20", "--epochs=30", f"--seed={seed + 1}")
            return running.wait(120), running.output()

        # They mostly sleep.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for code, output in pool.map(run, range(20)):
                self.assertEqual(code, 0, output)
                self.assertNotIn("is slow", output)


class StatusCiTest(StatusTestCase):

    def test_a_loop_that_stands_still_is_told_within_a_minute(self):
        nodes, _ = self.start_with_pages(LONG, "--start_timeout_s=600")
        process, address = nodes["worker-0"]
        stop_thread(self, process.pid)  # its first thread is the loop; the pages have one of their own
        time.sleep(50)
        self.assertEqual(get(address + "/healthz"), (200, "ok\n"))
        time.sleep(15)
        code, why = get(address + "/healthz")
        self.assertEqual(code, 503)
        self.assertIn("the loop has stood still for", why)
        os.kill(process.pid, signal.SIGKILL)
        reap(process.pid, 10)


class EventFileTest(ClusterTestCase):

    def test_curves_by_clock_are_there(self):
        running = self.train("--epochs=3", "--base_ms=20", f"--tensorboard={self.dir}/tb")
        self.assertEqual(running.wait(60), 0, running.output())
        [name] = os.listdir(f"{self.dir}/tb")
        self.assertTrue(name.startswith("events.out.tfevents."))
        with open(f"{self.dir}/tb/{name}", "rb") as file:
            first, *rest = records(file.read())
        self.assertEqual(fields(first)[3], [b"brain.Event:2"])
        read = [scalars(event) for event in rest]
        steps = [step for step, _ in read[:-1]]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertGreater(len(steps), 0)
        self.assertEqual(set(read[0][1]), {"train/loss", "train/learning_rate", "rate/samples_per_s", "reads/lag_mean",
                                           "reads/lag_max", "job/workers"})
        self.assertEqual(read[0][1]["job/workers"], 3)
        self.assertTrue(0 < read[0][1]["train/learning_rate"] <= 0.0301)
        self.assertAlmostEqual(read[-1][1]["held_out/accuracy"], self.accuracy(running.output()), places=3)

    def test_a_folder_that_cannot_be_made_is_said_before_the_job(self):
        running = self.train("--tensorboard=/proc/nothing/tb")
        self.assertEqual(running.wait(20), 78)
        self.assertIn("output.tensorboard_path: ", running.output())

    def test_logs_are_json_where_asked_for(self):
        done = subprocess.run([f"{BIN}/soapstone-server", f"--config={self.config}", "--scheduler=tcp://127.0.0.1:1",
                               "--rank=1", "--start_timeout_s=1", "--log_format=json"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 138)
        lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        self.assertTrue(any("no answer from the scheduler" in line["message"] for line in lines), done.stderr)
        for line in lines:
            self.assertEqual((line["role"], line["rank"]), ("server", 1))
            self.assertIn(line["severity"], ("INFO", "WARNING", "ERROR"))


if __name__ == "__main__":
    unittest.main()
