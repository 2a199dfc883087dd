"""Makes tests/examples/gpt2_tiny: a GPT-2 with random weights, and what the
transformers library computes with it. Needs torch, transformers, safetensors."""
import json
import os

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=96, n_positions=64, n_embd=48, n_layer=3, n_head=4,
                    bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).eval()
with torch.no_grad():
    for p in model.parameters():  # larger than at the start of training: attention is not flat
        p.add_(0.08 * torch.randn_like(p))
here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpt2_tiny")
os.makedirs(here, exist_ok=True)
state = {k: v.contiguous() for k, v in model.state_dict().items()
         if k != "lm_head.weight" and not k.endswith((".attn.bias", ".attn.masked_bias"))}
save_file(state, os.path.join(here, "model.safetensors"))
with open(os.path.join(here, "config.json"), "w") as f:
    keys = ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "layer_norm_epsilon",
            "activation_function"]
    json.dump({k: getattr(config, k) for k in keys}, f, indent=1)
    f.write("\n")
prompt = torch.tensor([[5, 17, 60, 3, 3, 42, 95, 0, 8, 21]])
with torch.no_grad():
    logits = model.double()(prompt).logits[0]
    ids = prompt
    for _ in range(20):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
save_file({"prompt": prompt[0], "logits": logits.float(), "tokens": ids[0, prompt.shape[1]:]},
          os.path.join(here, "expected.safetensors"))
