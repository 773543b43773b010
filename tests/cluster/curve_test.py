"""What jobs of real processes tell of themselves in files: the learning curve (`soapstone train --curve`), and timelines
(`soapstone timeline`): each step once, an arrow from each push to its apply, what is missing said in a line, and a file
that is whole whenever it is there."""
import collections
import csv
import json
import os
import random
import re
import signal
import subprocess
import time
import unittest

from cluster import BIN, ClusterTestCase, descendants

SAMPLES = 1438  # of the digits, held-out ones aside
COLUMNS = ["time_s", "samples", "train_loss", "test_loss", "test_accuracy", "bytes"]


class CurveTest(ClusterTestCase):

    def train_curve(self, *flags):
        """What it printed, and the curve's lines as numbers."""
        path = os.path.join(self.dir, "curve.csv")
        running = self.train(f"--curve={path}", *flags)
        self.assertEqual(running.wait(120), 0, running.output())
        return running.output(), self.read(path)

    def read(self, path):
        with open(path) as file:
            reader = csv.DictReader(file)
            rows = [{name: float(value) for name, value in row.items()} for row in reader]
            self.assertEqual(reader.fieldnames, COLUMNS)
        return rows

    def test_a_simulated_job_has_its_own_seed(self):
        with open(self.config) as file:
            job = file.read()
        self.assertIn("seed: 1", job)
        with open(self.config, "w") as file:
            file.write(job.replace("seed: 1", "seed: 7"))
        ends = []
        for number, seed in enumerate(([], ["--seed=7"], ["--seed=8"])):
            path = os.path.join(self.dir, f"{number}.csv")
            running = self.run_program("soapstone", "simulate", f"--job={self.config}", f"--curve={path}",
                                       "--epochs=1", "--stragglers=jitter:sigma=0.3", *seed)
            self.assertEqual(running.wait(60), 0, running.output())
            ends.append(self.read(path))
        self.assertEqual(ends[0], ends[1])
        for what in ("time_s", "train_loss"):  # of the stragglers, and of data and initial values
            self.assertNotEqual([row[what] for row in ends[0]], [row[what] for row in ends[2]])

    def test_it_is_there_though_a_file_of_the_result_cannot_be_written(self):
        os.makedirs(f"{self.dir}/logs-full/ledger.json")  # a folder where the file goes
        path = os.path.join(self.dir, "curve.csv")
        running = self.run_program("soapstone", "train", f"--config={self.config}", "--epochs=1", f"--curve={path}",
                                   f"--log_dir={self.dir}/logs-full")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertRegex(running.output(), r"\nsoapstone: ended with exit code 78: [^\n]*ledger.json[^\n]*\n")
        self.assertGreater(len(self.read(path)), 2)
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("curve.csv.")], [])

    def test_under_bsp_it_is_that_of_co_simulation(self):
        flags = ("--policy=bsp", "--epochs=4", "--curve_every=200")
        output, real = self.train_curve(*flags)
        path = os.path.join(self.dir, "simulated.csv")
        running = self.run_program("soapstone", "simulate", f"--job={self.config}", "--seed=1",
                                   f"--curve={path}", *flags)
        self.assertEqual(running.wait(60), 0, running.output())
        simulated = self.read(path)
        self.assertGreater(len(simulated), 20)
        self.assertEqual(len(real), len(simulated))
        for one, other in zip(real, simulated):
            for name in ("samples", "test_loss", "test_accuracy"):  # the same bits
                self.assertEqual(one[name], other[name], (one, other))
            # Sums over the workers, in another order.
            self.assertAlmostEqual(one["train_loss"], other["train_loss"], delta=1e-3)
        for before, after in zip(real, real[1:]):
            self.assertGreater(after["time_s"], before["time_s"])
            self.assertGreater(after["bytes"], before["bytes"])
        seconds = float(re.search(r"^  time +([0-9.]+) s", output, re.M).group(1))
        self.assertLess(abs(real[-1]["time_s"] - seconds), 1)
        self.assertEqual(os.listdir(self.dir).count("curve.csv"), 1)
        self.assertFalse([name for name in os.listdir(self.dir) if name.startswith("curve.csv.")])

    def test_averaging_policies_show_their_replicas(self):
        for policy in ("easgd:tau=4,mode=async", "localsgd:h=4"):
            output, curve = self.train_curve(f"--policy={policy}", "--epochs=8")
            self.assertGreater(len(curve), 20, policy)
            self.assertEqual(curve[-1]["samples"], 8 * SAMPLES)
            self.assertGreater(curve[-1]["test_accuracy"], 0.8)
            match = re.search(r"of the replicas +least ([0-9.]+), median ([0-9.]+), greatest "
                              r"([0-9.]+)", output)
            self.assertIsNotNone(match, output)
            least, median, greatest = (float(match.group(i)) for i in (1, 2, 3))
            self.assertLessEqual(least, median)
            self.assertLessEqual(median, greatest)
            self.assertGreater(least, 0.7)

    def test_too_many_points_are_a_configuration_error(self):
        for flags, wanted in ((("--curve_every=1",), "output.curve_every: 1 makes"),
                              (("--curve=/nowhere/c.csv",), "output.curve_path: cannot write")):
            running = self.train(*flags)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertIn(wanted, running.output())
            self.assertEqual(len(running.lines), 1, running.output())


