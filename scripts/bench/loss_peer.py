"""The PyTorch half of loss.lua: `weights` makes random ones, `train` trains on the kept tokens."""
import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

what, folder, device = sys.argv[1:4]
steps, batch, context, layers, width, heads, rows = map(int, sys.argv[4:])
config = GPT2Config(vocab_size=rows, n_positions=context, n_embd=width, n_layer=layers, n_head=heads,
                    bos_token_id=0, eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
torch.backends.cuda.matmul.allow_tf32 = False


def path(name):
    return os.path.join(folder, name)


def train(tokens, dtype):
    model = GPT2LMHeadModel(config)
    model.load_state_dict(load_file(path("model.safetensors")), strict=False)
    model.tie_weights()
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1)
    losses = []
    for ids in tokens.to(device):
        with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=dtype == "bf16"):
            logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, rows),
                                                 ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


def distance(a, b):
    d = (a - b).abs()
    return f"mean {d.mean():.5f} largest {d.max():.5f} last ten {d[-10:].mean():.5f}"


if what == "weights":
    torch.manual_seed(1)
    model = GPT2LMHeadModel(config)
    state = {k: v.contiguous() for k, v in model.state_dict().items()
             if k != "lm_head.weight" and not k.endswith(".attn.bias")}
    save_file(state, path("model.safetensors"))
    json.dump({"vocab_size": rows, "n_positions": context, "n_embd": width, "n_layer": layers,
               "n_head": heads}, open(path("config.json"), "w"))
else:
    kept = load_file(path("tokens.safetensors"))
    ours, tokens = kept["ours"].float(), kept["tokens"].long()
    bf16, f32 = train(tokens, "bf16"), train(tokens, "f32")
    print("step   Tessera  PyTorch bf16  PyTorch f32")
    for i in sorted({0, 1, 2, 5, *range(9, steps, 10), steps - 1}):
        print(f"{i + 1:4d}  {ours[i]:8.5f}  {bf16[i]:12.5f}  {f32[i]:11.5f}")
    print("Tessera to PyTorch bf16:     ", distance(ours, bf16))
    print("Tessera to PyTorch f32:      ", distance(ours, f32))
    print("PyTorch bf16 to PyTorch f32: ", distance(bf16, f32))
