"""The models of the zoo in PyTorch: written layer by layer from their papers, with the names that
torchvision gives its parameters where it has the model. Nothing here is made from our graphs.

A model is a function (net, inputs, tiny) -> logits [N, .., classes].
"""
import torch
import torch.nn.functional as F


class Net:
    """Parameters by name, and what a step leaves behind beside its logits.

    decisions: by the name of a ReLU or a max pool, what another implementation decided at each kink:
    a ReLU passes where the given output is positive, a max pool takes the largest of the given
    input. None: decide by the values, as usual.
    """

    def __init__(self, tensors, dtype, decisions=None):
        self.parameters = {}
        for name, values in tensors.items():
            running = name.endswith((".running_mean", ".running_var"))
            self.parameters[name] = torch.nn.Parameter(
                torch.from_numpy(values).to(dtype), requires_grad=not running)
        self.decisions = decisions
        self.used = set()
        self.statistics = {}  # by name: n * (r - r_now)
        self.places = 0       # where a ReLU or a maximum decides
        self.differing = 0    # where the values would have decided otherwise
        self.widest = 0.0     # how far from the kink such a place is, in RMS of its tensor

    def __getitem__(self, name):
        self.used.add(name)
        return self.parameters[name]

    def has(self, name):
        return name in self.parameters

    def relu(self, name, x):
        self.places += x.numel()
        if self.decisions is None:
            return F.relu(x)
        passes = self.decisions[name] > 0
        self._count((x > 0) != passes, x)
        return torch.where(passes, x, torch.zeros((), dtype=x.dtype))

    def max_pool(self, source, x, size, stride, padding=0):
        """source: the name of the tensor that is pooled."""
        if self.decisions is None:
            return F.max_pool2d(x, size, stride, padding)
        own, mine = F.max_pool2d(x, size, stride, padding, return_indices=True)
        self.places += own.numel()
        _, theirs = F.max_pool2d(self.decisions[source].to(x.dtype), size, stride, padding,
                                 return_indices=True)
        chosen = x.flatten(2).gather(2, theirs.flatten(2)).view_as(own)
        # Of equal elements any may be the largest; after a ReLU many are equal, at zero.
        self._count((mine != theirs) & (own != chosen), own - chosen, x)
        return chosen

    def _count(self, differs, distance, like=None):
        count = int(differs.sum())
        if count == 0:
            return
        self.differing += count
        rms = (distance if like is None else like).detach().square().mean().sqrt()
        self.widest = max(self.widest, float(distance.detach()[differs].abs().max() / rms))

    def linear(self, name, x):
        bias = self[name + ".bias"] if self.has(name + ".bias") else None
        return F.linear(x, self[name + ".weight"], bias)

    def conv(self, name, x, stride=1, padding=0, groups=1):
        bias = self[name + ".bias"] if self.has(name + ".bias") else None
        return F.conv2d(x, self[name + ".weight"], bias, stride, padding, 1, groups)

    def batch_norm(self, name, x, eps=1e-5, momentum=0.1):
        old = {s: self[f"{name}.running_{s}"].detach() for s in ("mean", "var")}
        new = {s: r.clone() for s, r in old.items()}
        y = F.batch_norm(x, new["mean"], new["var"], self[name + ".weight"], self[name + ".bias"],
                         True, momentum, eps)
        for s in old:
            self.statistics[f"{name}.running_{s}"] = x.shape[0] * (old[s] - new[s]) / momentum
        return y

    def layer_norm(self, name, x, eps):
        return F.layer_norm(x, x.shape[-1:], self[name + ".weight"], self[name + ".bias"], eps)

    def embedding(self, name, ids):
        return F.embedding(ids, self[name + ".weight"])

    def lstm(self, name, x):
        """One layer, one direction, zero initial state. One bias: the second of torch's is zero."""
        weight_ih = self[name + ".weight_ih"]
        layer = torch.nn.LSTM(x.shape[-1], weight_ih.shape[0] // 4, batch_first=True, device="meta")
        layer.weight_ih_l0 = weight_ih
        layer.weight_hh_l0 = self[name + ".weight_hh"]
        layer.bias_ih_l0 = self[name + ".bias"]
        layer.bias_hh_l0 = torch.nn.Parameter(torch.zeros_like(layer.bias_ih_l0), False)
        return layer(x)[0]


def softmax(net, inputs, tiny):
    return net.linear("fc1", inputs["input"].flatten(1))


def mlp(net, inputs, tiny):
    x = inputs["input"].flatten(1)
    for name in ("fc1", "fc2"):
        x = net.relu(name, net.linear(name, x))
    return net.linear("fc3", x)


def lenet5(net, inputs, tiny):
    """28x28: 5x5 with padding 2, 5x5 without. 8x8 (tiny): 3x3 with padding 1, twice."""
    x = net.relu("conv1", net.conv("conv1", inputs["input"], padding=1 if tiny else 2))
    x = net.max_pool("conv1", x, 2, 2)
    x = net.relu("conv2", net.conv("conv2", x, padding=1 if tiny else 0))
    x = net.max_pool("conv2", x, 2, 2).flatten(1)
    for name in ("fc1", "fc2"):
        x = net.relu(name, net.linear(name, x))
    return net.linear("fc3", x)


def alexnet(net, inputs, tiny):
    pool = 2 if tiny else 3
    x = inputs["input"]
    for name, stride, padding, pooled in (
            ("features.0", 1 if tiny else 4, 1 if tiny else 2, True),
            ("features.3", 1, 1 if tiny else 2, True),
            ("features.6", 1, 1, False), ("features.8", 1, 1, False), ("features.10", 1, 1, True)):
        x = net.relu(name, net.conv(name, x, stride, padding))
        if pooled:
            x = net.max_pool(name, x, pool, 2)
    x = x.flatten(1)
    for name in ("classifier.1", "classifier.4"):
        x = net.relu(name, net.linear(name, x))
    return net.linear("classifier.6", x)


def resnet(blocks):
    def bottleneck(net, name, x, stride):
        out = net.relu(name + ".bn1", net.batch_norm(name + ".bn1", net.conv(name + ".conv1", x)))
        out = net.conv(name + ".conv2", out, stride, 1)
        out = net.relu(name + ".bn2", net.batch_norm(name + ".bn2", out))
        out = net.batch_norm(name + ".bn3", net.conv(name + ".conv3", out))
        if net.has(name + ".downsample.0.weight"):
            x = net.batch_norm(name + ".downsample.1", net.conv(name + ".downsample.0", x, stride))
        return net.relu(name + ".add", out + x)

    def model(net, inputs, tiny):
        x = inputs["input"]
        x = net.conv("conv1", x, 1, 1) if tiny else net.conv("conv1", x, 2, 3)
        x = net.relu("bn1", net.batch_norm("bn1", x))
        if not tiny:
            x = net.max_pool("bn1", x, 3, 2, 1)
        for stage, count in enumerate((1, 1, 1, 1) if tiny else blocks):
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                x = bottleneck(net, f"layer{stage + 1}.{i}", x, stride)
        return net.linear("fc", x.mean((2, 3)))

    return model


class Inception:
    """Szegedy et al. 2016, figures 5, 6, 7 and 10, as torchvision has them."""

    def __init__(self, net):
        self.net = net

    def conv(self, name, x, stride=1, padding=0):
        x = self.net.batch_norm(name + ".bn", self.net.conv(name + ".conv", x, stride, padding),
                                1e-3)
        return self.net.relu(name + ".bn", x)

    def chain(self, x, *layers):
        for layer in layers:
            x = self.conv(layer[0], x, **(layer[1] if len(layer) > 1 else {}))
        return x

    @staticmethod
    def average(x):
        return F.avg_pool2d(x, 3, 1, 1)

    def a(self, n, x):
        return torch.cat([
            self.conv(n + ".branch1x1", x),
            self.chain(x, (n + ".branch5x5_1",), (n + ".branch5x5_2", {"padding": 2})),
            self.chain(x, (n + ".branch3x3dbl_1",), (n + ".branch3x3dbl_2", {"padding": 1}),
                       (n + ".branch3x3dbl_3", {"padding": 1})),
            self.conv(n + ".branch_pool", self.average(x))], 1)

    def b(self, n, x, source):
        return torch.cat([
            self.conv(n + ".branch3x3", x, 2),
            self.chain(x, (n + ".branch3x3dbl_1",), (n + ".branch3x3dbl_2", {"padding": 1}),
                       (n + ".branch3x3dbl_3", {"stride": 2})),
            self.net.max_pool(source, x, 3, 2)], 1)

    def c(self, n, x):
        row, column = {"padding": (0, 3)}, {"padding": (3, 0)}
        return torch.cat([
            self.conv(n + ".branch1x1", x),
            self.chain(x, (n + ".branch7x7_1",), (n + ".branch7x7_2", row),
                       (n + ".branch7x7_3", column)),
            self.chain(x, (n + ".branch7x7dbl_1",), (n + ".branch7x7dbl_2", column),
                       (n + ".branch7x7dbl_3", row), (n + ".branch7x7dbl_4", column),
                       (n + ".branch7x7dbl_5", row)),
            self.conv(n + ".branch_pool", self.average(x))], 1)

    def d(self, n, x, source):
        return torch.cat([
            self.chain(x, (n + ".branch3x3_1",), (n + ".branch3x3_2", {"stride": 2})),
            self.chain(x, (n + ".branch7x7x3_1",), (n + ".branch7x7x3_2", {"padding": (0, 3)}),
                       (n + ".branch7x7x3_3", {"padding": (3, 0)}),
                       (n + ".branch7x7x3_4", {"stride": 2})),
            self.net.max_pool(source, x, 3, 2)], 1)

    def e(self, n, x):
        row, column = {"padding": (0, 1)}, {"padding": (1, 0)}
        three = self.conv(n + ".branch3x3_1", x)
        twice = self.chain(x, (n + ".branch3x3dbl_1",), (n + ".branch3x3dbl_2", {"padding": 1}))
        return torch.cat([
            self.conv(n + ".branch1x1", x),
            self.conv(n + ".branch3x3_2a", three, **row),
            self.conv(n + ".branch3x3_2b", three, **column),
            self.conv(n + ".branch3x3dbl_3a", twice, **row),
            self.conv(n + ".branch3x3dbl_3b", twice, **column),
            self.conv(n + ".branch_pool", self.average(x))], 1)


def inception_v3(net, inputs, tiny):
    """Tiny: the stem pads, and its first stride is 1."""
    blocks = Inception(net)
    pad = 1 if tiny else 0
    x = blocks.chain(inputs["input"],
                     ("Conv2d_1a_3x3", {"stride": 1 if tiny else 2, "padding": pad}),
                     ("Conv2d_2a_3x3", {"padding": pad}), ("Conv2d_2b_3x3", {"padding": 1}))
    x = net.max_pool("Conv2d_2b_3x3.bn", x, 3, 2, pad)
    x = blocks.chain(x, ("Conv2d_3b_1x1",), ("Conv2d_4a_3x3", {"padding": pad}))
    x = net.max_pool("Conv2d_4a_3x3.bn", x, 3, 2, pad)
    for name in ("Mixed_5b", "Mixed_5c", "Mixed_5d"):
        x = blocks.a(name, x)
    x = blocks.b("Mixed_6a", x, "Mixed_5d")
    for name in ("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"):
        x = blocks.c(name, x)
    x = blocks.d("Mixed_7a", x, "Mixed_6e")
    for name in ("Mixed_7b", "Mixed_7c"):
        x = blocks.e(name, x)
    return net.linear("fc", x.mean((2, 3)))


class NasnetCell:
    """Zoph et al. 2018, figure 4: NASNet-A. Names count up within a cell."""

    def __init__(self, net, name):
        self.net, self.name, self.count = net, name, 0

    def next(self, kind):
        self.count += 1
        return f"{self.name}.{kind}{self.count - 1}"

    def inputs(self, before, cur):
        name = self.next("squeeze")
        cur = self.net.relu(name, self.net.conv(name, cur))
        self.cur_name = name
        if before.shape[2] == cur.shape[2]:
            name = self.next("squeeze")
            return cur, self.net.relu(name, self.net.conv(name, before))
        name = self.next("fit")
        return cur, self.net.relu(name, self.net.conv(name, before, 2, 1))

    def separable(self, x, size, stride=1):
        x = self.net.conv(self.next("depthwise"), x, stride, size // 2, x.shape[1])
        return self.net.conv(self.next("pointwise"), x)

    def average(self, x, stride=1):
        self.next("average")
        return F.avg_pool2d(x, 3, stride, 1, count_include_pad=False)

    def max(self, x):
        self.next("max")
        return self.net.max_pool(self.cur_name, x, 3, 2, 1)

    def sum(self, a, b):
        self.next("add")
        return a + b

    def normal(self, before, cur):
        cur, prev = self.inputs(before, cur)
        return torch.cat([
            self.sum(self.separable(cur, 3), cur),
            self.sum(self.separable(prev, 3), self.separable(cur, 5)),
            self.sum(self.average(cur), prev),
            self.sum(self.average(prev), self.average(prev)),
            self.sum(self.separable(prev, 5), self.separable(prev, 3))], 1)

    def reduction(self, before, cur):
        cur, prev = self.inputs(before, cur)
        first = self.sum(self.separable(prev, 7, 2), self.separable(cur, 5, 2))
        second = self.sum(self.max(cur), self.separable(prev, 7, 2))
        return torch.cat([
            first, second,
            self.sum(self.average(cur, 2), self.separable(prev, 5, 2)),
            self.sum(self.max(cur), self.separable(first, 3)),
            self.sum(self.average(first), second)], 1)


def nasnet_a(net, inputs, tiny):
    x = inputs["input"]
    x = net.relu("stem", net.conv("stem", x, 1, 1) if tiny else net.conv("stem", x, 2, 3))
    if not tiny:
        x = net.max_pool("stem", x, 3, 2, 1)
    for stage in range(3):
        before = cur = x
        for i in range(1 if tiny else 5):
            before, cur = cur, NasnetCell(net, f"stage{stage}.normal{i}").normal(before, cur)
        x = NasnetCell(net, f"stage{stage}.reduction").reduction(before, cur)
    return net.linear("fc", x.mean((2, 3)))


def lstm_layers(net, name, x, count):
    for i in range(count):
        x = net.lstm(f"{name}.{i}", x)
    return x


def rnntc(net, inputs, tiny):
    x = lstm_layers(net, "lstm", net.embedding("embedding", inputs["tokens"]), 4)
    return net.linear("fc", x[:, -1])


def rnnlm(net, inputs, tiny):
    x = lstm_layers(net, "lstm", net.embedding("embedding", inputs["tokens"]), 2)
    return net.linear("fc", x)


def gnmt(net, inputs, tiny):
    """Two layers each; attention of Bahdanau et al. 2015, softmax_s(v . tanh(q_t + k_s)), and
    Luong et al. 2015: tanh(W [h; c]) of state and context is what the next token is read from."""
    memory = lstm_layers(net, "encoder.lstm",
                         net.embedding("encoder.embedding", inputs["source"]), 2)
    x = lstm_layers(net, "decoder.lstm", net.embedding("decoder.embedding", inputs["target"]), 2)
    query = net.linear("attention.query", x).unsqueeze(2)       # [N, T, 1, D]
    keys = net.linear("attention.key", memory).unsqueeze(1)     # [N, 1, S, D]
    scores = torch.tanh(query + keys) @ net["attention.v"]      # [N, T, S]
    context = torch.softmax(scores, -1) @ memory
    mixed = torch.tanh(net.linear("decoder.mix", torch.cat([x, context], -1)))
    return net.linear("fc", mixed)


def attention(net, name, x, heads, causal):
    n, steps, dim = x.shape

    def head(part):  # [N, heads, T, D/heads]
        return net.linear(f"{name}.{part}", x).view(n, steps, heads, -1).transpose(1, 2)

    scores = head("query") @ head("key").transpose(2, 3) / (dim // heads) ** 0.5
    if causal:
        later = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    mixed = torch.softmax(scores, -1) @ head("value")
    return net.linear(name + ".output", mixed.transpose(1, 2).reshape(n, steps, dim))


def feed_forward(net, name, x):
    return net.linear(name + ".output", F.gelu(net.linear(name + ".intermediate", x)))


def transformer_lm(net, inputs, tiny):
    """Pre-norm: x + f(norm(x))."""
    eps = 1e-5
    x = net.embedding("embedding", inputs["tokens"]) + net["positions.weight"]
    for i in range(2 if tiny else 12):
        n = f"layers.{i}"
        y = net.layer_norm(n + ".norm1", x, eps)
        x = x + attention(net, n + ".attention", y, 4 if tiny else 12, True)
        x = x + feed_forward(net, n + ".mlp", net.layer_norm(n + ".norm2", x, eps))
    return net.linear("fc", net.layer_norm("norm", x, eps))


def bert_base(net, inputs, tiny):
    """Post-norm: norm(x + f(x)); the first token's vector is classified."""
    eps = 1e-12
    x = (net.embedding("embeddings.word", inputs["tokens"])
         + net.embedding("embeddings.segment", inputs["segments"])
         + net["embeddings.position.weight"])
    x = net.layer_norm("embeddings.norm", x, eps)
    for i in range(2 if tiny else 12):
        n = f"layers.{i}"
        y = attention(net, n + ".attention", x, 4 if tiny else 12, False)
        x = net.layer_norm(n + ".norm1", x + y, eps)
        x = net.layer_norm(n + ".norm2", x + feed_forward(net, n + ".mlp", x), eps)
    return net.linear("classifier", torch.tanh(net.linear("pooler", x[:, 0])))


def dlrm_hashed(net, inputs, tiny):
    """Bottom and top perceptrons, and the product of each pair of vectors: below the diagonal, by rows."""
    def mlp(name, x, relus):
        layers = sum(parameter.startswith(name + ".") and parameter.endswith(".weight")
                     for parameter in net.parameters)
        for layer in range(layers):
            x = net.linear(f"{name}.{layer}", x)
            if layer < relus:
                x = net.relu(f"{name}.{layer}", x)
        return x

    z_0 = mlp("bottom", inputs["dense"], 2 if tiny else 4)
    vectors = [z_0] + [net.embedding(f"embedding.{f}", inputs[f"category.{f}"][:, 0])
                       for f in range(26)]
    z = torch.stack(vectors, 1)
    first, second = torch.tril_indices(27, 27, -1)
    pairs = (z @ z.transpose(1, 2))[:, first, second]
    return mlp("top", torch.cat([z_0, pairs], 1), 1 if tiny else 2)


MODELS = {
    "softmax": softmax, "mlp": mlp, "lenet5": lenet5, "alexnet": alexnet,
    "resnet50": resnet((3, 4, 6, 3)), "resnet101": resnet((3, 4, 23, 3)),
    "inception_v3": inception_v3, "nasnet_a": nasnet_a, "rnntc": rnntc, "rnnlm": rnnlm,
    "gnmt": gnmt, "transformer_lm": transformer_lm, "bert_base": bert_base,
    "dlrm_hashed": dlrm_hashed,
}
