#!/usr/bin/env python3
"""The include edges of the tree are those of layers.txt, they are acyclic, sizes keep to the style.

Its own mutant: a forbidden include is planted in a copy of the edges, and must be found.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/')
FOREIGN = {  # what only one layer may touch
    r'<zmq|"zmq': {"transport"},
    r'google/protobuf': {"wire", "apps"},
    r'<(cuda|cudnn|cublas)': {"compute"},
    r'dnnl': {"compute"},
    r'<png': {"models"},
}
# The machine's date, which may jump: for what people read alone, in the files named. All else takes
# base/steady_clock.h, or time as a value.
DATE = re.compile(r"absl::(Now|Time|UnixEpoch|InfiniteFuture|InfinitePast)\b|system_clock|CLOCK_REALTIME|"
                  r"gettimeofday|\btime\((nullptr|NULL|0|&)|file_clock|"
                  r"\b(Await|Wait|LockWhen)\w*With(Timeout|Deadline)\b")
DATE_IS_MEANT = {
    "apps/train_command.cc",  # the name of a job's folder
    "tests/cluster/shifted_date.cc",  # moves it
}
LINES_MAX = 800
FORBIDDEN_NAMES = {"common", "util", "utils", "misc", "helper", "helpers", "manager"}


def read_layers():
    allowed = {}
    for line in (ROOT / "tests/layers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            folder, _, below = line.partition(":")
            allowed[folder] = set(below.split())
    return allowed


def sources(folder):
    return [p for p in sorted((ROOT / folder).rglob("*")) if p.suffix in {".h", ".cc", ".cu"}]


def edges(folder):
    """Yields (file, included folder, line text) of a folder's own includes."""
    for path in sources(folder):
        for line in path.read_text().splitlines():
            match = INCLUDE.match(line)
            if match and match.group(1) != folder:
                yield path.relative_to(ROOT), match.group(1), line.strip()


def violations(allowed, found):
    return [f"{path}: {folder} may not include {target}"
            for folder, items in found.items() for path, target, _ in items
            if target in allowed and target not in allowed[folder]]


def dates(texts):
    """Of {file: text}: where the date is asked for, and is not meant."""
    return [f"{path}:{number}: {line.strip()}"
            for path, text in texts.items() if path not in DATE_IS_MEANT
            for number, line in enumerate(text.splitlines(), 1)
            if DATE.search(line.split("//")[0])]


class LayersTest(unittest.TestCase):
    def setUp(self):
        self.allowed = read_layers()
        self.found = {f: list(edges(f)) for f in self.allowed if (ROOT / f).is_dir()}

    def test_includes_follow_the_layers(self):
        self.assertEqual(violations(self.allowed, self.found), [])

    def test_mutant_forbidden_include_is_found(self):
        planted = dict(self.found)
        planted["consistency"] = planted["consistency"] + [("planted.h", "wire", "")]
        self.assertEqual(violations(self.allowed, planted),
                         ["planted.h: consistency may not include wire"])

    def test_layers_are_acyclic(self):
        order = []
        rest = {k: set(v) for k, v in self.allowed.items()}
        while rest:
            free = [k for k, v in rest.items() if not v & rest.keys()]
            self.assertTrue(free, f"a cycle among {sorted(rest)}")
            order += free
            for k in free:
                del rest[k]

    def test_cmake_deps_are_the_layers(self):
        for folder, allowed in self.allowed.items():
            path = ROOT / folder / "CMakeLists.txt"
            if not path.exists() or folder in {"apps", "experiment"}:
                continue
            match = re.search(r"soapstone_library\(.*?DEPS(.*?)\)", path.read_text(), re.S)
            deps = {d for d in match.group(1).split() if d in self.allowed}
            self.assertLessEqual(deps, allowed, f"DEPS of {folder}")

    def test_foreign_types_stay_in_their_layer(self):
        for folder in self.found:
            for path in sources(folder):
                text = path.read_text()
                for pattern, homes in FOREIGN.items():
                    if folder in homes:
                        continue
                    self.assertIsNone(re.search(r"#\s*include\s+[<\"].*(" + pattern + ")", text),
                                      f"{path.relative_to(ROOT)}: {pattern} outside {homes}")

    def test_waits_are_upon_the_steady_clock(self):
        texts = {str(path.relative_to(ROOT)): path.read_text()
                 for folder in list(self.found) + ["tests"] for path in sources(folder)}
        self.assertEqual(dates(texts), [])
        for path in DATE_IS_MEANT:
            self.assertRegex(texts[path], DATE, "is not on the list for nothing")

    def test_mutant_date_is_found(self):
        for line in ("until = absl::Now() + patience;", "absl::Time until_;", "std::time(nullptr)",
                     "std::chrono::system_clock::now()", "mutex_.AwaitWithTimeout(c, left);"):
            self.assertEqual(dates({"apps/planted.cc": line}), [f"apps/planted.cc:1: {line}"])
        self.assertEqual(dates({"apps/planted.cc": "// absl::Now() jumps"}), [])

    def test_files_are_short_and_named_for_what_they_are(self):
        for folder in list(self.found) + ["tests", "bench"]:
            for path in sources(folder):
                self.assertLessEqual(len(path.read_text().splitlines()), LINES_MAX, path)
                self.assertNotIn(path.stem, FORBIDDEN_NAMES, path)
                if path.suffix == ".h":
                    self.assertIn("#pragma once", path.read_text(), path)


if __name__ == "__main__":
    sys.exit(unittest.main(argv=[sys.argv[0], *sys.argv[1:]]))
