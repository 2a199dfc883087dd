/* Matrix products of tiles that lie in memory: blocks of rows x vectors of sums stay in
 * registers along k. Each sum is one chain of fused multiply-adds in increasing k. */
#include "ir/tile/product/product.h"
#include "ir/tile/pass/vec.h"

enum { MAX_ROWS = 14, MAX_VECTORS = 4 };

typedef struct Product {
  TsTileStmt *s;
  VecMap a, b, out;
  int64_t m, n, k;
  int rows, vectors;
} Product;

static TsTileVal at_row(TsVec *v, TsTileVal x, const VecMap *map, TsTileVal i, int64_t r) {
  v->at.base[0] = i;
  v->at.plus[0] = r;
  return ts_tile_vec_eval(v, x, map);
}

static TsTileVal step(TsVec *v, const Product *p, TsTileVal a, TsTileVal b, TsTileVal sum) {
  TsDtype d = (TsDtype)p->s->out[0]->type.dtype;
  if (!a || !b || !sum) return NULL;
  a = ts_tile_vec_spread(v, ts_tile_cast(&v->b, a, d));
  b = ts_tile_cast(&v->b, b, d);
  if (ts_dtype_is(d, TS_KIND_F)) return ts_tile_op3(&v->b, TS_OP_fma, a, b, sum);
  return ts_tile_op2(&v->b, TS_OP_add, sum, ts_tile_op2(&v->b, TS_OP_mul, a, b));
}

/* Vectors u of the block's columns. */
static void at_column(TsVec *v, const Product *p, TsTileVal j, int64_t plus, int64_t live,
                      int u) {
  int w = v->at.lanes;
  (void)p;
  v->at.base[1] = j;
  v->at.plus[1] = plus + (int64_t)u * w;
  v->at.live = live - (int64_t)u * w < w ? (int)(live - (int64_t)u * w) : w;
}

static void step_k(TsVec *v, const Product *p, TsTileVal i, int64_t row, int rows, TsTileVal j,
                   int64_t plus, int64_t live, int vectors, TsTileVal *sum) {
  int mark = ts_tile_vec_mark(v);
  TsTileVal b[MAX_VECTORS];
  for (int u = 0; u < vectors; u++) {
    at_column(v, p, j, plus, live, u);
    /* A vector of its own place: the memo knows axes, not columns. */
    int here = ts_tile_vec_mark(v);
    b[u] = at_row(v, p->s->in[1], &p->b, i, row);
    ts_tile_vec_drop(v, here);
  }
  for (int r = 0; r < rows; r++) {
    int here = ts_tile_vec_mark(v);
    TsTileVal a = at_row(v, p->s->in[0], &p->a, i, row + r);
    for (int u = 0; u < vectors; u++)
      sum[r * vectors + u] = step(v, p, a, b[u], sum[r * vectors + u]);
    ts_tile_vec_drop(v, here);
  }
  ts_tile_vec_drop(v, mark);
}

static void block(TsVec *v, const Product *p, TsTileVal i, int64_t row, int rows, TsTileVal j,
                  int64_t plus, int64_t live) {
  TsTileVal sum[MAX_ROWS * MAX_VECTORS];
  int vectors = (int)((live + v->at.lanes - 1) / v->at.lanes), n = 0;
  for (int r = 0; r < rows; r++)
    for (int u = 0; u < vectors; u++) {
      int mark = ts_tile_vec_mark(v);
      at_column(v, p, j, plus, live, u);
      sum[n++] = at_row(v, p->s->in[2], &p->out, i, row + r);
      ts_tile_vec_drop(v, mark);
    }
  if (p->s->op == TS_TILE_outer) {
    step_k(v, p, i, row, rows, j, plus, live, vectors, sum);
  } else {
    TsTileLoop l =
        ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_size(v, p->k), 1, false, n, sum);
    if (!l.carry || v->k->failed) return;
    for (int x = 0; x < n; x++) sum[x] = l.carry[x];
    v->at.base[2] = l.i;
    int mark = ts_tile_vec_mark(v);
    step_k(v, p, i, row, rows, j, plus, live, vectors, sum);
    ts_tile_vec_drop(v, mark);
    ts_tile_for_end(&v->b, &l, sum, sum);
  }
  VecRoot home = {.kind = VEC_HOME,
                  .value = p->s->out[0],
                  .map = p->out,
                  .home = ts_tile_vec_of(v, p->s->out[0])->home};
  for (int r = 0; r < rows; r++)
    for (int u = 0; u < vectors; u++) {
      at_column(v, p, j, plus, live, u);
      v->at.base[0] = i;
      v->at.plus[0] = row + r;
      ts_tile_vec_put(v, &home, sum[r * vectors + u]);
    }
}

