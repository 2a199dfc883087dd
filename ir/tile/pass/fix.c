/* Symbolic sizes made numbers. */
#include "ir/tile/copy.h"

static void fix_type(TsTileType *t, const int64_t *dim) {
  for (int a = 0; a < t->rank; a++)
    if (ts_tile_dim_is(t->dim[a]) && dim[ts_tile_dim_index(t->dim[a])] >= 0)
      t->dim[a] = dim[ts_tile_dim_index(t->dim[a])];
}

static void fix_region(TsTileRegion *r, const int64_t *dim) {
  for (int i = 0; i < r->nparam; i++) fix_type(&r->param[i]->type, dim);
  for (TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nout; i++) fix_type(&s->out[i]->type, dim);
    for (int i = 0; i < s->nregion; i++) fix_region(s->region[i], dim);
  }
}

/* A `dim` of a size that is known is a constant. */
static int each(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  const int64_t *dim = arg;
  if (s->op != TS_TILE_dim) return 0;
  int64_t size = dim[ts_tile_attr(s, "index")->i];
  if (size < 0) return 0;
  ts_tile_copy_set(c, s->out[0], ts_tile_index(&c->b, size));
  return 1;
}

/* Needs: a legal kernel; dim: by symbolic size its value, -1 for those that stay. Keeps: what
 * it does for these sizes, and the numbers of sizes, so that it is called as before. Gives: the
 * new kernel, or NULL with the error. */
TsTile *ts_tile_fix(const TsTile *k, const int64_t *dim, TsError *err) {
  TsTile *fixed = ts_tile_copy(k, each, (void *)(uintptr_t)dim, err);
  if (!fixed) return NULL;
  for (int i = 0; i < fixed->nparam; i++) fix_type(&fixed->param[i]->type, dim);
  fix_region(fixed->body, dim);
  return fixed;
}

static void mark(const TsTileType *t, bool *used) {
  if (ts_tile_memory(t)) return;
  for (int a = 0; a < t->rank; a++)
    if (ts_tile_dim_is(t->dim[a])) used[ts_tile_dim_index(t->dim[a])] = true;
}

static void mark_region(const TsTileRegion *r, bool *used) {
  for (int i = 0; i < r->nparam; i++) mark(&r->param[i]->type, used);
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nout; i++) mark(&s->out[i]->type, used);
    for (int i = 0; i < s->nregion; i++) mark_region(s->region[i], used);
  }
}

void ts_tile_sizes_of_tiles(const TsTile *k, bool used[TS_TILE_DIMS]) {
  for (int i = 0; i < TS_TILE_DIMS; i++) used[i] = false;
  mark_region(k->body, used);
}
