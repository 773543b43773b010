"""The scheduler's TensorBoard event file, read by a reader that shares nothing with what wrote it; and JSON logs."""
import json
import os
import struct
import subprocess
import unittest

from cluster import BIN, ClusterTestCase


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        body, of_body = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])[0]
        assert of_length == masked(data[:8]) and of_body == masked(body) and len(body) == length
        yield body
        data = data[16 + length:]


def fields(message):
    """{number: [value]} of a protobuf message: bytes, whole numbers, or the bytes of fixed ones."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
            value = message[at:at + size]
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def scalars(event):
    """(step, {tag: value})"""
    event = fields(event)
    values = [fields(value) for value in fields(event[5][0]).get(1, [])] if 5 in event else []
    return event.get(2, [0])[0], {v[1][0].decode(): struct.unpack("<f", v.get(2, [b"\0" * 4])[0])[0] for v in values}


class EventFileTest(ClusterTestCase):

    def test_curves_by_clock_are_there(self):
        running = self.train("--epochs=3", "--base_ms=20", f"--tensorboard={self.dir}/tb")
        self.assertEqual(running.wait(60), 0, running.output())
        [name] = os.listdir(f"{self.dir}/tb")
        self.assertTrue(name.startswith("events.out.tfevents."))
        with open(f"{self.dir}/tb/{name}", "rb") as file:
            first, *rest = records(file.read())
        self.assertEqual(fields(first)[3], [b"brain.Event:2"])
        read = [scalars(event) for event in rest]
        steps = [step for step, _ in read[:-1]]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertGreater(len(steps), 0)
        self.assertEqual(set(read[0][1]), {"train/loss", "train/learning_rate", "rate/samples_per_s", "reads/lag_mean",
                                           "reads/lag_max", "job/workers"})
        self.assertEqual(read[0][1]["job/workers"], 3)
        self.assertTrue(0 < read[0][1]["train/learning_rate"] <= 0.0301)
        self.assertAlmostEqual(read[-1][1]["held_out/accuracy"], self.accuracy(running.output()), places=3)

    def test_a_folder_that_cannot_be_made_is_said_before_the_job(self):
        running = self.train("--tensorboard=/proc/nothing/tb")
        self.assertEqual(running.wait(20), 78)
        self.assertIn("output.tensorboard_path: ", running.output())

    def test_logs_are_json_where_asked_for(self):
        done = subprocess.run([f"{BIN}/soapstone-server", f"--config={self.config}", "--scheduler=tcp://127.0.0.1:1",
                               "--rank=1", "--start_timeout_s=1", "--log_format=json"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 138)
        lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        self.assertTrue(any("no answer from the scheduler" in line["message"] for line in lines), done.stderr)
        for line in lines:
            self.assertEqual((line["role"], line["rank"]), ("server", 1))
            self.assertIn(line["severity"], ("INFO", "WARNING", "ERROR"))


if __name__ == "__main__":
    unittest.main()
