#!/usr/bin/env python3
"""The worked examples of docs/EXTENDING.md, all of them in one copy of the tree: what their tests link compiles without
unity files and precompiled headers, and with SOAPSTONE_EVERY_FILE=1 every file, so that each includes what it uses; and
the examples' tests pass.

usage: extending_test.py [TEST...]     SOAPSTONE_SCRATCH=FOLDER: builds there, and leaves it
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/style"))

import examples  # noqa: E402
import rules  # noqa: E402

# Of each example the program that has its tests, and which. What these link is compiled to objects, everything else is
# looked at by the compiler and no more.
TESTS = {
    "message": ("wire_test", "FlatBodyTest.*:FrameTest.*:MessageTest.*"),
    "policy": ("policy_space_test", "*watermark*:PolicySpaceTest.EverySpecHasARowOfMutants"),
    "operator": ("compute_reference_test", "OperatorCases.*:*/square_*"),
    "operator on the processor": ("compute_cpu_test", "*/square_*"),
    "operator in parts": ("models_ops_test", "PartitionTest.*"),
    "link": ("transport_test", "NodeTransportTest.*:*TransportTest.*"),
}
JOBS = os.cpu_count()
ERROR = re.compile(r"^(\S+?:\d+):\d+: (?:fatal )?error: (.*)$", re.M)


def errors_in(output, root):
    """The compiler's errors, a line each, with paths as in the tree."""
    return sorted({f"{file.removeprefix(str(root) + '/')}: {what}" for file, what in ERROR.findall(output)})


class Scratch:
    """A copy of the tree with all examples applied, and its build."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.build = self.root / "build" / "extending"
        for name in rules.Tree(ROOT).files:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.root / name)
        for example in examples.FILES_MAX:
            self.run("git", "apply", examples.patch_of(example))
        # clang reads headers, which is nearly all that there is to do, in three fifths of gcc's time.
        self.run("cmake", "-S", ".", "-B", str(self.build), "-G", "Ninja", "-DSOAPSTONE_UNITY=OFF",
                 "-DCMAKE_CXX_COMPILER=clang++-14")

    def run(self, *command):
        # Of a folder within somebody's checkout git apply would take nothing for ours.
        alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.root.parent)}
        done = subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=alone)
        if done.returncode != 0:
            found = errors_in(done.stdout, self.root) or done.stdout.splitlines()[-20:]
            raise AssertionError(f"{' '.join(command)}:\n" + "\n".join(found))
        return done.stdout

    def make(self, targets):
        self.run("cmake", "--build", str(self.build), "-j", str(JOBS), "--target", *targets, "--", "-k", "0")

    def generate(self):
        """Makes what is generated: other files include it."""
        listed = self.run("ninja", "-C", str(self.build), "-t", "targets", "all")
        self.make(re.findall(r"^([^/\s]\S*\.pb\.h): CUSTOM_COMMAND$", listed, re.M))

    def commands(self):
        """{source file: (object file, its compiler's command)} of all that is C++ of ours."""
        listed = json.loads((self.build / "compile_commands.json").read_text())
        cache = (self.build / "CMakeCache.txt").read_text()
        compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M)[1]
        commands = {}
        for entry in listed:
            name = os.path.relpath(entry["file"], self.root)
            words = shlex.split(entry["command"])
            if name.startswith("build/") or compiler not in words:
                continue
            words = words[words.index(compiler):]
            at = words.index("-o")
            made = pathlib.Path(entry["directory"], words[at + 1])
            commands[name] = (made, [word for i, word in enumerate(words) if i not in (at, at + 1) and word != "-c"])
        return commands

    def look(self, command):
        """What the compiler finds wrong with a file by itself."""
        done = subprocess.run([*command, "-fsyntax-only"], cwd=self.build, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return []
        return errors_in(done.stderr, self.root) or done.stderr.splitlines()[-5:]

    def look_at_the_rest(self):
        """The same of all files that have no object yet."""
        self.generate()
        rest = [command for made, command in self.commands().values() if not made.exists()]
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            return len(rest), sorted({line for found in pool.map(self.look, rest) for line in found})


class ExtendingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = os.environ.get("SOAPSTONE_SCRATCH")
        cls.made = tempfile.mkdtemp(prefix="soapstone-extending-") if folder is None else None
        cls.scratch = Scratch(folder or cls.made)
        began = time.monotonic()
        cls.scratch.make(sorted({program for program, _ in TESTS.values()}))
        print(f"built the examples' tests in {time.monotonic() - began:.0f} s", flush=True)

    @classmethod
    def tearDownClass(cls):
        if cls.made is not None:
            shutil.rmtree(cls.made)

    @unittest.skipUnless(os.environ.get("SOAPSTONE_EVERY_FILE"), "for ./check --all")
    def test_every_file_includes_what_it_uses(self):
        began = time.monotonic()
        count, found = self.scratch.look_at_the_rest()
        print(f"looked at {count} files more in {time.monotonic() - began:.0f} s", flush=True)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_a_missing_include_is_found(self):
        name = "consistency/levels.cc"
        _, command = self.scratch.commands()[name]
        path = self.scratch.root / name
        text = path.read_text()
        path.write_text(text + "std::regex planted;\n")
        found = self.scratch.look(command)
        path.write_text(text)
        self.assertTrue(found)
        self.assertRegex(found[0], rf"^{name}:\d+: .*regex.*std")

    def test_the_tests_of_the_examples_pass(self):
        for example, (program, which) in TESTS.items():
            with self.subTest(example):
                began = time.monotonic()
                said = self.scratch.run(str(self.scratch.build / "bin" / program), "--gtest_brief=1",
                                        f"--gtest_filter={which}")
                print(f"{example}: {said.splitlines()[-1]} in {time.monotonic() - began:.0f} s", flush=True)
                self.assertNotRegex(said, r"PASSED  \] 0 tests")


if __name__ == "__main__":
    unittest.main()
