"""What a user sees of a job with a strategy: its timeline with what was planned and the blocks between seats, its curve,
its metrics; and that it begins from weights, and is recorded and replayed, as any other."""
import collections
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import urllib.request

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import BIN, SOURCE, descendants  # noqa: E402
from strategy_test import StrategyTestCase, WindowTestCase  # noqa: E402

sys.path.append(f"{SOURCE}/tests/deploy")
from promtool import promtool  # noqa: E402

SAMPLES = 1438  # of the digits, held-out ones aside
CLOCKS = range(10, 20)


class TimelineTest(WindowTestCase):

    def draw(self, *flags, clocks=CLOCKS):
        """The picture of a run, whose worker k has a process k in it."""
        events = f"{self.dir}/events"
        wanted = f"{clocks.start}:{clocks.stop}"
        running = self.train(f"--timeline={events}", f"--timeline_clocks={wanted}", *flags)
        self.assertEqual(running.wait(170), 0, running.output())
        drawn = subprocess.run([f"{BIN}/soapstone", "timeline", events, f"--clocks={wanted}"], capture_output=True,
                               text=True, timeout=60, check=False)
        self.assertEqual((drawn.returncode, drawn.stderr), (0, ""), drawn.stdout)
        self.said = drawn.stdout
        with open(f"{events}/timeline.json") as file:
            return json.load(file)["traceEvents"]

    def tracks(self, trace, name):
        return {(event["pid"], event["tid"]) for event in trace
                if event["name"] == "thread_name" and event["args"]["name"] == name}

    def halves(self, trace, track, worker):
        """{clock: the halves on that track of the worker, by name}"""
        on = {place for place in self.tracks(trace, track) if place[0] == worker}
        found = collections.defaultdict(collections.Counter)
        for event in trace:
            if event["ph"] == "X" and (event["pid"], event["tid"]) in on and event["cat"] == "compute":
                found[event["args"]["clock"]][event["name"]] += 1
        return found

    def check_blocks(self, trace, workers):
        """Each block that a seat gave has an arrow to where another took it; returns how many a clock has."""
        ends = {"s": {}, "f": {}}
        places = {}
        for event in trace:
            if event["ph"] in ends:
                ends[event["ph"]][event["id"]] = event
            elif event["ph"] == "X":
                places[event["pid"], event["tid"], event["ts"], event["cat"]] = event
        given = [event for event in trace if event["ph"] == "X" and event["name"].startswith("give block")]
        by_clock = collections.Counter()
        for flow, begin in ends["s"].items():
            end = ends["f"][flow]
            give = places.get((begin["pid"], begin["tid"], begin["ts"], "block"))
            if give is None:
                continue  # of a push
            take = places[end["pid"], end["tid"], end["ts"], "block"]
            self.assertEqual(give["name"].replace("give", "take"), take["name"])
            self.assertEqual(give["args"]["clock"], take["args"]["clock"])
            self.assertNotEqual(give["pid"], take["pid"])
            self.assertGreater(end["ts"], begin["ts"])
            by_clock[give["args"]["clock"]] += 1
        self.assertEqual(sum(by_clock.values()), len(given))
        self.assertEqual(len(set(by_clock.values())), 1, by_clock)
        self.assertEqual(set(by_clock), set(CLOCKS))
        self.assertIn(f"{len(given)} of {len(given)} blocks with where they went", self.said)
        sent = self.tracks(trace, "blocks sent")
        self.assertEqual({worker for worker, _ in sent}, set(range(workers)))
        return by_clock[CLOCKS.start]

    def check(self, search, sync, teams=1, micro_batches=1):
        self.write_job(epochs=teams, micro_batches=micro_batches)
        strategy = self.plan(search, 2, micro_batches, sync=sync)
        with open(self.config) as file:
            text = file.read()
        with open(self.config, "w") as file:
            file.write(re.sub("batch: 48 micro_batches: [0-9]+|workers: 1", "", text))
        trace = self.draw(f"--strategy={strategy}", f"--teams={teams}")
        workers = 2 * teams
        for worker in range(workers):
            measured, planned = (self.halves(trace, track, worker) for track in ("device", "planned"))
            self.assertEqual(set(planned), set(CLOCKS))
            # What was planned of each step is what was run.
            self.assertEqual(measured, planned)
            self.assertIn("forward conv1", " ".join(measured[CLOCKS.start]))
        self.assertGreater(self.check_blocks(trace, workers), 0)
        steps = collections.Counter((event["pid"], event["args"]["clock"]) for event in trace
                                    if event.get("cat") == "step")
        self.assertEqual(steps, {(worker, clock): 1 for worker in range(workers) for clock in CLOCKS})

    def test_of_a_split_model_whose_workers_keep_the_parameters(self):
        self.check("expert", "owner")

    def test_of_two_teams_in_micro_batches(self):
        self.check("expert", "servers", teams=2, micro_batches=2)

    def test_of_several_steps_under_way(self):
        """A file that says no times has none drawn; forward halves are of later clocks than backward ones."""
        self.write_job()
        strategy = self.pipeline(3, 2)
        trace = self.draw(f"--strategy={strategy}", "--workers=3")
        self.assertEqual(self.tracks(trace, "planned"), set())
        self.check_blocks(trace, 3)
        began = collections.defaultdict(list)
        for event in trace:
            if event["ph"] == "X" and event["pid"] == 0 and event["cat"] == "compute":
                began[event["name"].split()[0], event["args"]["clock"]].append(event["ts"])
        for clock in CLOCKS[:-2]:
            self.assertLess(min(began["forward", clock + 2]), min(began["backward", clock]))


