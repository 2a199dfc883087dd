/* spmm_coo of blocks on a device: a round is a tile of a row of blocks, which walks the row's
 * entries and adds up their products, so nothing of blocks x columns is in memory. */
#include "ir/lower/index/sparse.h"
#include "ir/lower/short.h"

typedef TsTileVal V;

enum { ROWS = 32, COLUMNS = 64, DEPTH = 64 }; /* of a tile, steps of a product at a time */

typedef struct Make {
  const TsSparseBlocks *s;
  TsTileBuild b;
  V place, values, column, x; /* parameters */
  V row, col;                 /* where the tile begins */
  int64_t rows, cols;
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V num(Make *m, int64_t i) { return ts_tile_index(&m->b, i); }

/* Element i of a vector of whole numbers. */
static V number(Make *m, V from, V i) {
  if (!from) return NULL;
  TsTileType t = ts_tile_scalar((TsDtype)from->type.dtype);
  return ts_tile_cast(&m->b, ts_tile_load(&m->b, from, &i, &t, NULL), TS_DT_i64);
}

static V load(Make *m, V from, V block, V row, V col, int64_t nrow, int64_t ncol, bool edge) {
  V at[3] = {block, row, col};
  TsTileType t = ts_tile_type(m->s->acc, 2, (int64_t[]){nrow, ncol});
  TsTileAccess a = {.edge = edge};
  return ts_tile_load(&m->b, from, at, &t, &a);
}

/* The chain goes on over n steps from k on. */
static V steps(Make *m, V e, V column, V k, int64_t n, V sum) {
  const TsSparseBlocks *s = m->s;
  V in[3] = {load(m, m->values, e, m->row, k, m->rows, n, s->p % m->rows != 0),
             load(m, m->x, column, k, m->col, n, m->cols, s->n % m->cols != 0), sum};
  TsAttr unit = {.type = TS_ATTR_none};
  return in[0] && in[1] && sum ? ts_tile_emit1(&m->b, TS_TILE_mma, 3, in, &unit, &sum->type)
                               : NULL;
}

/* Columns in range; what is wrong of others the guard says, late. */
static V column_of(Make *m, V e) {
  int64_t size = m->s->size;
  V c = number(m, m->column, e);
  c = ts_tile_op3(&m->b, TS_OP_where, op2(m, TS_OP_lt, c, num(m, 0)),
                  op2(m, TS_OP_add, c, num(m, size)), c);
  return op2(m, TS_OP_maximum, op2(m, TS_OP_minimum, c, num(m, size - 1)), num(m, 0));
}

static V product(Make *m, V e, V zero) {
  int64_t q = m->s->q, whole = q <= DEPTH ? 0 : q / DEPTH * DEPTH;
  V column = column_of(m, e), sum = zero;
  if (whole) {
    TsTileLoop k = ts_tile_for(&m->b, num(m, 0), num(m, whole), DEPTH, false, 1, &zero);
    if (!k.carry) return NULL;
    V next = steps(m, e, column, k.i, DEPTH, k.carry[0]);
    ts_tile_for_end(&m->b, &k, &next, &sum);
  }
  return q > whole ? steps(m, e, column, num(m, whole), q - whole, sum) : sum;
}

static void tile(Make *m, V lo, V hi, V row_of_blocks, V y) {
  TsTileType t = ts_tile_type(m->s->acc, 2, (int64_t[]){m->rows, m->cols});
  V zero = ts_tile_const(&m->b, 0, &t), sum = NULL;
  TsTileLoop l = ts_tile_for(&m->b, lo, hi, 1, false, 1, &zero);
  if (!l.carry) return;
  V e = m->place ? number(m, m->place, l.i) : l.i;
  V next = op2(m, TS_OP_add, l.carry[0], product(m, e, zero));
  ts_tile_for_end(&m->b, &l, &next, &sum);
  V at[3] = {row_of_blocks, m->row, m->col};
  TsTileAccess a = {.edge = m->s->p % m->rows || m->s->n % m->cols};
  ts_tile_store(&m->b, y, at, ts_tile_cast(&m->b, sum, m->s->d), &a);
}

TsTile *ts_sparse_blocks(const TsSparseBlocks *s) {
  TsTile *k = ts_tile_new("spmm_coo");
  if (!k) return NULL;
  int64_t ends = ts_tile_size(k, "ends"), n = ts_tile_size(k, "N"), R = ts_tile_size(k, "R");
  V start = ts_tile_param(k, "start",
                          &(TsTileType){.dtype = TS_DT_i32, .rank = 1, .dim = {ends}}, false);
  Make m = {.s = s, .rows = s->p < ROWS ? s->p : ROWS, .cols = s->n < COLUMNS ? s->n : COLUMNS};
  TsTileType t = ts_tile_vector(TS_DT_i32, n);
  if (!s->sorted) m.place = ts_tile_param(k, "place", &t, false);
  t = ts_tile_type(s->acc, 3, (int64_t[]){n, s->p, s->q});
  m.values = ts_tile_param(k, "values", &t, false);
  t = ts_tile_vector(s->column, n);
  m.column = ts_tile_param(k, "column", &t, false);
  t = ts_tile_type(s->acc, 3, (int64_t[]){s->size, s->q, s->n});
  m.x = ts_tile_param(k, "x", &t, false);
  t = ts_tile_type(s->d, 3, (int64_t[]){R, s->p, s->n});
  V y = ts_tile_param(k, "y", &t, true);
  m.b = ts_tile_build(k);
  k->ntile = 2, k->tile[0] = m.rows, k->tile[1] = m.cols;
  V count = ts_short_dim(&m.b, 2);
  TsTileLoop i = ts_tile_for(&m.b, num(&m, 0), count, 1, true, 0, NULL);
  TsTileLoop r = ts_tile_for(&m.b, num(&m, 0), num(&m, s->p), m.rows, true, 0, NULL);
  TsTileLoop c = ts_tile_for(&m.b, num(&m, 0), num(&m, s->n), m.cols, true, 0, NULL);
  m.row = r.i, m.col = c.i;
  V lo = number(&m, start, i.i), hi = number(&m, start, op2(&m, TS_OP_add, i.i, num(&m, 1)));
  tile(&m, lo, hi, i.i, y);
  ts_tile_for_end(&m.b, &c, NULL, NULL);
  ts_tile_for_end(&m.b, &r, NULL, NULL);
  ts_tile_for_end(&m.b, &i, NULL, NULL);
  return k;
}
