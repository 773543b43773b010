"""`soapstone plan`: its output, its files, what it refuses."""
import json
import os
import re
import shutil
import subprocess
import unittest
import xml.dom.minidom

from cluster import BIN, SOURCE, ClusterTestCase
from onnx_writer import write_mlp

MACHINES = os.path.join(SOURCE, "examples", "machines")


# Two nodes that hardly hear each other.
DIGITS = os.path.join(SOURCE, "data", "digits", "digits.csv.gz")
SLOW_NICS = """name: "slow_nics"
kinds { name: "gpu" tflops: 1 memory_gbytes_per_s: 100 memory_gib: 4 launch_us: 5 }
nodes {
  name: "node" kind: "gpu" devices: 2 count: 2
  mesh { gbytes_per_s: 10 }
  host { gbytes_per_s: 10 }
  nics { count: 1 connection { gbytes_per_s: 0.01 latency_us: 100 } }
  servers: 1 server_apply_gbytes_per_s: 10
}
"""


def machine(name):
    return f"--machine={MACHINES}/{name}.machine.textproto"


class PlanTest(ClusterTestCase):

    def plan(self, *flags, code=0):
        done = subprocess.run([os.path.join(BIN, "soapstone"), "plan", *flags],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def refuse(self, wanted, *flags):
        done = self.plan(*flags, code=78)
        self.assertRegex(done.stderr, wanted)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_the_found_plan_is_no_worse_than_any_baseline(self):
        report = json.loads(self.plan("--model=rnnlm:tiny", machine("p100_4x4"), "--devices=4",
                                      "--time_chunk=4", "--proposals=500", "--json").stdout)
        steps = {entry["name"]: entry for entry in report["strategies"]}
        self.assertEqual(set(steps), {"found", "data parallel", "model parallel", "expert"})
        for entry in steps.values():
            self.assertEqual(entry["step_ns"], entry["compute_ns"] + entry["communication_ns"] +
                             entry["synchronization_ns"] + entry["idle_ns"])
            self.assertLessEqual(steps["found"]["step_ns"], entry["step_ns"])

    def test_nothing_that_is_read_is_overwritten(self):
        job, lab = os.path.join(self.dir, "j"), os.path.join(self.dir, "lab")
        shutil.copy(self.config, job)
        shutil.copy(f"{MACHINES}/p100_4x4.machine.textproto", lab)
        flags = [f"--config={job}", f"--machine={lab}", "--devices=4", "--batch=32", "--search=data"]
        for flag in (f"--output={job}", f"--svg={lab}", f"--trace={job}", f"--dot={lab}"):
            self.refuse(f"{flag.split('=')[0]}: .* is a file that the job reads", *flags, flag)
        self.refuse("--svg: .* is --output too", *flags, f"--output={job}.s", f"--svg={job}.s")
        self.plan(*flags, f"--output={job}.s")
        self.plan(*flags[:4], f"--strategy={job}.s", f"--output={job}.s")

    def test_a_step_moves_no_more_than_it_may(self):
        flags = ["--model=alexnet", machine("p100_4x4"), "--devices=4", "--proposals=1500"]
        free = json.loads(self.plan(*flags, "--json").stdout)["strategies"][0]
        moved = (free["transfer_bytes"] + free["synchronization_bytes"]) / 1e9
        bounded = json.loads(self.plan(*flags, f"--moved_gb={moved / 2}", "--json").stdout)
        found = bounded["strategies"][0]
        self.assertLessEqual(
            (found["transfer_bytes"] + found["synchronization_bytes"]) / 1e9, moved / 2)
        self.assertGreater(found["step_ns"], free["step_ns"])
        self.assertIn("moves too much", self.plan(*flags, f"--moved_gb={moved / 2}").stdout)

    def test_all_searchers_are_compared(self):
        flags = ["--model=mlp", machine("p100_4x4"), "--devices=2", "--search=all",
                 "--proposals=500"]
        report = json.loads(self.plan(*flags, "--json").stdout)
        steps = {row["name"]: row["step_ns"] for row in report["searchers"]}
        self.assertEqual(report["searchers"][0]["name"], "data")
        self.assertEqual({"data", "model", "expert", "random", "greedy", "metf", "optcnn", "mesh",
                          "tofu", "accpar", "pipedream", "gpipe", "stages", "mcmc",
                          "bnb"}, set(steps))
        for name in set(steps) - {"model", "expert"}:
            self.assertLessEqual(steps[name], steps["data"], name)
        # PipeDream's iterations overlap, which a plan may not unless it is asked to.
        in_step = [steps[name] for name in steps if name != "pipedream"]
        self.assertEqual(report["strategies"][0]["step_ns"], min(in_step))
        self.assertRegex(self.plan(*flags).stdout, r"\nsearcher +step ms +to data .*\ndata ")

    def test_micro_batches_are_chosen(self):
        path = f"{self.dir}/a.textproto"
        flags = ["--model=rnnlm", machine("k80_16x4"), "--devices=8", "--batch=16",
                 "--search=gpipe"]
        alone = {}
        for m in (1, 2, 4):
            report = json.loads(self.plan(*flags, f"--micro_batches={m}", "--json").stdout)
            alone[m] = report["strategies"][0]["step_ns"]
        report = json.loads(self.plan(*flags, "--micro_batches=auto", "--json",
                                      f"--output={path}").stdout)
        tried = {row["micro_batches"]: row["step_ns"] for row in report["micro_batch_trials"]}
        self.assertEqual(alone, {m: tried[m] for m in alone})
        self.assertEqual(report["micro_batches"], min(tried, key=tried.get))
        self.assertEqual(report["strategies"][0]["step_ns"], min(tried.values()))
        # A pipeline of whole batches has nothing to overlap.
        self.assertGreater(report["micro_batches"], 1)
        with open(path) as file:
            self.assertRegex(file.read(), fr"\nmicro_batches: {report['micro_batches']}\n")
        self.assertRegex(self.plan(*flags, "--micro_batches=auto").stdout,
                         r"\nmicro-batches +step ms .*\n +1 +[^(]+\n +2 ")
        out = self.plan("--model=rnnlm", machine("k80_16x4"), f"--compare={path},{path}").stdout
        self.assertRegex(out, r"\n\d+ operators alike\n$")

    def test_micro_batches_fit_where_the_batch_does_not(self):
        path = f"{self.dir}/a.textproto"
        small = os.path.join(self.dir, "small.machine.textproto")
        with open(small, "w") as file:
            file.write(SLOW_NICS.replace("memory_gib: 4", "memory_gib: 1"))
        flags = ["--model=lenet5", f"--machine={small}", "--devices=2", "--batch=100000",
                 "--proposals=50"]
        self.refuse(r"fits on slow_nics in no way .* it takes more devices, --micro_batches=auto or",
                    *flags)
        report = json.loads(self.plan(*flags, "--micro_batches=auto", "--json",
                                      f"--output={path}").stdout)
        found = report["strategies"][0]
        self.assertEqual(found["overflow_bytes"], 0)
        self.assertLessEqual(found["memory_bytes_max"], 1 << 30)
        self.assertLess(found["in_flight"], report["micro_batches"])
        with open(path) as file:
            self.assertRegex(file.read(), fr"\n  in_flight: {found['in_flight']}\n")
        # Four fit by what is kept, and not by what is run: gradients of activations, scratch.
        self.refuse(r"fits on slow_nics in no way", *flags, "--micro_batches=4")
        self.assertRegex(self.plan(*flags, "--micro_batches=32").stdout,
                         r"\nfound: \d+ of 32 micro-batches under way at most; more do not fit\n")

    def test_all_searchers_choose_micro_batches(self):
        report = json.loads(self.plan("--model=mlp", machine("p100_4x4"), "--devices=2",
                                      "--search=all", "--proposals=200", "--micro_batches=auto",
                                      "--batch=8", "--json").stdout)
        self.assertIn(report["micro_batches"], (1, 2, 4, 8))
        for row in report["searchers"]:
            self.assertIn(row["micro_batches"], (1, 2, 4, 8))

    def test_staleness_is_searched_with_the_strategy(self):
        flags = ["--model=gnmt:tiny", machine("k80_16x4"), "--devices=4", "--batch=8",
                 "--proposals=2000", "--json"]
        fixed = json.loads(self.plan(*flags, "--search=data", "--staleness=3").stdout)
        found = json.loads(self.plan(*flags, "--staleness=3").stdout)
        plan = found["strategies"][0]
        rows = {row["staleness"]: row["iteration_ns"] for row in found["stalenesses"]}
        self.assertEqual(set(rows), {0, 1, 2, 3})
        self.assertEqual(plan["iteration_ns"], rows[plan["staleness"]])
        worthy = [s for s in rows if rows[s] <= 1.02 * min(rows.values())]
        self.assertEqual(plan["staleness"], min(worthy))
        self.assertLess(plan["iteration_ns"], fixed["strategies"][0]["iteration_ns"])

    def test_equal_seeds_and_proposals_give_equal_plans(self):
        paths = [f"{self.dir}/{i}.textproto" for i in range(2)]
        for path in paths:
            self.plan("--model=lenet5", machine("p100_4x4"), "--devices=4", "--proposals=300",
                      "--seed=7", f"--output={path}")
        first, second = (open(path).read() for path in paths)
        self.assertEqual(first, second)
        compared = self.plan("--model=lenet5", machine("p100_4x4"),
                             f"--compare={paths[0]},{paths[1]}").stdout
        self.assertRegex(compared, r"\n\d+ operators alike\n$")

    def test_the_server_of_a_node_keeps_what_the_node_computes(self):
        slow, path, data = (f"{self.dir}/{name}.textproto" for name in ("slow", "found", "data"))
        with open(slow, "w") as file:
            file.write(SLOW_NICS)
        flags = ["--model=lenet5", f"--machine={slow}", "--sync=servers"]
        found = self.plan(*flags, "--proposals=300", f"--output={path}")
        self.assertRegex(found.stdout, r"\nall servers keep all parameters, but for\nserver [01]: ")
        report = json.loads(self.plan(*flags, "--proposals=300", "--json").stdout)
        keepers = {row["name"]: row["servers"] for row in report["operators"]}
        self.assertIn(keepers["fc1"], ([0], [1]))
        self.plan(*flags, "--search=data", f"--output={data}")
        compared = self.plan(*flags[:2], f"--compare={path},{data}").stdout
        self.assertRegex(compared, r"\n.*: kept by server [01], all servers\n")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(re.sub(r"\n  servers: \d+", "\n  servers: 2", text, count=1))
        self.refuse("there is no server 2 among 2", *flags[:2], f"--compare={path},{data}")

    def test_files_can_be_read(self):
        trace, svg, dot = (f"{self.dir}/step.{kind}" for kind in ("json", "svg", "dot"))
        self.plan("--model=lenet5", machine("k80_16x4"), "--devices=4", "--search=data",
                  f"--trace={trace}", f"--svg={svg}", f"--dot={dot}")
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        names = {event["name"] for event in events if event["ph"] == "X"}
        self.assertIn("conv1", names)
        drawn = xml.dom.minidom.parse(svg)
        texts = [node.firstChild.data for node in drawn.getElementsByTagName("text")]
        self.assertIn("0 \N{MICRO SIGN}s", texts)
        for of_the_legend in ("forward", "backward", "synchronization"):
            self.assertIn(of_the_legend, texts)
        self.assertRegex(texts[-1], r"^Not drawn, as they do nothing: \d+ of \d+ links")
        self.assertTrue(any(title.firstChild.data.startswith("conv1, forward, ")
                            for title in drawn.getElementsByTagName("title")))
        with open(dot) as file:
            self.assertRegex(file.read(), r"^digraph [^$]*n0 -> n1;")

    def test_layers_that_are_alike_are_one_row(self):
        out = self.plan("--model=transformer_lm:tiny,layers=6", machine("p100_4x4"), "--devices=2",
                        "--search=data").stdout
        self.assertRegex(out, r"\nlayers\.0-5\.\S+ \N{MULTIPLICATION SIGN} 6 +1 ")
        self.assertNotIn("layers.3", out)

    def test_a_job_is_planned(self):
        job = f"--config={SOURCE}/examples/digits-lenet5.textproto"
        flags = [machine("p100_4x4"), "--search=data", "--json"]
        of_job = json.loads(self.plan(job, *flags).stdout)
        self.assertEqual((of_job["model"], of_job["batch"], of_job["devices"]), ("lenet5", 48, 3))
        # Of the size of its data: digits are 8x8.
        of_zoo = json.loads(self.plan("--model=lenet5", "--batch=48", "--devices=3", *flags).stdout)
        self.assertNotEqual(of_job["model_sha256"], of_zoo["model_sha256"])
        changed = json.loads(self.plan(job, "--model=mlp", "--batch=64", "--devices=2",
                                       *flags).stdout)
        self.assertEqual((changed["model"], changed["batch"], changed["devices"]), ("mlp", 64, 2))
        self.refuse("No such file", "--config=/nowhere/job", machine("p100_4x4"))
        self.refuse("model over tables alone", "--config=" + self.logistic(), machine("p100_4x4"))

    def logistic(self):
        path = f"{self.dir}/logistic.textproto"
        with open(f"{self.dir}/rows", "w") as file:
            file.write("1 3:1\n-1 4:1\n" * 8)
        with open(path, "w") as file:
            file.write('model: "logistic" data { format: "libsvm" path: "rows" } '
                       'training { epochs: 1 batch: 2 }')
        return path

    def test_a_model_of_a_file_is_named_as_in_a_job(self):
        onnx = f"{self.dir}/a&b.onnx"
        write_mlp(onnx, [1, 8, 8], [("fc", [10, 64], bytes(4 * 640), bytes(40))])
        svg = f"{self.dir}/a.svg"
        report = json.loads(self.plan(f"--model=onnx:{onnx}", machine("p100_4x4"), "--devices=2",
                                      "--search=data", "--json", f"--svg={svg}").stdout)
        self.assertEqual(report["model"], f"onnx:{onnx}")
        xml.dom.minidom.parse(svg)
        for command in (["models", f"onnx:{onnx}"],
                        ["profile", f"--model=onnx:{onnx}", "--seconds=0.01"]):
            done = subprocess.run([os.path.join(BIN, "soapstone"), *command], capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("fc", done.stdout)
        self.refuse("nowhere.onnx: .*No such file", "--model=onnx:/nowhere.onnx",
                    machine("p100_4x4"))

    def test_one_strategy_is_priced_without_a_search(self):
        path, svg = f"{self.dir}/a.textproto", f"{self.dir}/a.svg"
        flags = [machine("p100_4x4"), "--json"]
        found = json.loads(self.plan("--model=lenet5", "--devices=2", "--batch=32",
                                     "--proposals=200", f"--output={path}", *flags).stdout)
        given = json.loads(self.plan(f"--strategy={path}", f"--svg={svg}", *flags).stdout)
        self.assertEqual([entry["name"] for entry in given["strategies"]], ["given"])
        self.assertEqual(given["search"], f"no search: the strategy of {path}")
        for key in ("step_ns", "transfer_bytes", "synchronization_bytes", "memory_bytes_max"):
            self.assertEqual(given["strategies"][0][key], found["strategies"][0][key])
        xml.dom.minidom.parse(svg)
        self.refuse("a strategy for batch 32", f"--strategy={path}", "--batch=64",
                    machine("p100_4x4"))
        self.refuse("--search excludes --strategy", f"--strategy={path}", "--search=data",
                    machine("p100_4x4"))
        with open(path, "w") as file:
            file.write("")
        self.refuse("strategies of version 0", f"--strategy={path}", machine("p100_4x4"))

    def test_strategies_are_compared_as_an_object_and_not_drawn(self):
        paths = [f"{self.dir}/{name}" for name in ("data", "model")]
        for path in paths:
            self.plan("--model=mlp", machine("p100_4x4"), "--devices=2", f"--output={path}",
                      f"--search={os.path.basename(path)}")
        compare = f"--compare={paths[0]},{paths[1]}"
        report = json.loads(self.plan(compare, machine("p100_4x4"), "--json").stdout)
        self.assertEqual([entry["name"] for entry in report["strategies"]], paths)
        self.assertIn("on 0-1", {row["first"][-6:] for row in report["differences"]})
        for flag in ("--svg", "--trace", "--dot", "--output", "--explain"):
            self.refuse(f"--compare excludes {flag}|{flag} excludes --compare", compare, machine("p100_4x4"), f"{flag}=x")
        for flag in ("--seed=2", "--sync=ring", "--for_workers"):  # a search's
            name = flag.partition("=")[0]
            self.refuse(f"--compare excludes {name}|{name} excludes --compare", compare, machine("p100_4x4"), flag)
            self.refuse(f"--strategy excludes {name}|{name} excludes --strategy", f"--strategy={paths[0]}",
                        machine("p100_4x4"), flag)
        self.refuse("A,B", f"--compare={paths[0]}", machine("p100_4x4"))

    def test_a_flag_that_is_misspelt_has_its_nearest_name(self):
        self.refuse("no flag --serch; did you mean --search\\?", "--model=mlp", machine("p100_4x4"), "--serch=all")
        self.refuse("no flag --modle; did you mean --model\\?", "--modle=mlp")

    def test_what_is_no_number_is_in_no_range(self):
        for flag in ("--jitter=nan", "--moved_gb=nan", "--jitter=inf"):
            self.refuse("number|range", "--model=mlp", machine("p100_4x4"), flag)

    def test_what_a_job_is_told_the_plan_of_it_says_too(self):
        path = f"{self.dir}/job.textproto"
        with open(path, "w") as file:
            file.write(f'model: "mlp" data {{ format: "digits" path: "{DIGITS}" }} '
                       "training { batch: 4096 epochs: 1 micro_batches: 8 }")
        done = self.plan(f"--config={path}", machine("p100_4x4"), "--devices=2", "--search=data")
        self.assertIn("soapstone plan: training.batch: 4096 is more than the", done.stderr)

    def test_an_operator_is_explained(self):
        out = self.plan("--model=lenet5", machine("p100_4x4"), "--devices=2", "--search=data",
                        "--explain=conv1").stdout
        self.assertRegex(out, r"conv1: planned n/2 on 0-1, a step of")
        self.assertRegex(out, r"\n +[+-]\d+\.\d+ ms  ")

    def test_measured_costs_are_used(self):
        costs, out = f"{self.dir}/costs.textproto", []
        subprocess.run([os.path.join(BIN, "soapstone"), "profile", "--model=lenet5", "--batch=8",
                        "--seconds=0.05", f"--costs={costs}"], check=True, capture_output=True,
                       timeout=120)
        here = f"{self.dir}/here.machine.textproto"
        self.plan(f"--measure_machine={here}", "--devices=2")
        for flags in ([], [f"--costs={costs}"]):
            out.append(json.loads(self.plan("--model=lenet5", f"--machine={here}", "--search=data",
                                            "--batch=16", "--json", *flags).stdout))
        self.assertNotEqual(out[0]["costs_sha256"], out[1]["costs_sha256"])
        strategy = f"{self.dir}/measured.textproto"
        self.plan("--model=lenet5", f"--machine={here}", "--search=data", "--batch=16",
                  f"--costs={costs}", f"--output={strategy}")
        compared = [self.plan(f"--machine={here}", f"--compare={strategy},{strategy}", *flags).stdout
                    for flags in ([], [f"--costs={costs}"])]
        self.assertIn(f"\n{strategy} was found by other costs than these: roofline\n", compared[0])
        self.assertNotIn("other costs", compared[1])
        self.refuse(r"costs of lenet5 .* not of mlp", "--model=mlp", f"--machine={here}",
                    f"--costs={costs}")

    def test_one_process_of_the_machine_that_was_measured_takes_what_was_measured(self):
        costs, here = f"{self.dir}/costs.textproto", f"{self.dir}/here.machine.textproto"
        subprocess.run([os.path.join(BIN, "soapstone"), "profile", "--model=lenet5", "--batch=4",
                        "--seconds=0.05", f"--costs={costs}"], check=True, capture_output=True,
                       timeout=120)
        self.plan(f"--measure_machine={here}", "--devices=1", "--model=lenet5", "--batch=4",
                  f"--costs={costs}")
        measured = 0
        with open(costs) as file:
            for entry in file.read().split("operators {")[1:]:
                if re.search(r"inputs \{\s+dims: 4\n", entry):  # of the whole batch
                    measured += sum(int(ns) for ns in re.findall(r"_ns: (\d+)", entry))
        report = json.loads(self.plan("--model=lenet5", f"--machine={here}", f"--costs={costs}",
                                      "--batch=4", "--search=data", "--sync=servers",
                                      "--json").stdout)
        data = report["strategies"][0]
        self.assertGreater(measured, 0)
        self.assertAlmostEqual(data["compute_ns"] / measured, 1, delta=0.03)
        # One server takes in all parameters, and sends them back.
        self.assertEqual(data["synchronization_bytes"], 2 * 4 * 61706)
        self.assertGreater(data["step_ns"], data["compute_ns"])

    def test_processes_that_run_together_are_measured(self):
        here = f"{self.dir}/here.machine.textproto"
        self.plan(f"--measure_machine={here}", "--devices=2", "--model=mlp:tiny", "--batch=8")
        with open(here) as file:
            text = file.read()
        self.assertIn("steps of 8 samples of mlp:tiny", text)
        self.assertIn("devices: 2", text)
        out = self.plan("--model=mlp", f"--machine={here}", "--search=data", "--sync=owner").stdout
        self.assertRegex(out, r"data parallel +owner")

    def test_what_cannot_be_is_refused_in_one_line(self):
        self.refuse("--machine is required", "--model=mlp")
        self.refuse("did you mean logistic", "--model=logistc")
        self.refuse("unknown model 'nonesuch'", "--model=nonesuch", machine("p100_4x4"))
        self.refuse("No such file", "--model=mlp", "--machine=/nonexistent")
        self.refuse("has 16 devices, not 17", "--model=mlp", machine("p100_4x4"), "--devices=17")
        self.refuse("no operator 'conv9'", "--model=lenet5", machine("p100_4x4"),
                    "--explain=conv9")
        self.refuse("--search: none not in {data,", "--model=mlp", machine("p100_4x4"),
                    "--search=none")
        self.refuse("unknown model 'nonesuch'", f"--measure_machine={self.dir}/m",
                    "--model=nonesuch")
        self.refuse("has no parameter servers", "--model=mlp", machine("heterogeneous_pair"),
                    "--search=data", "--sync=servers")
        self.refuse("GiB are missing on 2 devices", "--model=bert_base", machine("p100_4x4"),
                    "--devices=2", "--batch=4096", "--proposals=20")
        for number in ("0", "x", "-2", "1025"):
            self.refuse(f"--micro_batches: '{number}' is neither auto nor a number from 1 to 1024",
                        "--model=mlp", machine("p100_4x4"), f"--micro_batches={number}")
        self.refuse("a batch of 2 cannot be cut into 3 micro-batches", "--model=mlp",
                    machine("p100_4x4"), "--batch=2", "--micro_batches=3")
        self.refuse("no operator 'fc1#1'", "--model=mlp", machine("p100_4x4"), "--devices=2",
                    "--micro_batches=auto", "--explain=fc1#1")
        self.refuse("--budget", "--model=mlp", machine("p100_4x4"), "--budget=3parsecs")
        self.refuse("cannot write", "--model=mlp", machine("p100_4x4"), "--svg=/nonexistent/a")
        bad = f"{self.dir}/bad.machine.textproto"
        with open(bad, "w") as file:
            file.write('name: "bad"\nnodes { name: "n" count: 1 devices: 1 kind: "none" }\n')
        self.refuse(re.escape(f"{bad}:2:") + ".*no kind 'none'", "--model=mlp", f"--machine={bad}")

    def test_for_workers_nothing_is_planned_that_they_do_not_run(self):
        with open(os.path.join(self.dir, "m.machine.textproto"), "w", encoding="utf-8") as file:
            file.write(SLOW_NICS)
        flags = [f"--machine={self.dir}/m.machine.textproto", "--devices=2", "--model=rnnlm:tiny", "--for_workers",
                 "--proposals=200"]
        for search in ("data", "mesh", "mcmc"):
            path = os.path.join(self.dir, search)
            self.plan(*flags, f"--search={search}", f"--output={path}")
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertRegex(text, r'synchronization: "(owner|ring|servers)"')
            lstms = re.findall(r'name: "[^"]*lstm[^"]*"\n(.*?)\n}', text, re.DOTALL)
            self.assertGreaterEqual(len(lstms), 1)
            for lstm in lstms:
                self.assertNotRegex(lstm, r'dim: "h"')
        self.plan(*flags, "--sync=ring", "--search=data", f"--output={path}")
        with open(path, encoding="utf-8") as file:
            self.assertIn('synchronization: "ring"', file.read())
        self.refuse("excludes", *flags, "--time_chunk=4")
        self.plan(*flags, "--staleness=2", "--search=data", f"--output={path}")
        with open(path, encoding="utf-8") as file:
            self.assertIn("devices: 2", file.read())

    def test_a_plan_that_moves_too_much_is_refused(self):
        self.refuse(r"no plan was found that moves at most 1e-06 GB in a step: the least is [0-9.]+ "
                    "GB too many", "--model=lenet5", machine("p100_4x4"), "--devices=4",
                    "--moved_gb=1e-6", "--search=accpar")
        self.refuse("--moved_gb", "--model=lenet5", machine("p100_4x4"), "--moved_gb=-1")

    def test_a_strategy_for_another_machine_is_refused(self):
        path = f"{self.dir}/a.textproto"
        self.plan("--model=mlp", machine("p100_4x4"), "--devices=2", "--search=data",
                  f"--output={path}")
        self.refuse("for 2 devices of p100_4x4 .* not for 2 of k80_16x4", "--model=mlp",
                    machine("k80_16x4"), f"--compare={path},{path}")


if __name__ == "__main__":
    unittest.main()
