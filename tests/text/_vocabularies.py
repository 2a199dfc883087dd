"""Small vocabularies of every kind, trained by the package tokenizers, and random strings: for vectors.py and fuzz.py."""
import json
import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models, normalizers as N, pre_tokenizers as P
from tokenizers import processors as PP, trainers

WORDS = ("the of and to in is that it he was for on are with as his they at be this from have or by one had not but what all were "
         "when we there can an your which their said if do will each about how up out them then she many some so these would other "
         "into has more her two like him see time could no make than first been its who now people my made over did down only way "
         "find use may water long little very after words called just where most know don't I'm we've they're You'll HELLO World "
         "naïve café Straße İstanbul 你好世界 こんにちは 안녕하세요 привет שלום مرحبا हिन्दी ไทย 👩‍👩‍👧‍👦 🇩🇪 1234567 3.14159 foo_bar() "
         "http://x.y/z?a=b #include").split()
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "[MASK]"]
BYTES = sorted(P.ByteLevel.alphabet())
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
QWEN = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
UPPER, LOWER, FRONT = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[^\r\n\p{L}\p{N}]?"
O200K = (f"{FRONT}{UPPER}*{LOWER}+{SHORT}?|{FRONT}{UPPER}+{LOWER}*{SHORT}?" +
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def corpus():
    r = random.Random(3)
    lines = [" ".join(r.choice(WORDS) for _ in range(12)) for _ in range(400)]
    return lines + ["".join(r.choice("abcdefghijklmnopqrstuvwxyz .,?!0123456789") for _ in range(60)) for _ in range(60)]


def train(kind, norm=None, pre=None, alphabet=(), size=300, **kw):
    affix = {k: v for k, v in kw.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    more = dict(special_tokens=SPECIAL, show_progress=False)
    if kind == "BPE":
        t = Tokenizer(models.BPE(**kw))
        trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), limit_alphabet=280, **affix, **more)
    elif kind == "Unigram":
        t = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=size, unk_token="<unk>", initial_alphabet=list(alphabet), **more)
    elif kind == "WordPiece":
        t = Tokenizer(models.WordPiece(unk_token="<unk>", **kw))
        trainer = trainers.WordPieceTrainer(vocab_size=size, limit_alphabet=90, **more)
    else:
        t = Tokenizer(models.WordLevel(unk_token="<unk>"))
        trainer = trainers.WordLevelTrainer(vocab_size=150, **more)
    if norm:
        t.normalizer = norm
    if pre:
        t.pre_tokenizer = pre
    t.train_from_iterator(corpus(), trainer)
    return t


def roberta():
    t = train("BPE", None, P.ByteLevel(add_prefix_space=True), BYTES)
    t.post_processor = PP.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    t.decoder = D.ByteLevel()
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    return t


def split_bytes(regex, norm=None, whole=False):
    pre = P.Sequence([P.Split(Regex(regex), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
    t = train("BPE", norm, pre, BYTES, ignore_merges=whole)
    t.post_processor = PP.ByteLevel(trim_offsets=False)
    t.decoder = D.ByteLevel()
    t.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    t.add_tokens(["<tool>", " hello ", "你"])
    return t


def llama():
    t = train("BPE", N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None, unk_token="<unk>", fuse_unk=True)
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    file = json.loads(t.to_str())
    vocab = file["model"]["vocab"]
    first = len(vocab)
    for b in range(256):
        vocab["<0x%02X>" % b] = first + b
    file["model"]["byte_fallback"] = True
    t = Tokenizer.from_str(json.dumps(file))
    t.post_processor = PP.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 0)])
    return t


def t5():
    t = train("Unigram", N.Sequence([N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace("▁", "always"))
    t.decoder = D.Metaspace("▁", "always")
    t.post_processor = PP.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def bert(lower, accents=None, processing=False):
    t = train("WordPiece", N.BertNormalizer(lowercase=lower, strip_accents=accents), P.BertPreTokenizer())
    t.decoder = D.WordPiece("##")
    t.post_processor = PP.BertProcessing(("</s>", 1), ("<s>", 0)) if processing else PP.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 1)])
    t.add_tokens([AddedToken("Hello", single_word=True), AddedToken("WORLD", normalized=True),
                  AddedToken("ÄÖ", normalized=False, rstrip=True, lstrip=True)])
    return t


