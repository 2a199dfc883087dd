/* Which thread of a role has an element of a tile: the layouts of jit/emit/roles in numbers. A
 * matrix unit has 16 rows a warp, of each 8 columns two neighbouring ones a thread; threads of a role
 * with lanes stand in rows of up to 8 neighbouring columns. Other units are not told apart. */
#include <string.h>

#include "ir/tile/debug/state.h"
#include "ir/tile/find.h"

enum { WARP = 32, WARP_ROWS = 16, MOST_COLS = 8 };

/* ---- where the element is */
static const TsAttr *axes_of(const TsTileStmt *s) {
  bool moves = s->op == TS_TILE_load || s->op == TS_TILE_store || s->op == TS_TILE_store_below;
  const TsAttr *a = moves ? ts_tile_attr(s, "axes") : NULL;
  return a && a->type == TS_ATTR_ints ? a : NULL;
}

static int tile_rank(const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_load: return s->out[0]->type.rank;
  case TS_TILE_store:
  case TS_TILE_store_below: return s->in[s->nin - 1]->type.rank;
  case TS_TILE_copy_async:
  case TS_TILE_copy_bulk:
  case TS_TILE_store_bulk: {
    const TsAttr *shape = ts_tile_attr(s, "shape");
    return shape->type == TS_ATTR_ints ? shape->n : s->in[0]->type.rank;
  }
  default: return -1;
  }
}

int ts_debug_coordinates(const TsTileDebug *d, const TsDebugEvent *e, int64_t offset,
                         int64_t *memory, int64_t *tile) {
  const TsTileType *t = &e->memory->type;
  const TsTileRunPlace *p = &d->run->place[e->memory->id];
  int rank = tile_rank(e->stmt);
  const TsAttr *axes = axes_of(e->stmt);
  if (t->strided || !p->at) return -1;
  for (int i = t->rank; i-- > 0;) {
    memory[i] = p->dim[i] ? offset % p->dim[i] : 0;
    offset = p->dim[i] ? offset / p->dim[i] : 0;
  }
  for (int i = 0; i < rank; i++) {
    int a = axes ? (int)axes->ints[i] : t->rank - rank + i;
    tile[i] = memory[a] - e->at[a];
  }
  return rank;
}

/* ---- who has it */
static TsDebugWho of_lanes(const TsDebugAgent *a, int64_t row, int64_t col) {
  const TsTileType *t = ts_tile_find_fragment(a->role->region[0], true);
  int64_t threads = (int64_t)a->warps * WARP;
  if (!t || threads <= 0) return (TsDebugWho){-1, -1};
  int64_t each = t->dim[0] * t->dim[1] / threads, ncol = each < MOST_COLS ? each : MOST_COLS;
  if (!ncol || t->dim[1] % ncol || threads % (t->dim[1] / ncol)) return (TsDebugWho){-1, -1};
  int64_t across = t->dim[1] / ncol;
  int64_t thread = row % (threads / across) * across + col / ncol;
  return (TsDebugWho){(int)(thread / WARP), (int)(thread % WARP)};
}

static TsDebugWho of_unit(const TsTileDebug *d, const TsDebugAgent *a, int64_t row, int64_t col,
                          bool line) {
  int64_t rows = a->rows ? a->rows : (int64_t)a->warps * WARP_ROWS;
  int64_t each = rows / a->warps ? rows / a->warps : 1;
  if (d->k->cluster > 1) row %= rows;
  int warp = (int)(row / each);
  return (TsDebugWho){warp < a->warps ? warp : -1,
                      (int)(row % 8 * 4 + (line ? 0 : col % 8 / 2))};
}

TsDebugWho ts_debug_who(const TsTileDebug *d, const TsDebugEvent *e, int64_t offset) {
  const TsDebugAgent *a = &d->agent[e->agent];
  int64_t memory[TS_TILE_RANK], tile[TS_TILE_RANK];
  TsDebugWho nobody = {-1, -1};
  bool moves = e->stmt->op == TS_TILE_load || e->stmt->op == TS_TILE_store ||
               e->stmt->op == TS_TILE_store_below;
  if (a->single) return (TsDebugWho){0, 0};
  if (!moves || e->engine || !a->role) return nobody;
  TsTileVal of = e->stmt->op == TS_TILE_load ? e->stmt->out[0] : e->stmt->in[e->stmt->nin - 1];
  int rank = of->type.space == TS_SPACE_fragment
                 ? ts_debug_coordinates(d, e, offset, memory, tile)
                 : -1;
  if (rank < 1 || rank > 2) return nobody;
  if (a->lanes) return rank == 2 ? of_lanes(a, tile[0], tile[1]) : nobody;
  if (a->unit && strcmp(a->unit, "wgmma")) return nobody;
  return of_unit(d, a, tile[0], rank == 2 ? tile[1] : 0, rank == 1);
}
