"""Examples that have a strategy: each passes --check, and trains for some steps as its strategy says."""
import csv
import glob
import os
import re
import sys
import unittest

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import SOURCE, ClusterTestCase  # noqa: E402


def examples():
    """{job file of the examples: its strategy's}, of those that have one."""
    found = {}
    for path in sorted(glob.glob(f"{SOURCE}/examples/*.textproto")):
        with open(path) as file:
            strategy = re.search(r'^ *strategy: "([^"]+)"', file.read(), re.MULTILINE)
        if strategy:
            found[path] = os.path.join(os.path.dirname(path), strategy.group(1))
    return found


class ExamplesTest(ClusterTestCase):

    def train(self, path, *flags):
        return self.run_program("soapstone", "train", f"--config={path}", "--http=off", f"--log_dir={self.dir}/logs",
                                f"--model_path={self.dir}/model.safetensors", *flags)

    def data_is_here(self, path):
        """Not all data are part of the project."""
        with open(path) as file:
            data = re.search(r'^ *path: "([^"]+)"', file.read(), re.MULTILINE)
        return data is None or os.path.exists(os.path.join(os.path.dirname(path), data.group(1)))

    def test_each_passes_its_check(self):
        found = examples()
        self.assertGreaterEqual(len(found), 3)
        for path, strategy in found.items():
            if not self.data_is_here(path):
                continue
            checking = self.train(path, "--check")
            self.assertEqual(checking.wait(60), 0, checking.output())
            with open(strategy) as file:
                text = file.read()
            # As `plan --for_workers` writes it: with the order of each seat, and when each half was to run.
            self.assertRegex(text, r"\norder \{\n(  halves: \d+\n)+  begin_ns: ", strategy)
            with open(path) as file:
                self.assertRegex(file.read(), "# .*soapstone plan --config=examples/", path)

    def test_a_strategy_that_has_gone_is_said(self):
        path = next(iter(examples()))
        with open(path) as file:
            job = file.read().replace("../", f"{SOURCE}/")
        with open(self.config, "w") as file:
            file.write(job)
        checking = self.train(self.config, "--check")
        self.assertEqual(checking.wait(60), 78, checking.output())
        self.assertRegex(checking.output(), "strategy.textproto: No such file")


class ExamplesRunCiTest(ExamplesTest):

    def run_steps(self, name, steps, *flags):
        """The curve of so many steps."""
        path = f"{SOURCE}/examples/{name}.textproto"
        curve = f"{self.dir}/curve.csv"
        running = self.train(path, "--strict", f"--curve={curve}", f"--curve_every={steps}", *flags)
        self.assertEqual(running.wait(600), 0, running.output())
        self.output = running.output()
        with open(curve) as file:
            return [float(row["test_loss"]) for row in csv.DictReader(file)]

    def test_the_hybrid_alexnet(self):
        losses = self.run_steps("digits-alexnet", 640)
        self.assertIn("2 workers", self.output)
        self.assertGreater(self.accuracy(self.output), 0.9)
        self.assertLess(losses[-1], losses[0])

    def test_the_transformer_in_four_stages(self):
        losses = self.run_steps("text-transformer", 800)
        self.assertIn("ssp:s=3", self.output)
        self.assertIn("4 workers", self.output)
        self.assertLess(losses[-1], losses[0])
        # What each stage reads lags by as many clocks as it is ahead: the first by three.
        self.assertRegex(self.output, r"reads by lag +0: .* 3: ")


if __name__ == "__main__":
    unittest.main()
