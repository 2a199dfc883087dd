/* How each pre-tokenizer divides text. Matches and what stands between them come one after the
 * other, and a divider makes pieces of them by what is to become of matches. */
#include "text/split.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"

typedef struct Divider {
  const TsLine *l;
  TsPieces *to;
  TsError *err;
  TsBehavior behavior;
  bool match; /* the last part was one */
  bool open;  /* a piece that may still grow */
  uint32_t from, end;
  bool failed;
} Divider;

static void emit(Divider *d, uint32_t from, uint32_t end) {
  uint32_t origin = d->l->track && end > from ? d->l->at[from].from : 0;
  if (ts_pieces_add(d->to, (TsPiece){from, end - from, origin, -1}, d->err)) d->failed = true;
}

static void grow(Divider *d, uint32_t from, uint32_t end, bool joins) {
  if (d->open && joins) {
    d->end = end;
    return;
  }
  if (d->open) emit(d, d->from, d->end);
  d->open = true;
  d->from = from;
  d->end = end;
}

static void part(Divider *d, uint32_t from, uint32_t end, bool match) {
  switch (d->behavior) {
  case TS_BEHAVIOR_Removed:
    if (!match) emit(d, from, end);
    break;
  case TS_BEHAVIOR_Isolated: emit(d, from, end); break;
  case TS_BEHAVIOR_Contiguous: grow(d, from, end, match == d->match); break;
  case TS_BEHAVIOR_MergedWithPrevious: grow(d, from, end, match && !d->match); break;
  case TS_BEHAVIOR_MergedWithNext: grow(d, from, end, !match && d->match); break;
  case TS_BEHAVIOR_n: break;
  }
  d->match = match;
}

static void finish(Divider *d) {
  if (d->open) emit(d, d->from, d->end);
  d->open = d->match = false;
}

/* Text from..end of the line by a pattern. */
static int by_pattern(Divider *d, const TsSplit *k, uint32_t from, uint32_t n) {
  TsMatches m = ts_pattern_matches(k->pattern, d->l->s + from, n);
  uint32_t last = 0;
  int more;
  while ((more = ts_matches_next(&m, d->err)) > 0 && !d->failed) {
    if (last != m.from) part(d, from + last, from + (uint32_t)m.from, k->invert);
    part(d, from + (uint32_t)m.from, from + (uint32_t)m.to, !k->invert);
    last = (uint32_t)m.to;
  }
  if (last != n) part(d, from + last, from + n, k->invert);
  finish(d);
  return more < 0 || d->failed ? -1 : 0;
}

/* By single characters, each a match of its own. */
static int by_char(Divider *d, bool (*is)(uint32_t), uint32_t from, uint32_t n) {
  const char *s = d->l->s + from;
  uint32_t last = 0;
  for (uint32_t i = 0, len; i < n && !d->failed; i += len) {
    if (!is(ts_char_get(s + i, &len))) continue;
    if (last < i) part(d, from + last, from + i, false);
    part(d, from + i, from + i + len, true);
    last = i + len;
  }
  if (last < n) part(d, from + last, from + n, false);
  finish(d);
  return d->failed ? -1 : 0;
}

static int by_length(Divider *d, uint32_t length, uint32_t from, uint32_t n) {
  uint32_t i = 0;
  while (i < n && !d->failed) {
    uint32_t first = i;
    for (uint32_t k = 0; k < length && i < n; k++)
      i += ts_char_len((unsigned char)d->l->s[from + i]);
    emit(d, from + first, from + i);
  }
  return d->failed ? -1 : 0;
}

/* ---- steps that change text: a piece of `l` behind `to` */
static int changed(const TsSplit *k, const TsPattern *space, const TsLine *l, TsPiece p,
                   TsLine *to) {
  const char *s = l->s + p.from;
  const TsSpan *at = l->track ? l->at + p.from : NULL;
  if (k->kind == TS_SPLIT_ByteLevel) {
    if (k->prefix && s[0] != ' ') return ts_normal_prepend(" ", 1, s, at, p.n, p.origin, to);
    return ts_line_add(to, s, at, p.n);
  }
  TsLine spaced = {.track = to->track, .most = to->most, .err = to->err};
  bool prepends =
      k->prepend == TS_PREPEND_always || (k->prepend == TS_PREPEND_first && !p.origin);
  if (prepends && (s[0] == ' ' || (p.n >= k->nmark && !memcmp(s, k->mark, k->nmark))))
    prepends = false;
  if (!prepends) return ts_normal_replace(space, k->mark, k->nmark, s, at, p.n, p.origin, to);
  int bad = ts_normal_replace(space, k->mark, k->nmark, s, at, p.n, p.origin, &spaced) ||
            ts_normal_prepend(k->mark, k->nmark, spaced.s, spaced.at, spaced.n, p.origin, to);
  ts_line_free(&spaced);
  return bad ? -1 : 0;
}