class TimelineTest(ClusterTestCase):
    def setUp(self):
        super().setUp()
        self.events = os.path.join(self.dir, "events")

    def draw(self, *flags):
        return subprocess.run([f"{BIN}/soapstone", "timeline", self.events, *flags], capture_output=True, text=True,
                              timeout=100)

    def read(self, path=None):
        with open(path or f"{self.events}/timeline.json") as file:
            return json.load(file)

    def steps_of(self, trace):
        """{(worker, clock): how often}"""
        return collections.Counter((event["pid"], event["args"]["clock"]) for event in trace["traceEvents"]
                                   if event.get("cat") == "step")

    def assert_whole(self, trace, workers, clocks):
        self.assertEqual(self.steps_of(trace), {(w, c): 1 for w in range(workers) for c in clocks})
        events = trace["traceEvents"]
        slices = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                slices[event["cat"]].append(event)
        self.assertLessEqual({"step", "push", "pull", "compute", "apply"}, set(slices))
        # Counted here, not taken from what the file says of itself. An arrow leaves from a push, comes to an apply of
        # the same worker and clock, and does not go back in time.
        begins = {event["id"]: event for event in events if event["ph"] == "s"}
        ends = {event["id"]: event for event in events if event["ph"] == "f"}
        pushes = {(e["pid"], e["tid"], e["ts"]): e for e in slices["push"]}
        applies = {(e["pid"], e["tid"], e["ts"]): e for e in slices["apply"]}
        right = 0
        for flow, begin in begins.items():
            end = ends[flow]
            push = pushes[begin["pid"], begin["tid"], begin["ts"]]
            apply = applies[end["pid"], end["tid"], end["ts"]]
            self.assertEqual(apply["name"], f"apply, worker {push['pid']}")
            self.assertEqual(apply["args"]["clock"], push["args"]["clock"])
            self.assertGreaterEqual(end["ts"], begin["ts"])
            right += 1
        self.assertGreaterEqual(right, 0.99 * len(slices["push"]))
        for pull in slices["pull"]:
            waited = sum(pull["args"][cause] for cause in ("policy_us", "shard_us", "network_us"))
            self.assertAlmostEqual(waited, pull["dur"], delta=pull["dur"] * 0.01 + 2)
        # A step's operators lie in it, but for the seams between threads.
        names = {event["name"] for event in slices["compute"]}
        self.assertIn("forward conv1", names)
        self.assertIn("backward conv1", names)

    def test_of_a_running_job(self):
        job = self.train(f"--timeline={self.events}", "--timeline_clocks=100:120", "--epochs=100000")
        drawn = self.draw("--clocks=100:120")  # it waits for them
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertIn("60 steps of 3 workers", drawn.stdout)
        self.assertEqual(drawn.stderr, "")
        self.assertIsNone(job.process.poll())
        self.assertLessEqual(os.path.getsize(f"{self.events}/timeline.json"), 64 << 20)
        self.assert_whole(self.read(), 3, range(100, 120))

    def test_of_machines_whose_clocks_differ(self):
        if subprocess.run(["unshare", "-T", "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no time namespaces here")
        flags = [f"--config={self.config}", f"--timeline={self.events}", "--timeline_clocks=100:120", "--epochs=100000",
                 "--transport=sockets"]
        scheduler = self.run_program("soapstone-scheduler", *flags, "--scheduler=tcp://127.0.0.1:0", "--progress=json")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        for nth, (role, rank) in enumerate((("server", 0), ("server", 1), *(("worker", w) for w in range(3)))):
            self.run_program("/usr/bin/unshare", "-T", f"--monotonic={1000 * nth * nth}", f"{BIN}/soapstone-{role}", *flags,
                             f"--scheduler={endpoint}", f"--rank={rank}")
        drawn = self.draw("--clocks=100:120")
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertIn("60 steps of 3 workers", drawn.stdout)
        self.assert_whole(self.read(), 3, range(100, 120))
        scheduler.process.send_signal(signal.SIGTERM)
        self.assertEqual(scheduler.wait(20), 143)

    def test_a_worker_that_dies_and_clocks_that_never_come(self):
        job = self.train(f"--timeline={self.events}", "--epochs=100000", "--policy=ssp:s=2")
        job.wait_for(r"step|samples/s|clock")
        deadline = time.monotonic() + 30
        while self.draw("--clocks=20:21", "--wait=0").returncode != 0:
            self.assertLess(time.monotonic(), deadline)
        killed = descendants(job.pid)["worker-1"]
        os.kill(killed, signal.SIGKILL)
        time.sleep(1)
        job.process.send_signal(signal.SIGTERM)
        job.wait(40)
        drawn = self.draw()
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertIn(1, {worker for worker, _ in self.steps_of(self.read())})  # what it did until then
        began = time.monotonic()
        drawn = self.draw("--clocks=5000000:5000010")
        self.assertLess(time.monotonic() - began, 20)  # nobody is waited for that is gone
        self.assertEqual(drawn.returncode, 78)
        self.assertRegex(drawn.stderr, r"\Asoapstone timeline: no step of the clocks 5000000 to 5000009 is there; "
                                       r"the last event is of clock \d+\n\Z")

    def test_bad_input_is_one_line(self):
        for flags, words in (([self.dir], "holds no events"), (["/none"], "No such file"),
                             ([self.dir, "--clocks=9:3"], "no range of clocks")):
            done = subprocess.run([f"{BIN}/soapstone", "timeline", *flags, "--wait=0"], capture_output=True, text=True,
                                  timeout=20)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (78, 1), done.stderr)
            self.assertIn(words, done.stderr)
        job = self.train("--timeline_clocks=9:3", f"--timeline={self.events}")
        self.assertEqual(job.wait(20), 78)
        self.assertIn("output.timeline_clocks: \"9:3\" is no range of clocks", job.output())
        job = self.train("--timeline=/proc/nowhere")  # which nobody may make, though root may write there
        self.assertEqual(job.wait(20), 78, job.output())
        self.assertIn("output.timeline_path: cannot make /proc/nowhere: ", job.output())

    def test_a_file_that_is_there_is_whole(self):
        job = self.train(f"--timeline={self.events}", "--timeline_clocks=0:30", "--epochs=2")
        self.assertEqual(job.wait(60), 0, job.output())
        out = f"{self.dir}/pictures"
        os.mkdir(out)
        command = [f"{BIN}/soapstone", "timeline", self.events, f"--out={out}/t.json"]
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        took = time.monotonic() - began
        for moment in range(50):
            drawing = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(random.Random(moment).random() * took)
            drawing.kill()
            drawing.wait(10)
            for name in os.listdir(out):
                self.read(f"{out}/{name}")
        full = subprocess.run([f"{BIN}/soapstone", "timeline", self.events, "--out=/dev/full/t"], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((full.returncode, full.stderr.count("\n")), (78, 1), full.stderr)

    def test_a_folder_that_takes_nothing_ends_no_job(self):
        job = self.train(f"--timeline={self.events}", "--epochs=2", "--timeline_clocks=0:5")
        self.assertEqual(job.wait(60), 0, job.output())
        with open(f"{self.dir}/file", "w"):
            pass
        job = self.train(f"--timeline={self.dir}/file/none", "--epochs=2")
        self.assertEqual(job.wait(20), 78)
        self.assertIn("output.timeline_path: ", job.output())


if __name__ == "__main__":
    unittest.main()