class CurveTest(WindowTestCase):

    def curve(self, *flags):
        path = f"{self.dir}/curve.csv"
        running = self.train(f"--curve={path}", "--curve_every=200", *flags)
        self.assertEqual(running.wait(170), 0, running.output())
        self.output = running.output()
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("curve.csv.")], [])
        with open(path) as file:
            return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]

    def test_of_a_pipeline_it_is_that_of_one_process(self):
        self.write_job(micro_batches=4, epochs=3)
        whole = self.curve("--workers=1")
        for sync in ("servers", "owner"):
            strategy = self.place(2, 4, lambda i, n: 2 * i // n, sync=sync)
            split = self.curve(f"--strategy={strategy}", "--workers=2")
            self.assertEqual(len(split), len(whole))
            for one, other in zip(split, whole):
                for name in ("samples", "test_loss", "test_accuracy"):  # the same bits
                    self.assertEqual(one[name], other[name], sync)
            self.assertEqual(split[-1]["samples"], 3 * SAMPLES)
            for before, after in zip(split, split[1:]):
                self.assertGreater(after["bytes"], before["bytes"])

    def test_of_split_operators_it_ends_where_the_job_does(self):
        self.write_job(epochs=2)
        strategy = self.plan("expert", 3, sync="owner")
        curve = self.curve(f"--strategy={strategy}", "--workers=3")
        self.assertGreater(len(curve), 10)
        loss = float(re.search(r"test accuracy +[0-9.]+ +\(loss ([0-9.]+)", self.output).group(1))
        self.assertAlmostEqual(curve[-1]["test_loss"], loss, delta=1e-3)
        self.assertAlmostEqual(curve[-1]["test_accuracy"], self.accuracy(self.output), delta=1e-4)

    def test_of_several_steps_under_way_in_two_teams(self):
        self.write_job(epochs=4)
        strategy = self.pipeline(2, 1, policy="ssp:s=%d")
        curve = self.curve(f"--strategy={strategy}", "--workers=4", "--teams=2", "--batch=96", "--micro_batches=2",
                           "--optimizer=sgd:lr=0.03")
        self.assertEqual(curve[-1]["samples"], 4 * SAMPLES)
        self.assertLess(curve[-1]["test_loss"], curve[0]["test_loss"])


class WeightsTest(StrategyTestCase):

    def test_a_pipeline_begins_with_given_weights(self):
        self.write_job(micro_batches=4)
        first = f"{self.dir}/first.safetensors"
        self.hash_of("--workers=1", f"--model_path={first}", "--seed=3")
        given = f"--initial_weights={first}"
        whole = self.hash_of("--workers=1", given)
        self.assertNotEqual(self.hash_of("--workers=1"), whole)
        strategy = self.place(3, 4, lambda i, n: (2 * i + 1) % 3, sync="owner")
        self.assertEqual(self.split(strategy, 3, given), whole)

    def test_split_operators_begin_with_given_weights(self):
        """A step at a rate of nearly nothing: what is saved is what was given, whichever seats have had it."""
        self.write_job()
        first = f"{self.dir}/first.safetensors"
        whole = self.hash_of("--workers=1", f"--model_path={first}", "--seed=3")
        strategy = self.plan("expert", 3)
        still = ("--optimizer=sgd:lr=1e-46", f"--initial_weights={first}")
        self.assertEqual(self.split(strategy, 3, *still), whole)


class MetricsTest(StrategyTestCase):

    def page(self, address):
        with urllib.request.urlopen(f"{address}/metrics", timeout=20) as answer:
            return answer.read().decode()

    def test_pages_of_the_scheduler_and_of_an_owner(self):
        self.write_job(epochs=100000)
        strategy = self.plan("expert", 2, sync="owner")
        run = (f"--config={self.config}", f"--strategy={strategy}", "--workers=2", "--http=127.0.0.1:0")
        address = r"pages at (http://[^/]+)/"
        scheduler = self.run_program("soapstone-scheduler", *run, "--scheduler=tcp://127.0.0.1:0", "--progress=json")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        workers = [self.run_program("soapstone-worker", *run, f"--scheduler={endpoint}", f"--rank={rank}")
                   for rank in range(2)]
        nodes = {"scheduler": scheduler, "worker 0": workers[0], "worker 1": workers[1]}
        scheduler.wait_for('"event":"progress"')
        addresses = {name: running.wait_for(address).group(1) for name, running in nodes.items()}
        pages = {}
        value = lambda name, line: float(re.search(rf"^{re.escape(line)} (\S+)$", pages[name], re.M).group(1))
        deadline = time.monotonic() + 60
        while True:
            pages = {name: self.page(where) for name, where in addresses.items()}
            trained = [value(f"worker {rank}", "soapstone_samples_total") for rank in range(2)]
            if min(trained) > 0 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        self.assertEqual(value("scheduler", 'soapstone_job_phase{phase="running"}'), 1)
        self.assertEqual(value("scheduler", 'soapstone_job_members{role="worker"}'), 2)
        self.assertGreater(min(trained), 0)
        tool = promtool(BIN)
        for name, page in pages.items() if tool is not None else ():
            done = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), f"{name}: {done.stdout}{done.stderr}")
        scheduler.process.send_signal(signal.SIGTERM)
        self.assertEqual(scheduler.wait(30), 143)


