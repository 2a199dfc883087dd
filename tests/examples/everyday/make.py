"""Makes the files beside this one: of one training step of ResNet-18, of a diffusion U-Net and of an encoder with a decoder, as
examples/resnet18.lua, unet.lua and seq2seq.lua have them, what PyTorch computes in float64: the loss, of the gradient of each parameter
its norm and some numbers, and what statistics of norms are behind it. Weights and inputs are a function of names and places
(`weight`, as in tests/hf/_vectors.lua), so nothing else is stored.

    python make.py      # needs torch, safetensors
"""
import math
import os
import zlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = np.uint64(0xFFFFFFFF)
KEPT = 24  # numbers of a gradient


def weight(name, shape):
    """Numbers that depend on the name and the place alone."""
    n = int(np.prod(shape)) if shape else 1
    h = (np.arange(n, dtype=np.uint64) + np.uint64(zlib.crc32(name.encode()))) & MASK
    h = (h * np.uint64(2654435761)) & MASK
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) & MASK
    h ^= h >> np.uint64(13)
    u = h.astype(np.float64) / 2.0**32 - 0.5
    if len(shape) < 2:
        v = u * 0.5 + (1.0 if name.endswith(("weight", "running_var")) else 0.0)
    else:
        fan = int(np.prod(shape[1:])) if len(shape) > 2 else shape[-1]
        v = u * (3.0 / np.sqrt(np.float64(fan)))
    return torch.from_numpy(v.astype(np.float32).reshape(shape))


def numbers(name, *shape):
    """In [-1, 1)."""
    return weight(name, (math.prod(shape),)).double().reshape(shape) * 4


def whole(name, most, *shape):
    return ((numbers(name, *shape) + 1) / 2 * most).floor().long()


def weighted(model):
    state = {name: weight(name, tuple(t.shape)) for name, t in model.state_dict().items() if t.is_floating_point()}
    model.load_state_dict(state, strict=False)  # but for counts of batches
    return model.double()


# ---- ResNet-18

class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (self.downsample(x) if self.downsample else x)).relu()


class ResNet(nn.Module):
    def __init__(self, width, image, classes):
        super().__init__()
        self.small = image <= 64
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False) if self.small else nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1, self.maxpool = nn.BatchNorm2d(width), nn.MaxPool2d(3, 2, 1)
        inputs = width
        for i in range(4):
            outputs = width * 2**i
            setattr(self, f"layer{i + 1}", nn.Sequential(Block(inputs, outputs, 2 if i else 1), Block(outputs, outputs, 1)))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        if not self.small:
            x = self.maxpool(x)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


def resnet18(width, image, classes, batch):
    model = weighted(ResNet(width, image, classes))
    return model, F.cross_entropy(model(numbers("x", batch, 3, image, image)), whole("y", classes, batch))


# ---- a diffusion U-Net

