"""Several teams of workers that each run a strategy, joined by the consistency policy: the bits of one process under bsp,
what becomes of the others when a team loses a seat, and runs of strategies in virtual time."""
import os
import re
import signal
import unittest

from cluster import descendants
from strategy_test import StrategyTestCase, WindowTestCase


class TeamsTestCase(StrategyTestCase):
    """Jobs of several teams, each of which runs the strategy, joined by the policy."""

    model = "lenet5"

    def write_job(self, **job):
        super().write_job(model=self.model, **job)

    def write_open_job(self, epochs=1):
        """Batch, micro-batches and workers are left to the strategy and the teams."""
        self.write_job(epochs=epochs)
        with open(self.config) as file:
            text = file.read()
        with open(self.config, "w") as file:
            file.write(text.replace("batch: 48 micro_batches: 1 ", "").replace("workers: 1 ", ""))

    def pipeline(self, micro_batches=4, sync="servers"):
        self.write_job()
        return self.place(2, micro_batches, lambda i, n: 2 * i // n, sync=sync)

    def of_teams(self, search, **plan):
        self.write_job()
        return self.plan(search, 2, **plan)

    def whole(self, micro_batches, *flags, teams=2):
        self.write_job()
        return self.hash_of("--workers=1", f"--batch={48 * teams}", f"--micro_batches={micro_batches}", *flags)

    def start(self, strategy, *flags, epochs=1000, teams=2):
        self.write_open_job(epochs)
        return self.train(f"--strategy={strategy}", f"--teams={teams}", *flags)

    def hash_of_teams(self, strategy, *flags):
        running = self.start(strategy, *flags, epochs=1)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertIn("4 workers in 2 teams of 2", running.output())
        return self.sha256(running.output())

    def learn(self, policy, sync="servers"):
        running = self.start(self.of_teams("expert", sync=sync), f"--policy={policy}", "--strict", epochs=20)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertGreaterEqual(self.accuracy(running.output()), 0.95, running.output())
        self.assertIn("broken 0 times", running.output())

    def lose(self, running, worker, number=signal.SIGKILL):
        running.wait_for(r"clock|epoch")
        os.kill(descendants(running.pid)[f"worker-{worker}"], number)

    def take_over(self, strategy, epochs, *lost, teams=2):
        """The run's hash, in which a seat of each team of `lost` is killed."""
        running = self.start(strategy, "--strict", epochs=epochs, teams=teams)
        for worker in lost:
            self.lose(running, worker)
            running.wait_for(f"team {worker // 2} is out", 20)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertIn("broken 0 times", running.output())
        return self.sha256(running.output())

    def come_again(self, strategy, policy="ssp:s=2", epochs=150):
        running = self.start(strategy, f"--policy={policy}", "--strict", epochs=epochs)
        endpoint = running.wait_for(r"scheduler at (\S+),").group(1)
        self.lose(running, 3)
        running.wait_for("team 1 is out", 20)
        again = [self.run_program("soapstone-worker", f"--config={self.dir}/logs/job.textproto",
                                  f"--scheduler={endpoint}", f"--rank={rank}") for rank in (2, 3)]
        running.wait_for(r"team 1 joined at clock \d+", 30)
        self.assertEqual(running.wait(170), 0, running.output())
        for worker in again:
            self.assertEqual(worker.wait(30), 0, worker.output())
        self.assertGreaterEqual(self.accuracy(running.output()), 0.95, running.output())
        self.assertIn("broken 0 times", running.output())
        return self.sha256(running.output())


class TeamsTest(TeamsTestCase):
    """Bits, and what becomes of the others when a team loses a seat."""

    def test_under_bsp_another_team_takes_over(self):
        whole = self.whole(8, "--epochs=60")
        self.assertEqual(self.take_over(self.pipeline(), 60, 3), whole)

    def test_under_bsp_each_takes_over_one(self):
        running = self.start(self.of_teams("expert"))
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        os.kill(children["worker-2"], signal.SIGKILL)
        running.wait_for("team 1 is out", 20)
        os.kill(children["worker-0"], signal.SIGKILL)
        self.assertEqual(running.wait(60), 138, running.output())
        self.assertIn("worker 0 is gone, and no team goes on without one", running.output())
        self.assert_nothing_left(children)

    def test_two_pipelines_have_the_bits_of_one_process(self):
        whole = self.whole(8)
        for sync in ("servers", "owner"):
            self.assertEqual(self.hash_of_teams(self.pipeline(sync=sync), "--strict"), whole, sync)

    def test_dropout_goes_by_places_in_the_whole_batch(self):
        self.model = "alexnet:tiny,dropout=0.5"
        whole = self.whole(4)
        self.assertEqual(self.hash_of_teams(self.pipeline(2), "--strict"), whole)

    def test_three_teams_of_one_micro_batch_have_them_too(self):
        self.write_job()
        whole = self.hash_of("--workers=1", "--batch=144", "--micro_batches=3")
        running = self.start(self.pipeline(1), "--servers=2", epochs=1, teams=3)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertEqual(self.sha256(running.output()), whole)

    def test_they_learn_under_a_bound(self):
        self.learn("ssp:s=2")

    def test_others_go_on_when_a_team_loses_a_seat(self):
        running = self.start(self.of_teams("expert"), "--policy=ssp:s=2", "--strict", epochs=60)
        self.lose(running, 3)
        running.wait_for("team 1 is out, for worker 3 is gone; worker 2 ends too; the other teams go on", 20)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertGreaterEqual(self.accuracy(running.output()), 0.95, running.output())
        self.assertIn("broken 0 times", running.output())
        self.assertEqual(len(re.findall("the other teams go on", running.output())), 1, running.output())

    def test_both_teams_lose_a_seat_at_once(self):
        running = self.start(self.of_teams("expert"), "--policy=ssp:s=2")
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        for worker in (1, 2):
            os.kill(children[f"worker-{worker}"], signal.SIGKILL)
        self.assertEqual(running.wait(60), 138, running.output())
        self.assertIn("no team goes on without one of its 2 seats", running.output())
        self.assert_nothing_left(children)

    def test_owners_are_needed_and_other_teams_are_not(self):
        owned = self.of_teams("expert", sync="owner")
        running = self.start(owned, "--policy=ssp:s=2", epochs=60)
        self.lose(running, 3)
        self.assertEqual(running.wait(170), 0, running.output())
        running = self.start(owned, "--policy=ssp:s=2")
        running.wait_for(r"clock|epoch")
        children = descendants(running.pid)
        self.assertEqual(set(children), {"scheduler"} | {f"worker-{w}" for w in range(4)})
        os.kill(children["worker-1"], signal.SIGKILL)
        self.assertEqual(running.wait(60), 138, running.output())
        self.assert_nothing_left(children)

    def test_by_hand_with_keys_workers_of_other_teams_need_no_servers(self):
        keys = f"{self.dir}/keys"
        self.assertEqual(self.run_program("soapstone", "keygen", f"--out={keys}").wait(20), 0)
        strategy = self.pipeline(sync="owner")
        whole = self.whole(8)
        self.write_open_job()
        run = (f"--config={self.config}", f"--strategy={strategy}", "--teams=2",
               f"--scheduler=ipc://{self.dir}/scheduler")
        nodes = [self.run_program("soapstone-scheduler", *run, f"--key={keys}/scheduler.key")]
        for rank in range(4):
            key = keys if rank < 2 else f"{keys}/worker.key"
            nodes.append(self.run_program("soapstone-worker", *run, f"--rank={rank}", f"--key={key}"))
        for node in nodes:
            self.assertEqual(node.wait(100), 0, node.output())
        self.assertEqual(self.sha256(nodes[0].output()), whole)

    def test_a_lost_team_may_come_again(self):
        self.come_again(self.of_teams("expert"))

    def refuse(self, expected, strategy, *flags):
        running = self.train(f"--strategy={strategy}", *flags)
        self.assertEqual(running.wait(60), 78, running.output())
        lines = [line for line in running.output().splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, running.output())
        self.assertIn(expected, lines[0])

    def test_what_does_not_go_together(self):
        strategy = self.of_teams("data")
        self.write_open_job()
        self.refuse("or take --teams=2", strategy, "--workers=4")
        self.refuse("2 devices, which of 2 teams are 4", strategy, "--teams=2", "--workers=2")
        self.refuse("plan with --batch=16", strategy, "--teams=2", "--batch=32")
        self.refuse("1 micro-batch, which of 2 teams are 2", strategy, "--teams=2", "--micro_batches=3")
        self.refuse("would do (plan with --batch=", self.pipeline(2), "--teams=29", "--workers=58", "--batch=1392",
                    "--micro_batches=58", "--policy=ssp:s=2")
        self.write_open_job()
        self.refuse("too many", strategy, "--teams=4000000000")
        self.refuse("plan with --micro_batches=2 or 4", self.pipeline(3), "--teams=2", "--workers=4", "--batch=96",
                    "--micro_batches=6")
        self.write_job()
        running = self.train("--workers=2", "--micro_batches=2", "--teams=2")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn("no cluster.strategy that says", running.output())


class TeamsCiTest(TeamsTestCase):
    """The same over all that carries messages, and of more teams."""

    def test_under_bsp_what_is_taken_over_has_the_bits_of_one_process(self):
        self.model = "alexnet:tiny,dropout=0.5"
        whole = self.whole(8, "--epochs=30")
        self.assertEqual(self.take_over(self.pipeline(sync="owner"), 30, 2), whole)
        self.model = "lenet5"
        whole = self.whole(4, "--epochs=40", teams=4)
        self.assertEqual(self.take_over(self.pipeline(1), 40, 3, 4, teams=4), whole)

    def test_under_bsp_a_lost_team_may_come_again(self):
        whole = self.whole(8, "--epochs=100")
        self.assertEqual(self.come_again(self.pipeline(), "bsp", epochs=100), whole)

    def test_split_models_have_one_hash_whatever_carries_them(self):
        for search in ("data", "expert"):
            kept, owned = self.of_teams(search), self.of_teams(search, sync="owner")
            hashes = {self.hash_of_teams(kept, f"--transport={transport}")
                      for transport in ("auto", "sockets", "zeromq")} | {self.hash_of_teams(owned)}
            self.assertEqual(len(hashes), 1, search)

    def test_they_learn_without_a_bound(self):
        self.learn("async")

    def test_they_learn_with_owners(self):
        self.learn("ssp:s=1", sync="owner")

    def test_the_first_team_is_spared_as_the_last_is(self):
        running = self.start(self.of_teams("data"), "--policy=async", epochs=60)
        self.lose(running, 0)
        running.wait_for("team 0 is out", 20)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertRegex(running.output(), "team 1 evaluates")

    def test_it_may_where_workers_keep_the_parameters(self):
        self.come_again(self.pipeline(1, sync="owner"))

    def test_it_may_with_several_steps_under_way(self):
        strategy = self.pipeline(1)
        with open(strategy, "a") as file:
            file.write("staleness: 1\n")
        self.come_again(strategy)

    def test_a_worker_that_is_asked_to_stop_takes_its_team(self):
        running = self.start(self.of_teams("expert"), "--policy=ssp:s=2", epochs=60)
        self.lose(running, 2, signal.SIGTERM)
        running.wait_for("team 1 is out, for worker 2 is gone; worker 3 ends too", 20)
        self.assertEqual(running.wait(170), 0, running.output())


class CosimTest(WindowTestCase):
    """`simulate --job --strategy`: the bits of real processes, whatever the delays in virtual time."""

    DELAYS = ("--stragglers=jitter:sigma=0.3+stall:p=0.05,factor=6", "--latency_us=200", "--bandwidth_gbps=0.1")

    def simulated(self, strategy, *flags):
        running = self.run_program("soapstone", "simulate", f"--job={self.config}", f"--strategy={strategy}", *flags)
        self.assertEqual(running.wait(170), 0, running.output())
        self.assertIn("violations: 0", running.output())
        return self.sha256(running.output())

    def check(self, strategy, seats, *flags):
        real = self.split(strategy, seats, *flags)
        for delays in ((), self.DELAYS):
            self.assertEqual(self.simulated(strategy, f"--workers={seats}", *flags, *delays), real, delays)

    def test_placements(self):
        self.write_job(micro_batches=2)
        self.check(self.place(3, 2, lambda i, n: (2 * i + 1) % 3), 3)
        self.check(self.place(2, 2, lambda i, n: 2 * i // n, sync="owner"), 2)

    def test_splits(self):
        self.write_job()
        self.check(self.plan("expert", 2), 2)
        self.check(self.plan("data", 3, sync="owner"), 3)
        self.check(self.plan("data", 3), 3, "--servers=2")

    def test_two_teams(self):
        self.write_job(micro_batches=4)
        strategy = self.place(2, 4, lambda i, n: 2 * i // n)
        self.check(strategy, 4, "--teams=2", "--batch=96", "--micro_batches=8")

    def test_a_pipeline_with_four_steps_under_way(self):
        self.write_job(epochs=2)
        self.check(self.pipeline(4, 3), 4)

    def test_delays_cost_time(self):
        self.write_job()
        strategy = self.plan("expert", 2)
        times = []
        for delays in ((), self.DELAYS[:1], self.DELAYS[1:2], self.DELAYS[2:]):
            running = self.run_program("soapstone", "simulate", f"--job={self.config}", f"--strategy={strategy}",
                                       "--workers=2", *delays)
            self.assertEqual(running.wait(170), 0, running.output())
            times.append(float(re.search(r"virtual time +([0-9.]+) s", running.output()).group(1)))
        for slower in times[1:]:
            self.assertGreater(slower, 1.02 * times[0], times)


if __name__ == "__main__":
    unittest.main()
