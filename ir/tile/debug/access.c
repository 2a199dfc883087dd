/* What each statement reads and writes, as windows of memory. */
#include "ir/tile/debug/state.h"

/* ---- windows */
static void look(TsDebugAccess *x, const TsTileRunWindow *w) {
  ts_tile_run_lines(w, ts_debug_access_line, x);
}

static void begins_at(TsDebugEvent *e, int rank, const int64_t *at) {
  for (int i = 0; i < rank; i++) e->at[i] = (int32_t)at[i];
}

static void positions_of(TsTileDebug *d, const TsTileStmt *s, TsDebugEvent *e) {
  int64_t at[TS_TILE_RANK];
  int rank = s->in[0]->type.rank;
  for (int i = 0; i < rank; i++) at[i] = ts_tile_run_scalar(d->run, s->in[1 + i]);
  begins_at(e, rank, at);
}

/* -1: the tile leaves the memory, and may not. */
static int within(TsTileDebug *d, const TsTileStmt *s, TsTileVal memory,
                  const TsTileRunWindow *w, bool edge) {
  if (edge || w->bad < 0 || !w->n) return 0;
  ts_debug_say_bounds(d, s, memory, w);
  return -1;
}

/* What is written takes the mask of its value along, what is read may get one. */
static void mask_of(TsDebugAccess *x, TsTileVal tile) {
  if (!x->write) ts_debug_mask_drop(x->d, x->value = tile);
  if (x->write) x->mask = x->d->mask[tile->id];
  x->result = x->e.memory->type.space == TS_SPACE_global;
}

static int of_tile(TsTileDebug *d, const TsTileStmt *s, TsTileVal tile, bool write) {
  TsTileRunWindow w;
  TsDebugAccess x;
  if (ts_tile_run_window(d->run, s, tile, &w) ||
      within(d, s, s->in[0], &w, ts_tile_attr(s, "edge")->i))
    return -1;
  ts_debug_access_begin(&x, d, s, s->in[0], write);
  positions_of(d, s, &x.e);
  mask_of(&x, tile);
  x.unordered = !write && d->feeds[tile->id]; /* its product reads it */
  look(&x, &w);
  return 0;
}

/* An operand that its product reads: of the matrix unit until the product's group is done. */
static int of_operand(TsTileDebug *d, const TsTileStmt *mma, TsTileVal operand) {
  const TsTileStmt *s = operand->stmt;
  TsTileRunWindow w;
  TsDebugAccess x;
  if (!s || !d->feeds[operand->id]) return 0;
  if (ts_tile_run_window(d->run, s, operand, &w)) return -1;
  ts_debug_access_begin(&x, d, s, s->in[0], false);
  positions_of(d, s, &x.e);
  x.value = operand;
  const TsAttr *unit = ts_tile_attr(mma, "unit");
  if (unit->str && unit->str[0] == 'w') { /* wgmma */
    x.e.engine = true;
    x.e.counts = (uint8_t)(TS_DEBUG_PRODUCTS + x.e.agent);
    x.e.clock = d->agent[x.e.agent].products + 1;
  }
  look(&x, &w);
  return 0;
}

/* ---- copies */
typedef struct Copy {
  TsTileRunCopy c;
  TsTileRunWindow to, from;
} Copy;

static int copy_of(TsTileDebug *d, const TsTileStmt *s, int first, Copy *y) {
  int64_t dim[TS_TILE_RANK];
  TsTileVal to = s->in[0], from = s->in[1];
  *y = (Copy){.c.stmt = s};
  TsTileRunPlace *a = ts_tile_run_place(d->run, to), *b = ts_tile_run_place(d->run, from);
  int rank = a && b ? ts_tile_run_copy_shape(d->run, s, dim) : 0;
  if (!a || !b || ts_tile_run_positions(d->run, s, first, &y->c)) return -1;
  ts_tile_run_look(&y->to, a, to->type.rank, y->c.to, rank, dim, NULL);
  ts_tile_run_look(&y->from, b, from->type.rank, y->c.from, rank, dim, NULL);
  return 0;
}

/* The part of one window that another one has: elements outside of that are not moved. */
static void cut(TsTileRunWindow *w, const TsTileRunWindow *by) {
  if (!by->inside) w->inside = false;
  for (int i = 0; i < w->rank; i++) {
    int64_t lo = by->first[i] < 0 ? -by->first[i] : 0, hi = by->size[i] - by->first[i];
    if (hi < w->size[i] - w->first[i]) w->size[i] = w->first[i] + hi;
    if (lo) w->inside = false; /* begins in front of it: nobody does */
  }
}

