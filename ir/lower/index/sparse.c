/* spmm_coo and sddmm on a device, with nothing of entries x columns in memory. Of a product each
 * element of the result walks the entries of its row, which are brought together by a stable sort,
 * unless they stand so; of elements of a product each is the sum of a row that is gathered where it
 * is used. */
#include "ir/lower/index/scatter.h"
#include "ir/lower/index/sparse.h"

typedef TsTileVal V;

enum {
  ELEMENTS = 256, /* of a round */
  STEPS = 8,      /* entries of a row that are asked for at once */
  SHORT = 256,    /* sums of which a round takes several, */
  TOGETHER = 2048,
  LONGEST = 16384, /* elements of a sum, which are in registers */
};

typedef struct Sparse {
  TsDtype d, acc;        /* of the result; in which it is computed */
  TsDtype row, column;   /* of places */
  int64_t size, columns; /* slices of x, or rows of a; columns of x, or of b */
  int64_t n, rows;       /* of sddmm: elements of a sum, sums of a round */
  int64_t p, q;          /* of blocks; 0: there are none */
  bool sorted, scaled;   /* entries stand by rows; sums are multiplied by values */
} Sparse;

typedef struct Make {
  const Sparse *s;
  TsTileBuild b;
  TsTileType t; /* i64, of the round's elements */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V pick(Make *m, V c, V x, V y) { return ts_tile_op3(&m->b, TS_OP_where, c, x, y); }
static V num(Make *m, int64_t i) { return ts_tile_index(&m->b, i); }
static V whole(Make *m, int64_t i) { return ts_short_int(&m->b, &m->t, i); }
static V splat(Make *m, V x) { return ts_short_splat(&m->b, &m->t, x); }
static V by(Make *m, int op, V x, int64_t n) { return ts_short_by(&m->b, op, x, n); }
static V gather(Make *m, V from, V at) { return ts_short_gather(&m->b, from, at, true); }

/* The place that stands at each position, from the end where it is negative; -1 where there is none
 * of so many. */
static V place_at(Make *m, V places, V at, int64_t size) {
  V i = ts_tile_cast(&m->b, gather(m, places, at), TS_DT_i64);
  i = i ? pick(m, by(m, TS_OP_lt, i, 0), by(m, TS_OP_add, i, size), i) : NULL;
  V in =
      i ? op2(m, TS_OP_logical_and, by(m, TS_TILE_ult, i, size), by(m, TS_OP_ge, at, 0)) : NULL;
  return in ? pick(m, in, i, ts_short_int(&m->b, &i->type, -1)) : NULL;
}

/* ---- products */
typedef struct Entries {
  V place, values, column, x;
} Entries;

static V largest(Make *m, V x) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType one = ts_tile_scalar(TS_DT_i64);
  return x ? ts_tile_emit1(&m->b, TS_TILE_max, 1, &x, &axis, &one) : NULL;
}

/* Column `col` of the entries [lo, hi), of all elements of the round side by side. */
static V walk(Make *m, const Entries *from, V lo, V hi, V col) {
  V none = whole(m, -1), product[STEPS], in[STEPS], end = NULL;
  V acc = ts_short_number(&m->b, &m->t, m->s->acc, 0);
  V longest = largest(m, op2(m, TS_OP_sub, hi, lo));
  TsTileLoop l = ts_tile_for(&m->b, num(m, 0), longest, STEPS, false, 1, &acc);
  if (!l.stmt || !longest) return NULL;
  acc = l.carry[0];
  V first = op2(m, TS_OP_add, lo, splat(m, l.i));
  for (int i = 0; i < STEPS; i++) {
    V at = op2(m, TS_OP_add, first, whole(m, i));
    in[i] = op2(m, TS_OP_lt, at, hi);
    at = pick(m, in[i], at, none);
    V e = from->place ? ts_tile_cast(&m->b, gather(m, from->place, at), TS_DT_i64) : at;
    e = pick(m, in[i], e, none);
    V c = place_at(m, from->column, e, m->s->size);
    V some = by(m, TS_OP_ge, c, 0);
    c = op2(m, TS_OP_add, by(m, TS_OP_mul, c, m->s->columns), col);
    V x = gather(m, from->x, pick(m, some, c, none));
    product[i] = op2(m, TS_OP_mul, gather(m, from->values, e), x);
  }
  for (int i = 0; i < STEPS; i++) acc = pick(m, in[i], op2(m, TS_OP_add, acc, product[i]), acc);
  ts_tile_for_end(&m->b, &l, &acc, &end);
  return end;
}

