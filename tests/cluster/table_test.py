"""Models of tables with the real programs: rows pulled and pushed by key."""
import gzip
import json
import os
import re
import signal
import struct
import unittest

from cluster import SOURCE, ClusterTestCase, descendants

A9A = os.path.join(SOURCE, "..", "shared", "data", "a9a-libsvm")


def digits():
    """(pixels, label) of each image that ships with the project."""
    with gzip.open(f"{SOURCE}/data/digits/digits.csv.gz", "rt") as file:
        for line in file:
            *pixels, label = [int(float(cell)) for cell in line.split(",")]
            yield pixels, label


def tensors_of(path):
    """{name: (dtype, shape, bytes)} of a safetensors file, and its metadata."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__")
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])])
            for name, t in header.items()}, metadata


class TableTest(ClusterTestCase):

    def train_tables(self, model, form, path, *flags):
        """A later flag of the same name takes the place of an earlier one."""
        flags = (f"--model={model}", f"--data_format={form}", f"--data_path={path}", "--servers=2",
                 "--workers=3", "--heartbeat_s=0.2", "--heartbeat_timeout_s=3",
                 f"--log_dir={self.dir}/logs", *flags)
        last = {flag.split("=")[0]: flag for flag in flags}
        return self.run_program("soapstone", "train", *last.values())

    def digits_libsvm(self):
        """Whether a digit is odd, of its 64 pixels."""
        path = f"{self.dir}/digits.libsvm"
        with open(path, "w") as file:
            for pixels, label in digits():
                features = " ".join(f"{k + 1}:{p / 16}" for k, p in enumerate(pixels) if p)
                print(1 if label % 2 else -1, features, file=file)
        return path

    def logistic(self, path, *flags):
        return self.train_tables("logistic", "libsvm", path, "--epochs=10", "--batch=48",
                                 "--micro_batches=6", "--optimizer=ftrl:lr=0.2,l1=1e-4", *flags)

    def finished(self, running):
        self.assertEqual(running.wait(120), 0, running.output())
        return running.output()

    def test_logistic_regression_learns_under_each_kind_of_policy(self):
        path = self.digits_libsvm()
        for policy in ("bsp", "ssp:s=4", "async", "softsync:n=2", "pssp:s=2,p=0.5"):
            output = self.finished(self.logistic(path, f"--policy={policy}", "--strict"))
            self.assertGreater(self.accuracy(output), 0.86, policy)

    def test_bsp_has_the_same_bits_for_any_number_of_workers_and_shards(self):
        path = self.digits_libsvm()
        hashes = {self.sha256(self.finished(self.logistic(
            path, "--policy=bsp", "--epochs=2", *flags)))
            for flags in (("--workers=1", "--servers=1"), ("--workers=2",), ("--workers=3",),
                          ("--workers=6", "--servers=3", "--shards_per_server=2"),
                          ("--workers=3", "--transport=sockets"))}
        self.assertEqual(len(hashes), 1, hashes)

    def test_bsp_keeps_its_bits_when_a_worker_is_killed(self):
        path = self.digits_libsvm()
        flags = ("--policy=bsp", "--epochs=6", "--stragglers=slow:workers=1,factor=1.5",
                 "--base_ms=10")
        whole = self.sha256(self.finished(self.logistic(path, *flags)))
        running = self.logistic(path, *flags)
        running.wait_for("epoch")
        os.kill(descendants(running.pid)["worker-1"], signal.SIGKILL)
        running.wait_for("worker 1 lost")
        self.assertEqual(self.sha256(self.finished(running)), whole)

    def test_the_model_file_has_keys_and_rows(self):
        path = self.digits_libsvm()
        model = f"{self.dir}/model.safetensors"
        self.finished(self.logistic(path, "--policy=bsp", f"--model_path={model}"))
        tensors, metadata = tensors_of(model)
        dtype, shape, keys = tensors["weight.keys"]
        self.assertEqual(dtype, "U64")
        keys = struct.unpack(f"<{shape[0]}Q", keys)
        self.assertEqual(keys, tuple(sorted(set(keys))))
        self.assertEqual(keys[0], 0)  # the bias
        dtype, shape, rows = tensors["weight.rows"]
        self.assertEqual((dtype, shape), ("F32", [len(keys), 1]))
        weights = dict(zip(keys, struct.unpack(f"<{len(keys)}f", rows)))
        right = total = 0
        for pixels, label in digits():
            z = weights[0] + sum(weights.get(k + 1, 0) * p / 16 for k, p in enumerate(pixels))
            right += (z > 0) == (label % 2 == 1)
            total += 1
        self.assertGreater(right / total, 0.86)
        self.assertEqual(metadata["model"], "logistic")

    def test_matrix_factorisation_of_the_digits(self):
        path = f"{self.dir}/digits.tsv"
        with open(path, "w") as file:
            for row, (pixels, _) in enumerate(digits()):
                for column, pixel in enumerate(pixels):
                    print(row, column, pixel / 4, sep="\t", file=file)
        output = self.finished(self.train_tables(
            "matrix_factorisation:dim=8", "triples", path, "--policy=ssp:s=2", "--epochs=4",
            "--batch=4096", "--optimizer=adagrad:lr=0.1"))
        # Of all entries 0.32 are within 0.5 of the mean; a factor of each row and column finds more.
        self.assertGreater(self.accuracy(output), 0.5)

    def test_skip_gram_tells_neighbours_from_other_words(self):
        path = f"{self.dir}/text"
        with open(path, "w") as file:
            for pixels, label in digits():
                # A digit's name stands among the columns of ink that it has.
                ink = " ".join(chr(97 + c) * 3 for c in range(8) if sum(pixels[c::8]) > 40)
                print("name" + chr(97 + label), ink, file=file)
        model = f"{self.dir}/model.safetensors"
        output = self.finished(self.train_tables(
            "skip_gram:dim=8,window=3,negatives=2", "text", path, "--policy=async", "--epochs=6",
            "--batch=256", "--optimizer=adagrad:lr=0.5", f"--model_path={model}"))
        self.assertGreater(self.accuracy(output), 0.55)  # 0.5: by chance
        tensors, metadata = tensors_of(model)
        words = metadata["vocabulary"].split("\n")
        self.assertIn("namea", words)
        self.assertEqual(tensors["input.rows"][1], [len(words), 8])

    @unittest.skipUnless(os.path.exists(f"{A9A}/a9a.train.gz"), "a9a is not part of the project")
    def test_a9a_with_ftrl(self):
        for policy in ("async", "ssp:s=4"):
            output = self.finished(self.run_program(
                "soapstone", "train", f"--config={SOURCE}/examples/a9a-ftrl.textproto",
                f"--data_path={A9A}/a9a.train.gz", f"--test_path={A9A}/a9a.test.gz",
                f"--policy={policy}", f"--log_dir={self.dir}/logs"))
            self.assertGreaterEqual(self.accuracy(output), 0.845, policy)

    def test_a_table_that_is_full_lets_the_oldest_rows_go(self):
        path = self.digits_libsvm()
        output = self.finished(self.logistic(path, "--policy=async", "--table_rows_max=20"))
        self.assertGreater(self.accuracy(output), 0.5)

    def test_what_does_not_go_with_tables_is_one_line(self):
        path = self.digits_libsvm()
        for flags, why in (
                (("--policy=easgd:tau=2",), "moves whole tensors"),
                (("--policy=allreduce",), "moves whole tensors"),
                (("--policy=backup:b=1",), "moves whole tensors"),
                (("--communication=priority",), "priority is by layers"),
                (("--curve=/tmp/x.csv",), "output.curve_path: not for a model of tables"),
                ((f"--record={self.dir}/r",), "output.record_path: not for a model of tables"),
                (("--model=logistic:dim=2",), "dim"),
                (("--data_format=csv",), "takes data of format libsvm")):
            running = self.logistic(path, *flags)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertEqual(len(running.lines), 1, running.output())
            self.assertIn(why, running.output())
        job = f"{self.dir}/tables.textproto"
        with open(job, "w") as file:
            file.write(f'model: "logistic" data {{ format: "libsvm" path: "{path}" }} '
                       "training { epochs: 1 batch: 48 } cluster { servers: 1 workers: 2 }")
        running = self.run_program("soapstone", "simulate", f"--job={job}")
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertIn("which a simulation does not take", running.output())


if __name__ == "__main__":
    unittest.main()
