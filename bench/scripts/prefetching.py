#!/usr/bin/env python3
"""What prefetching gains: writes folders of PNG images and trains on them, with and without it.

Example: bench/scripts/prefetching.py --build build/release
"""
import argparse
import pathlib
import random
import struct
import subprocess
import tempfile
import zlib

COUNT = 1000  # images of a folder


def png(channels, side, rows):
    """A PNG of `rows`, each of side * channels bytes."""
    def chunk(kind, body):
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)
    header = struct.pack(">IIBBBBB", side, side, 8, 2 if channels == 3 else 0, 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + row for row in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) +
            chunk(b"IEND", b""))


def write_folder(folder, channels, side):
    """Images that compress as photographs do, about by half: slopes with noise."""
    numbers = random.Random(1)
    for i in range(COUNT):
        place = folder / f"class{i % 10}"
        place.mkdir(parents=True, exist_ok=True)
        step = 1 + i % 10
        rows = [bytes((x // channels * step + y + numbers.getrandbits(4)) & 255
                      for x in range(side * channels)) for y in range(side)]
        (place / f"{i:05}.png").write_bytes(png(channels, side, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    options = parser.parse_args()
    program = options.build / "bin/soapstone-prefetch-bench"
    for model, channels, side in (("lenet5", 1, 28), ("mlp", 3, 32), ("mlp", 3, 96)):
        with tempfile.TemporaryDirectory() as name:
            write_folder(pathlib.Path(name), channels, side)
            subprocess.run([program, f"--images={name}", f"--model={model}"], check=True)


if __name__ == "__main__":
    main()