def ctc():
    t = train("WordLevel", None, P.Whitespace())
    t.decoder = D.CTC("<pad>", "|")
    return t


def more(t):
    t.add_tokens([AddedToken("Zeit"), AddedToken(" geist ", lstrip=True), AddedToken("wort", single_word=True, rstrip=True),
                  AddedToken("   ", normalized=False)])
    t.add_special_tokens(["<|x|>", "<|x|>y"])
    return t


NORMALIZERS = [
    N.NFD(), N.NFC(), N.NFKD(), N.NFKC(), N.Lowercase(), N.Strip(), N.Strip(left=False), N.Strip(right=False),
    N.Sequence([N.NFD(), N.StripAccents()]), N.Sequence([N.NFKD(), N.StripAccents(), N.NFC(), N.Lowercase()]),
    N.Replace(Regex(r"\s+"), " "), N.Replace(Regex(r"[^\w\s]"), ""), N.Replace("a", "bcd"), N.Prepend("xy"), N.Nmt(),
    N.ByteLevel(), N.Replace(Regex(r"^"), "▁"), N.Replace(Regex(r"(\d)"), "#"),
    N.Sequence([N.Lowercase(), N.Strip(), N.Replace(Regex(r"(?i)THE\b"), "T")])]
PRETOKENIZERS = [
    P.Whitespace(), P.WhitespaceSplit(), P.Digits(), P.Digits(True), P.Punctuation(), P.Punctuation("removed"),
    P.Punctuation("contiguous"), P.Punctuation("merged_with_previous"), P.Punctuation("merged_with_next"),
    P.CharDelimiterSplit("e"), P.Split("the", "isolated"), P.Split(Regex(r"\w+"), "removed", True),
    P.Split(Regex(r"[aeiou]+|\d"), "merged_with_next"), P.Split(Regex(r"[aeiou]+|\d"), "merged_with_previous"),
    P.Split(Regex(r"\s|x*"), "contiguous"), P.Split(Regex(r"\b"), "isolated"), P.Split(Regex(r"x*"), "merged_with_next"),
    P.Sequence([P.Whitespace(), P.Digits(True)]), P.Sequence([P.WhitespaceSplit(), P.Punctuation(), P.Metaspace()]),
    P.FixedLength(4), P.ByteLevel(add_prefix_space=True, use_regex=False),
    P.Sequence([P.ByteLevel(add_prefix_space=True), P.Digits()]), P.Metaspace("_", "first", split=True),
    P.Split(Regex(r"(?<=\d)(?=(\d{3})+\b)|[\h]{2}|\p{Han}"), "isolated")]
