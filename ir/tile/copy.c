/* Copying kernels: ir/tile/copy.h. */
#include "ir/tile/copy.h"

#include <stdlib.h>
#include <string.h>

static const char *text(TsTile *k, const char *s) {
  char *copy = s ? ts_arena_text(&k->arena, s) : NULL;
  if (s && !copy) k->failed = true;
  return copy;
}

static void copy_places(TsTile *k, const TsTile *from) {
  for (int i = 1; i < from->nplace; i++)
    if (ts_tile_place(k, from->place[i]) != i) k->failed = true;
}

static void copy_params(TsTile *k, const TsTile *from) {
  for (int i = 0; i < from->nparam; i++) {
    const TsTileVal p = from->param[i];
    ts_tile_param(k, p->name, &p->type, i >= from->nin);
  }
}

TsTile *ts_tile_copy_head(const TsTile *from) {
  TsTile *k = ts_tile_new(from->name);
  if (!k) return NULL;
  k->form = from->form;
  k->target = text(k, from->target);
  k->order = text(k, from->order);
  k->ntile = from->ntile;
  memcpy(k->tile, from->tile, sizeof k->tile);
  k->stages = from->stages, k->threads = from->threads, k->cluster = from->cluster;
  k->unroll = from->unroll, k->vector = from->vector, k->grain = from->grain;
  k->high = from->high, k->depth = from->depth, k->pack = from->pack;
  k->marks = from->marks;
  for (int i = 0; i < from->ndim; i++) k->dim[i] = text(k, from->dim[i]);
  k->ndim = from->ndim;
  copy_params(k, from);
  copy_places(k, from);
  if (!k->failed) return k;
  ts_tile_free(k);
  return NULL;
}

static bool constant(const TsTileStmt *s) {
  return !s || s->op == TS_TILE_const || s->op == TS_TILE_bits;
}

void ts_tile_copy_set(TsTileCopy *c, TsTileVal old, TsTileVal by) {
  c->map[old->id] = by;
  if (by && old->name && !by->name && (!constant(by->stmt) || constant(old->stmt)))
    by->name = text(c->to, old->name);
}

static int out_of_memory(TsTileCopy *c) {
  return ts_error_set(c->err, TS_ERR_memory, "%s: out of memory", c->from->name);
}

int ts_tile_copy_region(TsTileCopy *c, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    c->b.line = s->line;
    int done = c->each ? c->each(c, s, c->arg) : 0;
    if (done < 0) return -1;
    if (!done && !ts_tile_copy_stmt(c, s)) return -1;
    if (c->to->failed) return out_of_memory(c);
  }
  return 0;
}

static bool copy_region_params(TsTileCopy *c, const TsTileRegion *r, TsTileRegion *into) {
  for (int i = 0; i < r->nparam; i++) {
    TsTileVal v = ts_tile_region_param(c->to, into, &r->param[i]->type);
    ts_tile_copy_set(c, r->param[i], v);
  }
  return !c->to->failed;
}

static int copy_into(TsTileCopy *c, const TsTileRegion *r, TsTileRegion *into) {
  TsTileRegion *before = c->b.at;
  if (!copy_region_params(c, r, into)) return out_of_memory(c);
  c->b.at = into;
  int failed = ts_tile_copy_region(c, r);
  c->b.at = before;
  return failed;
}

TsTileStmt *ts_tile_copy_stmt(TsTileCopy *c, const TsTileStmt *s) {
  size_t nin = (size_t)s->nin, nout = (size_t)s->nout;
  TsTileVal few[8], *in = nin <= 8 ? few : malloc(nin * sizeof *in);
  TsTileType one, *out = nout <= 1 ? &one : malloc(nout * sizeof *out);
  TsTileStmt *copy = NULL;
  if (in && out) {
    for (size_t i = 0; i < nin; i++) in[i] = ts_tile_copy_get(c, s->in[i]);
    for (size_t i = 0; i < nout; i++) out[i] = s->out[i]->type;
    c->b.line = s->line;
    copy = ts_tile_emit(&c->b, s->op, s->nin, in, s->attr, s->nout, out);
  }
  if (in != few) free(in);
  if (out != &one) free(out);
  if (!copy) return out_of_memory(c), NULL;
  for (int i = 0; i < s->nregion; i++)
    if (copy_into(c, s->region[i], copy->region[i])) return NULL;
  for (int i = 0; i < s->nout; i++) ts_tile_copy_set(c, s->out[i], copy->out[i]);
  return copy;
}

TsTile *ts_tile_copy(const TsTile *k, TsTileCopyFn *each, void *arg, TsError *err) {
  TsTileCopy c = {.from = k, .to = ts_tile_copy_head(k), .each = each, .arg = arg, .err = err};
  c.map = calloc((size_t)k->nvalue + 1, sizeof *c.map);
  int failed = !c.to || !c.map ? out_of_memory(&c) : 0;
  if (!failed) {
    c.b = ts_tile_build(c.to);
    for (int i = 0; i < k->nparam; i++) ts_tile_copy_set(&c, k->param[i], c.to->param[i]);
    failed = ts_tile_copy_region(&c, k->body);
  }
  free(c.map);
  if (!failed) return c.to;
  ts_tile_free(c.to);
  return NULL;
}