class Residual(nn.Module):
    def __init__(self, inputs, outputs, time, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(groups, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (self.skip(x) if self.skip else x)


class Attention(nn.Module):
    def __init__(self, width, groups):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(groups, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, 2)
        y = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


class Stage(nn.Module):
    """A residual block, with attention or without, or a change of size."""
    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


class UNet(nn.Module):
    def __init__(self, image, width, times, blocks, attend, groups):
        super().__init__()
        time, inputs, side, skips = 4 * width, width, image, [width]
        self.width = width
        self.time1, self.time2 = nn.Linear(width, time), nn.Linear(time, time)
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()

        def stage(outputs, of):
            more = {"attention": Attention(outputs, groups)} if side <= attend else {}
            return Stage(residual=Residual(of, outputs, time, groups), **more)
        for level, by in enumerate(times):
            for _ in range(blocks):
                self.down.append(stage(width * by, inputs))
                inputs = width * by
                skips.append(inputs)
            if level < len(times) - 1:
                self.down.append(Stage(shrink=nn.Conv2d(inputs, inputs, 3, 2, 1)))
                skips.append(inputs)
                side //= 2
        self.middle1, self.middle2 = (Residual(inputs, inputs, time, groups) for _ in range(2))
        self.attention = Attention(inputs, groups)
        for level in reversed(range(len(times))):
            for _ in range(blocks + 1):
                self.up.append(stage(width * times[level], inputs + skips.pop()))
                inputs = width * times[level]
            if level:
                self.up.append(Stage(grow=nn.Conv2d(inputs, inputs, 3, padding=1)))
                side *= 2
        self.norm, self.last = nn.GroupNorm(groups, inputs), nn.Conv2d(inputs, 3, 3, padding=1)

    def forward(self, x, t):
        half = self.width // 2
        rate = torch.exp(torch.arange(half, dtype=x.dtype, device=x.device) * (-math.log(10000) / half))
        angle = t.to(x.dtype)[:, None] * rate
        t = F.silu(self.time2(F.silu(self.time1(torch.cat((angle.sin(), angle.cos()), 1)))))

        def through(m, y):
            y = m.residual(y, t)
            return m.attention(y) if hasattr(m, "attention") else y
        x = self.first(x)
        skips = [x]
        for m in self.down:
            x = m.shrink(x) if hasattr(m, "shrink") else through(m, x)
            skips.append(x)
        x = self.middle2(self.attention(self.middle1(x, t)), t)
        for m in self.up:
            x = m.grow(F.interpolate(x, scale_factor=2)) if hasattr(m, "grow") else through(m, torch.cat((x, skips.pop()), 1))
        return self.last(F.silu(self.norm(x)))


TIMES = 1000


def schedule():
    """Cosine, of Nichol and Dhariwal, rounded to float32."""
    def level(t):
        return math.cos((t / TIMES + 0.008) / 1.008 * math.pi / 2) ** 2
    share, shares = 1.0, []
    for t in range(1, TIMES + 1):
        share *= max(level(t) / level(t - 1), 0.001)
        shares.append(share)
    shares = torch.tensor(shares, dtype=torch.float64)
    return shares.sqrt().float(), (1 - shares).sqrt().float()


def unet_loss(model, x, t, e):
    signal, noise = (s.to(x.device)[t][:, None, None, None] for s in schedule())
    return F.mse_loss(model(signal * x + noise * e, t), signal * e - noise * x)


def unet(image, batch, **sizes):
    model = weighted(UNet(image, **sizes))
    return model, unet_loss(model, numbers("x", batch, 3, image, image), whole("t", TIMES, batch), numbers("e", batch, 3, image, image) * 2)


# ---- an encoder with a decoder

PAD, BEGIN = 0, 1


class Translator(nn.Module):
    def __init__(self, source, target, positions, width, layers):
        super().__init__()
        self.source, self.target, self.position = (nn.Embedding(n, width) for n in (source, target, positions))
        self.transformer = nn.Transformer(width, 4, layers, layers, 4 * width, 0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, target)

    def forward(self, ids, before):
        def embed(table, tokens):
            return table(tokens) + self.position.weight[:tokens.shape[1]]
        n = before.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        padding = ids == PAD
        memory = self.transformer.encoder(embed(self.source, ids), src_key_padding_mask=padding)
        return self.head(self.transformer.decoder(embed(self.target, before), memory, tgt_mask=later, memory_key_padding_mask=padding))


def tokens(name, words, batch, most):
    """Rows of other lengths, filled up."""
    ids, length = whole(name, words - 3, batch, most) + 3, whole(name + ".length", most, batch) + 1
    return torch.where(torch.arange(most) < length[:, None], ids, PAD)


def seq2seq(source, target, batch, source_length, target_length, **sizes):
    model = weighted(Translator(source, target, max(source_length, target_length), **sizes))
    ids, out = tokens("ids", source, batch, source_length), tokens("out", target, batch, target_length)
    before = torch.cat((torch.full((batch, 1), BEGIN), out[:, :-1]), 1)
    return model, F.cross_entropy(model(ids, before).flatten(0, 1), out.flatten(), ignore_index=PAD)


def kept(t):
    return t.flatten()[::max(1, t.numel() // KEPT)][:KEPT]


def write(name, model, loss):
    loss.backward()
    grads = sorted(model.named_parameters())
    stored = {
        "loss": loss.detach().reshape(1),
        "norms": torch.stack([p.grad.norm() for _, p in grads]),
        "gradients": torch.cat([kept(p.grad) for _, p in grads]),
    }
    statistics = [kept(t) for key, t in sorted(model.state_dict().items()) if "running_" in key]
    if statistics:
        stored["statistics"] = torch.cat(statistics)
    save_file({key: t.contiguous() for key, t in stored.items()}, os.path.join(HERE, name + ".safetensors"))
    print(name, loss.item(), len(grads), "parameters")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("resnet18", *resnet18(64, 32, 10, 4))
    write("resnet18_pooled", *resnet18(16, 72, 11, 3))
    write("unet", *unet(16, 3, width=24, times=(1, 2, 2), blocks=1, attend=4, groups=8))
    write("seq2seq", *seq2seq(32, 34, 6, 9, 12, width=32, layers=2))
