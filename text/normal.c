/* What each normalizer does with a piece of text. */
#include "text/normal.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"

typedef struct Piece {
  const char *s;
  const TsSpan *at;
  uint32_t n, origin;
} Piece;

/* Each character as what `as` gives. */
static int lower(Piece p, TsLine *to) {
  TsEdit e;
  ts_edit_begin(&e, to, p.s, p.at, p.n, p.origin, 0);
  for (uint32_t i = 0, len; i < p.n; i += len) {
    uint32_t c[2];
    int n = ts_char_lower(ts_char_get(p.s + i, &len), c);
    for (int k = 0; k < n; k++) ts_edit_put(&e, c[k], k > 0);
  }
  return ts_edit_end(&e);
}

/* Without the characters that are not kept: each of the others takes in those that follow
 * it. */
static int keep(Piece p, bool (*keeps)(uint32_t), TsLine *to) {
  TsEdit e;
  uint32_t i = 0, len, front = 0, c = 0;
  for (; i < p.n && !keeps(ts_char_get(p.s + i, &len)); i += len) front++;
  ts_edit_begin(&e, to, p.s, p.at, p.n, p.origin, front);
  bool holds = false;
  int removed = 0;
  for (; i < p.n; i += len) {
    uint32_t d = ts_char_get(p.s + i, &len);
    if (!keeps(d)) {
      removed++;
      continue;
    }
    if (holds) ts_edit_put(&e, c, -removed);
    holds = true;
    removed = 0;
    c = d;
  }
  if (holds) ts_edit_put(&e, c, -removed);
  return ts_edit_end(&e);
}

static int map(Piece p, uint32_t (*as)(uint32_t), TsLine *to) {
  TsEdit e;
  ts_edit_begin(&e, to, p.s, p.at, p.n, p.origin, 0);
  for (uint32_t i = 0, len; i < p.n; i += len)
    ts_edit_put(&e, as(ts_char_get(p.s + i, &len)), 0);
  return ts_edit_end(&e);
}

static bool is_no_mark(uint32_t c) { return !ts_char_is_mark(c); }
static bool is_spacing(uint32_t c) { return !ts_char_is_nonspacing(c); }

static int strip(const TsNormal *k, Piece p, TsLine *to) {
  uint32_t from = 0, end = p.n, len, front = 0;
  for (; k->left && from < p.n && ts_char_is_space(ts_char_get(p.s + from, &len)); from += len)
    front++;
  while (k->right && end > from) {
    uint32_t last = end - 1;
    while (!ts_char_begins(p.s[last])) last--;
    if (!ts_char_is_space(ts_char_get(p.s + last, &len))) break;
    end = last;
  }
  TsEdit e;
  ts_edit_begin(&e, to, p.s, p.at, p.n, p.origin, front);
  for (uint32_t i = from; i < end; i += len) ts_edit_put(&e, ts_char_get(p.s + i, &len), 0);
  return ts_edit_end(&e);
}

/* ---- BERT's */
static bool is_clean(uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return true;
  return c && c != 0xfffd && !ts_char_is_other(c);
}
static uint32_t as_space(uint32_t c) { return ts_char_is_space(c) ? ' ' : c; }

