"""Makes the files beside this one: of small models of each family what transformers computes, and, as
metadata, their config.json with names and shapes of the tensors of their files. The weights themselves are a
function of names and places (`weight`, and tests/hf/_vectors.lua), so nothing else is stored.

    python make.py [FAMILY...]      # needs torch, transformers, safetensors
"""
import json
import os
import sys
import tempfile
import zlib

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = np.uint64(0xFFFFFFFF)


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


TINY = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
BERT = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=40)
SLIDING = ["sliding_attention", "full_attention"]


def rope(theta=10000.0, **more):
    return {"rope_type": "default", "rope_theta": theta, **more}


# name: class, options of the configuration, what else: kind of inputs (ids by default)
MODELS = {
    "llama": ("LlamaForCausalLM", dict(TINY, rope_parameters=rope())),
    "llama_tied": ("LlamaForCausalLM", dict(TINY, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=12)),
    "llama_base": ("LlamaModel", dict(TINY)),
    "llama_llama3": ("LlamaForCausalLM", dict(TINY, rope_parameters=rope(500000.0, **LLAMA3))),
    "llama_linear": ("LlamaForCausalLM", dict(TINY, rope_parameters=rope(rope_type="linear", factor=3.0))),
    "llama_dynamic": ("LlamaForCausalLM", dict(TINY, max_position_embeddings=8, rope_parameters=rope(rope_type="dynamic", factor=2.0))),
    "llama_yarn": ("LlamaForCausalLM", dict(TINY, rope_parameters=rope(**YARN))),
    "mistral": ("MistralForCausalLM", dict(TINY, sliding_window=4)),
    "qwen2": ("Qwen2ForCausalLM", dict(TINY, num_hidden_layers=3, use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "qwen3": ("Qwen3ForCausalLM", dict(TINY, head_dim=16, tie_word_embeddings=True)),
    "gemma": ("GemmaForCausalLM", dict(TINY, head_dim=16)),
    "gemma2": ("Gemma2ForCausalLM", dict(TINY, head_dim=16, sliding_window=4, query_pre_attn_scalar=12, attn_logit_softcapping=5.0,
                                         final_logit_softcapping=3.0)),
    "gemma3": ("Gemma3ForCausalLM", dict(TINY, num_hidden_layers=3, head_dim=16, sliding_window=4, query_pre_attn_scalar=12,
                                         layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                                         rope_parameters={"full_attention": rope(1000000.0, rope_type="linear", factor=8.0),
                                                          "sliding_attention": rope()})),
    "gpt2": ("GPT2LMHeadModel", dict(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
    "phi3": ("Phi3ForCausalLM", dict(TINY, sliding_window=5, pad_token_id=0)),
    "phi3_longrope": ("Phi3ForCausalLM", dict(
        TINY, pad_token_id=0, max_position_embeddings=32, original_max_position_embeddings=8,
        rope_parameters=rope(rope_type="longrope", original_max_position_embeddings=8, partial_rotary_factor=1.0,
                             short_factor=[1.0, 1.1, 1.2, 1.5], long_factor=[1.0, 2.0, 3.0, 4.0]))),
    "olmo2": ("Olmo2ForCausalLM", dict(TINY)),
    "starcoder2": ("Starcoder2ForCausalLM", dict(TINY, sliding_window=4, tie_word_embeddings=True)),
    "gpt_neox": ("GPTNeoXForCausalLM", dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                            num_attention_heads=2, max_position_embeddings=64)),
    "gpt_neox_serial": ("GPTNeoXForCausalLM", dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                                   num_attention_heads=2, max_position_embeddings=64, use_parallel_residual=False,
                                                   rope_parameters=rope(partial_rotary_factor=0.5))),
    "mixtral": ("MixtralForCausalLM", dict(TINY, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": ("Qwen2MoeForCausalLM", dict(TINY, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                              shared_expert_intermediate_size=40)),
    "qwen3_moe": ("Qwen3MoeForCausalLM", dict(TINY, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=16,
                                              norm_topk_prob=True)),
    "gpt_oss": ("GptOssForCausalLM", dict(TINY, intermediate_size=32, num_local_experts=4, num_experts_per_tok=2, head_dim=16,
                                          sliding_window=4, layer_types=SLIDING,
                                          rope_parameters=rope(150000.0, rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0,
                                                               truncate=False, original_max_position_embeddings=16))),
    "deepseek_v2": ("DeepseekV2ForCausalLM", dict(TINY, num_hidden_layers=3, kv_lora_rank=16, q_lora_rank=None, qk_nope_head_dim=8,
                                                  qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=4, n_shared_experts=2,
                                                  num_key_value_heads=4, num_experts_per_tok=2, first_k_dense_replace=1,
                                                  moe_intermediate_size=24, routed_scaling_factor=1.5, topk_method="greedy")),
    "deepseek_v3": ("DeepseekV3ForCausalLM", dict(TINY, num_hidden_layers=3, kv_lora_rank=16, q_lora_rank=20, qk_nope_head_dim=8,
                                                  qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=8, n_shared_experts=1,
                                                  num_key_value_heads=4, num_experts_per_tok=3, n_group=4, topk_group=2,
                                                  first_k_dense_replace=1, moe_intermediate_size=24, routed_scaling_factor=2.5,
                                                  rope_parameters=rope(mscale=1.0, mscale_all_dim=1.0, beta_fast=32.0, beta_slow=1.0,
                                                                       **YARN))),
    "bert": ("BertModel", dict(BERT), "padded"),
    "bert_mlm": ("BertForMaskedLM", dict(BERT), "padded"),
    "bert_classes": ("BertForSequenceClassification", dict(BERT, num_labels=3), "padded"),
    "roberta": ("RobertaModel", dict(BERT, pad_token_id=1), "padded"),
    "distilbert": ("DistilBertModel", dict(vocab_size=61, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=40),
                   "padded"),
    "mpnet": ("MPNetModel", dict(BERT, pad_token_id=1), "padded"),
    "t5": ("T5ForConditionalGeneration", dict(vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                              relative_attention_num_buckets=8, relative_attention_max_distance=12), "seq2seq"),
    "t5_gated": ("T5ForConditionalGeneration", dict(vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                    feed_forward_proj="gated-gelu", tie_word_embeddings=False), "seq2seq"),
    "vit": ("ViTModel", dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16,
                             patch_size=4), "image"),
    "vit_classes": ("ViTForImageClassification", dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_labels=5,
                                                      num_attention_heads=4, image_size=16, patch_size=4), "image"),
    "clip": ("CLIPModel", dict(projection_dim=24, text_config=dict(vocab_size=61, hidden_size=32, intermediate_size=48,
                                                                   num_hidden_layers=2, num_attention_heads=4, eos_token_id=60,
                                                                   max_position_embeddings=40),
                               vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                                  image_size=16, patch_size=4)), "clip"),
    "whisper": ("WhisperForConditionalGeneration", dict(vocab_size=61, d_model=32, encoder_layers=2, decoder_layers=2,
                                                        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
                                                        decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=10,
                                                        max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                                        decoder_start_token_id=1), "speech"),
    "resnet": ("ResNetModel", dict(embedding_size=8, hidden_sizes=[16, 32], depths=[2, 1]), "image"),
    "resnet_classes": ("ResNetForImageClassification", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic",
                                                            num_labels=5), "image"),
}


