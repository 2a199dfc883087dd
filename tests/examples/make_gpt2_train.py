"""Makes tests/examples/gpt2_tiny/training.safetensors: the losses of training that GPT-2 further
by PyTorch, in f32 and by autocast to bf16, on tokens that are kept with them. Needs torch,
transformers, safetensors."""
import os

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

STEPS, BATCH, CONTEXT = 30, 4, 32
here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpt2_tiny")
config = GPT2Config(vocab_size=96, n_positions=64, n_embd=48, n_layer=3, n_head=4, bos_token_id=0,
                    eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
torch.manual_seed(1)
# Something to learn: each token is a function of the one before, with noise.
tokens = torch.zeros(STEPS, BATCH, CONTEXT + 1, dtype=torch.int64)
tokens[..., 0] = torch.randint(0, 96, (STEPS, BATCH))
for t in range(CONTEXT):
    noise = torch.randint(0, 96, (STEPS, BATCH))
    follow = (tokens[..., t] * 5 + 7) % 96
    tokens[..., t + 1] = torch.where(torch.rand(STEPS, BATCH) < 0.8, follow, noise)


def train(autocast):
    model = GPT2LMHeadModel(config)
    model.load_state_dict(load_file(os.path.join(here, "model.safetensors")), strict=False)
    model.tie_weights()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1)
    losses = []
    for ids in tokens:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, 96),
                                                 ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


save_file({"tokens": tokens, "f32": train(False), "bf16": train(True)},
          os.path.join(here, "training.safetensors"))
