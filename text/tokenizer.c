/* The way of a text through the parts of a tokenizer. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "text/whole.h"

/* ---- a text as pieces: added tokens, and normalized text between them */
static int extract(TsTokenizer *t, const TsEncodeInput *in, const char *s, size_t n,
                   TsError *err) {
  TsLine *given = &t->given, *line = &t->normal_line;
  bool track = in->offsets || t->exact;
  if (given->track != track) ts_line_free(given), ts_line_free(line);
  given->track = line->track = track;
  given->err = line->err = err;
  given->most = line->most = (uint32_t)(n > INT32_MAX / 128 ? INT32_MAX : n * 100 + (1 << 20));
  given->n = line->n = 0;
  t->first.n = t->pieces.n = 0;
  if (ts_line_room(given, n)) return -1;
  if (n) memcpy(given->s, s, n);
  for (uint32_t i = 0, len; track && i < n; i += len) {
    len = ts_char_len((unsigned char)s[i]);
    for (uint32_t k = 0; k < len; k++) given->at[i + k] = (TsSpan){i, i + len};
  }
  given->n = (uint32_t)n;
  if (ts_added_divide(&t->added, &t->added.given, in->in_text, given,
                      (TsPiece){0, (uint32_t)n, 0, -1}, &t->first, err))
    return -1;
  for (uint32_t i = 0; i < t->first.n; i++) {
    TsPiece p = t->first.at[i];
    const TsSpan *at = track ? given->at + p.from : NULL;
    uint32_t from = line->n;
    if (p.id >= 0 ? ts_line_add(line, given->s + p.from, at, p.n)
                  : ts_normal_apply(&t->normals, given->s + p.from, at, p.n, p.origin, line))
      return -1;
    TsPiece own = {from, line->n - from, p.origin, p.id};
    if (p.id >= 0 ? ts_pieces_add(&t->pieces, own, err)
                  : ts_added_divide(&t->added, &t->added.normalized, in->in_text, line, own,
                                    &t->pieces, err))
      return -1;
  }
  return 0;
}

/* ---- offsets in characters of the given text */
typedef struct Places {
  const char *s;
  size_t n;
  uint32_t *of; /* the number of the character that each byte is of; NULL: each is one */
} Places;

static int count_chars(TsTokenizer *t, Places *p, TsError *err) {
  p->of = NULL;
  if (ts_char_ascii(p->s, p->n) == p->n) return 0;
  if (t->nplace < p->n + 1) {
    uint32_t *more = realloc(t->place, (p->n + 1) * 2 * sizeof *more);
    if (!more) return ts_error_memory(err);
    t->place = more;
    t->nplace = p->n + 1;
  }
  p->of = t->place;
  uint32_t c = 0;
  for (size_t i = 0; i < p->n; i++) {
    c += i && ts_char_begins(p->s[i]);
    p->of[i] = c;
  }
  p->of[p->n] = c + 1;
  return 0;
}

static TsSpan in_chars(const Places *p, TsSpan at) {
  if (!p->of) return at;
  return (TsSpan){p->of[at.from > p->n ? p->n : at.from], p->of[at.to > p->n ? p->n : at.to]};
}

/* White space in front of a token and behind it, counted in its characters. */
static void count_space(TsItem *item, const char *s, size_t n) {
  uint32_t len, lead = 0, count = 0, trail = 0;
  bool front = true;
  for (size_t i = 0; i < n; i += len, count++) {
    uint32_t c = ts_char_get(s + i, &len);
    bool space = c == 0x120 || ts_char_is_space(c); /* U+0120 is GPT-2's space */
    front &= space;
    lead += front;
    trail = space ? trail + 1 : 0;
  }
  item->lead = lead;
  item->trail = trail;
}

/* ---- pieces as tokens, the second of a pair behind the first */
static TsSpan span_of(const TsLine *l, TsPiece p, uint32_t from, uint32_t to) {
  if (from == to) return (TsSpan){from, to};
  return (TsSpan){l->at[p.from + from].from, l->at[p.from + to - 1].to};
}