static void both(TsTileDebug *d, const TsTileStmt *s, Copy *y, bool engine, uint8_t counts,
                 uint32_t clock, uint8_t writes) {
  TsDebugAccess x;
  for (int side = 1; side >= 0; side--) {
    ts_debug_access_begin(&x, d, s, s->in[side], !side);
    begins_at(&x.e, s->in[side]->type.rank, side ? y->c.from : y->c.to);
    x.e.engine = engine;
    x.e.counts = side ? counts : writes;
    x.e.clock = clock;
    x.e.adds = !side && s->op == TS_TILE_store_bulk && ts_tile_attr(s, "add")->i;
    look(&x, side ? &y->from : &y->to);
  }
}

static bool of_block(TsTileVal memory) { return memory->type.space == TS_SPACE_shared; }

static int copy_async(TsTileDebug *d, const TsTileStmt *s) {
  Copy y;
  int a = ts_debug_agent(d);
  if (copy_of(d, s, 2, &y) || within(d, s, s->in[0], &y.to, false)) return -1;
  uint8_t counts = (uint8_t)(TS_DEBUG_COPIES + a);
  both(d, s, &y, false, counts, d->agent[a].copies + 1, counts);
  return 0;
}

static int store_bulk(TsTileDebug *d, const TsTileStmt *s) {
  Copy y;
  int a = ts_debug_agent(d);
  if (copy_of(d, s, 2, &y) || within(d, s, s->in[1], &y.from, false)) return -1;
  cut(&y.from, &y.to);
  d->agent[a].stored = s;
  d->agent[a].stored_group = d->agent[a].stores + 1;
  both(d, s, &y, true, (uint8_t)(TS_DEBUG_STORES + a), d->agent[a].stores + 1,
       (uint8_t)(TS_DEBUG_WRITES + a));
  return 0;
}

static int copy_bulk(TsTileDebug *d, const TsTileStmt *s) {
  Copy y;
  int64_t index;
  if (!ts_tile_run_slot(d->run, s, 2, &index) || copy_of(d, s, 4, &y) ||
      within(d, s, s->in[0], &y.to, !of_block(s->in[0])) ||
      within(d, s, s->in[1], &y.from, !of_block(s->in[1])))
    return -1;
  if (!of_block(s->in[0])) cut(&y.from, &y.to);
  TsDebugSlot *slot = ts_debug_slot(d, s->in[2], index);
  uint8_t counts = (uint8_t)(TS_DEBUG_SLOTS + (slot - d->slot));
  ts_debug_copied(d, s, slot);
  both(d, s, &y, true, counts, ts_debug_phases(d, slot) + 1, counts);
  return 0;
}

/* ---- positions from a tile */
static int chosen(TsTileDebug *d, const TsTileStmt *s, bool write) {
  TsTileRunPlace *m = ts_tile_run_place(d->run, s->in[0]);
  TsTileRunPlace *p = ts_tile_run_place(d->run, s->in[1]);
  bool edge = ts_tile_attr(s, "edge")->i;
  TsDebugAccess x;
  if (!m || !p) return -1;
  TsTileVal tile = write ? s->in[2] : s->out[0];
  ts_debug_access_begin(&x, d, s, s->in[0], write);
  mask_of(&x, tile);
  for (int64_t i = 0; i < p->n; i++) {
    int64_t at = ts_tile_run_int((TsDtype)s->in[1]->type.dtype, p->at, i);
    TsTileRunWindow w = {.n = 1, .bad = 0, .bad_at = at, .bad_size = m->dim[0]};
    if (at >= 0 && at < m->dim[0])
      ts_debug_access_line(&x, at * m->stride[0], i, 1, 1);
    else if (within(d, s, s->in[0], &w, edge))
      return -1;
  }
  return 0;
}

int ts_debug_accesses(TsTileDebug *d, const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_load: return of_tile(d, s, s->out[0], false);
  case TS_TILE_store:
  case TS_TILE_store_below: return of_tile(d, s, s->in[s->nin - 1], true);
  case TS_TILE_gather: return chosen(d, s, false);
  case TS_TILE_scatter: return chosen(d, s, true);
  case TS_TILE_mma: return of_operand(d, s, s->in[0]) || of_operand(d, s, s->in[1]) ? -1 : 0;
  case TS_TILE_copy_async: return copy_async(d, s);
  case TS_TILE_copy_bulk: return copy_bulk(d, s);
  case TS_TILE_store_bulk: return store_bulk(d, s);
  default: return 0;
  }
}
