/* What decides where a kernel touches memory and which way it goes, and what is only moved and
 * computed with. A run that leaves the second out is as long as the loops are, not as the data is,
 * and touches what every other run touches, as long as no element of memory is among the first. */
#include <stdlib.h>

#include "ir/tile/run/run.h"

typedef struct Walk {
  unsigned char *decides;
  bool more;
} Walk;

static void mark(Walk *w, TsTileVal v) {
  if (ts_tile_memory(&v->type) || w->decides[v->id]) return;
  w->decides[v->id] = 1;
  w->more = true;
}

static void mark_all(Walk *w, int from, int to, const TsTileVal *v) {
  for (int i = from; i < to; i++) mark(w, v[i]);
}

/* Values that are one after another: if either decides, so does the other. */
static void join(Walk *w, TsTileVal a, TsTileVal b) {
  if (w->decides[a->id]) mark(w, b);
  if (w->decides[b->id]) mark(w, a);
}

static bool any_out(const Walk *w, const TsTileStmt *s) {
  for (int i = 0; i < s->nout; i++)
    if (w->decides[s->out[i]->id]) return true;
  return false;
}

static const TsTileStmt *yield_of(const TsTileRegion *r) {
  return r->last && r->last->op == TS_TILE_yield ? r->last : NULL;
}

static void carried(Walk *w, const TsTileStmt *s, int in, int param, int yielded) {
  const TsTileRegion *body = s->region[0];
  const TsTileStmt *y = yield_of(body);
  for (int c = 0; c < s->nout; c++) {
    if (param + c < body->nparam) join(w, s->out[c], body->param[param + c]);
    if (in + c < s->nin && w->decides[s->out[c]->id]) mark(w, s->in[in + c]);
    if (y && yielded + c < y->nin && w->decides[s->out[c]->id]) mark(w, y->in[yielded + c]);
  }
}

static void branches(Walk *w, const TsTileStmt *s) {
  for (int i = 0; i < s->nregion; i++) {
    const TsTileStmt *y = yield_of(s->region[i]);
    for (int c = 0; y && c < s->nout && c < y->nin; c++)
      if (w->decides[s->out[c]->id]) mark(w, y->in[c]);
  }
}

static bool touches(const TsTileStmt *s) {
  for (int i = 0; i < s->nin; i++)
    if (ts_tile_memory(&s->in[i]->type)) return true;
  return false;
}

/* The tile that is written, which decides nothing. */
static int tile_of(const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_store:
  case TS_TILE_store_below:
  case TS_TILE_scatter: return s->nin - 1;
  default: return s->nin;
  }
}

static void statement(Walk *w, const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_for: mark_all(w, 0, 2, s->in); return carried(w, s, 2, 1, 0);
  case TS_TILE_if: mark(w, s->in[0]); return branches(w, s);
  case TS_TILE_repeat:
    if (yield_of(s->region[0])) mark_all(w, 0, 1, yield_of(s->region[0])->in);
    return carried(w, s, 0, 0, 1);
  case TS_TILE_yield: return;
  default:
    if (touches(s))
      mark_all(w, 0, tile_of(s), s->in);
    else if (any_out(w, s) || (s->op >= TS_OP_COUNT && !s->nout))
      mark_all(w, 0, s->nin, s->in);
  }
}

/* Backwards, so that few walks are enough. */
static void region(Walk *w, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->last; s; s = s->prev) {
    statement(w, s);
    for (int i = 0; i < s->nregion; i++) region(w, s->region[i]);
  }
}

unsigned char *ts_tile_decides(const TsTile *k) {
  Walk w = {.decides = calloc((size_t)k->nvalue + 1, 1), .more = true};
  while (w.decides && w.more) {
    w.more = false;
    region(&w, k->body);
  }
  return w.decides;
}

static const TsTileStmt *found(const TsTileRegion *r, const unsigned char *decides,
                               unsigned sizes) {
  const TsTileStmt *inside = NULL;
  for (const TsTileStmt *s = r->first; s && !inside; s = s->next) {
    Walk w = {.decides = (unsigned char *)(uintptr_t)decides};
    bool size = s->op == TS_TILE_dim && (sizes >> ts_tile_attr(s, "index")->i & 1);
    bool own = s->op == TS_TILE_aligned || s->op == TS_TILE_own;
    bool reads = touches(s) && s->nout && !s->nregion && s->op != TS_TILE_view;
    if ((size || reads || own) && any_out(&w, s)) return s;
    for (int i = 0; i < s->nregion && !inside; i++)
      inside = found(s->region[i], decides, sizes);
  }
  return inside;
}

const TsTileStmt *ts_tile_data_decides(const TsTile *k, const unsigned char *decides,
                                       unsigned sizes) {
  return found(k->body, decides, sizes);
}

bool ts_tile_run_spare(const TsTileStmt *s, const unsigned char *decides) {
  if (!s->nout || s->nregion || touches(s) || ts_tile_effect(s)) return false;
  for (int i = 0; i < s->nout; i++)
    if (decides[s->out[i]->id] || ts_tile_memory(&s->out[i]->type)) return false;
  return true;
}