static int tokens_of(TsTokenizer *t, const TsEncodeInput *in, const TsLine *l,
                     const TsPieces *p, uint8_t which, const Places *places, TsEncoding *to,
                     TsError *err) {
  bool trims = in->offsets && t->finishes.trims;
  for (uint32_t i = 0; i < p->n; i++) {
    TsPiece one = p->at[i];
    TsItem item = {.type = which, .word = i, .text = which};
    if (!(i & 0x3ff) && ts_cpu_interrupted())
      return ts_error_set(err, TS_ERR_interrupt, "interrupted");
    t->tokens.n = 0;
    if (one.id >= 0 ? ts_tokens_add(&t->tokens, one.id, 0, one.n, err)
                    : ts_model_tokens(&t->model, l->s + one.from, one.n, &t->tokens, err))
      return -1;
    for (uint32_t k = 0; k < t->tokens.n; k++) {
      TsToken token = t->tokens.at[k];
      item.id = token.id;
      if (in->offsets) {
        TsSpan at = in_chars(places, span_of(l, one, token.from, token.to));
        item.from = at.from;
        item.to = at.to;
      }
      if (trims && one.id >= 0) count_space(&item, l->s + one.from, one.n);
      if (trims && one.id < 0 && token.id >= 0) {
        const TsVocabToken *v = &t->model.vocab.at[token.id];
        count_space(&item, v->s, v->n);
      }
      if (ts_encoding_add(to, item, err)) return -1;
    }
  }
  return ts_encoding_part(to, err);
}

static int one_text(TsTokenizer *t, const TsEncodeInput *in, const char *s, size_t n,
                    uint8_t which, TsError *err) {
  size_t bad = ts_char_check(s, n);
  if (bad < n) {
    ts_error_set(err, TS_ERR_value, "the text is no UTF-8 from byte %zu on", bad + 1);
    return ts_error_hint(err, "tokenizers are for text: bytes of another encoding have to be "
                              "converted first");
  }
  if (n > INT32_MAX) return ts_error_set(err, TS_ERR_value, "the text has 2 GiB or more");
  if (extract(t, in, s, n, err)) return -1;
  const TsLine *l = &t->normal_line;
  const TsPieces *p = &t->pieces;
  Places places = {s, n, NULL};
  if (ts_split_apply(&t->splits, &l, &p, err)) return -1;
  if (in->offsets && count_chars(t, &places, err)) return -1;
  return tokens_of(t, in, l, p, which, &places, &t->encoding, err);
}

/* ---- truncation: how many tokens of each part are kept */
static int room_of(const TsTruncation *how, int64_t most, const TsEncoding *e, uint32_t keep[2],
                   TsError *err) {
  keep[0] = e->end[0];
  keep[1] = e->nend > 1 ? e->end[1] - e->end[0] : 0;
  if (e->n <= most) return 0;
  if (!most) {
    keep[0] = keep[1] = 0;
  } else if (how->strategy != TS_TRUNCATE_longest) {
    uint32_t *k = &keep[how->strategy == TS_TRUNCATE_second], gone = e->n - (uint32_t)most;
    if (how->strategy == TS_TRUNCATE_second && e->nend < 2)
      return ts_error_set(err, TS_ERR_value, "truncation: there is no second text to be cut");
    if (*k <= gone)
      return ts_error_set(err, TS_ERR_value,
                          "truncation: the %s text has %u tokens, %u too many stand in both",
                          how->strategy == TS_TRUNCATE_second ? "second" : "first", *k, gone);
    *k -= gone;
  } else if (e->nend < 2) {
    keep[0] = (uint32_t)most;
  } else {
    /* The shorter one keeps what it has, as far as the halves allow. */
    bool swapped = keep[0] > keep[1];
    int64_t a = swapped ? keep[1] : keep[0], b;
    b = a > most ? a : a > most - a ? a : most - a;
    if (a + b > most) a = most / 2, b = a + most % 2;
    keep[swapped] = (uint32_t)a;
    keep[!swapped] = (uint32_t)b;
  }
  return 0;
}

