/* What follows a product, on pieces of rows: in registers behind the register tile, or row by row
 * of sums in memory. When which: ir/tile/product/product.c. */
#include "ir/tile/product/state.h"

enum { PREFETCH_ENDS = 8 /* rows that what follows the product reads and writes */ };

static TsTileType piece_type(const TsProduct *p, const TsProductPiece *e, const TsTileType *t) {
  TsTileType y = *t;
  if (t->rank == 2 || (t->rank == 1 && t->dim[0] == p->x.nb)) {
    y.rank = 1;
    y.dim[0] = e->w;
    y.dim[1] = 0;
  } else {
    y.rank = 0;
  }
  return y;
}

/* Of what moves with the piece, a tile of type t: its axes are the last ones. */
static int positions(TsProduct *p, const TsTileStmt *s, const TsTileType *t,
                     const TsProductPiece *e, TsTileVal *where) {
  int n = s->in[0]->type.rank;
  for (int i = 0; i < n; i++)
    where[i] = i < n - t->rank ? ts_tile_copy_get(p->c, s->in[1 + i]) : NULL;
  if (t->rank == 2) where[n - 2] = e->m;
  if (t->rank) where[n - 1] = t->dim[t->rank - 1] == p->x.nb ? e->n : e->m;
  return n;
}

static bool along_columns(const TsProduct *p, const TsTileType *t) {
  return t->rank && t->dim[t->rank - 1] == p->x.nb;
}

static void put_load(TsProduct *p, const TsTileStmt *s, const TsProductPiece *e) {
  TsTileVal where[TS_TILE_RANK], memory = ts_tile_copy_get(p->c, s->in[0]);
  TsTileType t = piece_type(p, e, &s->out[0]->type);
  TsTileAccess how = {.edge = e->edge && along_columns(p, &s->out[0]->type)};
  positions(p, s, &s->out[0]->type, e, where);
  p->c->map[s->out[0]->id] = ts_tile_load(p->b, memory, where, &t, &how);
}

static void put_store(TsProduct *p, const TsTileStmt *s, const TsProductPiece *e) {
  TsTileVal where[TS_TILE_RANK], memory = ts_tile_copy_get(p->c, s->in[0]);
  TsTileAccess how = {.stream = ts_tile_attr(s, "stream")->i};
  TsTileVal x = ts_tile_copy_get(p->c, s->in[s->nin - 1]);
  positions(p, s, &s->in[s->nin - 1]->type, e, where);
  if (x &&
      e->edge) { /* so many columns are inside: no mask is needed, which stores are slow with */
    static const int64_t zero[2] = {0, 0};
    TsTileType t = x->type;
    TsAttr start = {.type = TS_ATTR_ints, .n = t.rank, .ints = zero};
    t.dim[t.rank - 1] = p->x.n % e->w;
    x = ts_tile_emit1(p->b, TS_TILE_part, 1, &x, &start, &t);
  }
  ts_tile_store(p->b, memory, where, x, &how);
}

static void put_broadcast(TsProduct *p, const TsTileStmt *s, const TsProductPiece *e) {
  TsTileType t = piece_type(p, e, &s->out[0]->type);
  TsTileVal x = ts_tile_copy_get(p->c, s->in[0]);
  if (x && x->type.rank < t.rank) x = ts_tile_broadcast(p->b, x, &t, NULL);
  p->c->map[s->out[0]->id] = x;
}

void ts_tile_product_end(TsProduct *p, const TsProductPiece *e, TsTileVal sum) {
  p->c->map[p->x.mma->out[0]->id] = sum;
  for (const TsTileStmt *s = p->x.mma->next; s; s = s->next) {
    p->b->line = s->line;
    if (s->op == TS_TILE_load)
      put_load(p, s, e);
    else if (s->op == TS_TILE_store)
      put_store(p, s, e);
    else if (s->op == TS_TILE_broadcast)
      put_broadcast(p, s, e);
    else {
      TsTileVal in[TS_MAX_IN + TS_MAX_ATTR];
      TsTileType t = piece_type(p, e, &s->out[0]->type);
      for (int i = 0; i < s->nin; i++) in[i] = ts_tile_copy_get(p->c, s->in[i]);
      p->c->map[s->out[0]->id] = ts_tile_emit1(p->b, s->op, s->nin, in, s->attr, &t);
    }
  }
  p->b->line = p->x.mma->line;
}

/* What the rows behind the product read and write of a row of the result: it lies in lines that
 * nobody else reads, too few of them beside each other for the processor to ask by itself. */
void ts_tile_product_end_ask(TsProduct *p, TsTileVal m, TsTileVal n, bool far) {
  TsProductPiece e = {.m = m, .n = n};
  for (const TsTileStmt *s = p->x.mma->next; s; s = s->next) {
    TsTileVal in[TS_TILE_RANK + 1];
    TsAttr hint[3] = {
        {.type = TS_ATTR_bool}, {.type = TS_ATTR_bool, .i = far}, {.type = TS_ATTR_int}};
    if (s->op != TS_TILE_load && s->op != TS_TILE_store) continue;
    TsTileVal x = s->op == TS_TILE_load ? s->out[0] : s->in[s->nin - 1];
    if (x->type.rank != 2) continue;
    in[0] = ts_tile_copy_get(p->c, s->in[0]);
    int rank = positions(p, s, &x->type, &e, in + 1);
    ts_tile_emit(p->b, TS_TILE_prefetch, rank + 1, in, hint, 0, NULL);
  }
}

static void end_columns(TsProduct *p, TsTileVal row, TsTileVal m, TsTileVal j, int64_t w,
                        bool edge) {
  TsTileType t = ts_tile_vector(p->d, w);
  TsTileVal sum = ts_tile_load(p->b, p->acc, (TsTileVal[]){row, j}, &t, NULL);
  TsProductPiece e = {.w = w, .m = m, .n = plus(p, p->n0, j), .edge = edge};
  for (int64_t u = 0; u < w && p->blocks; u += line_of(p))
    ts_tile_product_end_ask(p, plus_int(p, m, PREFETCH_ENDS), plus_int(p, e.n, u), true);
  ts_tile_product_end(p, &e, sum);
}

/* Vectors at once, whose chains interleave: as many as a block's columns are made of. */
static int64_t together(const TsProduct *p) {
  int64_t w = TS_PRODUCT_TOGETHER * (int64_t)p->lanes;
  while (w > p->lanes && (w > p->x.n || (p->x.nb % w && p->x.nb < p->x.n))) w /= 2;
  return w;
}

void ts_tile_product_end_rows(TsProduct *p, TsTileVal first, TsTileVal rows) {
  int64_t w = together(p);
  ts_tile_mark(p->b, TS_STAGE_epilogue, "rows", false);
  TsTileVal full = down_to(p, p->cols, w);
  TsTileLoop r = loop(p, at(p, 0), rows, 1);
  TsTileVal m = plus(p, plus(p, p->m0, first), r.i);
  if (p->x.n >= w) {
    TsTileLoop j = loop(p, at(p, 0), full, w);
    end_columns(p, r.i, m, j.i, w, false);
    end(p, &j);
  }
  if (p->x.n % w) {
    TsTileLoop rest = loop(p, full, p->cols, w);
    end_columns(p, r.i, m, rest.i, w, true);
    end(p, &rest);
  }
  end(p, &r);
  ts_tile_mark(p->b, TS_STAGE_epilogue, "rows", true);
}
