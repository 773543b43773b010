"""`soapstone models` and `soapstone profile`: their output, their files, what they refuse."""
import json
import os
import re
import resource
import subprocess
import unittest

from cluster import BIN, SOURCE, ClusterTestCase, needs_bf16


class ProfileTest(ClusterTestCase):

    def soapstone(self, *flags, code=0):
        done = subprocess.run([os.path.join(BIN, "soapstone"), *flags], capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def refuse(self, wanted, *flags):
        done = self.soapstone(*flags, code=78)
        self.assertRegex(done.stderr, wanted)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_models_lists_the_zoo(self):
        listed = json.loads(self.soapstone("models", "--json", "--batch=2").stdout)
        by_name = {entry["model"]: entry for entry in listed["models"]}
        self.assertEqual(by_name["resnet50"]["full"]["parameters"], 25_557_032)
        for entry in by_name.values():
            for size in (entry["full"], entry["tiny"]):
                memory = dict(size["memory_bytes"])
                self.assertEqual(memory.pop("total"), sum(memory.values()))
        self.assertIn("resnet50", self.soapstone("models").stdout)

    # But for memory: the kernels of each instruction set take other scratch memory.
    def test_the_page_says_what_the_program_prints(self):
        printed = {}
        for line in self.soapstone("models", "--batch=32").stdout.splitlines():
            printed.setdefault(line.partition(" ")[0], line)
        with open(os.path.join(SOURCE, "docs", "models.md")) as page:
            rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([\d,]+ \|.*) \|$", page.read(), re.M)
        self.assertGreaterEqual(len(rows), 13)
        for name, row in rows:
            cells = [cell.strip() for cell in row.split("|")]
            wanted = [r"[\d.]+ [kMG]?B" if cell.endswith("B") else re.escape(cell) for cell in cells]
            self.assertRegex(printed.get(name, ""), r"\s+".join(wanted))

    def test_a_model_can_be_drawn(self):
        dot = self.soapstone("models", "lenet5", "--dot").stdout
        self.assertTrue(dot.startswith("digraph"))
        self.assertIn("conv2", dot)

    def test_profile_writes_sums_that_agree(self):
        for model in ("lenet5", "rnnlm:tiny"):
            trace, costs = f"{self.dir}/trace.json", f"{self.dir}/costs.textproto"
            out = self.soapstone("profile", f"--model={model}", "--batch=4", "--seconds=0.05",
                                 "--recompute", "--json", f"--trace={trace}",
                                 f"--costs={costs}").stdout
            report = json.loads(out)
            operators = report["operators"]
            self.assertEqual(sum(op["forward_ns"] + op["backward_ns"] for op in operators),
                             report["operators_ns"])
            self.assertGreater(report["gflops_peak"], 0)
            self.assertGreater(report["gbps_peak"], 0)
            memory = report["memory_bytes"]
            parts = ("program", "parameters", "gradients", "batch", "activations")
            self.assertEqual(memory["predicted"], sum(memory[part] for part in parts))
            self.assertLessEqual(report["recompute"]["memory_bytes"]["activations"],
                                 memory["activations"])
            self.check_trace(trace, len(operators))
            self.check_costs(costs, report)

    def check_trace(self, path, operators):
        with open(path) as file:
            events = json.load(file)["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        self.assertEqual(len(slices), 2 * operators)
        self.assertTrue(all(event["dur"] >= 0 for event in slices))

    def check_costs(self, path, report):
        with open(path) as file:
            text = file.read()
        self.assertIn(f'model_sha256: "{report["model_sha256"]}"', text)
        named = set(re.findall(r'names: "([^"]+)"', text))
        self.assertEqual(named, {op["name"] for op in report["operators"]})
        firsts = {int(dim) for dim in re.findall(r"inputs \{\s+dims: (\d+)", text)}
        self.assertEqual(firsts, {1, 2, 4})  # of the batch, its half, and one sample

    def test_the_plan_is_what_a_step_takes(self):
        # Of some hundred megabytes: of a small model the program is the most.
        out = self.soapstone("profile", "--model=mlp:hidden=8192", "--batch=64", "--seconds=0",
                             "--json").stdout
        self.assertLess(abs(json.loads(out)["measured_to_predicted"] - 1), 0.05, out)

    def test_replicas_at_once_beside_one(self):
        flags = ("profile", "--model=lenet5", "--batch=4", "--seconds=0.05", "--replicas=3")
        report = json.loads(self.soapstone(*flags, "--json").stdout)
        self.assertEqual(report["replicas"], 3)
        self.assertGreater(report["samples_per_second_alone"], 0)
        self.assertGreater(report["samples_per_second"], 0)
        self.assertIn("3 replicas", self.soapstone(*flags).stdout)

    def test_precision_is_said(self):
        needs_bf16(self)
        costs = f"{self.dir}/costs.textproto"
        out = self.soapstone("profile", "--model=lenet5", "--batch=4", "--seconds=0", "--json",
                             "--precision=bf16", f"--costs={costs}").stdout
        self.assertEqual(json.loads(out)["precision"], "bf16")
        with open(costs) as file:
            self.assertIn('precision: "bf16"', file.read())

    def test_a_processor_without_bf16_refuses_it(self):
        os.environ["DNNL_MAX_CPU_ISA"] = "AVX512_CORE"  # oneDNN then takes it for an older one
        self.addCleanup(os.environ.pop, "DNNL_MAX_CPU_ISA")
        self.refuse("this processor has neither avx512_bf16 nor AMX", "profile", "--model=lenet5",
                    "--precision=bf16")
        running = self.train("--precision=bf16")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn("neither avx512_bf16 nor AMX", running.output())

    def test_a_model_of_many_layers_is_listed_in_short_and_soon(self):
        def listed(layers):
            """What the list says, and the processor's seconds that it took."""
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            out = self.soapstone("models", f"transformer_lm:layers={layers}").stdout
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        few = min(listed(100)[1] for _ in range(3))
        out, many = listed(800)
        # 8 times the layers: a list in their square would take 64 times as long. Some of it is no layer's.
        self.assertLess(many, 20 * few)
        self.assertRegex(out, r"\nlayers\.0-799\.\S+ \N{MULTIPLICATION SIGN} 800 ")
        self.assertLess(out.count("\n"), 60)

    def test_what_cannot_be_is_one_line(self):
        self.refuse(r"/nowhere.onnx: .*No such file", "models", "onnx:/nowhere.onnx")
        self.refuse(r"and of a file onnx:FILE", "models", "onnx:")
        self.refuse("unknown model 'lenet6'", "models", "lenet6")
        self.refuse("unknown model 'lenet6'", "profile", "--model=lenet6")
        self.refuse("over tables", "profile", "--model=skip_gram")
        self.refuse("--batch", "profile", "--model=mlp", "--batch=0")
        self.refuse("transformer_lm with batch 900000 needs .* too little", "profile",
                    "--model=transformer_lm", "--batch=900000")
        self.refuse("256 replicas of mlp.* too little", "profile", "--model=mlp:hidden=16384",
                    "--replicas=256")
        self.refuse("--workspace", "profile", "--model=mlp", "--replicas=2", "--workspace=8")
        self.refuse("cannot write", "profile", "--model=mlp", "--trace=/nowhere/trace.json")
        self.refuse("cannot write", "profile", "--model=mlp", "--costs=/nowhere/costs.textproto")


if __name__ == "__main__":
    unittest.main()