/* Sizes: rows + 1, entries, elements of x and of y. */
static TsTile *product(const Sparse *s) {
  TsTile *k = ts_tile_new("spmm_coo");
  if (!k) return NULL;
  int64_t ends = ts_tile_size(k, "ends"), n = ts_tile_size(k, "N");
  int64_t nx = ts_tile_size(k, "X"), ny = ts_tile_size(k, "Y");
  V start = ts_short_param(k, "start", TS_DT_i32, ends, false);
  Entries from = {.place = s->sorted ? NULL : ts_short_param(k, "place", TS_DT_i32, n, false)};
  from.values = ts_short_param(k, "values", s->acc, n, false);
  from.column = ts_short_param(k, "column", s->column, n, false);
  from.x = ts_short_param(k, "x", s->acc, nx, false);
  V y = ts_short_param(k, "y", s->d, ny, true);
  Make m = {.s = s, .b = ts_tile_build(k), .t = ts_tile_vector(TS_DT_i64, ELEMENTS)};
  k->threads = ELEMENTS, k->vector = 4;
  V count = ts_short_dim(&m.b, 3);
  TsTileLoop l = ts_tile_for(&m.b, num(&m, 0), count, ELEMENTS, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V e = ts_short_positions(&m.b, &m.t, l.i);
  e = op2(&m, TS_OP_minimum, e, splat(&m, op2(&m, TS_OP_sub, count, num(&m, 1))));
  V row = by(&m, TS_OP_floordiv, e, s->columns), col = by(&m, TS_OP_mod, e, s->columns);
  V lo = ts_tile_cast(&m.b, gather(&m, start, row), TS_DT_i64);
  V hi = ts_tile_cast(&m.b, gather(&m, start, by(&m, TS_OP_add, row, 1)), TS_DT_i64);
  V value = walk(&m, &from, lo, hi, col);
  ts_tile_store(&m.b, y, &l.i, ts_tile_cast(&m.b, value, s->d), &edge);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

static void add_product(TsSteps *x, const Sparse *s, int64_t rows, int64_t entries) {
  const TsStepsAxis axis = {0, 1, rows, 1};
  TsScatter of = {.op = TS_OP_spmm_coo, .meet = MEET_sum, .axis = 1};
  of.map = ts_index_map_slices(&axis, entries, s->row);
  int64_t halvings = 0;
  while (entries >> halvings) halvings++;
  TsOrderRows r = {.rows = 1, .n = entries, .own = true};
  while (rows >> r.bits) r.bits++;
  int start = ts_steps_temp(x, 4 * (rows + 1));
  r.key = ts_steps_temp(x, 4 * entries);
  int64_t lead[3] = {entries, entries, rows}, run[4] = {entries, rows, rows + 1, halvings};
  ts_steps_add(x, ts_scatter_leads(&of), (int[]){ts_steps_in(x, 1, NULL), r.key}, lead);
  if (!s->sorted) ts_order_rows(x, &r);
  ts_steps_add(x, ts_scatter_starts(&of), (int[]){r.key, start}, run);
  int list[6] = {start}, n = 1;
  if (!s->sorted) list[n++] = r.place;
  list[n++] = ts_steps_in_as(x, 0, NULL, s->acc);
  list[n++] = ts_steps_in(x, 2, NULL);
  list[n++] = ts_steps_in_as(x, 3, NULL, s->acc);
  list[n++] = ts_steps_out(x, 0, NULL);
  int64_t dim[4] = {rows + 1, entries, s->size * s->columns, rows * s->columns};
  TsSparseBlocks of_blocks = {.d = s->d, .acc = s->acc, .column = s->column, .size = s->size};
  of_blocks.p = s->p, of_blocks.q = s->q, of_blocks.n = s->columns,
  of_blocks.sorted = s->sorted;
  if (s->q) dim[2] = rows;
  ts_steps_add(x, s->q ? ts_sparse_blocks(&of_blocks) : product(s), list, dim);
}

/* ---- elements of a product */
static V sum_of(Make *m, V x) {
  if (!x) return NULL;
  bool many = m->s->rows > 1;
  TsAttr axis = {.type = TS_ATTR_int, .i = many};
  TsTileType t = ts_tile_type((TsDtype)x->type.dtype, many, &m->s->rows);
  return ts_tile_emit1(&m->b, TS_TILE_sum, 1, &x, &axis, &t);
}

/* The row of each entry of the round, of `memory`, whose rows are n long. */
static V row_of(Make *m, V memory, V place) {
  static const int64_t axes[1] = {0};
  if (!place) return NULL;
  bool many = m->s->rows > 1;
  V some = by(m, TS_OP_ge, place, 0), first = by(m, TS_OP_mul, place, m->s->n);
  if (!first) return NULL;
  first = ts_tile_broadcast(&m->b, first, &m->t, many ? axes : NULL);
  TsTileType flag = ts_tile_type(TS_DT_bool, m->t.rank, m->t.dim);
  some = ts_tile_broadcast(&m->b, some, &flag, many ? axes : NULL);
  V at = op2(m, TS_OP_add, first, ts_short_iota(&m->b, &m->t, many));
  return gather(m, memory, pick(m, some, at, whole(m, -1)));
}

/* Sizes: elements of a and b, entries. */
static TsTile *elements(const Sparse *s) {
  TsTile *k = ts_tile_new("sddmm");
  if (!k) return NULL;
  bool many = s->rows > 1;
  int64_t na = ts_tile_size(k, "A"), nb = ts_tile_size(k, "B"), n = ts_tile_size(k, "N");
  V a = ts_short_param(k, "a", s->acc, na, false),
    b = ts_short_param(k, "b", s->acc, nb, false);
  V row = ts_short_param(k, "row", s->row, n, false),
    column = ts_short_param(k, "column", s->column, n, false);
  V values = s->scaled ? ts_short_param(k, "values", s->acc, n, false) : NULL;
  V y = ts_short_param(k, "y", s->d, n, true);
  int64_t dim[2] = {s->rows, s->n};
  Make m = {.s = s, .b = ts_tile_build(k)};
  m.t = ts_tile_type(TS_DT_i64, 1 + many, many ? dim : dim + 1);
  TsTileType side = ts_tile_type(TS_DT_i64, 1, dim);
  V count = ts_short_dim(&m.b, 2);
  TsTileLoop l = ts_tile_for(&m.b, num(&m, 0), count, s->rows, true, 0, NULL);
  TsTileAccess edge = {.edge = many};
  V e = ts_short_positions(&m.b, &side, l.i);
  V last = ts_short_splat(&m.b, &side, op2(&m, TS_OP_sub, count, num(&m, 1)));
  e = op2(&m, TS_OP_minimum, e, last);
  V i = place_at(&m, row, e, s->size), j = place_at(&m, column, e, s->columns);
  V of = values ? gather(&m, values, e) : NULL;
  if (!many && i && j) { /* a tile of one element as a number */
    TsTileType one = ts_tile_scalar(TS_DT_i64);
    TsAttr axis = {.type = TS_ATTR_int};
    i = ts_tile_emit1(&m.b, TS_TILE_max, 1, &i, &axis, &one);
    j = ts_tile_emit1(&m.b, TS_TILE_max, 1, &j, &axis, &one);
    one.dtype = (uint8_t)s->acc;
    if (of) of = ts_tile_emit1(&m.b, TS_TILE_max, 1, &of, &axis, &one);
  }
  V v = sum_of(&m, op2(&m, TS_OP_mul, row_of(&m, a, i), row_of(&m, b, j)));
  if (of) v = op2(&m, TS_OP_mul, of, v);
  if (v) ts_tile_store(&m.b, y, &l.i, ts_tile_cast(&m.b, v, s->d), &edge);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

static void add_elements(TsSteps *x, const Sparse *s, int64_t entries) {
  const TsStepsOrder turned = {{1, 0}};
  int list[6], n = 0;
  list[n++] = ts_steps_in_as(x, 0, NULL, s->acc);
  list[n++] = ts_steps_in_as(x, 1, &turned, s->acc);
  list[n++] = ts_steps_in(x, 2, NULL);
  list[n++] = ts_steps_in(x, 3, NULL);
  if (s->scaled) list[n++] = ts_steps_in_as(x, 4, NULL, s->acc);
  list[n++] = ts_steps_out(x, 0, NULL);
  int64_t dim[3] = {s->size * s->n, s->n * s->columns, entries};
  ts_steps_add(x, elements(s), list, dim);
}

/* ---- nodes */
static Sparse read_node(const TsNode *n, int first) {
  TsDtype d = (TsDtype)n->out[0].meta.dtype;
  return (Sparse){.d = d,
                  .acc = (TsDtype)ts_dtypes[d].compute,
                  .row = (TsDtype)n->in[first]->meta.dtype,
                  .column = (TsDtype)n->in[first + 1]->meta.dtype};
}

/* Bare numbers are no operands, and steps of nothing no steps. */
static bool takes(const TsNode *n, const Sparse *s, int first) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && (n->in[i]->node->op == TS_NODE_number || !ts_meta_numel(&n->in[i]->meta) ||
                     ts_meta_numel(&n->in[i]->meta) >= INT32_MAX))
      return false;
  int64_t numel = ts_meta_numel(&n->out[0].meta);
  return numel && numel < INT32_MAX && ts_index_takes(&n->in[first]->meta) &&
         ts_index_takes(&n->in[first + 1]->meta) && !ts_dtype_in_blocks(s->d);
}

int ts_lower_spmm(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *x = &n->in[3]->meta;
  Sparse s = read_node(n, 1);
  s.size = x->dim[0], s.columns = x->ndim > 1 ? x->dim[x->ndim - 1] : 1;
  if (x->ndim == 3) s.p = n->in[0]->meta.dim[1], s.q = x->dim[1];
  s.sorted = n->in[1]->node->op == TS_OP_csr_rows;
  if (!takes(n, &s, 1)) return 0;
  TsSteps steps;
  ts_steps_begin(&steps, sched, layout, arg, n, err);
  ts_steps_guard(&steps, 2);
  if (!s.sorted) ts_steps_guard(&steps, 1);
  add_product(&steps, &s, n->out[0].meta.dim[0], n->in[1]->meta.dim[0]);
  return ts_steps_end(&steps, out);
}

int ts_lower_sddmm(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  Sparse s = read_node(n, 2);
  s.size = n->in[0]->meta.dim[0], s.columns = n->in[1]->meta.dim[1];
  s.n = n->in[0]->meta.dim[1], s.rows = 1, s.scaled = n->nin > 4 && n->in[4];
  if (!takes(n, &s, 2) || s.n > LONGEST) return 0;
  while (s.n <= SHORT && 2 * s.rows * s.n <= TOGETHER) s.rows *= 2;
  TsSteps steps;
  ts_steps_begin(&steps, sched, layout, arg, n, err);
  ts_steps_guard(&steps, 2);
  ts_steps_guard(&steps, 3);
  add_elements(&steps, &s, n->in[2]->meta.dim[0]);
  return ts_steps_end(&steps, out);
}
