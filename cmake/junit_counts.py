"""Prints "passed failed skipped" of a ctest JUnit file; says which tests failed, and which
were skipped, on standard error.

usage: junit_counts.py RESULTS.xml CTEST.log
Without a readable file the run counts as one failure.
"""
import sys
import xml.etree.ElementTree as ElementTree


def main():
    path, log = sys.argv[1], sys.argv[2]
    try:
        cases = ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print(f"check: no results: {error}; see {log}", file=sys.stderr)
        print("0 1 0")
        return
    passed = failed = skipped = 0
    for case in cases:
        status = case.get("status")
        if status == "run":
            passed += 1
        elif status in ("notrun", "disabled") and case.find("skipped") is not None:
            skipped += 1
            print(f"SKIPPED {case.get('name')}", file=sys.stderr)
        else:
            failed += 1
            output = (case.findtext("system-out") or "").strip().splitlines()
            print(f"FAILED {case.get('name')}", *output[-40:], sep="\n  ", file=sys.stderr)
    if not cases:
        failed = 1
    print(passed, failed, skipped)


if __name__ == "__main__":
    main()
