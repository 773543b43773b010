"""Jobs on data that are decoded and augmented, by real processes."""
import os
import pathlib
import random
import sys
import unittest

from cluster import SOURCE, ClusterTestCase

sys.path.insert(0, os.path.join(SOURCE, "bench", "scripts"))
from prefetching import png  # noqa: E402


class DataTest(ClusterTestCase):

    def write_images(self):
        """Two classes of 8×8 greys: bright above, and bright below."""
        numbers = random.Random(1)
        for i in range(120):
            folder = pathlib.Path(self.dir, "images", f"class{i % 2}")
            folder.mkdir(parents=True, exist_ok=True)
            rows = [bytes(numbers.randrange(128) + (127 if (y < 4) == (i % 2 == 0) else 0)
                          for _ in range(8)) for y in range(8)]
            (folder / f"{i:03}.png").write_bytes(png(1, 8, rows))
        return str(pathlib.Path(self.dir, "images"))

    def test_images_have_the_same_bits_for_any_number_of_workers(self):
        images = self.write_images()
        flags = ["--policy=bsp", "--data_format=images", f"--data_path={images}",
                 "--augment=crop:pad=1+flip", "--batch=20", "--micro_batches=6", "--epochs=6"]
        hashes = {}
        for workers in (1, 3):
            running = self.train(*flags, f"--workers={workers}")
            self.assertEqual(running.wait(120), 0, running.output())
            self.assertGreaterEqual(self.accuracy(running.output()), 0.9, running.output())
            hashes[workers] = self.sha256(running.output())
        self.assertEqual(hashes[1], hashes[3])
        plain = self.train(*flags[:3], *flags[4:], "--workers=1")
        self.assertEqual(plain.wait(120), 0, plain.output())
        self.assertNotEqual(self.sha256(plain.output()), hashes[1])

    def test_what_is_wrong_with_the_data_is_one_line(self):
        images = self.write_images()
        pathlib.Path(images, "class0", "zz.png").write_bytes(b"no image")
        running = self.train("--data_format=images", f"--data_path={images}", "--check")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn("class0/zz.png: not a PNG", running.output())
        running = self.train("--data_format=copy", "--check")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn("model: lenet5 takes samples of input", running.output())


if __name__ == "__main__":
    unittest.main()