MODELS = [("BPE", dict(unk_token="<unk>", fuse_unk=True)), ("BPE", dict(unk_token="<unk>")), ("BPE", {}),
          ("BPE", dict(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>")), ("Unigram", {}),
          ("WordPiece", {}), ("WordLevel", {}), ("WordPiece", dict(max_input_chars_per_word=8))]


def vocabularies():
    """Names, and what makes each: well-known ones, then each normalizer and pre-tokenizer with one model and another."""
    all = {
        "gpt2": lambda: train("BPE", None, P.ByteLevel(add_prefix_space=False), BYTES), "roberta": roberta,
        "qwen2": lambda: split_bytes(QWEN, N.NFC()), "llama3": lambda: split_bytes(LLAMA, None, True),
        "o200k": lambda: split_bytes(O200K), "llama": llama, "t5": t5, "ctc": ctc,
        "gemma": lambda: train("BPE", N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"), unk_token="<unk>", fuse_unk=True),
        "first": lambda: train("BPE", N.NFKC(), P.Metaspace("▁", "first"), unk_token="<unk>"),
        "never": lambda: train("Unigram", N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]),
                               P.Metaspace("▁", "never", split=False)),
        "bert": lambda: bert(True), "bert_cased": lambda: bert(False), "bert_accents": lambda: bert(True, False),
        "bert_stripped": lambda: bert(False, True, True)}
    r, i = random.Random(7), 0
    for n in NORMALIZERS:
        for _ in range(2):
            all[f"normal{i}"] = (lambda k=MODELS[i % len(MODELS)], n=n, p=r.choice(PRETOKENIZERS): more(train(k[0], n, p, **k[1])))
            i += 1
    for p in PRETOKENIZERS:
        all[f"split{i}"] = (lambda k=MODELS[i % len(MODELS)], n=r.choice([None] + NORMALIZERS), p=p: more(train(k[0], n, p, **k[1])))
        i += 1
    return all


# ---- random strings
def chars(a, b):
    return [chr(c) for c in range(a, b)]


# Characters that all tables know alike: docs/tokenizers.md lists the others.
def is_old(c):
    return unicodedata.ucd_3_2_0.category(c) != "Cn"


ASSIGNED = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000 and is_old(chr(c)) and chr(c) not in "\u180e\u06dd"]
POOLS = [p if p is ASSIGNED else [c for c in p if is_old(c) or c >= "\U0001f300"] for p in (
    chars(32, 127), chars(32, 127), chars(97, 123) + [" "] * 6, chars(0, 128), chars(0xa0, 0x250), chars(0x300, 0x370) + chars(97, 123),
    chars(0x370, 0x530), chars(0x590, 0x700), chars(0x900, 0xe00), chars(0xe00, 0xe80), chars(0x1100, 0x1200), chars(0xac00, 0xaf20),
    chars(0x3040, 0x3100), chars(0x4e00, 0x59b8), chars(0x2000, 0x2070), chars(0x2100, 0x2200), chars(0x1f300, 0x1f600),
    chars(0xff00, 0xfff0), chars(0xfb00, 0xfb50), chars(0xf900, 0xfb00), chars(0x20000, 0x20200),
    chars(0xfe00, 0xfe10) + chars(0x1f3fb, 0x1f400) + ["\u200d"] + chars(0x1f466, 0x1f480) + ["\u2764", "\u270a"], ASSIGNED, ASSIGNED,
    list(" \t\n\r\x0b\x0c\u3000\u00a0\u2028\u1680\u200b\ufeff"), chars(48, 58) + list(".,- "), list("'sStTrRvVmMdDlLeE ſK"), list("▁ a▁b  "))]


def string(r, special):
    out = []
    for _ in range(r.choice([1, 1, 2, 3, 4, 6, 10])):
        k = r.random()
        if k < 0.3:
            out.append(" ".join(r.choice(WORDS) for _ in range(r.randint(1, 6))))
        elif k < 0.38 and special:
            out.append(r.choice(["", " ", "  ", "\n"]) + r.choice(special) + r.choice(["", " ", "  ", "a"]))
        elif k < 0.46:
            out.append(r.choice(r.choice(POOLS)) * r.choice([1, 2, 3, 5, 17, 60]))
        elif k < 0.5:
            out.append(r.choice([" ", "  ", "   ", "\n\n", "\t", " \n ", "\r\n"]))
        elif k < 0.53:
            out.append("".join(r.choice(r.choice(POOLS)) for _ in range(r.randint(1, 20))))
        else:
            p = r.choice(POOLS)
            out.append("".join(r.choice(p) for _ in range(r.randint(1, 12))))
    return ("" if r.random() < 0.5 else " ").join(out)


def case(t, r, special, i):
    """What the package makes of a random string, or None where it panics."""
    s = string(r, special)
    pair = string(r, special) if i % 10 == 0 else None
    add = i % 3 != 0
    try:
        e = t.encode(s, pair, add_special_tokens=add)
        text = t.decode(e.ids, skip_special_tokens=i % 2 == 0)
    except BaseException:
        return None
    return {"text": s, "pair": pair, "add": add, "ids": e.ids, "types": e.type_ids, "special": e.special_tokens_mask,
            "from": [o[0] for o in e.offsets], "to": [o[1] for o in e.offsets], "skip": i % 2 == 0, "decoded": text}
