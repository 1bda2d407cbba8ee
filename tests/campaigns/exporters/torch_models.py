# SPDX-License-Identifier: Apache-2.0
"""Writes models as torch.onnx.export of the day writes them: FOLDER/NAME/1/model.onnx, and FOLDER/table.json with what was
exported how. Run with the interpreter of requirements-torch.txt:  python torch_models.py FOLDER"""

from __future__ import annotations

import itertools
import json
import logging
import pathlib
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
nn = torch.nn


class Tagger(nn.Module):
    """Tokens to probabilities."""

    def __init__(self, layers=2, bidirectional=False, batch_first=True):
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.rnn = nn.LSTM(6, 5, num_layers=layers, bidirectional=bidirectional, batch_first=batch_first, dropout=0.1)
        self.norm = nn.LayerNorm(10 if bidirectional else 5)
        self.head = nn.Linear(10 if bidirectional else 5, 7)

    def forward(self, tokens):
        y, _ = self.rnn(self.embed(tokens))
        return torch.softmax(self.head(self.norm(y)), -1)


class Classifier(nn.Module):
    """Features to classes: by the last step, the final state of both directions, or a mean."""

    def __init__(self, how, bidirectional=False):
        super().__init__()
        self.rnn = nn.GRU(6, 5, num_layers=2, bidirectional=bidirectional, batch_first=True)
        self.head = nn.Sequential(nn.Linear(10 if bidirectional else 5, 4), nn.ReLU(), nn.Linear(4, 3))
        self.how = how

    def forward(self, x):
        y, h = self.rnn(x)
        if self.how == "last":
            return self.head(y[:, -1])
        if self.how == "mean":
            return self.head(y.mean(1))
        if self.how == "max":
            return self.head(y.max(1).values)
        return self.head(torch.cat((h[-2], h[-1]), -1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(6, 6)
        self.second = nn.LSTM(6, 6)

    def forward(self, x):
        y = x + self.first(x)[0]
        return y + torch.tanh(self.second(y)[0])


class WithStates(nn.Module):
    """As a language model streams: logits, the five best, and the new states."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.rnn = nn.LSTM(6, 5, num_layers=2)
        self.head = nn.Linear(5, 50)

    def forward(self, tokens, h, c):
        y, (hn, cn) = self.rnn(self.embed(tokens), (h, c))
        best = torch.topk(self.head(y), 5)
        return best.values, best.indices, hn, cn


class Packed(nn.Module):
    """Lengths as PyTorch has them."""

    def __init__(self, bidirectional=False, enforce_sorted=True):
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.rnn = nn.LSTM(6, 5, num_layers=2, bidirectional=bidirectional, batch_first=True)
        self.head = nn.Linear(10 if bidirectional else 5, 4)
        self.enforce_sorted = enforce_sorted

    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(tokens), lengths, batch_first=True,
                                                   enforce_sorted=self.enforce_sorted)
        return self.head(nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0])


class TwoTables(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.tags = nn.Embedding(50, 3), nn.Embedding(50, 4)
        self.rnn = nn.GRU(7, 5, num_layers=2, batch_first=True, dropout=0.3, bidirectional=True)
        self.head = nn.Linear(10, 6)

    def forward(self, words, tags):
        return self.head(self.rnn(torch.cat((self.words(words), self.tags(tags)), -1))[0]).argmax(-1)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LSTM(6, 5, batch_first=True), nn.LSTM(5, 4, batch_first=True)
        self.norm, self.head = nn.BatchNorm1d(5), nn.Linear(4, 3)
        self.norm.running_mean.uniform_(-1, 1)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        y = self.norm(self.first(x)[0].transpose(1, 2)).transpose(1, 2)
        return torch.log_softmax(self.head(self.second(y)[0]), -1)


class Gated(nn.Module):
    """Parts of the features, before and behind."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x):
        a, b = self.rnn(x[..., 1:5])[0].chunk(2, -1)
        return self.head(torch.cat((torch.tanh(a) * b, x[..., :4]), -1))


class Speech(nn.Module):
    """Layers of two directions that are summed, as of a recogniser; the best symbol of each step."""

    def __init__(self):
        super().__init__()
        self.prepare = nn.Sequential(nn.Linear(6, 8), nn.PReLU())
        self.layers = nn.ModuleList(nn.GRU(8, 8, bidirectional=True) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.prepare(x)
        for layer, norm in zip(self.layers, self.norms):
            y, _ = layer(norm(x))
            x = x + y.view(y.size(0), y.size(1), 2, -1).sum(2)
        scores = torch.log_softmax(self.head(x), -1)
        return scores, scores.argmax(-1)


class OneHot(nn.Module):
    """Characters without an embedding."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(50, 5, batch_first=True)
        self.head = nn.Linear(5, 50)

    def forward(self, tokens):
        return self.head(self.rnn(nn.functional.one_hot(tokens, 50).float())[0])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 5, batch_first=True)
        self.score = nn.Linear(5, 1)

    def forward(self, x):
        y, _ = self.rnn(x)
        return (torch.softmax(self.score(y), 1) * y).sum(1)


class Lengths(nn.Module):
    """What people do with the lengths of rows: masks, and the last step."""

    def __init__(self, how, packed=False):
        super().__init__()
        self.rnn = nn.LSTM(6, 5, num_layers=2, batch_first=True, bidirectional=packed)
        self.head = nn.Linear(10 if packed else 5, 4)
        self.how, self.packed = how, packed

    def forward(self, x, lengths):
        if self.packed:
            x = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, (h, _) = self.rnn(x)
        if self.packed:
            y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        mask = (torch.arange(y.size(1))[None, :] < lengths[:, None]).unsqueeze(-1)
        if self.how == "mean":
            return self.head((y * mask.float()).sum(1) / mask.float().sum(1))
        if self.how == "mean-by-lengths":
            return self.head((y * mask).sum(1) / lengths.clamp(min=1).unsqueeze(-1).float())
        if self.how == "max":
            return self.head(y.masked_fill(~mask, -1e9).max(1).values)
        if self.how == "last":
            return self.head(y[torch.arange(y.size(0)), lengths - 1])
        if self.how == "gather":
            return self.head(y.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, y.size(2))).squeeze(1))
        return self.head(y), h[-1]


class Masked(nn.Module):
    """A mask [N, T] that requests bring: means, maxima, and lengths summed up of it."""

    def __init__(self, how):
        super().__init__()
        self.rnn = nn.GRU(6, 5, batch_first=True)
        self.head = nn.Linear(5, 4)
        self.how = how

    def forward(self, x, mask):
        if self.how == "lengths":
            x = nn.utils.rnn.pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
            return self.head(nn.utils.rnn.pad_packed_sequence(self.rnn(x)[0], batch_first=True)[0])
        y, _ = self.rnn(x)
        if self.how == "mean":
            mask = mask.unsqueeze(-1).float()
            return self.head((y * mask).sum(1) / mask.sum(1).clamp(min=1e-9))
        return self.head(y.masked_fill(mask.unsqueeze(-1) == 0, -1e9).amax(1))


class Seasonal(nn.Module):
    """Sines of times before the layer; its last step by how many there are, in groups; zeros where it is negative."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(12, 6, batch_first=True)
        self.norm = nn.GroupNorm(2, 6)
        self.weights = nn.Parameter(torch.randn(6, 6))

    def forward(self, x):
        angles = torch.einsum("ntf,fc->ntc", x, self.weights)
        y, _ = self.rnn(torch.cat((torch.sin(angles), torch.cos(angles)), -1))
        return self.norm(y[:, x.size(1) - 1]), torch.where(y > 0, y, torch.zeros_like(y)), torch.round(y * 8) / 8


class TokenMask(nn.Module):
    """A mean over what is no padding by its token."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.rnn = nn.LSTM(6, 5, bidirectional=True, batch_first=True)
        self.head = nn.Linear(10, 4)

    def forward(self, tokens):
        mask = (tokens != 0).unsqueeze(-1).float()
        return self.head((self.rnn(self.embed(tokens))[0] * mask).sum(1) / mask.sum(1))


class Flipped(nn.Module):
    """Both directions by hand, with a state made by zeros_like."""

    def __init__(self):
        super().__init__()
        self.there, self.back = nn.LSTM(6, 5, batch_first=True), nn.LSTM(6, 5, batch_first=True)
        self.head = nn.Linear(10, 4)

    def forward(self, x):
        h = torch.zeros(1, x.size(0), 5)
        back, (last, _) = self.back(x.flip(1), (h, torch.zeros_like(h)))
        return self.head(torch.cat((self.there(x)[0], back.flip(1)), -1)), last


class ProjectionWithStates(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 5, proj_size=3)

    def forward(self, x, h, c):
        y, (h, c) = self.rnn(x, (h, c))
        return y, h, c


class Pictures(nn.Module):
    """Letters of a picture [N, 1, 8, T]: convolutions, then its columns as steps."""

    def __init__(self):
        super().__init__()
        self.before = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)))
        self.rnn = nn.LSTM(16, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(10, 7)

    def forward(self, x):
        x = self.before(x).permute(0, 3, 1, 2)
        y, _ = self.rnn(x.reshape(x.shape[0], x.shape[1], 16))
        return torch.log_softmax(self.head(y), -1)


class Convolved(nn.Module):
    """[N, F, T] with half the steps, then a mean and the final state."""

    def __init__(self):
        super().__init__()
        self.before = nn.Conv1d(6, 4, 3, stride=2, padding=1)
        self.rnn = nn.GRU(4, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        y, h = self.rnn(torch.relu(self.before(x)).transpose(1, 2))
        return self.head(y.mean(1)), h


class Attended(nn.Module):
    """What is less its mean over time; attention behind the layer, and its last step."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 4, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y, _ = self.rnn(x - x.mean(1, keepdim=True))
        return self.head(y + self.attention(y, y, y)[0]), self.head(y[:, -1])


def cases():
    """name, module, arguments, which axis of each argument is steps and which is rows."""
    tokens, features = torch.randint(0, 50, (2, 9)), torch.randn(9, 2, 6)
    for kind, layers, bidirectional in itertools.product(("LSTM", "GRU", "RNN"), (1, 2, 3, 4), (False, True)):
        module = getattr(nn, kind)(6, 5, num_layers=layers, bidirectional=bidirectional, batch_first=layers % 2 == 0)
        name = f"{kind.lower()}{layers}{'-bi' if bidirectional else ''}"
        yield name, module, (features,), [{0: "t", 1: "n"} if layers % 2 else {0: "n", 1: "t"}]
    yield "tagger", Tagger(), (tokens,), [{0: "n", 1: "t"}]
    yield "tagger-bi", Tagger(bidirectional=True), (tokens,), [{0: "n", 1: "t"}]
    yield "tagger-one-row", Tagger(), (tokens[:1],), [{0: "n", 1: "t"}]
    yield "lstm3-one-row", nn.LSTM(6, 5, num_layers=3), (features[:, :1],), [{0: "t", 1: "n"}]
    yield "lstm2-one-step", nn.LSTM(6, 5, num_layers=2, batch_first=True), (torch.randn(1, 1, 6),), [{0: "n", 1: "t"}]
    yield "tagger-tn", Tagger(batch_first=False), (tokens,), [{0: "t", 1: "n"}]
    for how in ("last", "mean", "max", "states"):
        yield f"classifier-{how}", Classifier(how, how == "states"), (torch.randn(2, 9, 6),), [{0: "n", 1: "t"}]
    yield "residual", Residual(), (features,), [{0: "t", 1: "n"}]
    h, c = torch.zeros(2, 2, 5), torch.ones(2, 2, 5)  # one tensor twice would become one input
    yield "states", WithStates(), (tokens.T.contiguous(), h, c), [{0: "t", 1: "n"}, {1: "n"}, {1: "n"}]
    lengths = torch.tensor([9, 4])
    for name, module in (("packed", Packed()), ("packed-bi", Packed(True)), ("packed-unsorted", Packed(False, False))):
        yield name, module, (tokens, lengths), [{0: "n", 1: "t"}, {0: "n"}]
    for how in ("mean", "mean-by-lengths", "max", "last", "gather"):
        yield f"lengths-{how}", Lengths(how), (torch.randn(2, 9, 6), torch.tensor([4, 9])), [{0: "n", 1: "t"}, {0: "n"}]
    for how in ("mean", "max", "states"):
        yield f"packed-{how}", Lengths(how, True), (torch.randn(2, 9, 6), torch.tensor([4, 9])), [{0: "n", 1: "t"}, {0: "n"}]
    mask = torch.tensor([[1] * 4 + [0] * 5, [1] * 9])
    for how in ("mean", "max", "lengths"):
        yield f"mask-{how}", Masked(how), (torch.randn(2, 9, 6), mask), [{0: "n", 1: "t"}] * 2
    yield "seasonal", Seasonal(), (torch.randn(2, 9, 6),), [{0: "n", 1: "t"}]
    yield "token-mask", TokenMask(), (tokens,), [{0: "n", 1: "t"}]
    yield "flipped", Flipped(), (torch.randn(2, 9, 6),), [{0: "n", 1: "t"}]
    yield "two-tables", TwoTables(), (tokens, tokens + 0), [{0: "n", 1: "t"}] * 2
    yield "batchnorm", Normed(), (torch.randn(2, 9, 6),), [{0: "n", 1: "t"}]
    yield "gated", Gated(), (torch.randn(2, 9, 6),), [{0: "n", 1: "t"}]
    yield "speech", Speech(), (features,), [{0: "t", 1: "n"}]
    yield "one-hot", OneHot(), (tokens,), [{0: "n", 1: "t"}]
    yield "attention", Attention(), (torch.randn(2, 9, 6),), [{0: "n", 1: "t"}]
    yield "split-pictures", Pictures(), (torch.randn(2, 1, 8, 9),), [{0: "n", 3: "t"}]
    yield "split-convolved", Convolved(), (torch.randn(2, 6, 9),), [{0: "n", 2: "t"}]
    yield "split-attended", Attended(), (torch.randn(2, 9, 6),), [{0: "n", 1: "t"}]
    yield "unbatched", nn.Sequential(nn.Linear(6, 6), nn.LSTM(6, 5)), (features[:, 0],), [{0: "t"}]
    yield "proj", nn.LSTM(6, 5, proj_size=3), (features,), [{0: "t", 1: "n"}]
    states = torch.randn(1, 2, 3), torch.randn(1, 2, 5)
    yield "proj-states", ProjectionWithStates(), (features, *states), [{0: "t", 1: "n"}, {1: "n"}, {1: "n"}]


def main(folder):
    table = []
    for name, module, arguments, axes in cases():
        module.eval()
        for dynamo, dynamic in itertools.product((True, False), (True, False)):
            full = f"{name}-{'dynamo' if dynamo else 'legacy'}-{'dynamic' if dynamic else 'static'}"
            path = pathlib.Path(folder, full, "1", "model.onnx")
            path.parent.mkdir(parents=True, exist_ok=True)
            names = [f"input_{k}" for k in range(len(arguments))]
            options = {"dynamo": dynamo, "input_names": names, "verbose": False}
            if dynamic and dynamo:
                options["dynamic_shapes"] = tuple({axis: torch.export.Dim.AUTO for axis in of} for of in axes)
                if isinstance(module, nn.RNNBase):
                    options["dynamic_shapes"] += (None,)  # hx
                    arguments = (*arguments[:1], None)
            elif dynamic:
                options["dynamic_axes"] = {n: dict(of) for n, of in zip(names, axes)}
            entry = {"name": full, "axes": [[of.get(0), of.get(1)] for of in axes], "dynamic": dynamic, "error": ""}
            try:
                torch.onnx.export(module, arguments[:len(axes)] if not (dynamic and dynamo) else arguments, str(path), **options)
            except Exception as error:  # what the exporter refuses is a result, too
                entry["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                path.unlink(missing_ok=True)
            arguments = arguments[:len(axes)]
            table.append(entry)
            print(full, entry["error"] or "exported", flush=True)
    pathlib.Path(folder, "table.json").write_text(json.dumps({"torch": torch.__version__, "models": table}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
