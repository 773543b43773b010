"""Batch norm that is split by samples over real processes: of the whole batch, as in one process, and one hash whatever
carries the moments."""
import os
import re
import sys
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [f"{TESTS}/cluster", f"{TESTS}/durability"]
from strategy_resume_test import tensors_of  # noqa: E402
from strategy_test import StrategyTestCase  # noqa: E402


class BatchNormTest(StrategyTestCase):

    def test_batch_norm_over_two_workers_is_of_the_whole_batch(self):
        self.write_job(model="resnet50:tiny")
        strategy = self.plan("data", 2)
        with open(strategy) as file:
            norms = re.findall(r'name: "[^"]*bn[^"]*"\n(.*?)\n}', file.read(), re.DOTALL)
        self.assertTrue(norms and all('dim: "n"' in norm for norm in norms), norms)

        def run(*flags):
            model = f"{self.dir}/model.safetensors"
            running = self.train("--steps=3", "--optimizer=sgd:lr=0.01", "--seed=3", f"--model_path={model}", *flags)
            self.assertEqual(running.wait(170), 0, running.output())
            return {name: values for name, (_, values) in tensors_of(model)[0].items()}, self.sha256(running.output())

        def apart(a, b):
            """The largest of the tensors' relative differences."""
            norm = lambda values: sum(x * x for x in values) ** 0.5
            return max(norm([x - y for x, y in zip(a[name], b[name], strict=True)]) / (norm(b[name]) or 1) for name in b)

        whole, _ = run("--workers=1")
        halves, _ = run("--workers=2", "--micro_batches=2")  # each norms by what it has
        split, sha256 = run(f"--strategy={strategy}", "--workers=2")
        self.assertEqual(run(f"--strategy={strategy}", "--workers=2", "--transport=sockets")[1], sha256)
        self.assertLess(apart(split, whole), 1e-4)
        self.assertGreater(apart(halves, whole), 1e-2)


if __name__ == "__main__":
    unittest.main()
