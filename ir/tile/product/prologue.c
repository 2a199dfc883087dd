/* Operands of a product, a piece at a time: loaded, or computed of what is loaded. A piece is a
 * vector along one axis of the operand, or a square. */
#include "ir/tile/product/state.h"

typedef struct Piece {
  TsTileVal at[2]; /* where it begins */
  const TsTileType *tile;
  const int64_t *axes; /* of the operand by axis of the tile; NULL: the last ones */
  bool edge;
} Piece;

/* A load of all axes of memory, with the axes before the last n those of the round. */
static TsTileVal load(TsProduct *p, const Piece *e, const TsTileStmt *s, int n,
                      const TsTileVal *at, const TsTileType *tile) {
  TsTileVal where[TS_TILE_RANK];
  const TsTileType *m = &s->in[0]->type;
  int batch = m->rank - n;
  for (int x = 0; x < batch; x++) where[x] = ts_tile_copy_get(p->c, s->in[1 + x]);
  for (int x = 0; x < n; x++) where[batch + x] = at[x];
  TsTileType t = *tile;
  t.dtype = m->dtype;
  int64_t own[2];
  bool given = e->axes && n == 2;
  for (int x = 0; given && x < t.rank; x++) own[x] = batch + e->axes[x];
  TsTileAccess how = {.edge = e->edge && t.rank, .naxis = given ? t.rank : 0, .axes = own};
  return ts_tile_load(p->b, ts_tile_copy_get(p->c, s->in[0]), where, &t, &how);
}

/* ---- prologues */
static TsTileType shape_of(const Piece *e, const TsTileVal v) {
  TsTileType t = *e->tile;
  t.dtype = v->type.dtype;
  return t;
}

/* One element for each row of the operand, or for each column: s repeats it. */
static TsTileVal line(TsProduct *p, const Piece *e, const TsTileStmt *s) {
  const TsTileStmt *from = s->in[0]->stmt;
  int64_t axis = ts_tile_attr(s, "axes")->ints[0], along = e->axes ? e->axes[0] : 1;
  TsTileType t = shape_of(e, s->in[0]), one = ts_tile_scalar((TsDtype)t.dtype);
  TsTileVal x = load(p, e, from, 1, &e->at[axis], axis == along ? &t : &one);
  return axis == along ? x : ts_tile_broadcast(p->b, x, &t, NULL);
}

static TsTileVal piece_of(TsProduct *p, const Piece *e, TsTileVal v);

static TsTileVal computed(TsProduct *p, const Piece *e, const TsTileStmt *s) {
  TsTileVal in[TS_MAX_IN + TS_MAX_ATTR];
  TsTileType t = shape_of(e, s->out[0]);
  if (s->op == TS_TILE_load) return load(p, e, s, 2, e->at, &t);
  if (s->op == TS_TILE_broadcast && s->in[0]->type.rank) return line(p, e, s);
  for (int i = 0; i < s->nin; i++) in[i] = piece_of(p, e, s->in[i]);
  p->b->line = s->line;
  if (s->op == TS_TILE_broadcast) return ts_tile_broadcast(p->b, in[0], &t, NULL);
  return ts_tile_emit1(p->b, s->op, s->nin, in, s->attr, &t);
}

/* Numbers are the round's; each tile is computed once for a piece. */
static TsTileVal piece_of(TsProduct *p, const Piece *e, TsTileVal v) {
  TsTileVal *known = &p->c->map[v->id];
  if (v->type.rank && !*known) *known = computed(p, e, v->stmt);
  return *known;
}

static void forget_pieces(TsProduct *p) {
  for (const TsTileStmt *s = p->x.mma->prev; s; s = s->prev)
    if (s->nout && s->out[0]->type.rank) p->c->map[s->out[0]->id] = NULL;
}

TsTileVal ts_tile_product_operand(TsProduct *p, TsProductOf of, TsTileVal i, TsTileVal j,
                                  const TsTileType *tile, const int64_t *axes, bool edge) {
  Piece e = {.at = {i, j}, .tile = tile, .axes = axes, .edge = edge};
  if (!p->x.prologue[of])
    return ts_tile_cast(p->b, load(p, &e, p->x.of[of], 2, e.at, tile), p->factor);
  forget_pieces(p);
  TsTileVal y = piece_of(p, &e, p->x.mma->in[of]);
  p->b->line = p->x.mma->line;
  return y;
}
