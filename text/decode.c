/* What each decoder does with the strings of tokens. */
#include "text/decode.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"

void ts_strings_end(TsStrings *s) {
  if (s->n == s->room) {
    uint32_t room = s->room ? s->room * 2 : 64;
    size_t *end = realloc(s->end, room * sizeof *end);
    if (!end) {
      s->failed = true;
      return;
    }
    s->end = end;
    s->room = room;
  }
  s->end[s->n++] = s->text.len;
}

void ts_strings_add(TsStrings *s, const char *text, size_t n) {
  if (n) ts_text_add(&s->text, text, n);
  ts_strings_end(s);
}

void ts_strings_free(TsStrings *s) {
  ts_text_free(&s->text);
  free(s->end);
  *s = (TsStrings){0};
}

typedef struct String {
  const char *s;
  size_t n;
} String;

static String nth(const TsStrings *s, uint32_t i) {
  size_t from = i ? s->end[i - 1] : 0;
  return (String){(s->text.at ? s->text.at : "") + from, s->end[i] - from};
}

/* U+FFFD in place of what is no UTF-8, a part of a character counting once. */
static void put_lossy(TsText *to, const char *text, size_t n) {
  const unsigned char *s = (const unsigned char *)text;
  for (size_t i = 0; i < n;) {
    size_t good = ts_char_check(text + i, n - i);
    ts_text_add(to, text + i, good);
    i += good;
    if (i == n) break;
    /* As many bytes as could begin a character. */
    unsigned char c = s[i];
    size_t len = c >= 0xc2 && c < 0xe0   ? 2
                 : c >= 0xe0 && c < 0xf0 ? 3
                 : c >= 0xf0 && c < 0xf5 ? 4
                                         : 1;
    size_t k = 1;
    for (; k < len && i + k < n; k++) {
      unsigned char lo = 0x80, hi = 0xbf;
      if (k == 1) {
        if (c == 0xe0) lo = 0xa0;
        if (c == 0xed) hi = 0x9f;
        if (c == 0xf0) lo = 0x90;
        if (c == 0xf4) hi = 0x8f;
      }
      if (s[i + k] < lo || s[i + k] > hi) break;
    }
    ts_text_str(to, "\xef\xbf\xbd");
    i += k;
  }
}

/* GPT-2's characters as bytes; a token with any other stays as it is. */
static void byte_level(const TsStrings *s, TsStrings *to) {
  TsText bytes = {0};
  for (uint32_t i = 0; i < s->n; i++) {
    String t = nth(s, i);
    size_t before = bytes.len;
    for (size_t k = 0; k < t.n;) {
      uint32_t len;
      int byte = ts_char_to_byte(ts_char_get(t.s + k, &len));
      if (byte < 0) {
        bytes.len = before;
        ts_text_add(&bytes, t.s, t.n);
        break;
      }
      ts_text_char(&bytes, (char)byte);
      k += len;
    }
  }
  if (bytes.len) put_lossy(&to->text, bytes.at, bytes.len);
  to->text.failed |= bytes.failed;
  ts_text_free(&bytes);
  ts_strings_end(to);
}

static void metaspace(const TsDecode *k, const TsStrings *s, TsStrings *to) {
  for (uint32_t i = 0; i < s->n; i++) {
    String t = nth(s, i);
    for (size_t at = 0; at < t.n;) {
      if (t.n - at >= k->ntext && !memcmp(t.s + at, k->text, k->ntext)) {
        if (i || !k->prepended) ts_text_char(&to->text, ' ');
        at += k->ntext;
      } else {
        ts_text_char(&to->text, t.s[at++]);
      }
    }
    ts_strings_end(to);
  }
}

/* s with every `from` as `as`. */
static void replaced(TsText *to, const char *s, size_t n, const char *from, size_t nfrom,
                     const char *as, size_t nas) {
  size_t last = 0;
  for (const char *found; nfrom && (found = memmem(s + last, n - last, from, nfrom));) {
    size_t at = (size_t)(found - s);
    ts_text_add(to, s + last, at - last);
    if (nas) ts_text_add(to, as, nas);
    last = at + nfrom;
  }
  if (n > last) ts_text_add(to, s + last, n - last);
}