static bool is_chinese(uint32_t c) {
  static const uint32_t of[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                   {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                   {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  for (size_t i = 0; c >= 0x3400 && i < sizeof of / sizeof *of; i++)
    if (c >= of[i][0] && c <= of[i][1]) return true;
  return false;
}

static int chinese(Piece p, TsLine *to) {
  TsEdit e;
  ts_edit_begin(&e, to, p.s, p.at, p.n, p.origin, 0);
  for (uint32_t i = 0, len; i < p.n; i += len) {
    uint32_t c = ts_char_get(p.s + i, &len);
    bool apart = is_chinese(c);
    if (apart) ts_edit_put(&e, ' ', 0);
    ts_edit_put(&e, c, apart);
    if (apart) ts_edit_put(&e, ' ', 1);
  }
  return ts_edit_end(&e);
}

/* All of ASCII, and nothing to leave out: one walk, in which no byte moves. */
static bool bert_plain(const TsNormal *k, Piece p, TsLine *to, int *bad) {
  if (ts_char_ascii(p.s, p.n) < p.n) return false;
  for (uint32_t i = 0; k->clean && i < p.n; i++)
    if (!is_clean((unsigned char)p.s[i])) return false;
  uint32_t from = to->n;
  if ((*bad = ts_line_add(to, p.s, p.at, p.n))) return true;
  for (uint32_t i = from; i < to->n; i++) {
    unsigned char c = (unsigned char)to->s[i];
    if (k->clean && c >= 9 && c <= 13) to->s[i] = ' ';
    if (k->lower && c >= 'A' && c <= 'Z') to->s[i] = (char)(c + 32);
  }
  return true;
}

/* ---- SentencePiece's NMT */
static bool nmt_keeps(uint32_t c) {
  return !((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f ||
           c == 0x8f || c == 0x9f);
}

static uint32_t nmt_as(uint32_t c) {
  bool space = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 ||
               (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
               c == 0xfeff || c == 0xfffd;
  return space ? ' ' : c;
}

/* ---- shared with pre-tokenizers */
int ts_normal_replace(const TsPattern *pattern, const char *text, size_t ntext, const char *s,
                      const TsSpan *at, uint32_t n, uint32_t origin, TsLine *to) {
  TsMatches m = ts_pattern_matches(pattern, s, n);
  size_t last = 0;
  int more = 0;
  while (n && (more = ts_matches_next(&m, to->err)) > 0) {
    if (ts_line_add(to, s + last, at ? at + last : NULL, m.from - last)) return -1;
    if (ts_line_room(to, ntext)) return -1;
    if (ntext) memcpy(to->s + to->n, text, ntext);
    TsSpan span = to->track && m.to ? at[m.to - 1] : (TsSpan){origin, origin};
    for (size_t i = 0; to->track && i < ntext; i++) to->at[to->n + i] = span;
    to->n += (uint32_t)ntext;
    last = m.to;
  }
  return more < 0 ? -1 : ts_line_add(to, s + last, at ? at + last : NULL, n - last);
}

int ts_normal_prepend(const char *text, size_t ntext, const char *s, const TsSpan *at,
                      uint32_t n, uint32_t origin, TsLine *to) {
  if (!n) return 0;
  if (ntext) {
    if (ts_line_room(to, ntext)) return -1;
    memcpy(to->s + to->n, text, ntext);
    uint32_t first = ts_char_len((unsigned char)text[0]);
    uint32_t old = ts_char_len((unsigned char)s[0]);
    /* The first of them is in place of the first character, the others behind it. */
    for (size_t i = 0; to->track && i < ntext; i++)
      to->at[to->n + i] = i < first ? at[0] : at[old - 1];
    to->n += (uint32_t)ntext;
  }
  (void)origin;
  return ts_line_add(to, s, at, n);
}

int ts_normal_bytes(const char *s, const TsSpan *at, uint32_t n, uint32_t origin, TsLine *to) {
  TsEdit e;
  ts_edit_begin(&e, to, s, at, n, origin, 0);
  for (uint32_t i = 0; i < n; i++)
    ts_edit_put(&e, ts_char_of_byte((unsigned char)s[i]), !ts_char_begins(s[i]));
  return ts_edit_end(&e);
}

/* ---- one after the other */
static int form(TsForm f, Piece p, TsLine *to) {
  TsEdit e;
  if (ts_form_is(f, p.s, p.n)) return ts_line_add(to, p.s, p.at, p.n);
  ts_edit_begin(&e, to, p.s, p.at, p.n, p.origin, 0);
  return ts_form_apply(f, p.s, p.n, &e, to->err);
}

static Piece whole(const TsLine *l, uint32_t origin) {
  return (Piece){l->s, l->track ? l->at : NULL, l->n, origin};
}

typedef int Step(const TsNormal *, Piece, TsLine *);
static int bert_clean(const TsNormal *k, Piece p, TsLine *to) {
  return (void)k, keep(p, is_clean, to);
}
static int bert_spaces(const TsNormal *k, Piece p, TsLine *to) {
  return (void)k, map(p, as_space, to);
}
static int bert_chinese(const TsNormal *k, Piece p, TsLine *to) {
  return (void)k, chinese(p, to);
}
static int bert_nfd(const TsNormal *k, Piece p, TsLine *to) {
  return (void)k, form((TsForm){false, false}, p, to);
}
static int bert_marks(const TsNormal *k, Piece p, TsLine *to) {
  return (void)k, keep(p, is_spacing, to);
}
static int bert_lower(const TsNormal *k, Piece p, TsLine *to) { return (void)k, lower(p, to); }
static int nmt_keep(const TsNormal *k, Piece p, TsLine *to) {
  return (void)k, keep(p, nmt_keeps, to);
}
static int nmt_map(const TsNormal *k, Piece p, TsLine *to) {
  return (void)k, map(p, nmt_as, to);
}

/* Steps in turn, by way of two lines of their own. */
static int steps(const TsNormal *k, Piece p, Step *const *step, TsLine *to) {
  TsLine line[2] = {{.track = to->track, .most = to->most, .err = to->err},
                    {.track = to->track, .most = to->most, .err = to->err}};
  int bad = 0;
  for (int i = 0; step[i] && !bad; i++) {
    TsLine *out = step[i + 1] ? &line[i & 1] : to;
    if (out != to) out->n = 0;
    bad = step[i](k, p, out);
    p = whole(out, p.origin);
  }
  ts_line_free(&line[0]);
  ts_line_free(&line[1]);
  return bad;
}

static int bert(const TsNormal *k, Piece p, TsLine *to) {
  Step *list[8];
  int n = 0, bad = 0;
  if (bert_plain(k, p, to, &bad)) return bad;
  if (k->clean) list[n++] = bert_clean, list[n++] = bert_spaces;
  if (k->chinese) list[n++] = bert_chinese;
  if (k->accents) list[n++] = bert_nfd, list[n++] = bert_marks;
  if (k->lower) list[n++] = bert_lower;
  list[n] = NULL;
  return n ? steps(k, p, list, to) : ts_line_add(to, p.s, p.at, p.n);
}

static int apply(const TsNormal *k, Piece p, TsLine *to) {
  static Step *const nmt[] = {nmt_keep, nmt_map, NULL};
  TsEdit e;
  switch (k->kind) {
  case TS_NORMAL_NFC: return form((TsForm){false, true}, p, to);
  case TS_NORMAL_NFD: return form((TsForm){false, false}, p, to);
  case TS_NORMAL_NFKC: return form((TsForm){true, true}, p, to);
  case TS_NORMAL_NFKD: return form((TsForm){true, false}, p, to);
  case TS_NORMAL_Lowercase: return lower(p, to);
  case TS_NORMAL_StripAccents: return keep(p, is_no_mark, to);
  case TS_NORMAL_Strip: return strip(k, p, to);
  case TS_NORMAL_Replace:
    return ts_normal_replace(k->pattern, k->text, k->ntext, p.s, p.at, p.n, p.origin, to);
  case TS_NORMAL_Prepend:
    return ts_normal_prepend(k->text, k->ntext, p.s, p.at, p.n, p.origin, to);
  case TS_NORMAL_BertNormalizer: return bert(k, p, to);
  case TS_NORMAL_Precompiled:
    ts_edit_begin(&e, to, p.s, p.at, p.n, p.origin, 0);
    return ts_charsmap_apply(k->map, k->longest, p.s, p.n, &e);
  case TS_NORMAL_Nmt: return steps(k, p, nmt, to);
  case TS_NORMAL_ByteLevel: return ts_normal_bytes(p.s, p.at, p.n, p.origin, to);
  case TS_NORMAL_n: break;
  }
  return 0;
}

int ts_normal_apply(TsNormals *all, const char *s, const TsSpan *at, uint32_t n,
                    uint32_t origin, TsLine *to) {
  Piece p = {s, at, n, origin};
  if (!all->n) return ts_line_add(to, s, at, n);
  for (int i = 0; i < all->n; i++) {
    TsLine *out = i + 1 < all->n ? &all->line[i & 1] : to;
    if (ts_cpu_interrupted()) return ts_error_set(to->err, TS_ERR_interrupt, "interrupted");
    if (out != to) {
      if (out->track != to->track) ts_line_free(out);
      out->track = to->track;
      out->most = to->most;
      out->err = to->err;
      out->n = 0;
    }
    if (apply(&all->at[i], p, out)) return -1;
    p = whole(out, origin);
  }
  return 0;
}