static bool changes(const TsSplit *k) {
  return k->kind == TS_SPLIT_Metaspace || (k->kind == TS_SPLIT_ByteLevel && k->prefix);
}

static int divide(Divider *d, const TsSplit *k, TsPiece p) {
  switch (k->kind) {
  case TS_SPLIT_WhitespaceSplit:
  case TS_SPLIT_BertPreTokenizer: return by_char(d, ts_char_is_space, p.from, p.n);
  case TS_SPLIT_Digits: return by_char(d, ts_char_is_number, p.from, p.n);
  case TS_SPLIT_Punctuation: return by_char(d, ts_char_is_punctuation, p.from, p.n);
  case TS_SPLIT_FixedLength: return by_length(d, k->length, p.from, p.n);
  default:
    if (k->pattern) return by_pattern(d, k, p.from, p.n);
    emit(d, p.from, p.from + p.n);
    return d->failed ? -1 : 0;
  }
}

/* The same text as GPT-2's characters for bytes, in pieces as they were. */
static int characters(const TsLine *l, const TsPieces *p, TsLine *to, TsPieces *pieces) {
  for (uint32_t i = 0; i < p->n; i++) {
    TsPiece one = p->at[i];
    uint32_t from = to->n;
    const char *s = l->s + one.from;
    const TsSpan *at = l->track ? l->at + one.from : NULL;
    if (one.id >= 0 ? ts_line_add(to, s, at, one.n)
                    : ts_normal_bytes(s, at, one.n, one.origin, to))
      return -1;
    if (ts_pieces_add(pieces, (TsPiece){from, to->n - from, one.origin, one.id}, to->err))
      return -1;
  }
  return 0;
}

/* Room for what a step writes; what it reads is in the other, or the caller's. */
static TsLine *fresh(TsSplits *all, const TsLine *l, TsError *err) {
  TsLine *to = &all->line[l == &all->line[0]];
  if (to->track != l->track) ts_line_free(to);
  to->track = l->track;
  to->most = l->most;
  to->err = err;
  to->n = 0;
  return to;
}

static TsPieces *fresh_pieces(TsSplits *all, const TsPieces *p) {
  TsPieces *to = &all->pieces[p == &all->pieces[0]];
  to->n = 0;
  return to;
}

static int apply_one(TsSplits *all, const TsSplit *k, const TsLine **l, const TsPieces **p,
                     TsError *err) {
  TsPieces *pieces = fresh_pieces(all, *p);
  TsLine *line = changes(k) ? fresh(all, *l, err) : NULL;
  Divider d = {.l = line ? line : *l, .to = pieces, .err = err, .behavior = k->behavior};
  for (uint32_t i = 0; i < (*p)->n; i++) {
    TsPiece one = (*p)->at[i];
    if (!(i & 0x3ff) && ts_cpu_interrupted())
      return ts_error_set(err, TS_ERR_interrupt, "interrupted");
    if (line) {
      uint32_t from = line->n;
      if (one.id >= 0 ? ts_line_add(line, (*l)->s + one.from,
                                    (*l)->track ? (*l)->at + one.from : NULL, one.n)
                      : changed(k, all->space, *l, one, line))
        return -1;
      one.from = from;
      one.n = line->n - from;
    }
    if (one.id >= 0 ? ts_pieces_add(pieces, one, err) : divide(&d, k, one)) return -1;
  }
  *p = pieces;
  if (line) *l = line;
  return 0;
}

int ts_split_apply(TsSplits *all, const TsLine **l, const TsPieces **p, TsError *err) {
  for (int i = 0; i < all->n; i++) {
    const TsSplit *k = &all->at[i];
    if (apply_one(all, k, l, p, err)) return -1;
    if (k->kind == TS_SPLIT_BertPreTokenizer) {
      static const TsSplit signs = {.kind = TS_SPLIT_Punctuation,
                                    .behavior = TS_BEHAVIOR_Isolated};
      if (apply_one(all, &signs, l, p, err)) return -1;
    }
    if (k->kind != TS_SPLIT_ByteLevel || (all->raw && i + 1 == all->n)) continue;
    TsPieces *pieces = fresh_pieces(all, *p);
    TsLine *line = fresh(all, *l, err);
    if (characters(*l, *p, line, pieces)) return -1;
    *l = line;
    *p = pieces;
  }
  return 0;
}