/* English as it is written. */
static void tidy(TsText *t) {
  static const char *const rule[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                        {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                        {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                        {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof rule / sizeof *rule && t->len; i++) {
    if (!memmem(t->at, t->len, rule[i][0], strlen(rule[i][0]))) continue;
    TsText out = {0};
    replaced(&out, t->at, t->len, rule[i][0], strlen(rule[i][0]), rule[i][1],
             strlen(rule[i][1]));
    out.failed |= t->failed;
    ts_text_free(t);
    *t = out;
  }
}

static void wordpiece(const TsDecode *k, const TsStrings *s, TsStrings *to) {
  for (uint32_t i = 0; i < s->n; i++) {
    String t = nth(s, i);
    TsText one = {0};
    bool continues = t.n >= k->ntext && (!k->ntext || !memcmp(t.s, k->text, k->ntext));
    if (i && continues)
      t.s += k->ntext, t.n -= k->ntext;
    else if (i)
      ts_text_char(&one, ' ');
    if (t.n) ts_text_add(&one, t.s, t.n);
    if (k->cleanup) tidy(&one);
    if (one.len) ts_text_add(&to->text, one.at, one.len);
    to->text.failed |= one.failed;
    ts_text_free(&one);
    ts_strings_end(to);
  }
}

static void bpe(const TsDecode *k, const TsStrings *s, TsStrings *to) {
  for (uint32_t i = 0; i < s->n; i++) {
    String t = nth(s, i);
    replaced(&to->text, t.s, t.n, k->text, k->ntext, " ", i + 1 < s->n);
    ts_strings_end(to);
  }
}

static int hex_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if ((c | 32) >= 'a' && (c | 32) <= 'f') return (c | 32) - 'a' + 10;
  return -1;
}

/* <0x41>, or -1. A sign in front of a digit is what the others' reader takes, too. */
static int byte_of(String t) {
  if (t.n != 6 || memcmp(t.s, "<0x", 3) || t.s[5] != '>') return -1;
  int lo = hex_of(t.s[4]), hi = t.s[3] == '+' ? 0 : hex_of(t.s[3]);
  return lo < 0 || hi < 0 ? -1 : hi * 16 + lo;
}

static void put_bytes(TsStrings *to, TsText *bytes) {
  if (!bytes->len) return;
  if (ts_char_check(bytes->at, bytes->len) == bytes->len)
    ts_strings_add(to, bytes->at, bytes->len);
  else
    for (size_t i = 0; i < bytes->len; i++) ts_strings_add(to, "\xef\xbf\xbd", 3);
  bytes->len = 0;
}

static void byte_fallback(const TsStrings *s, TsStrings *to) {
  TsText bytes = {0};
  for (uint32_t i = 0; i < s->n; i++) {
    String t = nth(s, i);
    int byte = byte_of(t);
    if (byte >= 0) {
      ts_text_char(&bytes, (char)byte);
      continue;
    }
    put_bytes(to, &bytes);
    ts_strings_add(to, t.s, t.n);
  }
  put_bytes(to, &bytes);
  to->failed |= bytes.failed;
  ts_text_free(&bytes);
}

static void strip(const TsDecode *k, const TsStrings *s, TsStrings *to) {
  for (uint32_t i = 0; i < s->n; i++) {
    String t = nth(s, i);
    size_t from = 0, end = t.n;
    for (int64_t c = 0;
         c < k->start && t.n - from >= k->ntext && !memcmp(t.s + from, k->text, k->ntext); c++)
      from += k->ntext;
    for (int64_t c = 0;
         c < k->stop && end >= k->ntext && !memcmp(t.s + end - k->ntext, k->text, k->ntext);
         c++)
      end -= k->ntext;
    ts_strings_add(to, t.s + from, end > from ? end - from : 0);
  }
}

static int replace(const TsDecode *k, const TsStrings *s, TsStrings *to, TsError *err) {
  for (uint32_t i = 0; i < s->n; i++) {
    String t = nth(s, i);
    TsMatches m = ts_pattern_matches(k->pattern, t.s, t.n);
    size_t last = 0;
    int more = 0;
    while (t.n && (more = ts_matches_next(&m, err)) > 0) {
      ts_text_add(&to->text, t.s + last, m.from - last);
      if (k->ntext) ts_text_add(&to->text, k->text, k->ntext);
      last = m.to;
    }
    if (more < 0) return -1;
    ts_strings_add(to, t.s + last, t.n - last);
  }
  return 0;
}

static void ctc(const TsDecode *k, const TsStrings *s, TsStrings *to) {
  String before = {NULL, 0};
  for (uint32_t i = 0; i < s->n; i++) {
    String t = nth(s, i);
    if (i && t.n == before.n && !memcmp(t.s, before.s, t.n)) continue;
    before = t;
    TsText one = {0}, two = {0};
    replaced(&one, t.s, t.n, k->text, k->ntext, "", 0);
    if (k->cleanup) tidy(&one);
    if (one.len)
      replaced(&two, one.at, one.len, k->cleanup ? k->other : "", k->cleanup ? k->nother : 0,
               " ", 1);
    if (two.len) ts_strings_add(to, two.at, two.len);
    to->failed |= one.failed || two.failed;
    ts_text_free(&one);
    ts_text_free(&two);
  }
}

static int apply(const TsDecode *k, const TsStrings *s, TsStrings *to, TsError *err) {
  switch (k->kind) {
  case TS_DECODE_ByteLevel: return byte_level(s, to), 0;
  case TS_DECODE_Metaspace: return metaspace(k, s, to), 0;
  case TS_DECODE_WordPiece: return wordpiece(k, s, to), 0;
  case TS_DECODE_BPEDecoder: return bpe(k, s, to), 0;
  case TS_DECODE_ByteFallback: return byte_fallback(s, to), 0;
  case TS_DECODE_Fuse: ts_strings_add(to, s->text.at ? s->text.at : "", s->text.len); return 0;
  case TS_DECODE_Strip: return strip(k, s, to), 0;
  case TS_DECODE_Replace: return replace(k, s, to, err);
  case TS_DECODE_CTC: return ctc(k, s, to), 0;
  case TS_DECODE_n: break;
  }
  return 0;
}

int ts_decode_apply(const TsDecodes *all, TsStrings *s, TsError *err) {
  for (int i = 0; i < all->n; i++) {
    TsStrings to = {0};
    if (ts_cpu_interrupted()) return ts_error_set(err, TS_ERR_interrupt, "interrupted");
    int bad = apply(&all->at[i], s, &to, err);
    ts_strings_free(s);
    *s = to;
    if (bad) return -1;
    if (s->failed || s->text.failed) return ts_error_memory(err);
  }
  return 0;
}

/* ---- one token alone */
static void token_bytes(const TsDecode *k, String t, TsText *to) {
  bool continues = t.n >= k->ntext && (!k->ntext || !memcmp(t.s, k->text, k->ntext));
  int byte = k->kind == TS_DECODE_ByteFallback ? byte_of(t) : -1;
  size_t at = 0;
  uint32_t len;
  switch (k->kind) {
  case TS_DECODE_ByteLevel:
    for (; at < t.n; at += len) {
      byte = ts_char_to_byte(ts_char_get(t.s + at, &len));
      if (byte < 0) break;
      ts_text_char(to, (char)byte);
    }
    if (at == t.n) return;
    to->len = 0;
    break;
  case TS_DECODE_Metaspace:
  case TS_DECODE_BPEDecoder: replaced(to, t.s, t.n, k->text, k->ntext, " ", 1); return;
  case TS_DECODE_WordPiece:
    if (!continues) ts_text_char(to, ' ');
    if (continues) t.s += k->ntext, t.n -= k->ntext;
    break;
  default: break;
  }
  if (byte >= 0 && k->kind == TS_DECODE_ByteFallback)
    ts_text_char(to, (char)byte);
  else if (t.n)
    ts_text_add(to, t.s, t.n);
}

int ts_decode_token(const TsDecodes *all, const char *s, size_t n, TsText *to, TsError *err) {
  TsText now = {0};
  if (!all->n) ts_text_char(&now, ' ');
  if (n) ts_text_add(&now, s, n);
  for (int i = 0; i < all->n && !now.failed; i++) {
    const TsDecode *k = &all->at[i];
    TsStrings in = {0}, out = {0};
    int bad = 0;
    if (k->kind == TS_DECODE_Replace) {
      ts_strings_add(&in, now.at ? now.at : "", now.len);
      bad = in.failed || in.text.failed ? ts_error_memory(err) : replace(k, &in, &out, err);
    } else {
      token_bytes(k, (String){now.at ? now.at : "", now.len}, &out.text);
    }
    ts_text_free(&now);
    now = out.text;
    out.text = (TsText){0};
    ts_strings_free(&in);
    ts_strings_free(&out);
    if (bad) {
      ts_text_free(&now);
      return -1;
    }
  }
  if (now.len) ts_text_add(to, now.at, now.len);
  int bad = now.failed || to->failed;
  ts_text_free(&now);
  return bad ? ts_error_memory(err) : 0;
}