static void across(TsVec *v, const Product *p, TsTileVal i, int64_t row, int rows) {
  int64_t width = (int64_t)p->vectors * v->at.lanes, whole = p->n / width * width;
  if (whole > width) {
    int mark = ts_tile_vec_mark(v);
    TsTileLoop l = ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, whole), width,
                               false, 0, NULL);
    block(v, p, i, row, rows, l.i, 0, width);
    ts_tile_vec_drop(v, mark);
    ts_tile_for_end(&v->b, &l, NULL, NULL);
  } else if (whole) {
    block(v, p, i, row, rows, NULL, 0, width);
  }
  if (whole < p->n) block(v, p, i, row, rows, NULL, whole, p->n - whole);
}

/* 12 x 2 sums of 32 registers, 6 x 2 of 16: the rest holds operands. */
static void shape_of(TsVec *v, Product *p) {
  const TsTileType *t = &p->s->out[0]->type;
  int64_t lanes = v->target->vector_bytes / ts_dtypes[t->dtype].nbytes;
  p->m = t->dim[0];
  p->n = t->dim[1];
  while (lanes > 1 && lanes / 2 >= p->n) lanes /= 2;
  v->at.lanes = v->at.live = (int)lanes;
  p->rows = v->target->registers >= 32 ? 12 : 6;
  p->vectors = 2;
  int high = v->from->high;
  if (high)
    ts_tile_product_registers(v->target, (int)lanes, p->m, p->n, high, &p->rows, &p->vectors);
}

void ts_tile_vec_product(TsVec *v, TsTileStmt *s) {
  Product p = {.s = s};
  const TsTileType *t = &s->out[0]->type;
  bool outer = s->op == TS_TILE_outer;
  if (!outer && ts_tile_attr(s, "unit")->type == TS_ATTR_str) {
    ts_tile_vec_fail(v, s, "a product of another machine");
    return;
  }
  if (t->rank != 2 || ts_tile_dim_is(t->dim[0]) || ts_tile_dim_is(t->dim[1])) {
    ts_tile_vec_fail(v, s, "a product of this shape");
    return;
  }
  p.k = outer ? 1 : s->in[0]->type.dim[1];
  p.a = (VecMap){.at = {{.axis = 0}, {.axis = 2}}};
  p.b = outer ? (VecMap){.at = {{.axis = 1}}} : (VecMap){.at = {{.axis = 2}, {.axis = 1}}};
  p.out = (VecMap){.at = {{.axis = 0}, {.axis = 1}}};
  int mark = ts_tile_vec_mark(v);
  v->at.rank = 3;
  v->at.vec = 1;
  v->at.edge = false;
  for (int i = 0; i < 3; i++) v->at.base[i] = NULL, v->at.plus[i] = 0;
  shape_of(v, &p);
  int64_t whole = p.m / p.rows * p.rows;
  if (whole > p.rows) {
    TsTileLoop l = ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, whole), p.rows,
                               false, 0, NULL);
    int inner = ts_tile_vec_mark(v);
    across(v, &p, l.i, 0, p.rows);
    ts_tile_vec_drop(v, inner);
    ts_tile_for_end(&v->b, &l, NULL, NULL);
  } else if (whole) {
    across(v, &p, NULL, 0, p.rows);
  }
  if (whole < p.m) across(v, &p, NULL, whole, (int)(p.m - whole));
  ts_tile_vec_drop(v, mark);
  v->at.vec = -1;
}