def numbers(name, shape):
    return weight(name, shape) * float(np.sqrt(shape[-1]) / 3.0) * 2


def inputs(kind):
    """Inputs by our names, and by transformers'."""
    ids = torch.tensor([[5, 17, 60, 3, 3, 42, 33, 9, 8, 21, 40], [7, 2, 11, 59, 4, 30, 30, 1, 52, 16, 6]])
    if kind == "ids":
        return {"ids": ids}, {"input_ids": ids}
    if kind == "padded":
        mask = torch.ones_like(ids)
        mask[1, 7:] = 0
        ids = torch.where(mask.bool(), ids.clamp(min=2), 1)
        return {"ids": ids, "mask": mask}, {"input_ids": ids, "attention_mask": mask}
    if kind == "seq2seq":
        out = torch.tensor([[0, 4, 9, 33, 2], [0, 8, 8, 51, 7]])
        mask = torch.ones_like(ids)
        mask[1, 7:] = 0
        return ({"ids": ids, "mask": mask, "decoder_ids": out},
                {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": out})
    if kind == "image":
        image = numbers("image", [2, 3, 16, 16])
        return {"image": image}, {"pixel_values": image}
    if kind == "clip":
        image = numbers("image", [2, 3, 16, 16])
        ids = torch.tensor([[5, 17, 3, 42, 60, 60], [7, 2, 60, 60, 60, 60]])
        return {"image": image, "ids": ids}, {"pixel_values": image, "input_ids": ids}
    if kind == "speech":
        audio = numbers("audio", [2, 8, 20])
        out = torch.tensor([[1, 4, 9, 33, 2], [1, 8, 8, 51, 7]])
        return {"features": audio, "decoder_ids": out}, {"input_features": audio, "decoder_input_ids": out}
    raise ValueError(kind)


def outputs(result):
    keep = {}
    for name, ours in [("logits", "logits"), ("last_hidden_state", "hidden"), ("pooler_output", "pooled"),
                       ("logits_per_image", "logits"), ("text_embeds", "text"), ("image_embeds", "image_embeds")]:
        value = getattr(result, name, None)
        if value is not None and not (ours == "hidden" and "logits" in keep):
            keep["out." + ours] = value.float().contiguous()
    return keep


def make(name):
    cls, options, kind = (*MODELS[name], "ids")[:3]
    cls = getattr(transformers, cls)
    model = cls(cls.config_class(**options)).eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        path = os.path.join(folder, "model.safetensors")
        with safe_open(path, "pt") as f:
            shapes = {k: list(f.get_slice(k).get_shape()) for k in f.keys()}
            kept = {k: f.get_tensor(k) for k in f.keys() if not f.get_tensor(k).is_floating_point()}
        state = {k: kept[k] if k in kept else weight(k, s) for k, s in shapes.items()}
        save_file(state, path, {"format": "pt"})
        moe = {"experts_implementation": "eager"} if any("experts" in k for k in shapes) else {}
        model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **moe).eval().double()
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
    for key in ["transformers_version", "id2label", "label2id"]:
        if key in config and not (key == "id2label" and "num_labels" not in config):
            del config[key]
    ours, theirs = inputs(kind)
    theirs = {k: v.double() if v.is_floating_point() else v for k, v in theirs.items()}
    with torch.no_grad():
        result = outputs(model(**theirs))
    tensors = {"in." + k: v for k, v in ours.items()}
    tensors.update(result)
    about = {"config": json.dumps(config, sort_keys=True), "tensors": json.dumps({k: s for k, s in shapes.items() if k not in kept})}
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(HERE, name + ".safetensors"), about)
    print(name, {k: tuple(v.shape) for k, v in result.items()}, len(shapes), "tensors")


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        make(name)
