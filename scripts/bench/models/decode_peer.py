"""The rows of decode.lua in PyTorch: python3 scripts/bench/models/decode_peer.py [MODEL [BATCH ..]].

transformers' Llama with a static cache, its step compiled as a whole and replayed as a CUDA graph; random weights of the
true shapes. Without transformers: an error, since nothing else is the peer.
"""
import statistics
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

COMMON = dict(hidden_act="silu", rms_norm_eps=1e-5, rope_theta=500000.0, vocab_size=128256, num_key_value_heads=8,
              max_position_embeddings=131072)
MODELS = {
    "llama1b": dict(COMMON, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                    head_dim=64, tie_word_embeddings=True),
    "llama8b": dict(COMMON, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                    head_dim=128, tie_word_embeddings=False),
}
PROMPT, STEPS = 16, 200


def copy_bandwidth():
    x = torch.zeros(2**30, dtype=torch.bfloat16, device="cuda")
    y = torch.ones_like(x)
    times = []
    for _ in range(9):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        y.copy_(x)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 4 * 2**30 / statistics.median(times[2:])


def model_of(name):
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(LlamaConfig(**MODELS[name], attn_implementation="sdpa"))
    return model.eval()


def read_bytes(model):
    total = sum(p.numel() for p in model.parameters())
    if not model.config.tie_word_embeddings:
        total -= model.model.embed_tokens.weight.numel()
    return 2 * total


@torch.no_grad()
def decode(name, model, batch, bandwidth):
    cache = StaticCache(config=model.config, max_cache_len=PROMPT + STEPS)
    ids = torch.randint(0, 1000, (batch, PROMPT), device="cuda")
    positions = torch.arange(PROMPT, device="cuda")
    y = model(ids, past_key_values=cache, cache_position=positions, use_cache=True)
    token = y.logits[:, -1:].argmax(-1)

    def step(token, position):
        y = model(token, past_key_values=cache, cache_position=position, use_cache=True)
        return y.logits[:, -1:].argmax(-1)

    compiled = torch.compile(step, mode="reduce-overhead", fullgraph=True)
    times = []
    for i in range(STEPS - 1):
        position = torch.tensor([PROMPT + i], device="cuda")
        begin = time.perf_counter()
        token = compiled(token.clone(), position)
        token.cpu()
        times.append(time.perf_counter() - begin)
    t = statistics.median(times[len(times) * 3 // 4:])
    print(f"{name}\tbatch {batch}\t{batch / t:.1f} tokens/s\t{t * 1e3:.3f} ms a step\t"
          f"{read_bytes(model) / bandwidth / t:.3f} of the weights at the copy's bandwidth", flush=True)


def main():
    bandwidth = copy_bandwidth()
    print(f"copy\t{bandwidth / 1e12:.3f} TB/s", flush=True)
    name = sys.argv[1] if len(sys.argv) > 1 else "llama1b"
    model = model_of(name)
    for batch in [int(b) for b in sys.argv[2:]] or [1, 7, 64]:
        torch._dynamo.reset()
        decode(name, model, batch, bandwidth)


main()