class ReplayTest(WindowTestCase):

    def check(self, strategy, *flags, code=0, during=lambda running: None):
        folder = f"{self.dir}/recording"
        running = self.train(f"--strategy={strategy}", f"--record={folder}", *flags)
        during(running)
        self.assertEqual(running.wait(170), code, running.output())
        replaying = self.run_program("soapstone", "replay", folder)
        self.assertEqual(replaying.wait(170), 0, replaying.output())
        hashes = re.findall(r"sha256, (?:recorded|replayed) +([0-9a-f]{64})", replaying.output())
        self.assertEqual(hashes, [self.sha256(running.output())] * 2, replaying.output())

    def test_a_pipeline_in_micro_batches(self):
        self.write_job(micro_batches=4)
        self.check(self.place(2, 4, lambda i, n: 2 * i // n), "--workers=2")

    def test_split_operators_whose_workers_keep_the_parameters(self):
        self.write_job()
        self.check(self.plan("expert", 3, sync="owner"), "--workers=3")

    def test_several_steps_under_way(self):
        self.write_job()
        self.check(self.pipeline(3, 2), "--workers=3")

    def test_two_teams_one_of_which_is_lost(self):
        """What the other reads depends on when that was, so that the hash is no other run's."""
        self.write_job(epochs=6)
        strategy = self.pipeline(2, 1)

        def lose(running):
            running.wait_for(r"clock|epoch")
            os.kill(descendants(running.pid)["worker-3"], signal.SIGKILL)
        self.check(strategy, "--workers=4", "--teams=2", "--batch=96", "--micro_batches=2", "--base_ms=50", during=lose)


if __name__ == "__main__":
    unittest.main()
