"""Writes vectors.jsonl: a line a vocabulary, {name, file, cases}. Run with the package tokenizers of scripts/python.sh."""
import json
import random
import sys

sys.path.insert(0, sys.path[0])
from _vocabularies import case, vocabularies

with open(sys.path[0] + "/vectors.jsonl", "w") as out:
    for i, (name, make) in enumerate(vocabularies().items()):
        if i > 14 and i % 3:  # fuzz.py has all
            continue
        t = make()
        r = random.Random(name)
        special = [x.content for x in t.get_added_tokens_decoder().values()]
        cases = [c for c in (case(t, r, special, i) for i in range(10)) if c]
        for c in cases:
            if not any(c["types"]):
                del c["types"]
            if not any(c["special"]):
                del c["special"]
        print(json.dumps({"name": name, "file": json.loads(t.to_str()), "cases": cases}, ensure_ascii=False,
                         separators=(",", ":")), file=out)
