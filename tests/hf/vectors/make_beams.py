"""Makes beams.json beside this file: what transformers finds by beam search with the small models of make.py.

    python make_beams.py      # needs torch, transformers, safetensors
"""
import json
import os
import tempfile

import torch
import transformers
from safetensors.torch import save_file
from safetensors import safe_open

from make import HERE, MODELS, inputs, weight

SETTINGS = [
    dict(beams=4, max_new_tokens=8),
    dict(beams=3, max_new_tokens=8, length_penalty=0.0),
    dict(beams=4, max_new_tokens=10, length_penalty=2.0, early_stopping=True),
    dict(beams=3, max_new_tokens=10, length_penalty=-0.5, early_stopping="never"),
    dict(beams=2, max_new_tokens=12, length_penalty=1.5, early_stopping="never"),
]
NAMES = ["llama", "gemma2", "gpt2", "t5", "whisper"]


def load(name):
    cls, options, kind = (*MODELS[name], "ids")[:3]
    cls = getattr(transformers, cls)
    model = cls(cls.config_class(**options)).eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        path = os.path.join(folder, "model.safetensors")
        with safe_open(path, "pt") as f:
            shapes = {k: list(f.get_slice(k).get_shape()) for k in f.keys()}
        save_file({k: weight(k, s) for k, s in shapes.items()}, path, {"format": "pt"})
        model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval().double()
    return model, kind


def run(model, kind, eos, setting):
    _, theirs = inputs(kind)
    theirs = {k: v.double() if v.is_floating_point() else v for k, v in theirs.items() if k != "decoder_input_ids"}
    if kind == "ids":
        theirs["attention_mask"] = torch.ones_like(theirs["input_ids"])
    config = transformers.GenerationConfig(
        num_beams=setting["beams"], num_return_sequences=setting["beams"], max_new_tokens=setting["max_new_tokens"],
        length_penalty=setting.get("length_penalty", 1.0), early_stopping=setting.get("early_stopping", False),
        eos_token_id=eos, pad_token_id=0, do_sample=False, return_dict_in_generate=True, output_scores=True,
        decoder_start_token_id=model.config.decoder_start_token_id if kind == "speech" else 0 if kind == "seq2seq" else None)
    model.generation_config = config
    with torch.no_grad():
        out = transformers.GenerationMixin.generate(model, **theirs, generation_config=config)
    start = 1 if kind in ("seq2seq", "speech") else theirs["input_ids"].shape[1]
    k, found = setting["beams"], []
    for row, score in zip(out.sequences[:, start:].tolist(), out.sequences_scores.tolist()):
        end = next((i for i, v in enumerate(row) if v in eos), None)
        row = row[: end + 1] if end is not None else row[: setting["max_new_tokens"]]
        found.append({"tokens": row, "score": score})
    return [found[i : i + k] for i in range(0, len(found), k)]


def main():
    cases = []
    for name in NAMES:
        model, kind = load(name)
        # Tokens that a search comes upon, so that texts end.
        seen = run(model, kind, [60], SETTINGS[0])
        often = [t for text in seen for b in text for t in b["tokens"]]
        ranked = sorted(set(often), key=lambda t: (often.count(t), t))
        for eos in ([ranked[len(ranked) // 2]], [ranked[0], ranked[-1]], [ranked[len(ranked) // 3]]):
            for setting in SETTINGS:
                cases.append({"model": name, "eos": eos, **setting, "found": run(model, kind, eos, setting)})
    with open(os.path.join(HERE, "beams.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
