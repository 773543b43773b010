"""Jobs on data that are decoded and augmented, and on tables as people have them, by real processes."""
import json
import math
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

    def table(self, rows=120):
        """A table as people have it: semicolons, quotes, a byte order mark, names for labels in front."""
        numbers = random.Random(2)
        lines = ['kind;"length; cm";width']
        for i in range(rows):
            kind = ("wolf", "ant", '"""red"" fox"')[i % 3]
            length, width = i % 3 + numbers.random() / 3, 2 - i % 3 + numbers.random() / 3
            lines.append(f'{kind};{length:.3f};"{width:.3f}"')
        path = pathlib.Path(self.dir, "animals.csv")
        path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
        return str(path)

    def test_a_table_as_people_have_it(self):
        path = self.table()
        running = self.train("--data_format=csv", f"--data_path={path}", "--model=mlp:tiny", "--policy=bsp",
                             "--label_column=kind", "--epochs=60", "--batch=24")
        self.assertEqual(running.wait(120), 0, running.output())
        output = running.output()
        self.assertIn("animals.csv: cells are separated by semicolons", output)
        self.assertIn("animals.csv: header skipped: kind, length; cm, width", output)
        self.assertIn('labels: 0 = \\"red\\" fox, 1 = ant, 2 = wolf', output)
        self.assertEqual(output.count("header skipped"), 1)
        self.assertGreaterEqual(self.accuracy(output), 0.9, output)
        balanced = float(running.wait_for(r"balanced accuracy +([\d.]+)").group(1))
        self.assertGreaterEqual(balanced, 0.9, output)
        with open(f"{self.dir}/logs/ledger.json") as file:
            result = json.load(file)["result"]
        self.assertEqual(result["class_names"], ['"red" fox', "ant", "wolf"])
        counts = result["confusion"]
        self.assertEqual(sum(map(sum, counts)), result["test_samples"])
        right = sum(counts[k][k] for k in range(3))
        self.assertAlmostEqual(right / result["test_samples"], result["test_accuracy"], places=6)
        running.wait_for(r"^    2 wolf +" + " +".join(map(str, counts[2])) + "$")

    def test_a_result_of_many_classes_arrives(self):
        """Its table of confusion is a line of hundreds of kilobytes on its way."""
        numbers = random.Random(3)
        path = pathlib.Path(self.dir, "classes.csv")
        path.write_text("\n".join(f"{numbers.random():.6f},{numbers.random():.6f},{i % 900}" for i in range(3600)))
        running = self.train("--data_format=csv", f"--data_path={path}", "--model=softmax", "--policy=bsp", "--epochs=1")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("test accuracy", running.output())
        self.assertNotIn('{"', running.output())
        with open(f"{self.dir}/logs/ledger.json") as file:
            result = json.load(file)["result"]
        self.assertEqual(len(result["confusion"]), 900)
        self.assertEqual(sum(map(sum, result["confusion"])), result["test_samples"])

    def test_rows_with_missing_values_are_left_out(self):
        path = pathlib.Path(self.dir, "a.csv")
        path.write_text("1,0\n?,1\n2,1\n,0\n" * 20)
        running = self.train("--data_format=csv", f"--data_path={path}", "--model=softmax", "--missing=drop", "--check")
        self.assertEqual(running.wait(60), 0, running.output())
        self.assertIn("a.csv: 40 of 80 rows left out, for 40 missing values", running.output())
        self.assertIn("(32 training, 8 held-out samples)", running.output())
        # The batch of 48 is more than there is.
        self.assertIn("training.batch: 48 is more than the 32 training samples", running.output())

    def test_a_language_model_has_a_perplexity(self):
        path = pathlib.Path(self.dir, "text.txt")
        path.write_text("the cat sat on the mat. " * 400)
        running = self.train("--data_format=bytes", f"--data_path={path}", "--model=rnnlm:tiny", "--epochs=2",
                             "--length=16", "--batch=24", "--micro_batches=3")
        self.assertEqual(running.wait(120), 0, running.output())
        match = running.wait_for(r"test accuracy .*\(loss ([\d.]+) \(perplexity ([\d.]+)\)")
        self.assertAlmostEqual(math.log(float(match.group(2))), float(match.group(1)), places=2)
        running.wait_for(r"training loss +[\d.]+ \(perplexity [\d.]+\)")
        self.assertNotIn("confusion", running.output())
        self.assertNotIn("balanced", running.output())

    def test_what_is_wrong_with_the_data_is_one_line(self):
        images = self.write_images()
        pathlib.Path(images, "class0", "zz.png").write_bytes(b"no image")
        running = self.train("--data_format=images", f"--data_path={images}", "--check")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn("class0/zz.png: not a PNG", running.output())
        running = self.train("--data_format=copy", "--check")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn("model: lenet5 takes samples of input", running.output())


class PublicDataTest(ClusterTestCase):

    def test_a_set_is_checked_laid_out_and_trained_on(self):
        data = self.run_program("soapstone", "data", "digits", f"--from={SOURCE}/data/digits",
                                f"--to={self.dir}/digits")
        self.assertEqual(data.wait(60), 0, data.output())
        flags = data.wait_for(r"^  soapstone train (.*)$")[1].split()
        self.assertIn(f"--data_path={self.dir}/digits/digits.csv", flags)
        running = self.run_program("soapstone", "train", *flags, "--check")
        self.assertEqual(running.wait(60), 0, running.output())

    def test_another_file_is_one_line(self):
        pathlib.Path(self.dir, "a9a").write_text("+1 1:1\n")
        data = self.run_program("soapstone", "data", "a9a", f"--from={self.dir}", f"--to={self.dir}/laid")
        self.assertEqual(data.wait(60), 78, data.output())
        self.assertRegex(data.output(), r"^soapstone data: a9a: .*/a9a is not the published file: SHA-256 [^\n]*$")
        self.assertFalse(os.path.exists(f"{self.dir}/laid"))

    def test_every_set_is_listed(self):
        data = self.run_program("soapstone", "data")
        self.assertEqual(data.wait(60), 0)
        for name in ("digits", "mnist", "cifar10", "cifar100", "tinyshakespeare", "a9a", "criteo"):
            self.assertRegex(data.output(), rf"(?m)^{name}: ")
        self.assertEqual(data.output().count("  train    soapstone train --model="), 7)


if __name__ == "__main__":
    unittest.main()
