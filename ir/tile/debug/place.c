/* Where a run is: blocks, rounds of loops, and which tile of the result is worked on. The last one
 * nobody can tell before the tile is stored, so that a run without looking comes first, which is
 * the same at every time. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/state.h"

static bool is_grid(const TsTileStmt *s) {
  return s && s->op == TS_TILE_for && ts_tile_attr(s, "parallel")->i;
}

static bool is_loop(const TsTileStmt *s) {
  return (s->op == TS_TILE_for && !is_grid(s)) || s->op == TS_TILE_repeat;
}

static const TsTileStmt *around(const TsTileStmt *s) {
  return s->in_region ? s->in_region->owner : NULL;
}

static bool has_grid(const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next)
    if (is_grid(s)) return true;
  return false;
}

void ts_debug_place_enter(TsTileDebug *d, const TsTileRegion *region) {
  const TsTileStmt *o = region->owner;
  if (!o || o->op == TS_TILE_if || o->op == TS_TILE_role) return;
  if (region->nparam) d->at_round[region->param[0]->id]++;
  if (!is_grid(o) || d->run->now != &d->run->self) return;
  bool first = !around(o) && region->nparam && d->at_round[region->param[0]->id] == 0;
  if (has_grid(region)) {
    if (first) d->first_block = d->block + 1;
    return;
  }
  d->block++;
  if (first) d->first_block = d->block;
  if (!d->silent) ts_debug_order_block(d);
}

int ts_debug_rounds(const TsTileDebug *d, const TsTileStmt *s, int64_t *round, int most) {
  int n = 0;
  for (const TsTileStmt *o = around(s); o; o = around(o)) n += is_loop(o);
  int all = n;
  for (const TsTileStmt *o = around(s); o; o = around(o))
    if (is_loop(o) && --n < most)
      round[n] = o->region[0]->nparam ? d->at_round[o->region[0]->param[0]->id] : 0;
  return all < most ? all : most;
}

/* ---- tiles of the first result */
static bool stores(const TsTileStmt *s) {
  return s->op == TS_TILE_store || s->op == TS_TILE_store_below ||
         s->op == TS_TILE_store_bulk || s->op == TS_TILE_copy_bulk || s->op == TS_TILE_scatter;
}

/* Elements of the tile along each axis of the memory. */
static void extents(TsTileDebug *d, const TsTileStmt *s, int64_t *extent) {
  int64_t dim[TS_TILE_RANK];
  int rank, all = s->in[0]->type.rank;
  const TsAttr *axes = NULL;
  if (s->op == TS_TILE_store_bulk || s->op == TS_TILE_copy_bulk) {
    rank = ts_tile_run_copy_shape(d->run, s, dim);
  } else {
    TsTileVal x = s->in[s->nin - 1];
    TsTileRunPlace *p = ts_tile_run_place(d->run, x);
    rank = p ? x->type.rank : 0;
    for (int i = 0; i < rank; i++) dim[i] = p->dim[i];
    axes = ts_tile_attr(s, "axes");
    if (axes->type != TS_ATTR_ints) axes = NULL;
  }
  for (int i = 0; i < all; i++) extent[i] = 1;
  for (int i = 0; i < rank; i++)
    extent[axes ? axes->ints[i] : all - rank + i] = dim[i] ? dim[i] : 1;
  for (int i = 0; all == 2 && i < 2 && d->k->ntile >= 2; i++)
    if (d->k->tile[i] > extent[i] && d->k->tile[i] % extent[i] == 0) extent[i] = d->k->tile[i];
}

static bool is_same(const TsDebugTile *a, const TsDebugTile *b) {
  return a->block == b->block && a->nround == b->nround && a->store == b->store &&
         !memcmp(a->coord, b->coord, sizeof a->coord) &&
         !memcmp(a->round, b->round, sizeof a->round);
}

void ts_debug_place_store(TsTileDebug *d, const TsTileStmt *s) {
  TsTileVal result = d->k->nin < d->k->nparam ? d->k->param[d->k->nin] : NULL;
  int64_t extent[TS_TILE_RANK];
  if (!stores(s) || s->in[0] != result || s->op == TS_TILE_scatter) return;
  int first = s->op == TS_TILE_store || s->op == TS_TILE_store_below ? 1
              : s->op == TS_TILE_copy_bulk                           ? 4
                                                                     : 2;
  TsDebugTile t = {.block = d->block, .store = s};
  extents(d, s, extent);
  for (int i = 0; i < result->type.rank; i++)
    t.coord[i] = ts_tile_run_scalar(d->run, s->in[first + i]) / extent[i];
  t.nround = ts_debug_rounds(d, s, t.round, TS_DEBUG_LOOPS);
  for (int i = d->ntile; i-- > 0 && d->tile[i].block == t.block;)
    if (is_same(&d->tile[i], &t)) return;
  if (d->ntile == d->room_tile) {
    int room = d->room_tile ? 2 * d->room_tile : 64;
    TsDebugTile *more = realloc(d->tile, sizeof *more * (size_t)room);
    if (!more) {
      d->out_of_memory = true;
      return;
    }
    d->tile = more, d->room_tile = room;
  }
  d->tile[d->ntile++] = t;
}

static const TsTileStmt *role_of(const TsTileStmt *s) {
  while (s && s->op != TS_TILE_role) s = around(s);
  return s;
}

/* Loops around both; in another role the outermost one counts as the same. */
static int common(const TsTileStmt *a, const TsTileStmt *b) {
  int n = 0;
  if (role_of(a) != role_of(b)) return 1;
  for (const TsTileStmt *x = around(a); x; x = around(x)) {
    bool both = false;
    for (const TsTileStmt *y = around(b); y; y = around(y)) both |= x == y;
    n += both && is_loop(x);
  }
  return n;
}

static bool works_for(TsTileDebug *d, const TsTileStmt *s, const TsDebugTile *t) {
  int64_t round[TS_DEBUG_LOOPS];
  int n = ts_debug_rounds(d, s, round, TS_DEBUG_LOOPS), both = common(s, t->store);
  if (t->block != d->block) return false;
  for (int i = 0; i < n && i < t->nround && i < both; i++)
    if (round[i] != t->round[i]) return false;
  return true;
}

int ts_debug_at_tile(TsTileDebug *d, const TsTileStmt *s, int n, const int64_t *coord) {
  bool some = false;
  for (int i = 0; i < d->ntile; i++) {
    if (memcmp(d->tile[i].coord, coord, sizeof *coord * (size_t)n)) continue;
    some = true;
    if (works_for(d, s, &d->tile[i])) return 1;
  }
  return some ? 0 : -1;
}

int ts_debug_tile_here(TsTileDebug *d, const TsTileStmt *s, int64_t *coord) {
  for (int i = 0; i < d->ntile; i++) {
    if (!works_for(d, s, &d->tile[i])) continue;
    memcpy(coord, d->tile[i].coord, sizeof d->tile[i].coord);
    return d->k->param[d->k->nin]->type.rank;
  }
  return 0;
}
