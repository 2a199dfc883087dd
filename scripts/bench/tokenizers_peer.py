"""The package tokenizers for tokenizers.lua: FILE TEXT prints tokens and seconds of one thread's processor time."""
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

t = Tokenizer.from_file(sys.argv[1])
t.no_truncation()
t.no_padding()
texts = [x for x in open(sys.argv[2], encoding="utf-8").read().split("\n\n") if x]
best = None
for _ in range(3):
    start = time.process_time()
    all = t.encode_batch_fast(texts)
    took = time.process_time() - start
    best = took if best is None else min(best, took)
print(sum(len(e.ids) for e in all), best)
