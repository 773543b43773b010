"""Models exported by PyTorch compute here what they compute there. Skipped without PyTorch."""
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    from torch import nn
except ImportError:
    debian = "/usr/bin/python3"  # whose PyTorch other Pythons do not see
    if os.path.exists(debian) and not os.path.samefile(debian, sys.executable):
        os.execv(debian, [debian, *sys.argv])
    print("SKIPPED: PyTorch is not installed (Debian: python3-torch)")
    sys.exit(77)

FORWARD = os.environ["SOAPSTONE_ONNX_FORWARD"]
SAMPLES = 3
RELATIVE_ERROR_MAX = 1e-4


class Lenet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = x.view(x.size(0), -1)
        return torch.softmax(self.fc3(torch.tanh(self.fc2(torch.relu(self.fc1(x))))), 1)


class Block(nn.Module):
    """Bottleneck with groups, as ResNeXt's."""

    def __init__(self, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 8, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride, 1, groups=2, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.conv3 = nn.Conv2d(8, 16, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(16)
        self.down = None if stride == 1 and channels == 16 else nn.Sequential(
            nn.Conv2d(channels, 16, 1, stride, bias=False), nn.BatchNorm2d(16))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return torch.relu(y + (x if self.down is None else self.down(x)))


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layers = nn.Sequential(Block(8, 1), Block(16, 1), Block(16, 2))
        self.average = nn.AdaptiveAvgPool2d(1)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = self.pool(torch.relu(self.bn(self.stem(x))))
        return self.fc(self.drop(torch.flatten(self.average(self.layers(x)), 1)))


class Tagger(nn.Module):
    """Embedding, LSTM layers, and a class for the last step (`last`) or for each."""

    def __init__(self, last, both=False, batch_first=True):
        super().__init__()
        self.last = last
        self.batch_first = batch_first
        self.embedding = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 8, 2, batch_first=batch_first, bidirectional=both)
        self.fc = nn.Linear(16 if both else 8, 4)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.batch_first:
            x = self.lstm(x)[0]
        else:
            x = self.lstm(x.transpose(0, 1))[0].transpose(0, 1)
        return self.fc(x[:, -1] if self.last else x)


class LastState(nn.Module):
    """The last hidden state, which is an output of its own."""

    def __init__(self, both):
        super().__init__()
        self.lstm = nn.LSTM(5, 7, batch_first=True, bidirectional=both)
        self.fc = nn.Linear(14 if both else 7, 3)

    def forward(self, x):
        h = self.lstm(x)[1][0]
        return self.fc(h[-1]) if h.size(0) == 1 else self.fc(torch.cat([h[0], h[1]], 1))


class Odds(nn.Module):
    """What is left: average pooling, concat, split, product, reductions, layer norm."""

    def __init__(self):
        super().__init__()
        self.average = nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        self.conv = nn.Conv2d(4, 6, (1, 3), padding=(0, 1))
        self.positions = nn.Parameter(torch.randn(16, 5))
        self.layer_norm = nn.LayerNorm(5)
        self.fc = nn.Linear(5, 4)

    def forward(self, x):
        x = self.average(x)
        a, b = torch.split(self.conv(x), [2, 4], 1)
        b = torch.sigmoid(b)
        x = torch.cat([a, b[:, :2] * b[:, 2:]], 1)
        x = x.reshape(x.size(0), 4, -1).transpose(1, 2).reshape(x.size(0), 40, 5)[:, 2:18]
        x = self.layer_norm(x + self.positions)
        return self.fc(x.mean(1) + x.sum(dim=1))


def randomize(model):
    """Running statistics and scales that are not those of a new model, which would hide faults."""
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
            for tensor in (module.bias.data, module.running_mean):
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.2)
    return model


class ExportTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.folder = tempfile.TemporaryDirectory(prefix="soapstone-onnx-")
        self.addCleanup(self.folder.cleanup)
        self.forward_of_file = None

    def export(self, model, x, opset=13, dynamic=True, **options):
        path = os.path.join(self.folder.name, "model.onnx")
        axes = {"input": {0: "batch"}, "output": {0: "batch"}} if dynamic else None
        torch.onnx.export(model, (x[:2],), path, input_names=["input"], output_names=["output"],
                          opset_version=opset, dynamic_axes=axes, **options)
        return path

    def run_forward(self, path, x):
        data = os.path.join(self.folder.name, "input.raw")
        with open(data, "wb") as file:
            file.write((x if x.is_floating_point() else x.int()).contiguous().numpy().tobytes())
        out = os.path.join(self.folder.name, "output.raw")
        done = subprocess.run([FORWARD, path, data, str(len(x)), out], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, "rb") as file:
            logits = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
        return logits, [line.split()[0] for line in done.stdout.splitlines()]

    def check(self, model, x, expected=None, **options):
        """Exports, imports, compares; returns the parameters' names."""
        model = randomize(model).eval()
        with torch.no_grad():
            expected = (model if expected is None else expected)(x)
        got, names = self.run_forward(self.export(model, x, **options), x)
        self.assertEqual(got.numel(), expected.numel())
        error = (got - expected.flatten()).abs().max() / expected.abs().max()
        self.assertLess(float(error), RELATIVE_ERROR_MAX)
        self.assertGreater(float(expected.std()), 1e-3)  # or the comparison says nothing
        return names

    def test_lenet5(self):
        model = Lenet5()
        logits = lambda x: torch.log(model(x))  # the softmax at the end is the loss's
        x = torch.randn(SAMPLES, 1, 28, 28)
        model.eval()
        with torch.no_grad():
            expected = logits(x)
        for opset in (9, 13):
            for dynamic in (True, False):
                got, names = self.run_forward(
                    self.export(model, x if dynamic else x[:1], opset, dynamic), x)
                got = torch.log_softmax(got.view(SAMPLES, 10), 1)
                error = (got - expected).abs().max() / expected.abs().max()
                self.assertLess(float(error), RELATIVE_ERROR_MAX)
                self.assertEqual(names, list(model.state_dict()))

    def test_resnet_with_normalisation_folded_into_weights(self):
        names = self.check(Resnet(), torch.randn(SAMPLES, 3, 32, 32))
        self.assertIn("fc.weight", names)

    def test_resnet_with_its_own_normalisation(self):
        model = Resnet()
        names = self.check(model, torch.randn(SAMPLES, 3, 32, 32), do_constant_folding=False,
                           training=torch.onnx.TrainingMode.PRESERVE)
        wanted = [name for name in model.state_dict() if "num_batches" not in name]
        self.assertEqual(sorted(names), sorted(wanted))

    def test_lstm(self):
        tokens = torch.randint(0, 20, (SAMPLES, 9))
        for last in (True, False):
            for both in (False, True):
                for batch_first in (True, False):
                    with self.subTest(last=last, both=both, batch_first=batch_first):
                        self.check(Tagger(last, both, batch_first), tokens)

    def test_lstm_of_a_fixed_batch(self):
        tokens = torch.randint(0, 20, (2, 9))
        self.check(Tagger(True), tokens, dynamic=False)

    def test_last_state(self):
        for both in (False, True):
            self.check(LastState(both), torch.randn(SAMPLES, 6, 5))

    def test_other_operators(self):
        self.check(Odds(), torch.randn(SAMPLES, 4, 9, 19), opset=17)

    def test_attention_written_out_is_refused_by_name(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2)).eval()
        path = self.export(model, torch.randn(2, 8))
        done = subprocess.run([FORWARD, path, "none", "1", "none"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 78)
        self.assertRegex(done.stderr, r"model.onnx: node '.*' \((Div|Erf)\): this operator is not "
                                      r"supported; supported: Add, AveragePool")
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
