/* Values of a run as people see them. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/state.h"

/* ---- by name */
static bool is_named(TsTileVal v, const char *name, int len) {
  return v->name && (int)strlen(v->name) == len && !memcmp(v->name, name, (size_t)len);
}

static bool encloses(const TsTileRegion *outer, const TsTileRegion *r) {
  for (; r; r = r->outer)
    if (r == outer) return true;
  return false;
}

typedef struct Search {
  TsTileDebug *d;
  const TsTileStmt *at;
  const char *name;
  int len;
  TsTileVal best;
  bool visible;
} Search;

static void offer(Search *x, TsTileVal v, const TsTileRegion *home) {
  if (!is_named(v, x->name, x->len) || !x->d->run->place[v->id].at) return;
  bool visible = x->at && encloses(home, x->at->in_region);
  if (!x->best || (visible && !x->visible)) x->best = v, x->visible = visible;
}

static void search(Search *x, const TsTileRegion *r) {
  for (int i = 0; i < r->nparam; i++) offer(x, r->param[i], r);
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nout; i++) offer(x, s->out[i], r);
    for (int i = 0; i < s->nregion; i++) search(x, s->region[i]);
  }
}

int ts_debug_value(TsTileDebug *d, const TsTileStmt *s, const char *name, int len,
                   TsTileVal *v) {
  Search x = {d, s, name, len, NULL, false};
  for (int i = 0; i < d->k->nparam; i++) offer(&x, d->k->param[i], d->k->body);
  search(&x, d->k->body);
  *v = x.best;
  return x.best ? 0 : -1;
}

/* ---- elements */
int ts_debug_see(TsTileDebug *d, TsTileVal v, TsTileSeen *seen, void **copy) {
  const TsTileRunPlace *p = &d->run->place[v->id];
  int64_t size = ts_tile_run_size(v);
  if (!p->at || v->type.space == TS_SPACE_barrier) return -1;
  *seen = (TsTileSeen){.dtype = (TsDtype)v->type.dtype, .rank = v->type.rank, .at = p->at};
  memcpy(seen->dim, p->dim, sizeof seen->dim);
  if (!v->type.strided) return 0;
  char *to = malloc((size_t)(p->n * size) + 1);
  if (!to) return -1;
  for (int64_t i = 0; i < p->n; i++) {
    int64_t at = 0, left = i;
    for (int a = v->type.rank; a-- > 0; left /= p->dim[a])
      at += left % p->dim[a] * p->stride[a];
    memcpy(to + i * size, p->at + at * size, (size_t)size);
  }
  *copy = to;
  seen->at = to;
  return 0;
}
