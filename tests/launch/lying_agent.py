"""In an agent's place: `lying_agent.py PROGRAM HOW`. It says that all is well, of PROGRAM's build, starts nothing, and

  floods   writes lines of the first process that it is to start, without an end
  deaf     says that it is there, and that no process ends
  silent   says no more
"""
import hashlib
import json
import sys
import time


def say(kind, **fields):
    print(json.dumps({"soapstone": kind, **fields}), flush=True)


def main(program, how):
    with open(program, "rb") as file:
        build = hashlib.sha256(file.read()).hexdigest()
    first = None
    while first is None:
        message = json.loads(sys.stdin.readline())
        if message["soapstone"] == "check":
            say("checked", build=build, error="")
        if message["soapstone"] == "start":
            first = message["id"]
    text = "I20260101 00:00:00.000000     1 lying_agent.cc:1] " + "x" * 60000
    line = json.dumps({"soapstone": "line", "id": first, "is_error": True, "text": text}).encode() + b"\n"
    while True:
        if how == "floods":
            sys.stdout.buffer.write(line)
        elif how == "deaf":
            say("here")
            time.sleep(0.2)
        else:
            time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
