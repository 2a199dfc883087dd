"""Prints random strings with what the package tokenizers makes of them, for long.lua: fuzz.py list, or fuzz.py NAME SEED COUNT FILE,
where NAME is a vocabulary of _vocabularies.py, whose tokenizer.json is written to FILE, or a tokenizer.json itself."""
import json
import os
import random
import sys

from _vocabularies import case, vocabularies

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RUST_BACKTRACE"] = "0"
if sys.argv[1] == "list":
    print("\n".join(vocabularies()))
    sys.exit()
name, seed, count, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
if name.endswith(".json"):
    from tokenizers import Tokenizer
    t = Tokenizer.from_file(name)
    t.no_truncation()
    t.no_padding()
else:
    t = vocabularies()[name]()
with open(path, "w") as out:
    out.write(t.to_str())
r = random.Random(seed)
special = [x.content for x in t.get_added_tokens_decoder().values()][:300]
for i in range(count):
    c = case(t, r, special, i)
    if c:
        print(json.dumps(c))
