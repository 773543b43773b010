"""Models of the zoo, tiny, train on a cluster to a stated target: 2 workers, three policies each."""
import glob
import os
import pathlib
import unittest

from cluster import SOURCE, ClusterTestCase, needs_bf16

SHARED = os.path.join(SOURCE, "..", "shared", "data")
MNIST = os.path.join(SHARED, "mnist")
POLICIES = ("bsp", "ssp:s=2", "async")
TEXT_BYTES = 300_000


class ZooTrainingTest(ClusterTestCase):

    def reaches(self, target, *flags, policies=POLICIES):
        """Accuracy on the held-out data, under every policy. Returns what the last run printed."""
        for policy in policies:
            with self.subTest(policy=policy):
                running = self.train(*flags, f"--policy={policy}",
                                     "--workers=2", "--servers=1", "--micro_batches=2")
                self.assertEqual(running.wait(170), 0, running.output())
                print(flags[0], policy, self.accuracy(running.output()))
                self.assertGreaterEqual(self.accuracy(running.output()), target, running.output())
        return running.output()

    def mnist(self):
        """MNIST's 10,000 held-out images, 4,000 of them held out; or the digits that ship."""
        if not os.path.isdir(MNIST):
            print("no MNIST: trained on the 8x8 digits instead")
            return ["--batch=32", "--epochs=10"]
        return ["--data_format=idx", f"--data_path={MNIST}/t10k-images-idx3-ubyte.gz",
                f"--labels_path={MNIST}/t10k-labels-idx1-ubyte.gz", "--test_fraction=0.4",
                "--batch=32", "--epochs=2"]

    def text(self, epochs=None):
        """The beginning of tinyshakespeare, or of the project's own pages."""
        usual = 4
        files = [os.path.join(SHARED, "tinyshakespeare", "input.txt")]
        if not os.path.exists(files[0]):
            print("no tinyshakespeare: trained on the project's documentation instead")
            usual = 6
            files = sorted(glob.glob(os.path.join(SOURCE, "docs", "**", "*.md"), recursive=True))
        path = pathlib.Path(self.dir, "text")
        path.write_bytes(b"".join(pathlib.Path(f).read_bytes() for f in files)[:TEXT_BYTES])
        return ["--data_format=bytes", f"--data_path={path}", "--length=32", "--batch=32",
                f"--epochs={epochs or usual}"]

    def test_lenet5(self):
        self.reaches(0.90, "--model=lenet5", *self.mnist(),
                     "--optimizer=momentum:lr=0.03,mu=0.9", "--schedule=cosine:min=0.01")

    def test_lenet5_in_bf16(self):
        needs_bf16(self)
        self.reaches(0.90, "--model=lenet5", *self.mnist(), "--precision=bf16",
                     "--optimizer=momentum:lr=0.03,mu=0.9", "--schedule=cosine:min=0.01",
                     policies=["bsp"])

    def test_resnet50(self):
        self.reaches(0.90, "--model=resnet50:tiny", *self.mnist(),
                     "--optimizer=momentum:lr=0.03,mu=0.9", "--schedule=cosine:min=0.01")

    # A byte in three is foretold; the most frequent one, the space, is one in six.
    def test_rnnlm(self):
        self.reaches(0.30, "--model=rnnlm:tiny", *self.text(),
                     "--optimizer=adam:lr=0.005", "--schedule=constant")

    def test_transformer_lm(self):
        self.reaches(0.33, "--model=transformer_lm:tiny", *self.text(),
                     "--optimizer=adam:lr=0.002", "--schedule=constant")

    def test_transformer_lm_in_bf16(self):
        needs_bf16(self)
        self.reaches(0.33, "--model=transformer_lm:tiny", *self.text(epochs=2), "--precision=bf16",
                     "--optimizer=adam:lr=0.002", "--schedule=constant", policies=["bsp"])

    # Factors are rounded alike in every process: the sums are those of the fixed tree.
    def test_bits_in_bf16_do_not_depend_on_workers(self):
        needs_bf16(self)
        hashes = set()
        for workers in (1, 2):
            running = self.train("--model=lenet5", "--epochs=1",
                                 "--batch=64", "--precision=bf16", f"--workers={workers}",
                                 "--servers=1", "--micro_batches=2", "--policy=bsp")
            self.assertEqual(running.wait(60), 0, running.output())
            hashes.add(self.sha256(running.output()))
        self.assertEqual(len(hashes), 1)

    def test_gnmt_turns_sentences_round(self):
        self.reaches(0.98, "--model=gnmt:tiny", "--data_format=copy",
                     "--samples=10000", "--length=5", "--vocabulary=12", "--batch=64", "--epochs=8",
                     "--optimizer=adam:lr=0.006", "--schedule=constant")


if __name__ == "__main__":
    unittest.main()
