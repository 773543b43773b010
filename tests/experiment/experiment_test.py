"""`soapstone experiment`: killed, interrupted, resumed, refused; planted dishonest specs."""
import csv
import hashlib
import io
import json
import os
import re
import signal
import time
import unittest

from tiny import RUNS, SOURCE, SPEC, ExperimentTestCase

ONE_POLICY_REAL = """title: "Real"
base {
  model: "softmax"
  data { format: "digits" path: "%s/data/digits/digits.csv.gz" }
  training { epochs: 4 batch: 64 micro_batches: 4 optimizer: "momentum:lr=0.05,mu=0.9" }
  cluster { servers: 1 }
}
mode: real
policies { spec: "bsp" }
policies { spec: "localsgd:h=4" }
stragglers { name: "none" model: "none" }
stragglers { name: "persistent" model: "slow:workers=1,factor=2" }
workers: 2
seeds: 1
iteration_ms: 4
target_accuracy: 0.8
claims { faster: "localsgd:h=4" than: "bsp" }
""" % SOURCE


def meaning(runs_json):
    """The runs without what differs from process to process: how long they took."""
    runs = json.loads(runs_json)["runs"]
    for run in runs:
        del run["outcome"]["spent_s"]
    return runs


def page_data(page):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page,
                                re.S).group(1))


