"""Wrong flags, files and values: one clear line, exit code 78, no process started."""
import gzip
import os
import re
import socket
import unittest

from cluster import BIN, SOURCE, ClusterTestCase, Running


class BadInputTest(ClusterTestCase):

    def refuse(self, wanted, *flags, program="soapstone"):
        if program == "soapstone":
            running = self.train(*flags)
        else:
            running = self.run_program(program, f"--config={self.config}", *flags)
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertRegex(running.output(), wanted)
        self.assertEqual(len(running.lines), 1, running.output())
        self.assertFalse(os.path.exists(f"{self.dir}/logs/worker-0.log"))

    def write(self, name, content):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def test_unknown_policy(self):
        self.refuse("policy: .*sspp", "--policy=sspp:s=1")

    def refuse_alone(self, wanted, *flags):
        """Without a job file: what was meant is the first thing said."""
        running = self.run_program("soapstone", "train", *flags)
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertRegex(running.output(), wanted)
        self.assertEqual(len(running.lines), 1, running.output())

    def test_a_daemon_without_a_job(self):
        for role in ("scheduler", "server", "worker"):
            running = self.run_program(f"soapstone-{role}", "--scheduler=tcp://127.0.0.1:7070")
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertRegex(running.output(), f"^soapstone-{role}: no job was named: --config=FILE")

    def test_a_policy_that_was_meant(self):
        self.refuse_alone(r"^soapstone: policy: unknown policy 'ssq'; did you mean ssp\?", "--policy=ssq")

    def test_a_model_that_was_meant(self):
        self.refuse_alone(r"^soapstone: model: unknown model 'alexxnet'; did you mean alexnet\?", "--model=alexxnet")

    def test_a_pipe_as_a_file(self):
        pipe = os.path.join(self.dir, "pipe")
        os.mkfifo(pipe)
        for flag in (f"--config={pipe}", f"--data_path={pipe}", f"--test_path={pipe}", f"--hosts={pipe}",
                     f"--stragglers=trace:file={pipe}", f"--strategy={pipe}"):
            self.refuse_alone("is no file", *([] if "config" in flag else ["--model=lenet5"]), flag)

    def test_a_model_that_this_machine_cannot_hold(self):
        self.refuse("model: the parameters of mlp:hidden=200000 need .* GB of memory on this machine",
                    "--model=mlp:hidden=200000")

    def test_pages_at_no_address(self):
        self.refuse("--http: 'foo' is not ADDRESS:PORT", "--http=foo")

    def test_what_the_datas_format_does_not_have(self):
        self.refuse("data.labels_path: of format idx, not of digits", "--labels_path=x")

    def test_a_flag_of_the_data_without_a_model(self):
        begins = ": a flag of the data begins a job of its own: --model"
        self.refuse_alone(f"--test_fraction{begins}, and where the data are, must be named", "--test_fraction=0.3")
        self.refuse_alone(f"--data_path{begins} must be named", "--data_path=x.csv")

    def test_where_nothing_can_be_written(self):
        place = self.write("file", b"") + "/there"
        for check in ((), ("--check",)):
            self.refuse_alone("output.log_dir: cannot write to .*file: Not a directory", f"--log_dir={place}", *check)
            for flag, field in (("record", "record_path"), ("model_path", "model_path"), ("curve", "curve_path"),
                                ("record_trace", "trace_path")):
                self.refuse(f"output.{field}: cannot write to .*file: Not a directory", f"--{flag}={place}", *check)

    def test_simulating_fewer_micro_batches_than_workers(self):
        running = self.run_program("soapstone", "simulate", "--workers=8", "--policy=ssp:s=1",
                                   "--micro_batches=1")
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertEqual(running.output(), "soapstone: micro_batches: 1 is less than the 8 workers: "
                                           "each needs one at least")

    def test_a_seed_that_is_no_number(self):
        for seed in ("-1", "18446744073709551616", "1.5"):
            running = self.run_program("soapstone", "simulate", f"--seed={seed}")
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertRegex(running.output(), r"^soapstone[^\n]*--seed[^\n]*a whole number is needed[^\n]*$")

    def test_numbers_that_no_search_or_simulation_has(self):
        for command, flag in (("plan", "--seed=-1"), ("plan", "--seed=18446744073709551616"),
                              ("plan", "--proposals=0"), ("plan", "--proposals=18446744073709551616"),
                              ("simulate", "--elements=0"), ("simulate", "--elements=9223372036854775808"),
                              ("simulate", "--duration=1e-300"), ("simulate", "--duration=4294967296")):
            running = self.run_program("soapstone", command, flag)
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertRegex(running.output(), rf"^soapstone[^\n]*{flag.split('=')[0]}[^\n]{{1,120}}$")

    def test_a_whole_number_is_decimal_also_behind_a_zero(self):
        said = []
        for number, clocks, workers in (("10", "20", "8"), ("010", "0020", "08"), ("+010", "20", "+08")):
            running = self.run_program("soapstone", "simulate", f"--workers={workers}", "--policy=bsp",
                                       f"--clocks={clocks}", "--stragglers=jitter:sigma=0.2", f"--seed={number}",
                                       "--seeds=02")
            self.assertEqual(running.wait(20), 0, running.output())
            said.append(re.search("mean rate.*", running.output())[0])
        self.assertEqual(said, said[:1] * 3)
        self.refuse("--workers", "--workers=0x8")

    def test_simulating_in_a_precision_that_is_not_computed(self):
        with open(self.config) as file:
            job = file.read().replace("cluster {", 'cluster { precision: "bf16"')
        with open(self.config, "w") as file:
            file.write(job)
        running = self.run_program("soapstone", "simulate", f"--job={self.config}")
        self.assertEqual(running.wait(20), 78, running.output())
        self.assertRegex(running.output(), r"^soapstone: co-simulation computes in float32[^\n]*$")

    def test_precision(self):
        self.refuse("cluster.precision: processors have no tf32", "--precision=tf32")
        self.refuse("cluster.precision: \"float16\"", "--precision=float16")

    def test_negative_bound(self):
        self.refuse("policy: ", "--policy=ssp:s=-1")
        self.refuse("policy: backup:b=3 leaves out", "--policy=backup:b=3", "--workers=3")
        self.refuse("cluster.rebalance: with backup:b=1", "--policy=backup:b=1", "--rebalance")

    def test_malformed_job_file(self):
        self.write("job.textproto", b"model: \"mlp\"\ntraining {\n  epochs: 3 3\n}\n")
        self.refuse(r"job.textproto:3:\d+: ")

    def test_unknown_field(self):
        self.write("job.textproto", b"model: \"mlp\"\nmodle: 3\n")
        self.refuse(r"job.textproto:2:\d+: .*modle")

    def test_missing_job_file(self):
        os.remove(self.config)
        self.refuse("job.textproto: No such file")

    def test_unknown_flag(self):
        self.refuse("--polcy", "--polcy=bsp")

    def test_zero_workers(self):
        self.refuse(r"cluster.workers: 0 .* \(--workers\)$", "--workers=0")

    def test_negative_epochs(self):
        self.refuse("--epochs=-3", "--epochs=-3")

    def test_more_shards_than_parameters(self):
        self.refuse("shards", "--model=softmax", "--servers=1000")

    def test_unknown_model(self):
        self.refuse("model: .*lenet6", "--model=lenet6")

    def test_missing_data_file(self):
        self.refuse("/nowhere/digits.csv", "--data_path=/nowhere/digits.csv")

    def test_truncated_data_file(self):
        with open(f"{SOURCE}/data/digits/digits.csv.gz", "rb") as file:
            path = self.write("short.csv.gz", file.read()[:20000])
        self.refuse("short.csv.gz", f"--data_path={path}")

    def test_corrupt_data_file(self):
        path = self.write("bad.csv.gz", gzip.compress(b"1,2,x\n" * 10))
        self.refuse("bad.csv.gz", f"--data_path={path}")

    def refuse_csv(self, wanted, content, *flags):
        path = self.write("a.csv", content)
        self.refuse(wanted, "--data_format=csv", f"--data_path={path}", "--model=softmax", *flags)

    def test_tables_with_wrong_cells(self):
        self.refuse_csv(r"a.csv:1: column 2: '2o' is not a number, as others of the first line are",
                        b"1,2o,0\n" + b"1,2,1\n" * 60)
        self.refuse_csv(r"a.csv:4: column 1 \('age'\): '' is a missing value, the first, of 2 in 2 of 63 rows; .*"
                        "--missing=drop", b"age,y\n1,0\n2,1\n,1\n" + b"3,0\n" * 59 + b"NA,1\n")
        self.refuse_csv("a.csv:2: column 2: 'l' is no number", b"1,0\n2,l\n")
        self.refuse_csv("a.csv:2: column 1 begins with a quote that does not end", b'1,0\n"2,1\n')
        self.refuse_csv("a.csv: no rows", b"")
        self.refuse_csv("a.csv: it is UTF-16", "1,2\n".encode("utf-16"))

    def test_columns_that_there_are_not(self):
        self.refuse_csv("label_column: no 'kind' in its header", b"a,b\n1,0\n", "--label_column=kind")
        self.refuse_csv("label_column: 3 is not within 1 and its 2 columns", b"a,b\n1,0\n", "--label_column=3")
        self.refuse_csv("data.separator: \"pipe\" is none of", b"a,b\n1,0\n", "--separator=pipe")
        self.refuse_csv("data.missing: \"mean\" is neither", b"a,b\n1,0\n", "--missing=mean")
        self.refuse("data.label_column: of format csv, not of digits", "--label_column=1")

    def test_what_would_be_overwritten(self):
        with open(self.config) as file:
            before = file.read()
        self.refuse("output.model_path: .* is a file that the job reads", f"--model_path={self.config}")
        model = os.path.join(self.dir, "m")
        self.refuse("output.curve_path: .* is output.model_path too", f"--model_path={model}", f"--curve={model}")
        keys = os.path.join(self.dir, "keys")
        self.assertEqual(Running([f"{BIN}/soapstone", "keygen", f"--out={keys}"]).wait(20), 0)
        self.refuse("output.curve_path: .* is a file that the job reads", f"--key={keys}", f"--curve={keys}/server.key")
        self.refuse("output.curve_path: .* is a file that the job reads", f"--key={keys}/worker.key",
                    f"--curve={keys}/server.key", "--scheduler=tcp://127.0.0.1:1", program="soapstone-worker")
        self.assertEqual(os.path.basename(self.config), "job.textproto")
        self.refuse_alone("output.log_dir: .*job.textproto is a file that the job reads", f"--config={self.config}",
                          f"--log_dir={self.dir}")
        self.refuse_alone("output.record_path: .* is in .*, which the job reads", "--model=softmax",
                          "--data_format=images", f"--data_path={self.dir}", f"--record={self.dir}/recorded")
        os.makedirs(f"{self.dir}/logs")
        self.refuse("output.model_path: .*ledger.json is output.log_dir too", f"--model_path={self.dir}/logs/ledger.json")
        events = os.path.join(self.dir, "events")
        self.refuse("output.timeline_path: .* is output.record_path too", f"--record={events}", f"--timeline={events}")
        self.write("recorded-job.textproto", b"")
        self.refuse("output.timeline_path: .* holds a recording", f"--timeline={self.dir}")
        for role in ("scheduler", "server", "worker"):
            self.refuse("output.model_path: .* is a file that the job reads", f"--model_path={self.config}",
                        "--scheduler=tcp://127.0.0.1:1", program=f"soapstone-{role}")
        with open(self.config) as file:
            self.assertEqual(file.read(), before)

    def test_unwritable_model_path(self):
        self.refuse("/nowhere", "--model_path=/nowhere/model.safetensors")

    def limited(self, limit, *flags):
        command = f'ulimit {limit}; exec "{BIN}/soapstone" "$@"'
        running = Running(["bash", "-c", command, "soapstone", "train", f"--config={self.config}", "--http=off",
                           f"--log_dir={self.dir}/logs {limit}", "--epochs=1", *flags])
        self.addCleanup(self.stop, running)
        return running

    def test_processes_that_may_have_few_descriptors(self):
        # Each connection, shared memory and file is the one too many at some limit. All at once: most wait.
        runs = {limit: self.limited(f"-n {limit}", "--servers=2", f"--model_path={self.dir}/{limit}")
                for limit in range(20, 64, 4)}
        for limit, running in runs.items():
            with self.subTest(limit=limit):
                code = running.wait(90)
                self.assertIn(code, {0, 70, 78, 138}, running.output())
                if code != 0:
                    self.assertRegex(running.output(), "open files|no answer|no heartbeat|lost")

    def test_a_model_larger_than_a_file_may_be(self):
        path = os.path.join(self.dir, "model.safetensors")
        running = self.limited("-f 64", f"--model_path={path}")
        self.assertEqual(running.wait(60), 78, running.output())
        self.assertIn(f"cannot write {path}: File too large", running.output())
        self.assertFalse(os.path.exists(path))

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.refuse(f"in use.*{port}", f"--scheduler=tcp://127.0.0.1:{port}",
                        program="soapstone-scheduler")

    def test_port_in_use_under_the_launcher(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            running = self.train(f"--scheduler=tcp://127.0.0.1:{port}")
            self.assertEqual(running.wait(20), 78, running.output())
            self.assertRegex(running.output(), f"in use.*{port}")
            self.assertFalse(os.path.exists(f"{self.dir}/logs/worker-0.log"))

    def test_no_scheduler_endpoint(self):
        self.refuse("cluster.scheduler", program="soapstone-worker")

    def test_rank_that_is_none(self):
        self.refuse("--rank=x", "--rank=x", "--scheduler=tcp://127.0.0.1:1",
                    program="soapstone-worker")

    def test_nobody_at_the_endpoint(self):
        running = self.run_program("soapstone-worker", f"--config={self.config}",
                                   "--scheduler=tcp://127.0.0.1:1", "--start_timeout_s=1")
        self.assertEqual(running.wait(20), 138, running.output())
        self.assertIn("no answer from the scheduler", running.output())

    def test_check_and_print_config(self):
        running = self.train("--check", "--workers=2")
        self.assertEqual(running.wait(20), 0, running.output())
        self.assertRegex(running.output(), "ok: lenet5 .*2 workers")
        running = self.train("--print_config", "--workers=2")
        self.assertEqual(running.wait(20), 0, running.output())
        self.assertIn("workers: 2", running.output())


if __name__ == "__main__":
    unittest.main()
