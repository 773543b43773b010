"""Runs recorded by real daemons replay to the same parameters, whatever happened in them."""
import os
import re
import shutil
import signal
import struct
import unittest

from cluster import ClusterTestCase, descendants

STRAGGLERS = "jitter:sigma=0.3+stall:p=0.05,factor=4"
EVENT = 48  # bytes; so is the header
CLOCK_AT = 16  # its offset in an event; byte 1 is the message's type, bytes 4 to 8 the sender's rank
PUSH, CLOCK, PULL = 20, 21, 22
TIMER = 4  # byte 0: the event's kind


class ReplayTest(ClusterTestCase):

    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.dir, "recording")

    def record(self, *flags, stragglers=STRAGGLERS):
        return self.train(f"--stragglers={stragglers}", f"--record={self.folder}", *flags)

    def replay(self, code=0):
        running = self.run_program("soapstone", "replay", self.folder)
        self.assertEqual(running.wait(120), code, running.output())
        return running.output()

    def check_replay(self, output):
        """The replay has the hash that the run printed; returns what the replay said."""
        replayed = self.replay()
        hashes = re.findall(r"sha256, (?:recorded|replayed) +([0-9a-f]{64})", replayed)
        self.assertEqual(hashes, [self.sha256(output)] * 2, replayed)
        return replayed

    def check_policy(self, policy, *flags, epochs=3):
        running = self.record(f"--policy={policy}", f"--epochs={epochs}", *flags)
        self.assertEqual(running.wait(120), 0, running.output())
        return running.output(), self.check_replay(running.output())

    def events(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            data = file.read()
        return [data[at:at + EVENT] for at in range(EVENT, len(data), EVENT)]

    def rewrite(self, name, events):
        path = os.path.join(self.folder, name)
        with open(path, "rb") as file:
            header = file.read(EVENT)
        with open(path, "wb") as file:
            file.write(header + b"".join(events))

    def test_bsp(self):
        output, _ = self.check_policy("bsp")
        events, bytes_text = re.search(r"recorded ([\d,]+) events of 6 actors, ([\d.]+) kB",
                                       output).groups()
        self.assertLess(1000 * float(bytes_text) / int(events.replace(",", "")), 64)
        names = [name for name in os.listdir(self.folder) if name.endswith(".events")]
        size = sum(os.path.getsize(os.path.join(self.folder, name)) for name in names)
        self.assertEqual(size, EVENT * (int(events.replace(",", "")) + len(names)))

    def test_a_folder_that_is_removed_while_the_job_runs(self):
        running = self.record("--epochs=20", "--base_ms=3")
        running.wait_for("^started")
        shutil.rmtree(self.folder)
        self.assertEqual(running.wait(120), 78, running.output())
        # Who finds it gone says so; where its last writer has made it again what it had is missing.
        self.assertRegex(running.output(), "output.record_path: (cannot make|not recorded)")

    def test_what_was_recorded_and_is_gone_at_the_end(self):
        running = self.record("--epochs=20", "--base_ms=3")
        running.wait_for("^epoch")
        os.remove(os.path.join(self.folder, "recorded-job.textproto"))
        self.assertEqual(running.wait(120), 78, running.output())
        self.assertRegex(running.output(), "output.record_path: not recorded: .*recorded-job.textproto")

    def test_as_many_threads_as_the_run_had(self):
        self.check_policy("async", "--threads=2", epochs=1)

    def test_ssp(self):
        self.check_policy("ssp:s=2")

    def test_reads_that_are_asked_for_again(self):
        """Reads parked for longer than heartbeat_timeout_s are repeated and said, and nobody is counted out."""
        running = self.record("--policy=ssp:s=0", "--epochs=1", "--base_ms=20", "--heartbeat_timeout_s=1",
                              stragglers="periodic:every=30,factor=200")
        self.assertEqual(running.wait(120), 0, running.output())
        output = running.output()
        self.assertRegex(output, r"worker \d waits \d\.\d s for shard-\d: values of clock \d+, asked for again 1 times "
                                 r"\(server-\d\)")
        self.assertNotRegex(output, r"lost|nothing has moved|counted out")
        timers = [e for rank in range(3) for e in self.events(f"worker-{rank}.events") if e[0] == TIMER]
        self.assertGreater(len(timers), 0)
        self.check_replay(output)

    def test_async(self):
        self.check_policy("async")

    def test_easgd(self):
        self.check_policy("easgd:tau=4,mode=async")

    def test_localsgd(self):
        self.check_policy("localsgd:h=4")

    def test_dssp(self):
        self.check_policy("dssp")

    def test_gossip_without_waiting(self):
        self.check_policy("gossip:mode=pushsum")

    def test_gossip_in_pairs(self):
        self.check_policy("gossip:mode=adpsgd")

    def test_eager(self):
        self.check_policy("eager:mode=solo")

    def test_backup(self):
        self.check_policy("backup:b=1")

    def test_tree(self):
        self.check_policy("tree:group=2,s=1")

    def test_several_shards_a_server(self):
        self.check_policy("ssp:s=2", "--shards_per_server=2")

    def test_shares_that_change(self):
        running = self.record("--policy=ssp:s=2", "--epochs=4", "--micro_batches=48", "--rebalance",
                              "--base_ms=20", stragglers="slow:workers=1,factor=2")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("re-balanced", running.output())
        self.check_replay(running.output())

    def check_killed_worker(self, policy):
        running = self.record(f"--policy={policy}", "--epochs=6", "--base_ms=10",
                              "--heartbeat_timeout_s=1")
        running.wait_for("epoch")
        os.kill(descendants(running.pid)["worker-1"], signal.SIGKILL)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("worker 1 lost", running.output())
        self.assertIn("worker-1.events ends with a kill", self.check_replay(running.output()))

    def test_a_killed_worker_under_bsp(self):
        self.check_killed_worker("bsp")

    def test_a_killed_worker_under_async(self):
        self.check_killed_worker("async")

    def test_a_new_worker_in_the_place_of_a_killed_one(self):
        running = self.record("--policy=ssp:s=2", "--epochs=16", "--base_ms=10",
                              "--heartbeat_timeout_s=1")
        endpoint = running.wait_for(r"scheduler at (\S+),").group(1)
        running.wait_for("epoch")
        os.kill(descendants(running.pid)["worker-1"], signal.SIGKILL)
        running.wait_for("worker 1 lost")
        self.run_program("soapstone-worker", f"--config={self.dir}/logs/job.textproto",
                         f"--scheduler={endpoint}", "--rank=1")
        running.wait_for("worker 1 joined at clock")
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("worker-1.2.events", os.listdir(self.folder))
        self.assertIn("of 7 actors", self.check_replay(running.output()))

    def test_a_worker_that_leaves(self):
        running = self.record("--policy=ssp:s=2", "--epochs=8", "--base_ms=10")
        running.wait_for("epoch")
        os.kill(descendants(running.pid)["worker-2"], signal.SIGTERM)
        self.assertEqual(running.wait(120), 0, running.output())
        self.assertIn("worker 2 left after clock", running.output())
        self.check_replay(running.output())

    def test_an_interrupted_run_is_replayed_as_far_as_it_came(self):
        for number, code, name in ((signal.SIGINT, 130, None), (signal.SIGKILL, 138, "server-1")):
            self.folder = os.path.join(self.dir, f"recording-{code}")
            running = self.record("--policy=ssp:s=2", "--epochs=1000")
            running.wait_for("epoch")
            os.kill(descendants(running.pid)[name] if name else running.pid, number)
            self.assertEqual(running.wait(30), code, running.output())
            replayed = self.replay()
            self.assertIn("none: the run ended without saving", replayed)
            recorded, done = (re.search(rf"  {word} +([\d,]+) events", replayed).group(1)
                              for word in ("recorded", "replayed"))
            self.assertEqual(recorded, done)
            self.assertGreater(int(done.replace(",", "")), 100)

    def test_an_altered_event_is_named(self):
        self.check_policy("ssp:s=2")
        events = self.events("shard-1.events")
        at = next(i for i in range(len(events) // 2, len(events)) if events[i][1] == PUSH)
        clock, = struct.unpack_from("<q", events[at], CLOCK_AT)
        events[at] = (events[at][:CLOCK_AT] + struct.pack("<q", clock + 1) +
                      events[at][CLOCK_AT + 8:])
        self.rewrite("shard-1.events", events)
        output = self.replay(code=65)
        self.assertIn(f"diverged: shard-1.events, event {at + 1} of {len(events)}: waits for push",
                      output)
        self.assertIn(f"clock {clock + 1} ", output)

    def test_another_order_of_arrival_leads_elsewhere(self):
        self.check_policy("async")
        events = self.events("shard-0.events")
        # Two workers' push, clock and pull, one's after the other's, change places: the latter then
        # reads parameters without the former's push.
        steps = [PUSH, CLOCK, PULL]
        at = next(i for i in range(len(events) // 2, len(events) - 5)
                  if [event[1] for event in events[i:i + 6]] == 2 * steps
                  and len({event[4:8] for event in events[i:i + 3]}) == 1
                  and events[i][4:8] != events[i + 3][4:8])
        events[at:at + 6] = events[at + 3:at + 6] + events[at:at + 3]
        self.rewrite("shard-0.events", events)
        output = self.replay(code=65)
        self.assertRegex(output, r"diverged: worker-\d.events, event \d+ of \d+: "
                                 r"pull-reply shard-0 .* was sent with other contents")

    def test_what_cannot_be_is_a_configuration_error(self):
        def check(running, wanted):
            self.assertEqual(running.wait(30), 78, running.output())
            self.assertIn(wanted, running.output())
            self.assertEqual(len(running.lines), 1, running.output())

        self.check_policy("bsp", epochs=1)
        files = {name: os.stat(os.path.join(self.folder, name)).st_mtime_ns
                 for name in os.listdir(self.folder)}
        check(self.record("--epochs=1"), "holds a recording already")
        check(self.run_program("soapstone-scheduler", f"--config={self.config}",
                               "--scheduler=tcp://127.0.0.1:0", f"--record={self.folder}"),
              "holds a recording already")
        self.assertEqual(files, {name: os.stat(os.path.join(self.folder, name)).st_mtime_ns
                                 for name in os.listdir(self.folder)})
        check(self.train("--record=/proc/nowhere"), "output.record_path: cannot make /proc/nowhere")
        check(self.run_program("soapstone", "replay", "/nowhere"), "/nowhere: No such file")
        check(self.run_program("soapstone", "replay", self.dir), "holds no recording")

    def test_other_data_are_refused(self):
        self.check_policy("bsp", epochs=1)
        job = os.path.join(self.folder, "recorded-job.textproto")
        with open(job) as file:
            text = file.read()
        with open(job, "w") as file:
            file.write(text.replace("test_fraction: 0.2", "test_fraction: 0.3"))
        self.assertIn("not those of the recording", self.replay(code=78))


if __name__ == "__main__":
    unittest.main()
