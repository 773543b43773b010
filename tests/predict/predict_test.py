"""Trained models are used: `soapstone predict` and `evaluate`."""
import csv
import json
import math
import os
import unittest

from predicting import DIGITS, PredictTestCase, digits, write_digits, write_libsvm


class PredictTest(PredictTestCase):

    def agree(self, said, result):
        for name in ("test_samples", "test_accuracy", "test_loss"):
            self.assertEqual(said[name], result[name], name)

    def test_images(self):
        model, result = self.trained("--epochs=6")
        labels = write_digits(self.path("images"), 400)
        rows = self.rows(f"--model_file={model}", f"--images={self.path('images')}", "--probabilities", "--top=2")
        self.assertEqual([row["file"] for row in rows], sorted(labels))
        [one] = self.rows(f"--model_file={model}", f"--images={self.path('images')}/0007.png")
        self.assertEqual((one["file"], one["class"]), ("0007.png", rows[7]["class"]))
        right = sum(int(row["class"]) == labels[row["file"]] for row in rows)
        self.assertGreater(right / len(rows), result["test_accuracy"] - 0.05)
        for row in rows[:20]:
            all_classes = [float(row[f"p_{k}"]) for k in range(10)]
            self.assertAlmostEqual(sum(all_classes), 1, places=5)
            self.assertEqual(float(row["probability"]), max(all_classes))
            self.assertEqual(float(row["probability_2"]), sorted(all_classes)[-2])
        # The same digits as the table that they are from.
        table = self.path("some.csv")
        with open(table, "w") as file:
            for values, label in digits()[:400]:
                file.write(",".join(map(str, [*values, label])) + "\n")
        of_table = self.rows(f"--model_file={model}", f"--data={table}")
        self.assertEqual([row["label"] for row in of_table], [str(labels[row["file"]]) for row in rows])
        differ = [abs(float(a["probability"]) - float(b["probability"])) for a, b in zip(rows, of_table)]
        self.assertLess(max(differ), 0.05)  # by how pixels are rounded to bytes
        # What is written to a file, and as JSON, is the same.
        out = self.path("out.json")
        self.assertEqual(self.said("predict", f"--model_file={model}", f"--images={self.path('images')}",
                                   "--format=json", f"--output={out}"), "")
        with open(out) as file:
            said = json.load(file)
        self.assertEqual([(s["file"], s["class"]) for s in said], [(r["file"], r["class"]) for r in rows])

    def test_evaluate_says_what_training_ended_with(self):
        # So slow that each checkpoint of it is ordered in time.
        model, result = self.trained("--epochs=3", "--base_ms=10", f"--checkpoint={self.path('ckpt')}")
        self.agree(self.evaluated(f"--model_file={model}"), result)
        of_checkpoint = self.evaluated(f"--checkpoint={self.path('ckpt')}")
        self.assertEqual(self.evaluated(f"--model_file={model}")["confusion"], result["confusion"])
        exported = self.path("exported.safetensors")
        self.assertEqual(self.said("checkpoint", "export", self.path("ckpt"), exported).count("\n"), 1)
        self.agree(self.evaluated(f"--model_file={exported}"), of_checkpoint)
        self.assertIn("balanced accuracy", self.said("evaluate", f"--model_file={model}"))
        # The newest checkpoint is not the first, whose values are others.
        clocks = sorted(int(name) for name in os.listdir(self.path("ckpt")))
        first = self.evaluated(f"--checkpoint={self.path('ckpt')}/{clocks[0]}")
        self.assertNotEqual(first["test_loss"], of_checkpoint["test_loss"])

    def test_other_samples_are_evaluated_without_the_training_data(self):
        with open(self.path("train.csv"), "w") as train, open(self.path("test.csv"), "w") as test:
            for i, (values, label) in enumerate(digits()):
                (test if i % 5 == 0 else train).write(",".join(map(str, [*values, "abcdefghij"[label]])) + "\n")
        data = ("--data_format=csv", "--height=8", "--width=8", f"--data_path={self.path('train.csv')}")
        model, result = self.trained("--epochs=2", f"--test_path={self.path('test.csv')}", *data)
        os.remove(self.path("train.csv"))
        said = self.evaluated(f"--model_file={model}", f"--data={self.path('test.csv')}")
        self.agree(said, result)
        self.assertEqual(said["class_names"], list("abcdefghij"))
        rows = self.rows(f"--model_file={model}", f"--data={self.path('test.csv')}")
        right = sum(row["label"] == row["class"] for row in rows)
        self.assertEqual(right / len(rows), result["test_accuracy"])

    def test_libsvm(self):
        train, test = (write_libsvm(self.path(name), n, seed) for name, n, seed in
                       (("train", 2000, 1), ("test", 500, 2)))
        model, result = self.trained("--model=logistic", "--data_format=libsvm", f"--data_path={train}",
                                     f"--test_path={test}", "--epochs=2", "--optimizer=ftrl:lr=0.5")
        self.agree(self.evaluated(f"--model_file={model}"), result)
        os.remove(train)
        self.agree(self.evaluated(f"--model_file={model}", f"--data={test}"), result)
        rows = self.rows(f"--model_file={model}", f"--data={test}", "--probabilities")
        self.assertEqual({row["label"] for row in rows}, {"-1", "1"})
        right = sum(row["label"] == row["class"] for row in rows)
        self.assertEqual(right / len(rows), result["test_accuracy"])
        loss = -sum(math.log(float(row["p_" + row["label"]])) for row in rows) / len(rows)
        self.assertAlmostEqual(loss, result["test_loss"], places=4)

    def test_rows_of_a_checkpoint(self):
        train, test = (write_libsvm(self.path(name), n, seed) for name, n, seed in
                       (("train", 2000, 1), ("test", 500, 2)))
        checkpoints, exported = self.path("rows"), self.path("exported.safetensors")
        self.trained("--model=logistic", "--data_format=libsvm", f"--data_path={train}", f"--test_path={test}",
                     "--epochs=2", "--optimizer=ftrl:lr=0.5", f"--checkpoint={checkpoints}", "--checkpoint_every=20")
        self.said("checkpoint", "export", checkpoints, exported)
        of_file = self.rows(f"--model_file={exported}", f"--data={test}", "--probabilities")
        self.assertEqual(self.rows(f"--checkpoint={checkpoints}", f"--data={test}", "--probabilities"), of_file)
        self.assertGreater(len({row["p_1"] for row in of_file}), 100)

    def test_text_is_continued(self):
        model, result = self.text_model()
        self.agree(self.evaluated(f"--model_file={model}"), result)
        said = self.evaluated(f"--model_file={model}")
        self.assertEqual(said["test_perplexity"], result["test_perplexity"])
        greedy = ("predict", f"--model_file={model}", "--text=the cat sat", "--length=30")
        text = self.said(*greedy)
        self.assertTrue(text.startswith("the cat sat"), text)
        self.assertEqual(text, self.said(*greedy, "--seed=9"))
        drawn = [self.said(*greedy, "--temperature=3", f"--seed={seed}") for seed in (1, 2)]
        self.assertNotEqual(drawn[0], drawn[1])
        self.assertEqual(drawn[0], self.said(*greedy, "--temperature=3", "--seed=1"))
        self.assertEqual(text, self.said(*greedy, "--temperature=3", "--top_k=1"))
        tokens = json.loads(self.said(*greedy, "--format=json"))["tokens"]
        self.assertEqual("the cat sat" + "".join(t["text"] for t in tokens) + "\n", text)

    def test_words_are_those_of_the_training(self):
        model, result = self.text_model("words", "--vocabulary=40")
        os.remove(self.path("text.txt"))
        text = self.said("predict", f"--model_file={model}", "--text=the cat sat on the", "--length=8")
        words = text.split()
        self.assertEqual(words[:5], "the cat sat on the".split())
        self.assertLessEqual(set(words), set("the cat sat on mat and dog log . <unk>".split()))
        self.refuse("lacks 2 words: zebra, ran; --unknown_words", "predict", f"--model_file={model}",
                    "--text=the zebra ran")
        self.assertTrue(self.said("predict", f"--model_file={model}", "--text=the zebra ran", "--unknown_words")
                        .startswith("the <unk> <unk>"))
        self.assertEqual(result["test_samples"] > 0, True)

    def test_a_job_file_says_what_a_file_of_others_does_not(self):
        model, result = self.trained("--epochs=2")
        with open(model, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header, data = json.loads(file.read(size)), file.read()
        del header["__metadata__"]
        plain = json.dumps(header).encode()
        others = self.path("others.safetensors")
        with open(others, "wb") as file:
            file.write(len(plain).to_bytes(8, "little") + plain + data)
        self.refuse("says of no model what it is: give --config=JOB", "evaluate", f"--model_file={others}")
        self.agree(self.evaluated(f"--model_file={others}", f"--config={self.config}"), result)
        self.assertTrue(os.path.exists(DIGITS))


if __name__ == "__main__":
    unittest.main()
