/* The head of a kernel of Tile IR: its sizes, its parameters, how it runs. See ir/tile/parse.c. */
#include "ir/tile/parse_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/value.h"

enum { LARGEST_INDEX = 1 << 24 };

static int size_names(Parser *p) {
  TsReader *r = &p->r;
  if (!ts_read_accept(r, '<')) return 0;
  do {
    TsToken t = r->now;
    if (ts_read_expect(r, TS_TOKEN_word, "a size")) return -1;
    if (*t.at == '-') return ts_read_fail(r, t.at, "a size begins with a letter");
    if (p->k->ndim == TS_TILE_DIMS)
      return ts_read_fail(r, t.at, "at most %d sizes", TS_TILE_DIMS);
    char *name = ts_tile_read_keep(p, &p->scratch, t.at, t.len);
    int before = p->k->ndim;
    if (!name) return -1;
    ts_tile_size(p->k, name);
    if (p->k->failed) return no_memory(p);
    if (p->k->ndim == before) return ts_read_fail(r, t.at, "%s is defined twice", name);
  } while (ts_read_accept(r, ','));
  return ts_read_expect(r, '>', "',' or '>'");
}

static int params(Parser *p, bool written) {
  TsReader *r = &p->r;
  TsTileType t;
  if (ts_read_expect(r, '(', "'(' and the parameters")) return -1;
  while (r->now.kind != ')') {
    TsToken name = r->now;
    if (ts_read_expect(r, TS_TOKEN_value, "a parameter") ||
        ts_read_expect(r, ':', "':' and the parameter's type"))
      return -1;
    const char *at = r->now.at;
    if (ts_tile_read_type(p, &t)) return -1;
    if (t.space || t.swizzle || t.count || t.split)
      return ts_read_fail(r, at, "a parameter is global memory");
    TsTileVal v = ts_tile_param(p->k, NULL, &t, written);
    if (p->k->failed) return no_memory(p);
    if (ts_tile_read_define(p, &name, v)) return -1;
    if (!ts_read_accept(r, ',')) break;
    if (r->now.kind == ')') return ts_read_unexpected(r, "a parameter");
  }
  return ts_read_expect(r, ')', "',' or ')' behind the parameter");
}

static int head_int(Parser *p, int *out) {
  const char *at = p->r.now.at;
  int64_t v;
  if (ts_read_int(&p->r, "a whole number", &v)) return -1;
  if (v < 0 || v > LARGEST_INDEX)
    return ts_read_fail(&p->r, at, "the number lies in 0..%d", LARGEST_INDEX);
  *out = (int)v;
  return 0;
}

static int head_tile(Parser *p) {
  TsReader *r = &p->r;
  TsToken t = r->now;
  char *end;
  if (t.kind != TS_TOKEN_number && t.kind != TS_TOKEN_shape)
    return ts_read_unexpected(r, "a tile's shape, 8x768");
  p->k->ntile = 0;
  for (const char *s = t.at; s < t.at + t.len; s = end + 1) {
    if (p->k->ntile == 4) return ts_read_fail(r, t.at, "a tile has at most 4 axes");
    errno = 0;
    p->k->tile[p->k->ntile++] = strtoll(s, &end, 10);
    if (errno || end == s || (*end != 'x' && end < t.at + t.len))
      return ts_read_fail(r, t.at, "malformed shape");
  }
  return ts_read_next(r);
}

static int head_form(Parser *p) {
  TsReader *r = &p->r;
  bool is_explicit = ts_read_is_word(r, "explicit");
  if (!is_explicit && !ts_read_is_word(r, "block"))
    return ts_read_unexpected(r, "block or explicit");
  p->k->form = is_explicit ? TS_FORM_explicit : TS_FORM_block;
  return ts_read_next(r);
}

static int head_word(Parser *p, const TsToken *t) {
  TsTile *k = p->k;
  static const char *const words[] = {"target", "tile",   "stages", "threads", "order",
                                      "form",   "unroll", "vector", "grain",   "high",
                                      "depth",  "pack",   "marks",  "cluster"};
  size_t i = 0, n = sizeof words / sizeof *words;
  while (i < n &&
         (strlen(words[i]) != (size_t)t->len || memcmp(words[i], t->at, (size_t)t->len)))
    i++;
  if (i == n)
    return ts_read_unexpected(
        &p->r,
        "'{', or target tile stages threads order form unroll vector grain high depth pack "
        "marks cluster");
  ts_read_next(&p->r);
  switch (i) {
  case 0: return ts_tile_read_word(p, &k->arena, &k->target);
  case 1: return head_tile(p);
  case 2: return head_int(p, &k->stages);
  case 3: return head_int(p, &k->threads);
  case 4: return ts_tile_read_word(p, &k->arena, &k->order);
  case 5: return head_form(p);
  case 6: return head_int(p, &k->unroll);
  case 7: return head_int(p, &k->vector);
  case 8: return head_int(p, &k->grain);
  case 9: return head_int(p, &k->high);
  case 10: return head_int(p, &k->depth);
  case 11: return head_int(p, &k->pack);
  case 12: return k->marks = true, 0;
  default: return head_int(p, &k->cluster);
  }
}

int ts_tile_read_head(Parser *p) {
  if (size_names(p) || params(p, false)) return -1;
  if (ts_read_accept(&p->r, TS_TOKEN_arrow) && params(p, true)) return -1;
  while (p->r.now.kind == TS_TOKEN_word) {
    TsToken head = p->r.now;
    if (head_word(p, &head)) return -1;
  }
  return 0;
}