class ExperimentTest(ExperimentTestCase):

    def wait_for_runs(self, process, count):
        """Until the registry has that many runs."""
        deadline = time.monotonic() + 60
        path = os.path.join(self.out, "runs.jsonl")
        while time.monotonic() < deadline:
            if os.path.exists(path):
                with open(path) as file:
                    if file.read().count("\n") > count:
                        return
            self.assertIsNone(process.poll(), "ended before")
            time.sleep(0.005)
        self.fail("no runs")

    def test_makes_every_run_and_the_report(self):
        output = self.run_experiment()
        self.assertIn(f"{RUNS} runs", output)
        self.assertRegex(output, r"(?m)^(not )?supported: ssp:s=2 needs less time")
        rows = list(csv.DictReader(io.StringIO(self.read("runs.csv"))))
        self.assertEqual(len(rows), RUNS)
        self.assertEqual(len(json.loads(self.read("runs.json"))["runs"]), RUNS)
        self.assertEqual(self.read("spec.textproto"), SPEC)
        data = page_data(self.read("report.html"))
        self.assertEqual([r["rule"] for r in data["rules"] if r["standing"] == "fails"], [])
        # A second time nothing is run.
        before = self.read("runs.jsonl")
        self.assertIn(f"{RUNS} of {RUNS} runs were finished before", self.run_experiment())
        self.assertEqual(self.read("runs.jsonl"), before)

    def test_the_chain_can_be_checked_by_others(self):
        self.run_experiment()
        previous = ""
        for line in self.read("runs.jsonl").splitlines():
            text, sha256 = re.fullmatch(r'(.*),"sha256":"([0-9a-f]{64})"}', line).groups()
            self.assertEqual(hashlib.sha256((text + previous).encode()).hexdigest(), sha256)
            previous = sha256

    def test_killed_and_resumed_it_has_the_same_runs(self):
        process = self.start()
        self.wait_for_runs(process, 10)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept = self.read("runs.jsonl")
        # As a kill within a write would leave it.
        with open(os.path.join(self.out, "runs.jsonl"), "a") as file:
            file.write('{"previous":"0123')
        output = self.run_experiment()
        self.assertIn("warning: the last line of runs.jsonl was cut off", output)
        self.assertRegex(output, r"\d+ of %d runs were finished before" % RUNS)
        self.assertTrue(self.read("runs.jsonl").startswith(kept))
        resumed = meaning(self.read("runs.json"))
        self.out += "-whole"
        self.run_experiment("--jobs=1")
        self.assertEqual(resumed, meaning(self.read("runs.json")))

    def test_interrupted_it_keeps_what_is_finished(self):
        process = self.start()
        self.wait_for_runs(process, 5)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, output)
        self.assertLess(time.monotonic() - began, 5)
        finished = re.search(r"interrupted: (\d+) of %d runs are finished and kept" % RUNS, output)
        self.assertIsNotNone(finished, output)
        self.assertEqual(self.read("runs.jsonl").count("\n"), 1 + int(finished.group(1)))
        data = page_data(self.read("report.html"))
        self.assertEqual(data["claims"][0]["verdict"], "not printed")
        self.assertEqual(data["finished"], int(finished.group(1)))
        self.assertIn("were finished before", self.run_experiment())

    def test_another_experiments_folder_is_refused(self):
        process = self.start()
        self.wait_for_runs(process, 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        before = {name: self.read(name) for name in os.listdir(self.out)}
        other = self.write("other.textproto", SPEC.replace("epochs: 3", "epochs: 4"))
        output = self.run_experiment(spec=other, code=78)
        self.assertRegex(output, r"^soapstone: --out=.*: holds the runs of another experiment.*\n$")
        self.assertEqual({name: self.read(name) for name in os.listdir(self.out)}, before)

    def test_a_damaged_registry_is_refused(self):
        process = self.start()
        self.wait_for_runs(process, 5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        path = os.path.join(self.out, "runs.jsonl")
        with open(path) as file:
            lines = file.readlines()
        with open(path, "w") as file:
            file.writelines(lines[:2] + lines[3:])
        output = self.run_experiment(code=78)
        self.assertRegex(output, r"^soapstone: .*runs.jsonl, line 3: .*the registry is damaged: .*begin in a new folder\n$")

    def refuse(self, wanted, text):
        output = self.run_experiment(spec=self.write("bad.textproto", text), code=78)
        self.assertRegex(output, wanted)
        self.assertEqual(output.count("\n"), 1, output)
        self.assertFalse(os.path.exists(self.out))

    def test_bad_specs_are_refused(self):
        self.refuse(r"bad.textproto:23:\d+: .*bandwith", SPEC.replace("bandwidth_mbps", "bandwith"))
        self.refuse(r"bad.textproto:8:12: policies.spec: .*bps", SPEC.replace('"bsp" }', '"bps" }', 1))
        self.refuse(r"bad.textproto:2:1: softmax, .*optimizer: .*momentun",
                    SPEC.replace("momentum", "momentun"))
        self.refuse(r"micro_batches", SPEC.replace("[2, 4]", "[2, 16]"))

    def test_what_only_the_data_and_the_model_tell_is_told_at_once(self):
        self.refuse(r"softmax: .*nowhere.csv", SPEC.replace("digits.csv.gz", "nowhere.csv"))
        self.refuse(r"lenet6: model: .*lenet6", SPEC.replace('"softmax"', '"lenet6"'))

    def test_dishonest_spec_without_held_out_data_is_refused(self):
        self.refuse(r"bad.textproto:4:\d+: test_fraction: 0 .*rule 2",
                    SPEC.replace('format: "digits"', 'format: "digits" test_fraction: 0'))

    def test_dishonest_spec_with_a_copy_of_the_training_data_is_marked(self):
        rows = "".join(f"{i % 7},{i % 3},{i % 5},{i % 2}\n" for i in range(64))
        one, two = self.write("one.csv", rows), self.write("two.csv", rows)
        text = re.sub(r"data \{.*\}", f'data {{ format: "csv" path: "{one}" test_path: "{two}" }}',
                      SPEC).replace("batch: 64", "batch: 16")
        output = self.run_experiment(spec=self.write("copy.textproto", text))
        self.assertRegex(output, r"not printed: .*rule 2: the held-out samples are the training")
        data = page_data(self.read("report.html"))
        self.assertEqual(data["accuracy"], "accuracy, NOT of held-out samples")
        for condition in data["tables"][0]["conditions"]:
            for row in condition["rows"]:
                self.assertTrue(row["ratio"] is None or 2 in row["ratio"]["withheld"])

    def test_dishonest_spec_of_one_seed_has_its_claims_withheld(self):
        text = SPEC.replace("seed_count: 6", "seeds: 1")
        output = self.run_experiment(spec=self.write("one.textproto", text))
        self.assertRegex(output, r"not printed: .*rule 13: 1 seed")
        data = page_data(self.read("report.html"))
        self.assertEqual(data["claims"][0]["evidence"], "")
        for condition in data["tables"][0]["conditions"]:
            for row in condition["rows"]:
                self.assertTrue(row["ratio"] is None or row["ratio"] == {"withheld": [13]})

    def judged(self, name, text):
        """The reasons of the first claim, by rule."""
        self.run_experiment(spec=self.write(name, text))
        claim = page_data(self.read("report.html"))["claims"][0]
        self.assertEqual(claim["verdict"], "not printed", claim)
        self.assertEqual(claim["evidence"], "")
        return {reason["rule"]: reason["why"] for reason in claim["reasons"]}

    def test_dishonest_spec_of_small_rates_for_the_baseline(self):
        reasons = self.judged("small.textproto", SPEC.replace("workers: [2, 4]", "workers: 4").replace(
            'policies { spec: "bsp" }',
            'policies { spec: "bsp" tuning { learning_rates: [0.00002, 0.00003, 0.00004] } }')
            .replace("factor=6", "factor=1.0001").replace("factor=2", "factor=1.0001"))
        self.assertRegex(reasons[12], r"^bsp, under transient: (\d of 6 runs end no better than|reached)")
        self.assertRegex(reasons[14], "chose from different grids")
        self.assertRegex(reasons[17], "^missing: transient, persistent")

    def test_dishonest_spec_of_rates_at_which_the_baseline_diverges(self):
        reasons = self.judged("nan.textproto", SPEC.replace("workers: [2, 4]", "workers: 4").replace(
            '"softmax"', '"mlp"').replace("[0.1, 1, 10]", "[1e5, 3e5, 1e6]"))
        self.assertRegex(reasons[12], r"^bsp, under transient: [1-6] of 6 runs diverged")

    def test_dishonest_spec_whose_policies_are_one(self):
        # Two bounds, and no straggler makes a worker wait for either.
        text = SPEC.replace("workers: [2, 4]", "workers: 4").replace(
            'policies { spec: "async" }',
            'policies { spec: "async" } policies { spec: "ssp:s=50" }').replace(
            'faster: "ssp:s=2" than: "bsp" under: "transient"',
            'faster: "ssp:s=50" than: "async" under: "none" at_most: 1.05')
        reasons = self.judged("one.textproto", text)
        self.assertRegex(reasons[13], "no evidence: runs of ssp:s=50 and async are identical")

    def test_too_few_seeds_for_the_claims_are_told_before_the_runs(self):
        claims = "".join(f'claims {{ faster: "async" than: "bsp" under: "{model}" workers: 4 }}\n'
                         for model in ("none", "transient"))
        output = self.run_experiment("--check", spec=self.write("many.textproto", SPEC + claims))
        self.assertIn("no claim will be printed; missing: 7 seeds for 3 claims, there are 6 (rule 13)\n", output)

    def test_half_precision_in_virtual_time_is_refused(self):
        self.refuse(r"bad.textproto:2:1: cluster.precision: co-simulation computes in float32",
                    SPEC.replace("servers: 1", 'servers: 1 precision: "bf16"'))

    def test_check_says_how_many_runs_and_writes_nothing(self):
        self.assertEqual(self.run_experiment("--check"), f"ok: Tiny: {RUNS} runs\n")
        self.assertFalse(os.path.exists(self.out))

    def test_check_tells_of_a_folder_that_cannot_be_written(self):
        self.out = os.path.join(self.spec, "out")
        output = self.run_experiment("--check", code=78)
        self.assertRegex(output, r"^soapstone: --out=.*: cannot write to .*spec.textproto: Not a directory\n$")

    def test_the_specs_that_ship_are_good_from_anywhere(self):
        folder = os.path.join(SOURCE, "experiment", "specs")
        names = sorted(os.listdir(folder))
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            output = self.run_experiment("--check", spec=os.path.join(folder, name), folder=self.dir)
            self.assertRegex(output, r"^ok: .*: \d+ runs\n$", name)

    def test_real_processes(self):
        spec = self.write("real.textproto", ONE_POLICY_REAL)
        output = self.run_experiment(spec=spec)
        self.assertRegex(output, r"not printed: .*: rule \d+: ")
        runs = json.loads(self.read("runs.json"))["runs"]
        self.assertEqual(len(runs), 4)
        for run in runs:
            self.assertEqual(run["mode"], "real")
            self.assertGreater(run["outcome"]["test_accuracy"], 0.8)
            self.assertGreater(run["outcome"]["duration_s"], 0)
            self.assertGreater(run["outcome"]["bytes"], 0)
            self.assertGreater(len(run["outcome"]["curve"]), 20)
            self.assertEqual(run["outcome"]["curve"][-1][4], run["outcome"]["test_accuracy"])
            self.assertEqual("replicas" in run["outcome"], run["policy"] == "localsgd:h=4")
        bsp = {run["under"]: run["outcome"] for run in runs if run["policy"] == "bsp"}
        self.assertEqual(bsp["none"]["parameters_sha256"], bsp["persistent"]["parameters_sha256"])
        # 92 clocks at half the speed.
        self.assertGreater(bsp["persistent"]["duration_s"], 92 * 0.008)
        data = page_data(self.read("report.html"))
        self.assertEqual(len(data["tables"][0]["conditions"][1]["curves"]["time"]["series"]), 2)
        # Averaging policies' replicas (rule 19) were evaluated.
        self.assertEqual([r["standing"] for r in data["rules"] if r["rule"] == 19], ["holds"])
        self.assertTrue(os.path.exists(f"{self.out}/logs/{runs[0]['id']}/worker-1.log"))

    def test_real_processes_are_interrupted_cleanly(self):
        self.check_interrupted(signal.SIGINT, 130)

    def test_real_processes_are_terminated_cleanly(self):
        self.check_interrupted(signal.SIGTERM, 143)

    def test_real_processes_end_with_their_terminal(self):
        self.check_interrupted(signal.SIGHUP, 143)

    def check_interrupted(self, number, code):
        text = ONE_POLICY_REAL.replace("epochs: 4", "epochs: 400")
        process = self.start(spec=self.write("real.textproto", text))
        deadline = time.monotonic() + 60
        logs = os.path.join(self.out, "logs")
        while not (os.path.isdir(logs) and any(
                os.path.exists(f"{logs}/{run}/worker-0.log") for run in os.listdir(logs))):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        process.send_signal(number)
        output, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, code, output)
        self.assertIn("interrupted: 0 of 4 runs", output)


if __name__ == "__main__":
    unittest.main()
