"""Runs a test of a module here, as `python3 MODULE -v CLASS.TEST` would, and ends with 77 where it skipped itself:
ctest takes what ends with 0 for passed.

usage: run_test.py MODULE CLASS.TEST
"""
import os
import sys
import unittest

SKIPPED = 77


def main(path, name):
    folder, file = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    program = unittest.main(module=os.path.splitext(file)[0], argv=[file, "-v", name], exit=False)
    result = program.result
    if not result.wasSuccessful() or result.testsRun == 0:
        return 1
    return SKIPPED if len(result.skipped) == result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
