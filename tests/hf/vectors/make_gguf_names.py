"""Makes gguf_names.json: how the Python package gguf calls the tensors of the small models beside
this file, layers and experts as *. Needs gguf, safetensors."""
import json
import os
import re

import gguf
from safetensors import safe_open

HERE = os.path.dirname(os.path.abspath(__file__))
ARCH = {"llama": "LLAMA", "mistral": "LLAMA", "mixtral": "LLAMA", "qwen2": "QWEN2", "qwen3": "QWEN3", "gemma": "GEMMA",
        "gemma2": "GEMMA2", "gemma3": "GEMMA3", "gpt2": "GPT2", "phi3": "PHI3", "olmo2": "OLMO2", "starcoder2": "STARCODER2",
        "gpt_neox": "GPTNEOX", "qwen2_moe": "QWEN2MOE", "qwen3_moe": "QWEN3MOE", "bert": "BERT",
        "deepseek_v2": "DEEPSEEK2", "deepseek_v3": "DEEPSEEK2", "t5": "T5", "t5_gated": "T5"}
names = {}
for family, arch in ARCH.items():
    arch = getattr(gguf.MODEL_ARCH, arch)
    table = gguf.get_tensor_name_map(arch, 4)
    with safe_open(os.path.join(HERE, family + ".safetensors"), "np") as f:
        tensors = json.loads(f.metadata()["tensors"])
    rows = {}
    for name in tensors:
        name = re.sub(r"experts\.\d+\.", "experts.", name)
        # as the writer of these files has it, before it looks for the name
        asked = name.replace("e_score_correction_bias", "e_score_correction.bias")
        own = table.get_name(asked, try_suffixes=(".weight", ".bias"))
        if not name.startswith(("encoder.block", "decoder.block")):
            name = re.sub(r"\b(layers|h|layer)\.\d+\.", r"\1.*.", name)
            own = re.sub(r"blk\.\d+\.", "blk.*.", own or "")
        if own:
            rows[name] = own
    names[family] = {"architecture": gguf.MODEL_ARCH_NAMES[arch], "names": rows}
with open(os.path.join(HERE, "gguf_names.json"), "w") as f:
    json.dump(names, f, indent=0)
    f.write("\n")