/* The tokens of a part's i-th piece, which begins `step` tokens behind the one before. */
static TsSpan piece_at(const TsTruncation *how, uint32_t i, uint32_t keep, uint32_t n) {
  if (n <= keep) return (TsSpan){0, n};
  if (!keep) return (TsSpan){0, i ? n : 0};
  uint32_t gone = i * (keep - (uint32_t)how->stride);
  if (how->left) return (TsSpan){n - gone > keep ? n - gone - keep : 0, n - gone};
  return (TsSpan){gone, n - gone > keep ? gone + keep : n};
}

static uint32_t pieces_of(const TsTruncation *how, uint32_t keep, uint32_t n) {
  if (n <= keep) return 1;
  if (!keep) return 2;
  uint32_t step = keep - (uint32_t)how->stride;
  return 1 + (n - keep + step - 1) / step;
}

/* The pieces of both parts that come next, with what is put in. */
static int put_pieces(TsTokenizer *t, const TsEncodeInput *in, TsError *err) {
  const TsEncoding *from = &t->uncut;
  TsEncoding *to = &t->encoding;
  ts_encoding_clear(to);
  for (uint32_t part = 0, begin = 0; part < from->nend; begin = from->end[part++]) {
    TsSpan own = piece_at(&in->truncation, t->piece[part].at, t->piece[part].keep,
                          from->end[part] - begin);
    for (uint32_t i = own.from; i < own.to; i++)
      if (ts_encoding_add(to, from->at[begin + i], err)) return -1;
    if (ts_encoding_part(to, err)) return -1;
  }
  return ts_finish_apply(&t->finishes, in->special, to, &t->other, err);
}

/* What there is before it is cut moves to `uncut`; the first pieces come next. */
static int truncated(TsTokenizer *t, const TsEncodeInput *in, TsError *err) {
  const TsTruncation *how = &in->truncation;
  int64_t most = how->most;
  int64_t added = in->special ? ts_finish_count(&t->finishes, in->pair != NULL) : 0;
  uint32_t keep[2];
  t->piece[0] = t->piece[1] = (struct TsPieceOf){.count = 1};
  if (!how->on || (added <= most && t->encoding.n <= most - added))
    return ts_finish_apply(&t->finishes, in->special, &t->encoding, &t->other, err);
  if (added > most)
    return ts_error_set(err, TS_ERR_value,
                        "truncation: %lld tokens are put in, %lld are the most",
                        (long long)added, (long long)most);
  if (room_of(how, most - added, &t->encoding, keep, err)) return -1;
  for (uint32_t part = 0, begin = 0; part < t->encoding.nend; begin = t->encoding.end[part++]) {
    uint32_t n = t->encoding.end[part] - begin;
    if (in->overflow && n > keep[part] && keep[part] && how->stride >= keep[part])
      return ts_error_set(
          err, TS_ERR_value,
          "truncation: pieces of %u tokens cannot have %lld in common with those "
          "before",
          keep[part], (long long)how->stride);
    t->piece[part].keep = keep[part];
    if (in->overflow) t->piece[part].count = pieces_of(how, keep[part], n);
  }
  TsEncoding whole = t->encoding;
  t->encoding = t->uncut;
  t->uncut = whole;
  return put_pieces(t, in, err);
}

/* From characters to bytes again. */
static int in_bytes(TsTokenizer *t, const TsEncodeInput *in, uint8_t which, TsError *err) {
  Places p = {which ? in->pair : in->text, which ? in->npair : in->ntext, NULL};
  if (count_chars(t, &p, err)) return -1;
  if (!p.of) return 0;
  uint32_t *byte = t->place + p.n + 1, n = 0; /* by character */
  for (uint32_t i = 0; i < p.n; i++)
    if (ts_char_begins(p.s[i])) byte[n++] = i;
  byte[n] = (uint32_t)p.n;
  for (uint32_t i = 0; i < t->encoding.n; i++) {
    TsItem *item = &t->encoding.at[i];
    if (item->special || item->text != which) continue;
    item->from = byte[item->from < n ? item->from : n];
    item->to = byte[item->to < n ? item->to : n];
  }
  return 0;
}

static int placed(TsTokenizer *t, const TsEncodeInput *in, TsError *err) {
  if (!in->offsets || in->chars) return 0;
  return in_bytes(t, in, 0, err) || (in->pair && in_bytes(t, in, 1, err)) ? -1 : 0;
}

