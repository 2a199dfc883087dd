"""Prints tokenizers, texts and what the package tokenizers cuts off of them, a line of JSON each: _overflow.py SEED COUNT."""
import json
import random
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, processors

seed, count = int(sys.argv[1]), int(sys.argv[2])
r = random.Random(seed)
tok = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2, "d": 3, "é": 4, "[C]": 6, "[S]": 7, "?": 8}, unk_token="?"))
tok.pre_tokenizer = pre_tokenizers.Whitespace()
tok.post_processor = processors.TemplateProcessing(single="[C] $A [S]", pair="[C] $A [S] $B:1 [S]:1", special_tokens=[("[C]", 6), ("[S]", 7)])


def of(e):
    return [e.ids, e.type_ids, e.attention_mask, e.special_tokens_mask, [list(o) for o in e.offsets]]


for _ in range(count):
    one = " ".join(r.choice("abcdé") for _ in range(r.randrange(12)))
    two = " ".join(r.choice("abcdé") for _ in range(r.randrange(9))) if r.random() < 0.5 else None
    how = {"max_length": r.randrange(3 if two is not None else 2, 10), "stride": r.randrange(3), "strategy": r.choice(["longest_first", "only_first", "only_second"]),
           "direction": r.choice(["left", "right"])}
    how["stride"] = min(how["stride"], max(0, how["max_length"] - 3))
    tok.enable_truncation(**how)
    padding = r.choice([None, {}, {"length": 12}, {"direction": "left"}])
    tok.no_padding()
    if padding is not None:
        tok.enable_padding(**padding)
    try:
        e = tok.encode(one, two) if two is not None else tok.encode(one)
        out = [of(x) for x in [e] + e.overflowing]
    except BaseException:
        out = None
    print(json.dumps({"file": tok.to_str(), "one": one, "two": two, "out": out}))
