"""Tables and tensors in one job with the real programs: dlrm."""
import gzip
import math
import os
import random
import signal
import struct
import unittest

from cluster import SOURCE, ClusterTestCase, descendants
from table_test import A9A, tensors_of

NUMBERS, CATEGORIES, VALUES = 3, 4, 6
# a9a has 14 attributes of persons, each cut into binary features: the index of the first of each.
A9A_BEGINS = (1, 6, 14, 19, 35, 40, 47, 61, 67, 72, 74, 76, 78, 83, 124)
A9A_NUMBERS = (0, 2, 4, 10, 11, 12)  # age, fnlwgt, years of education, gain, loss, hours: intervals


def draw_samples(count, seed):
    """(label, numbers, categories): whether two hidden signs, of the values of the first two
    categories, are the same, with a number that counts a little and one label in twenty wrong. No
    value of a category says anything by itself."""
    draw = random.Random(seed)
    signs = [[1] * (VALUES // 2) + [-1] * (VALUES // 2) for _ in range(2)]
    for of_category in signs:
        draw.shuffle(of_category)
    samples = []
    for _ in range(count):
        numbers = [draw.randrange(20) for _ in range(NUMBERS)]
        categories = [draw.randrange(VALUES) for _ in range(CATEGORIES)]
        score = signs[0][categories[0]] * signs[1][categories[1]]
        score += 0.3 * (math.log(1 + numbers[0]) - 2.1)
        samples.append(((score > 0) != (draw.random() < 0.05), numbers, categories))
    return samples


class DlrmTest(ClusterTestCase):

    def drawn(self, count=3000):
        self.samples = draw_samples(count, 3)
        path = f"{self.dir}/samples.tsv.gz"
        with gzip.open(path, "wt") as file:
            for label, numbers, categories in self.samples:
                print(int(label), *numbers, *(f"{0xabc0 + c:x}" for c in categories), sep="\t",
                      file=file)
        return path

    def job(self, model, path, *flags):
        """A later flag of the same name takes the place of an earlier one."""
        flags = (f"--model={model}", "--data_format=criteo", f"--data_path={path}", "--servers=2",
                 "--workers=2", "--heartbeat_s=0.2", "--heartbeat_timeout_s=3", "--seed=2",
                 "--epochs=6", "--batch=60", "--micro_batches=6", "--optimizer=adagrad:lr=0.1",
                 f"--log_dir={self.dir}/logs", *flags)
        last = {flag.split("=")[0]: flag for flag in flags}
        return self.run_program("soapstone", "train", *last.values())

    def dlrm(self, path, *flags):
        return self.job(f"dlrm:tiny,dense={NUMBERS},categorical={CATEGORIES}", path, *flags)

    def finished(self, running):
        self.assertEqual(running.wait(120), 0, running.output())
        return running.output()

    def test_pairs_of_categories_are_learned(self):
        path = self.drawn()
        for policy in ("bsp", "ssp:s=2", "async"):
            output = self.finished(self.dlrm(path, f"--policy={policy}", "--strict"))
            self.assertGreater(self.accuracy(output), 0.9, policy)
        # Logistic regression has a weight for each value, and none for pairs of them.
        path = f"{self.dir}/samples.libsvm"
        with open(path, "w") as file:
            for label, numbers, categories in self.samples:
                cells = [f"{k + 1}:{math.log(1 + n)}" for k, n in enumerate(numbers)]
                cells += [f"{NUMBERS + 1 + k * VALUES + c}:1" for k, c in enumerate(categories)]
                print(int(label), *cells, file=file)
        output = self.finished(self.job("logistic", path, "--data_format=libsvm", "--policy=async"))
        self.assertLess(self.accuracy(output), 0.7)

    def test_embeddings_as_operators_learn_as_much(self):
        path = self.drawn()
        size = f"tiny,dense={NUMBERS},categorical={CATEGORIES}"
        found = {}
        for model in ("dlrm", "dlrm_hashed"):
            output = self.finished(self.job(f"{model}:{size}", path, "--policy=bsp", "--strict"))
            found[model] = self.accuracy(output)
        # Of 600 held-out samples one standard deviation is 0.009.
        self.assertLess(abs(found["dlrm"] - found["dlrm_hashed"]), 0.03, found)
        self.assertGreater(found["dlrm_hashed"], 0.9, found)
        # Six values a column: with two rows those that share one cannot be told apart.
        output = self.finished(self.job(f"dlrm_hashed:{size},rows=2", path, "--policy=bsp"))
        self.assertLess(self.accuracy(output), 0.8)

    def test_every_policy_of_tables_takes_both(self):
        path = self.drawn(600)
        for policy in ("dssp:lower=1,upper=4", "psp:sample=1,s=1", "pssp:s=2,p=0.5", "softsync:n=2"):
            self.finished(self.dlrm(path, f"--policy={policy}", "--epochs=2", "--strict"))

    def test_bsp_has_the_same_bits_for_any_number_of_workers_and_shards(self):
        path = self.drawn(600)
        hashes = {self.sha256(self.finished(self.dlrm(path, "--policy=bsp", "--epochs=2", *flags)))
                  for flags in (("--workers=1", "--servers=1"), ("--workers=3",),
                                ("--workers=6", "--servers=3", "--shards_per_server=2"),
                                ("--transport=sockets",))}
        self.assertEqual(len(hashes), 1, hashes)

    def test_bsp_keeps_its_bits_when_a_worker_is_killed(self):
        path = self.drawn(1200)
        flags = ("--policy=bsp", "--epochs=4", "--workers=3",
                 "--stragglers=slow:workers=1,factor=1.5", "--base_ms=20")
        whole = self.sha256(self.finished(self.dlrm(path, *flags)))
        running = self.dlrm(path, *flags)
        running.wait_for("epoch")
        os.kill(descendants(running.pid)["worker-1"], signal.SIGKILL)
        running.wait_for("worker 1 lost")
        self.assertEqual(self.sha256(self.finished(running)), whole)

    def test_the_model_file_has_tensors_and_tables(self):
        path = self.drawn(600)
        model = f"{self.dir}/model.safetensors"
        self.finished(self.dlrm(path, "--policy=bsp", f"--model_path={model}"))
        tensors, _ = tensors_of(model)
        self.assertEqual(tensors["bottom.0.weight"][:2], ("F32", [32, NUMBERS]))
        self.assertEqual(tensors["top.1.weight"][:2], ("F32", [2, 32]))
        for field in range(CATEGORIES):
            dtype, shape, keys = tensors[f"embedding.{field}.keys"]
            self.assertEqual((dtype, shape), ("U64", [VALUES]))
            # A row has its category's number + 1.
            self.assertEqual(struct.unpack(f"<{VALUES}Q", keys),
                             tuple(range(0xabc1, 0xabc1 + VALUES)))
            self.assertEqual(tensors[f"embedding.{field}.rows"][:2], ("F32", [VALUES, 8]))

    @unittest.skipUnless(os.path.exists(f"{A9A}/a9a.train.gz"), "a9a is not part of the project")
    def test_a9a_by_its_attributes(self):
        for part in ("train", "test"):
            with gzip.open(f"{A9A}/a9a.{part}.gz", "rt") as source, \
                    open(f"{self.dir}/{part}.tsv", "w") as file:
                for line in source:
                    label, *pairs = line.split()
                    places = [""] * 14
                    for index in (int(pair.split(":")[0]) for pair in pairs):
                        attribute = sum(index >= begin for begin in A9A_BEGINS) - 1
                        places[attribute] = index - A9A_BEGINS[attribute]
                    numbers = [places[a] for a in A9A_NUMBERS]
                    print(int(label == "+1"), *numbers,
                          *("" if p == "" else f"{p:x}" for p in places), sep="\t", file=file)
        for policy in ("bsp", "ssp:s=2", "async"):
            output = self.finished(self.job(
                "dlrm:tiny,dense=6,categorical=14", f"{self.dir}/train.tsv",
                f"--test_path={self.dir}/test.tsv", f"--policy={policy}", "--epochs=3",
                "--batch=256", "--micro_batches=4", "--optimizer=adagrad:lr=0.05", "--strict"))
            self.assertGreaterEqual(self.accuracy(output), 0.84, policy)

    def test_what_does_not_go_is_one_line(self):
        path = self.drawn(20)
        for flags, why in (
                (("--model=dlrm:tiny,depth=3",), "unknown argument 'depth'"),
                (("--model=dlrm:bottom=512-x",), "layers are widths"),
                (("--model=dlrm_hashed:rows=1",), "rows=1 is outside"),
                (("--model=dlrm_hashed:tiny", "--data_format=digits",
                  f"--data_path={SOURCE}/data/digits/digits.csv.gz"), "takes numbers and categories"),
                (("--model=mlp",), "criteo is a data format of dlrm and dlrm_hashed"),
                (("--model=dlrm:tiny",), "samples.tsv.gz:1: "),
                (("--model=dlrm:tiny",), "has 8 columns, not 40"),
                (("--data_format=libsvm",), "takes data of format criteo"),
                (("--policy=easgd:tau=2",), "moves whole tensors"),
                (("--communication=priority",), "priority is by layers"),
                ((f"--initial_weights={path}",), "not for a model of tables")):
            running = self.dlrm(path, *flags)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertEqual(len(running.lines), 1, running.output())
            self.assertIn(why, running.output())


if __name__ == "__main__":
    unittest.main()