int ts_tokenizer_encode(TsTokenizer *t, const TsEncodeInput *in, const TsEncoding **out,
                        TsError *err) {
  ts_encoding_clear(&t->encoding);
  *out = &t->encoding;
  if (one_text(t, in, in->text, in->ntext, 0, err)) return -1;
  if (in->pair && one_text(t, in, in->pair, in->npair, 1, err)) return -1;
  return truncated(t, in, err) || placed(t, in, err) ? -1 : 0;
}

/* All pieces of the first text but its first, each with all of the second; then the first with those
 * of the second that are left. */
int ts_tokenizer_more(TsTokenizer *t, const TsEncodeInput *in, const TsEncoding **out,
                      TsError *err) {
  struct TsPieceOf *a = &t->piece[0], *b = &t->piece[1];
  *out = &t->encoding;
  if (!a->at && !b->at && a->count > 1) {
    a->at = 1;
  } else if (++b->at == b->count) {
    if (!a->at) return b->at--, 0;
    b->at = 0;
    if (++a->at == a->count) {
      a->at = 0;
      if (b->count == 1) return 0;
      b->at = 1;
    }
  }
  return put_pieces(t, in, err) || placed(t, in, err) ? -1 : 1;
}

/* ---- and back */
const char *ts_tokenizer_token(const TsTokenizer *t, int64_t id, size_t *n, bool *special) {
  *special = false;
  if (id < 0 || id > INT32_MAX) return NULL;
  const TsAddedToken *a = ts_added_get(&t->added, (int32_t)id);
  const char *s = a ? a->found : NULL;
  *n = a ? a->nfound : 0;
  if (!a && (uint64_t)id < t->model.vocab.end) {
    s = t->model.vocab.at[id].s;
    *n = t->model.vocab.at[id].n;
  }
  if (s) *special = ts_vocab_find(&t->added.special, s, *n) >= 0;
  return s;
}

int ts_tokenizer_decode(TsTokenizer *t, const int64_t *ids, size_t n, bool skip_special,
                        TsText *to, TsError *err) {
  TsStrings s = {0};
  bool first = true;
  for (size_t i = 0; i < n; i++) {
    size_t len;
    bool special;
    const char *token = ts_tokenizer_token(t, ids[i], &len, &special);
    if (!token || (special && skip_special)) continue;
    if (!t->decodes.n && !first) ts_text_char(&s.text, ' ');
    ts_strings_add(&s, token, len);
    first = false;
  }
  int bad = s.failed || s.text.failed ? ts_error_memory(err) : 0;
  if (!bad && s.n) bad = ts_decode_apply(&t->decodes, &s, err);
  if (!bad && s.text.len) ts_text_add(to, s.text.at, s.text.len);
  if (!bad && to->failed) bad = ts_error_memory(err);
  ts_strings_free(&s);
  return bad;
}

int ts_tokenizer_bytes(TsTokenizer *t, int64_t id, TsText *to, TsError *err) {
  size_t n;
  bool special;
  const char *s = ts_tokenizer_token(t, id, &n, &special);
  return s ? ts_decode_token(&t->decodes, s, n, to, err) : 0;
}

int64_t ts_tokenizer_id(const TsTokenizer *t, const char *s, size_t n) {
  int32_t id = ts_vocab_find(&t->added.vocab, s, n);
  return id >= 0 ? id : ts_vocab_find(&t->model.vocab, s, n);
}

int64_t ts_tokenizer_end(const TsTokenizer *t) {
  int64_t end = t->model.vocab.end;
  return t->added.vocab.end > end ? t->added.vocab.end : end;
}

int64_t ts_tokenizer_size(const TsTokenizer *t) {
  int64_t n = t->model.vocab.n;
  for (int32_t i = 0; i < t->added.n; i++) {
    const TsAddedToken *a = &t->added.at[i];
    n += ts_added_get(&t->added, a->id) == a && ts_vocab_find(&t->model.vocab, a->s, a->n) < 0;
  }
  return n;
}

const TsTruncation *ts_tokenizer_truncation(const TsTokenizer *t) { return &t->truncation; }
const TsPadding *ts_tokenizer_padding(const TsTokenizer *t) { return &t->padding; }
