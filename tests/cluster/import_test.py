"""Jobs that start from given weights: a model file of another job, or an ONNX file's own."""
import os
import struct
import subprocess
import unittest

from cluster import ClusterTestCase
from onnx_writer import read_safetensors, write_mlp

STAY = ("--epochs=1", "--optimizer=sgd:lr=0", "--schedule=constant")


class ImportTest(ClusterTestCase):

    def path(self, name):
        return os.path.join(self.dir, name)

    def make(self, model, *flags):
        """Trains a model; returns its file and its hash."""
        path = self.path("made.safetensors")
        running = self.train(f"--model={model}", "--policy=bsp", "--epochs=6",
                             f"--model_path={path}", *flags)
        self.assertEqual(running.wait(120), 0, running.output())
        return path, self.sha256(running.output())

    def write_onnx(self, weights, **options):
        tensors, _ = read_safetensors(weights)
        path = self.path("model.onnx")
        write_mlp(path, [1, 8, 8],
                  [(name, *tensors[f"{name}.weight"], tensors[f"{name}.bias"][1])
                   for name in ("fc1", "fc2", "fc3")], **options)
        return path

    def refuse(self, wanted, *flags):
        running = self.train(*flags)
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertRegex(running.output(), wanted)
        self.assertEqual(len(running.lines), 1, running.output())

    def test_every_policy_starts_from_the_given_weights(self):
        path, sha256 = self.make("lenet5")
        for policy, more in (("bsp", ["--shards_per_server=2"]), ("ssp:s=2", []), ("allreduce", []),
                             ("tree:group=2,s=1", ["--workers=4"]),
                             ("bsp", ["--communication=priority"])):
            with self.subTest(policy=policy):
                running = self.train(f"--policy={policy}", f"--initial_weights={path}", "--seed=9",
                                     *STAY, *more)
                self.assertEqual(running.wait(120), 0, running.output())
                self.assertEqual(self.sha256(running.output()), sha256)

    def test_training_goes_on_where_it_ended(self):
        path, _ = self.make("lenet5")
        accuracy = {}
        for start in (path, "random"):
            running = self.train("--policy=bsp", f"--initial_weights={start}", "--epochs=1",
                                 "--schedule=constant", "--optimizer=sgd:lr=0.01")
            self.assertEqual(running.wait(60), 0, running.output())
            accuracy[start] = self.accuracy(running.output())
        self.assertGreater(accuracy[path], 0.9)
        self.assertLess(accuracy["random"], accuracy[path] - 0.1)

    def test_simulation_starts_from_the_given_weights(self):
        path, sha256 = self.make("lenet5")
        running = self.run_program("soapstone", "simulate", f"--job={self.config}",
                                   f"--initial_weights={path}", *STAY)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertEqual(self.sha256(running.output()), sha256)

    def test_an_onnx_model_starts_from_its_own_weights(self):
        weights, sha256 = self.make("mlp")
        onnx = self.write_onnx(weights)
        out = self.path("out.safetensors")
        running = self.train(f"--model=onnx:{onnx}", "--policy=ssp:s=1", f"--model_path={out}",
                             *STAY)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertEqual(self.sha256(running.output()), sha256)
        self.assertGreater(self.accuracy(running.output()), 0.9)
        self.assertEqual(read_safetensors(out)[0], read_safetensors(weights)[0])  # and its names
        running = self.train(f"--model=onnx:{onnx}", "--initial_weights=random", "--policy=bsp",
                             *STAY)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertLess(self.accuracy(running.output()), 0.5)

    def test_a_model_file_goes_through_pytorch_and_comes_back(self):
        weights, sha256 = self.make("lenet5")
        onnx = self.path("model.onnx")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "through_pytorch.py")
        # Debian's PyTorch belongs to Debian's Python.
        done = subprocess.run(["/usr/bin/python3", "-B", script, weights, onnx],
                              capture_output=True, text=True, timeout=100, check=False)
        if done.returncode == 77:
            print("SKIPPED: PyTorch is not installed (Debian: python3-torch)", flush=True)
            self.skipTest("no PyTorch")
        self.assertEqual(done.returncode, 0, done.stderr)
        running = self.train(f"--model=onnx:{onnx}", "--policy=bsp", *STAY)
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertEqual(self.sha256(running.output()), sha256)
        self.assertGreater(self.accuracy(running.output()), 0.9)

    def test_bits_of_an_onnx_model_are_those_of_the_zoo(self):
        weights, _ = self.make("mlp")
        onnx = self.write_onnx(weights)
        hashes = set()
        for model in ("mlp", f"onnx:{onnx}"):
            running = self.train(f"--model={model}", f"--initial_weights={weights}", "--policy=bsp",
                                 "--epochs=2")
            self.assertEqual(running.wait(120), 0, running.output())
            hashes.add(self.sha256(running.output()))
        self.assertEqual(len(hashes), 1)

    def test_what_does_not_fit_is_refused_in_one_line(self):
        weights, _ = self.make("mlp")
        self.refuse(r"training.initial_weights: .*made.safetensors does not fit lenet5: \d+ "
                    r"parameters have no tensor in it: conv1.weight",
                    f"--initial_weights={weights}")
        self.refuse(r"fc1.weight has shape \[128, 64\] in the file, \[\d+, 64\] in the model",
                    "--model=mlp:hidden=16", f"--initial_weights={weights}")
        self.refuse("training.initial_weights: /nowhere/m: No such file",
                    "--initial_weights=/nowhere/m")
        with open(weights, "rb") as file:
            content = file.read()
        short = self.path("short.safetensors")
        with open(short, "wb") as file:
            file.write(content[:-100])
        self.refuse("short.safetensors: tensor .* was it cut short", "--model=mlp",
                    f"--initial_weights={short}")
        with open(short, "wb") as file:
            file.write(struct.pack("<Q", 1 << 60) + content[8:])
        self.refuse("short.safetensors: .*its header has 1152921504606846976 bytes", "--model=mlp",
                    f"--initial_weights={short}")
        onnx = self.write_onnx(weights, last="Erf")
        self.refuse(r"model: .*model.onnx: node 'Erf_y' \(Erf\): this operator is not supported; "
                    r"supported: Add, AveragePool", f"--model=onnx:{onnx}")
        with open(onnx, "rb") as file:
            content = file.read()
        with open(onnx, "wb") as file:
            file.write(content[:len(content) // 2])
        self.refuse("model: .*model.onnx: no ONNX file, or a part of one", f"--model=onnx:{onnx}")

    def test_other_data_than_the_models_are_refused(self):
        weights, _ = self.make("mlp")
        onnx = self.write_onnx(weights)
        self.refuse(r"model: onnx takes samples of image \[1, 8, 8\]", f"--model=onnx:{onnx}",
                    "--data_format=copy")

    def test_another_weight_file_is_another_job(self):
        weights, _ = self.make("mlp")
        scheduler = self.run_program("soapstone-scheduler", f"--config={self.config}",
                                     "--model=mlp", f"--initial_weights={weights}",
                                     "--scheduler=tcp://127.0.0.1:0", "--progress=json")
        endpoint = scheduler.wait_for('"endpoint":"([^"]+)"').group(1)
        worker = self.run_program("soapstone-worker", f"--config={self.config}", "--model=mlp",
                                  f"--scheduler={endpoint}")
        self.assertEqual(worker.wait(20), 78, worker.output())
        self.assertIn("differs from the scheduler's", worker.output())


if __name__ == "__main__":
    unittest.main()
