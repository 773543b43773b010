"""Bad input of `soapstone predict` and `evaluate`: one line, exit code 78, nothing half written."""
import json
import os
import struct
import subprocess
import unittest

from predicting import SOURCE, PredictTestCase, png, write_digits, write_libsvm


class PredictFaultsTest(PredictTestCase):

    def setUp(self):
        super().setUp()
        self.model, _ = self.trained("--epochs=1")
        self.images = self.path("images")
        write_digits(self.images, 3)
        self.usual = (f"--model_file={self.model}", f"--images={self.images}")

    def put(self, name, data):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_models(self):
        self.refuse("nowhere: No such file", "predict", "--model_file=nowhere", f"--images={self.images}")
        self.refuse("nowhere: No such file", "predict", "--checkpoint=nowhere", f"--images={self.images}")
        self.refuse("images", "predict", f"--checkpoint={self.images}", f"--images={self.images}")
        os.mkdir(self.path("empty"))
        self.refuse("empty has no checkpoint", "predict", f"--checkpoint={self.path('empty')}",
                    f"--images={self.images}")
        self.refuse("--model_file or --checkpoint is required", "predict", f"--images={self.images}")
        self.refuse("--images, --data or --text is required", "predict", f"--model_file={self.model}")
        not_one = self.put("text.safetensors", b"no model at all, whatever it is called")
        self.refuse("no safetensors file", "predict", f"--model_file={not_one}", f"--images={self.images}")
        with open(self.model, "rb") as file:
            whole = file.read()
        cut = self.put("cut.safetensors", whole[:-100])
        self.refuse("cut short", "predict", f"--model_file={cut}", f"--images={self.images}")

    def test_a_file_of_another_model(self):
        with open(self.config) as file:
            job = file.read()
        other = self.put("mlp.textproto", job.replace('"lenet5"', '"mlp"').encode())
        self.refuse("does not fit mlp", "predict", *self.usual, f"--config={other}")

    def test_values_that_are_not_finite(self):
        with open(self.model, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("<f", float("nan")))
        for command in (("predict", *self.usual), ("evaluate", f"--model_file={self.model}")):
            self.refuse("has values that are not finite", *command)

    def changed(self, model, name, change):
        """A file that says something else of its data."""
        with open(model, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header, data = json.loads(file.read(size)), file.read()
        header["__metadata__"][name] = change(header["__metadata__"][name])
        plain = json.dumps(header).encode()
        return self.put("changed.safetensors", len(plain).to_bytes(8, "little") + plain + data)

    def test_what_the_file_says_of_its_data_is_damaged(self):
        for name, text, wanted in (("reading", "{", "how its samples are read"), ("job", "model: 7", "its job")):
            path = self.changed(self.model, name, lambda _, text=text: text)
            self.refuse(wanted, "predict", f"--model_file={path}", f"--images={self.images}")
        few = self.changed(self.model, "reading", lambda text: json.dumps(dict(json.loads(text), class_names=["a"])))
        self.refuse("as many class names as classes", "predict", f"--model_file={few}", f"--images={self.images}")
        for divisor in (0, -1, 1e-38, 1e308):
            path = self.changed(self.model, "reading",
                                lambda text, divisor=divisor: json.dumps(dict(json.loads(text), divisor=divisor)))
            self.refuse("the divisor", "predict", f"--model_file={path}", f"--images={self.images}")

    def test_words_that_are_not_the_models(self):
        model, _ = self.text_model("words", "--vocabulary=40")

        def with_words(change):
            def read(text):
                reading = json.loads(text)
                reading["words"] = [change(reading["words"][0])]
                return json.dumps(reading)
            return read
        for change in (lambda words: words[:5], lambda words: [*words, "zz"]):
            path = self.changed(model, "reading", with_words(change))
            self.refuse("and computes with", "predict", f"--model_file={path}", "--text=the cat", "--length=3",
                        "--unknown_words")
        bare = self.changed(model, "reading", lambda text: json.dumps({
            name: value for name, value in json.loads(text).items() if not name.startswith("words")}))
        self.refuse("knows 256 bytes, and computes with", "predict", f"--model_file={bare}", "--text=the", "--length=3")

    def test_what_is_read_is_not_written_over(self):
        table = self.put("few.csv", b",".join([b"1"] * 65) + b"\n")
        for read in (self.model, table):
            for command in ("predict", "evaluate"):
                self.refuse("is read too", command, f"--model_file={self.model}", f"--data={table}", f"--output={read}")

    def test_nothing_is_written_among_checkpoints(self):
        folder = self.path("ck")
        running = self.train("--epochs=1", f"--checkpoint={folder}", "--checkpoint_every=10", "--policy=bsp")
        self.assertEqual(running.wait(60), 0, running.output())
        clock = sorted(os.listdir(folder))[-1]
        for name in ("x.json", f"{clock}/manifest.textproto", f"{clock}/shard-0.safetensors"):
            for command in (("predict", f"--images={self.images}"), ("evaluate",)):
                self.refuse("is in the folder of checkpoints", *command, f"--checkpoint={folder}",
                            f"--output={folder}/{name}")
        self.assertEqual(subprocess.run([os.path.join(os.environ["SOAPSTONE_BIN"], "soapstone"), "checkpoint", "verify",
                                         folder], capture_output=True, check=False).returncode, 0)

    def test_images(self):
        at = f"--model_file={self.model}"
        self.refuse("nothere", "predict", at, "--images=nothere")
        os.mkdir(self.path("none"))
        self.refuse("no images in it", "predict", at, f"--images={self.path('none')}")
        self.put("notes/notes.txt", b"no image")
        self.refuse("no images in it", "predict", at, f"--images={self.path('notes')}")
        self.put("large/a.png", png([0] * 144, 12, 12))
        self.refuse("a.png: an image of 12×12, where 8×8 is needed", "predict", at, f"--images={self.path('large')}")
        whole = png(list(range(64)), 8, 8)
        out = self.path("out.csv")
        for name, data in (("cut", whole[:50]), ("bits", whole[:45] + b"\xff" * 8 + whole[53:]), ("blank", b"")):
            self.put("images/9.png", data)
            self.refuse("9.png: (PNG is cut off or corrupt|not a PNG)", "predict", *self.usual, f"--output={out}")
            self.assertFalse(os.path.exists(out), name)

    def test_data(self):
        at = f"--model_file={self.model}"
        self.refuse("nothere", "predict", at, "--data=nothere")
        self.refuse("no rows|empty|no samples", "predict", at, f"--data={self.put('empty.csv', b'')}")
        self.refuse("10 values; the model takes 64", "predict", at,
                    f"--data={self.put('narrow.csv', b'1,2,3,4,5,6,7,8,9,1' + bytes([10]))}")
        words = self.put("words.csv", b",".join([b"x"] * 65) + b"\n")
        self.refuse("words.csv", "predict", at, f"--data={words}")
        self.refuse("continues no text", "predict", at, "--text=To be")
        label = self.put("label.csv", b",".join([b"1"] * 64 + [b"12"]) + b"\n")
        self.refuse("label 12; the model has 10 classes", "evaluate", at, f"--data={label}")
        unlabelled = self.put("unlabelled.csv", b",".join([b"1"] * 64) + b"\n")
        self.refuse("no labels", "evaluate", at, f"--data={unlabelled}")

    def test_flags_that_mean_nothing(self):
        table = os.path.join(SOURCE, "data", "digits", "digits.csv.gz")
        at = (f"--model_file={self.model}", f"--data={table}")
        for command in ("predict", "evaluate"):
            self.refuse("--labels is of data of format idx, and .* was trained on digits: leave it out", command, *at,
                        f"--labels={table}")
            self.refuse("--data_path says where training data lie, and none of .* are read here.*: leave it out",
                        command, *at, f"--data_path={table}")
            self.refuse("--missing is of data of format csv, and .* was trained on digits", command, *at,
                        "--missing=drop")
        self.refuse("--test_path says where training data lie", "predict", *self.usual, f"--test_path={table}")
        # Of the job's own held-out samples, and with a job file, training data are read.
        self.said("evaluate", f"--model_file={self.model}", f"--data_path={table}")
        self.said("predict", *at, f"--config={self.config}", f"--data_path={table}")
        train = write_libsvm(self.path("train"), 200, 1)
        model, _ = self.trained("--model=logistic", "--data_format=libsvm", f"--data_path={train}", "--epochs=1",
                                name="logistic")
        self.refuse("--data_path says where training data lie", "predict", f"--model_file={model}", f"--data={train}",
                    f"--data_path={train}")
        self.refuse("--labels is of data of format idx", "predict", f"--model_file={model}", f"--data={train}",
                    f"--labels={train}")

    def test_missing_values(self):
        lines = [b",".join([b"%d" % ((i + k) % 16) for k in range(64)] + [b"%d" % (i % 3)]) for i in range(200)]
        table = self.put("digits.csv", b"\n".join(lines) + b"\n")
        model, _ = self.trained("--epochs=1", "--data_format=csv", f"--data_path={table}", "--model=mlp", name="mlp")
        lines[1] = lines[1].replace(b"3", b"?", 1)
        gaps = self.put("gaps.csv", b"\n".join(lines[:5]) + b"\n")
        at = (f"--model_file={model}", f"--data={gaps}")
        for command in ("predict", "evaluate"):
            self.refuse("gaps.csv:2: .* take --missing=drop", command, *at)
            code, _, err = self.call(command, *at, "--missing=drop")
            self.assertEqual(code, 0, err)
            self.assertRegex(err, "1 of 5 rows left out, for 1 missing values; the rest are numbered without them")
        self.assertEqual(len(self.rows(*at, "--missing=drop")), 4)

    def test_text(self):
        model, _ = self.text_model(name="lm")
        self.refuse("--text: no value given", "predict", f"--model_file={model}", "--text=")
        self.refuse("--text: there is nothing to continue", "predict", f"--model_file={model}", "--text", "")
        self.refuse("is a language model: --text", "predict", f"--model_file={model}",
                    f"--images={self.images}")
        self.refuse("is a language model: --text", "predict", f"--model_file={model}", f"--data={self.model}")
        short = self.put("short.txt", b"abc")
        self.refuse("shorter than a sequence", "evaluate", f"--model_file={model}", f"--data={short}")

    def test_tables(self):
        train = write_libsvm(self.path("train"), 400, 1)
        model, _ = self.trained("--model=logistic", "--data_format=libsvm", f"--data_path={train}", "--epochs=1",
                                "--optimizer=ftrl:lr=0.5", name="logistic")
        self.refuse("takes no images", "predict", f"--model_file={model}", f"--images={self.images}")
        self.refuse("no samples", "predict", f"--model_file={model}", f"--data={self.put('empty', b'')}")
        odd = self.put("odd", b"1 x y\n")
        self.refuse("is no index:value", "predict", f"--model_file={model}", f"--data={odd}")
        # Keys that no training sample had are those that a table begins with: nothing.
        rows = self.rows(f"--model_file={model}", f"--data={self.put('new', b'1 999999:5' + bytes([10]))}")
        bias = self.rows(f"--model_file={model}", f"--data={self.put('bias', b'1' + bytes([10]))}")
        self.assertEqual(rows, bias)

    def test_outputs(self):
        self.refuse("nofolder", "predict", *self.usual, "--output=nofolder/out.csv")
        self.refuse("images", "predict", *self.usual, f"--output={self.images}")
        with open("/dev/full", "w") as full:
            done = subprocess.run([f"{self.bin}/soapstone", "predict", *self.usual], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 78)
        self.assertIn("standard output cannot be written", done.stderr)

    def test_data_that_have_changed(self):
        table = self.put("digits.csv", b"".join(b",".join([b"%d" % (i % 16)] * 64 + [b"%d" % (i % 3)]) + b"\n"
                                               for i in range(200)))
        model, _ = self.trained("--epochs=1", "--data_format=csv", f"--data_path={table}", "--model=mlp",
                                f"--checkpoint={self.path('ckpt')}", "--checkpoint_every=1", name="mlp")
        self.assertGreater(self.evaluated(f"--model_file={model}")["test_samples"], 0)
        with open(table, "a") as file:
            file.write((",".join(["99"] * 64 + ["1"]) + "\n") * 9)
        self.refuse("other data", "evaluate", f"--model_file={model}")
        self.refuse("other data", "evaluate", f"--checkpoint={self.path('ckpt')}")


if __name__ == "__main__":
    unittest.main()
