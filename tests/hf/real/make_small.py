"""Makes silero.safetensors and fracast.safetensors beside this file: a sound and what PyTorch makes of it with silero-vad's
weights, series and what the package fracast makes of them with its weights of 32 and of 8 bits.

    python make_small.py FOLDER      # where both wheels are unpacked; needs torch, safetensors, numpy
"""
import os
import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))


def voice(rng, n, rate):
    """Something like vowels: a pulse train of changing pitch by resonances, with pauses, in noise."""
    t = np.arange(n) / rate
    pitch = 120 + 25 * np.sin(2 * np.pi * 1.3 * t)
    phase = np.cumsum(pitch) / rate
    source = np.where(np.diff(np.floor(phase), prepend=0) > 0, 1.0, 0.0)
    y = np.zeros(n)
    for centre, width, gain in ((650, 90, 1.0), (1150, 110, 0.6), (2500, 160, 0.3)):
        r = np.exp(-np.pi * width / rate)
        a, b, z = 2 * r * np.cos(2 * np.pi * centre / rate), -r * r, np.zeros(n)
        for i in range(n):
            z[i] = source[i] + (a * z[i - 1] if i else 0) + (b * z[i - 2] if i > 1 else 0)
        y += gain * z
    y *= np.clip(np.sin(2 * np.pi * 2.5 * t - 1) * 2, 0, 1)
    y[: n // 4] = 0
    return 0.3 * y / np.abs(y).max() + 0.002 * rng.standard_normal(n)


def silero(folder):
    """By PyTorch, from the safetensors file: its numbers are not those of the package's ONNX files."""
    from torch.nn import functional as F

    rng = np.random.default_rng(1)
    sound = np.round(voice(rng, 512 * 30 - 100, 16000) * 32767).astype(np.int16)
    w = load_file(folder + "/silero_vad/data/silero_vad_16k.safetensors")
    cell = torch.nn.LSTMCell(128, 128)
    cell.load_state_dict({k.split(".")[1]: v for k, v in w.items() if k.startswith("lstm_cell")})
    x = torch.from_numpy(np.pad(sound.astype(np.float32) / 32768, (64, -len(sound) % 512)))
    state, probabilities = None, []
    with torch.inference_mode():
        for i in range(64, len(x), 512):
            y = F.pad(x[None, None, i - 64:i + 512], (0, 64), mode="reflect")
            re, im = F.conv1d(y, w["stft_conv.weight"], stride=128).split(129, dim=1)
            y = (re ** 2 + im ** 2).sqrt()
            for name, stride in (("conv1", 1), ("conv2", 2), ("conv3", 2), ("conv4", 1)):
                y = F.relu(F.conv1d(y, w[name + ".weight"], w[name + ".bias"], stride=stride, padding=1))
            state = cell(y.squeeze(-1), state)
            y = F.conv1d(F.relu(state[0]).unsqueeze(-1), w["final_conv.weight"], w["final_conv.bias"])
            probabilities.append(torch.sigmoid(y).item())
    save_file({"sound": sound, "probabilities": np.array(probabilities, np.float32), "h": state[0].numpy(),
               "c": state[1].numpy()}, HERE + "/silero.safetensors")
    print(np.round(probabilities, 3))


def fracast(folder):
    sys.path.insert(0, folder)
    from fracast.inference import FracastModel

    rng = np.random.default_rng(2)
    t = np.arange(600)
    series = np.stack([np.sin(2 * np.pi * t / 24) + 0.3 * np.sin(2 * np.pi * t / 168) + 0.1 * rng.standard_normal(600),
                       np.cumsum(rng.standard_normal(600)) * 0.1,
                       np.where(t % 7 < 2, 2.0, 1.0) + 0.001 * t]).astype(np.float32)
    series[1, 100:140] = np.nan
    series[2, 595] = np.nan
    made = {"series": series}
    for weights in ("fp32", "w8"):
        model = FracastModel.from_pretrained(weights=weights)
        made[weights] = model.forecast_batch(series).astype(np.float64)
        made[weights + "_long"] = model.forecast_batch(series[:1], horizon=100).astype(np.float64)
        print(weights, made[weights].shape, made[weights][:, ::16, 4])
    save_file(made, HERE + "/fracast.safetensors")


silero(sys.argv[1])
fracast(sys.argv[1])
