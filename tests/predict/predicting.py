"""What tests of `soapstone predict` share: the command, PNG files, the digits that ship, and models that train in a
second."""
import csv
import gzip
import io
import json
import os
import random
import struct
import subprocess
import sys
import zlib

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
sys.path.append(CLUSTER)
from cluster import BIN, SOURCE, ClusterTestCase  # noqa: E402

SIDE = 8
DIGITS = os.path.join(SOURCE, "data", "digits", "digits.csv.gz")


def png(pixels, width, height):
    """Bytes of a grey PNG. pixels: rows of bytes, one after another."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(pixels[r * width:(r + 1) * width]) for r in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def digits():
    """[([64 values of 0 to 16], label)]"""
    with gzip.open(DIGITS, "rt") as file:
        rows = [[int(float(cell)) for cell in line.split(",")] for line in file if line[0].isdigit()]
    return [(row[:-1], row[-1]) for row in rows]


def write_digits(folder, count):
    """A folder of PNGs, white where the digits have 16. Returns labels by name."""
    os.makedirs(folder)
    labels = {}
    for i, (values, label) in enumerate(digits()[:count]):
        name = f"{i:04}.png"
        with open(os.path.join(folder, name), "wb") as file:
            file.write(png([round(v * 255 / 16) for v in values], SIDE, SIDE))
        labels[name] = label
    return labels


def write_libsvm(path, lines, seed):
    """Lines as a9a's: 14 of 123 features, and labels that depend on them."""
    draw = random.Random(seed)
    weights = [random.Random(i).gauss(0, 1) for i in range(124)]
    with open(path, "w") as file:
        for _ in range(lines):
            keys = sorted(draw.sample(range(1, 124), 14))
            label = 1 if sum(weights[k] for k in keys) + draw.gauss(0, 1) > 0 else -1
            file.write(f"{label:+d} " + " ".join(f"{k}:1" for k in keys) + "\n")
    return path


class PredictTestCase(ClusterTestCase):

    def path(self, name):
        return os.path.join(self.dir, name)

    def trained(self, *flags, name="model"):
        """(its file, its ledger's result)"""
        path = self.path(f"{name}.safetensors")
        running = self.train("--policy=bsp", "--workers=2", "--servers=1", f"--model_path={path}", *flags)
        self.assertEqual(running.wait(120), 0, running.output())
        with open(f"{self.dir}/logs/ledger.json") as file:
            return path, json.load(file)["result"]

    def text_model(self, data_format="bytes", *flags, name="model"):
        """A language model of a text's bytes, or of its words."""
        text = self.path("text.txt")
        with open(text, "w") as file:
            file.write("the cat sat on the mat and the dog sat on the log .\n" * 80)
        return self.trained("--model=transformer_lm:tiny", f"--data_format={data_format}", f"--data_path={text}",
                            "--length=16", "--batch=16", "--epochs=3", "--optimizer=adam:lr=3e-3", *flags, name=name)

    def call(self, command, *flags):
        """(exit code, standard output, standard error)"""
        done = subprocess.run([os.path.join(BIN, "soapstone"), command, *flags], capture_output=True, timeout=60,
                              check=False, cwd=SOURCE)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def said(self, command, *flags):
        code, out, err = self.call(command, *flags)
        self.assertEqual(code, 0, err)
        return out

    def rows(self, *flags):
        return list(csv.DictReader(io.StringIO(self.said("predict", *flags))))

    def evaluated(self, *flags):
        return json.loads(self.said("evaluate", *flags, "--json"))

    def refuse(self, wanted, command, *flags):
        """One line that matches, exit code 78, and nothing on standard output."""
        code, out, err = self.call(command, *flags)
        self.assertEqual(code, 78, out + err)
        self.assertEqual(out, "")
        self.assertEqual(err.count("\n"), 1, err)
        self.assertRegex(err, wanted)
