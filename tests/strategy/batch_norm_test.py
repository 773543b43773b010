"""Batch norm that is split by samples over real processes: of the whole batch, as in one process, and one hash whatever
carries the moments."""
import os
import re
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cluster"))
from strategy_test import StrategyTestCase  # noqa: E402


class BatchNormTest(StrategyTestCase):

    def test_batch_norm_over_two_workers_is_of_the_whole_batch(self):
        self.write_job(model="resnet50:tiny")
        strategy = self.plan("data", 2)
        with open(strategy) as file:
            norms = re.findall(r'name: "[^"]*bn[^"]*"\n(.*?)\n}', file.read(), re.DOTALL)
        self.assertTrue(norms and all('dim: "n"' in norm for norm in norms), norms)

        def run(*flags):
            running = self.train("--steps=4", "--optimizer=sgd:lr=0.01", "--seed=3", *flags)
            self.assertEqual(running.wait(170), 0, running.output())
            loss = float(re.search(r"training loss +([0-9.]+)", running.output()).group(1))
            return loss, self.sha256(running.output())

        whole, _ = run("--workers=1")
        halves, _ = run("--workers=2", "--micro_batches=2")  # each norms by what it has
        split = [run(f"--strategy={strategy}", "--workers=2", f"--transport={transport}")
                 for transport in ("auto", "sockets")]
        self.assertEqual(split[0], split[1])
        self.assertAlmostEqual(split[0][0], whole, delta=2e-4)
        self.assertGreater(abs(halves - whole), 2e-3)


if __name__ == "__main__":
    unittest.main()
