/* Reductions along the rows of [M, C] for each of C columns: vectors lie across columns.
 *
 * A sum has 256 lanes of rows, which combine by halves. Walking the lanes in bit-reversed order
 * makes the halves the merges of a binary counter, so that log2(256) partial rows are alive
 * instead of 256; the rows of one lane are a chain. Leaves of 4096 rows are a counter again.
 * The rows of lanes to come are asked for: no processor sees the order in such strides. */
#include "ir/tile/pass/vec.h"

#include <math.h>

enum { MAX_FOLD = 8, MAX_VECTORS = 16 };

typedef struct Columns {
  VecPass *p;
  VecFold fold[MAX_FOLD];
  int nfold, nvec;       /* vectors side by side */
  bool trees;            /* any of them is a sum */
  TsTileVal base;        /* first column, NULL: 0 */
  int64_t plus, m, live; /* rows; columns from plus on */
  bool edge;
  TsTileVal prefetch; /* from a row to the one that a later lane has in its place, or NULL */
} Columns;

static TsTileVal op2(TsVec *v, int op, TsTileVal a, int64_t c) {
  return ts_tile_op2(&v->b, op, a, ts_tile_index(&v->b, c));
}

static TsTileVal less(TsVec *v, TsTileVal a, TsTileVal b) {
  return ts_tile_op2(&v->b, TS_OP_minimum, a, b);
}

/* Eight bits turned round. */
static TsTileVal reversed(TsVec *v, TsTileVal q) {
  static const int64_t mask[3] = {0x55, 0x33, 0x0f};
  for (int i = 0; i < 3; i++) {
    TsTileVal low = op2(v, TS_OP_bitwise_and, q, mask[i]);
    TsTileVal high = op2(v, TS_OP_bitwise_and, op2(v, TS_TILE_shr, q, 1 << i), mask[i]);
    q = ts_tile_op2(&v->b, TS_OP_bitwise_or, op2(v, TS_TILE_shl, low, 1 << i), high);
  }
  return q;
}

/* Places vector g at a row. */
static void place(TsVec *v, const Columns *c, TsTileVal row, int g) {
  int64_t left = c->live - (int64_t)g * v->at.lanes;
  v->at.base[0] = row;
  ts_tile_vec_at(v, c->base, c->plus + (int64_t)g * v->at.lanes,
                 left < v->at.lanes ? (int)left : v->at.lanes, c->edge);
}

/* Vector g of a row: the sums or the others take it in, stores go with the first walk. */
static void step_row(TsVec *v, Columns *c, TsTileVal row, int g, bool trees) {
  TsTileVal x[MAX_FOLD] = {NULL}, index = NULL;
  int mark = ts_tile_vec_mark(v);
  place(v, c, row, g);
  for (int i = 0; i < c->nfold; i++) {
    VecFold *f = &c->fold[i];
    if ((f->kind == VEC_TREE) != trees) continue;
    x[i] = ts_tile_vec_eval(v, f->root->value, &f->root->map);
    if (f->kind == VEC_ARG && !index) index = ts_tile_vec_spread(v, row);
  }
  if (trees == c->trees) ts_tile_vec_stores(v, c->p);
  v->at.live = v->at.lanes; /* what lies behind the last column is nobody's */
  for (int i = 0; i < c->nfold; i++)
    if (x[i]) ts_tile_vec_fold_step(v, &c->fold[i], g, x[i], index);
  ts_tile_vec_drop(v, mark);
}

static void ask_row(TsVec *v, Columns *c, VecFold *f, TsTileVal row, int g) {
  int mark = ts_tile_vec_mark(v);
  bool far = true;
  place(v, c, ts_tile_op2(&v->b, TS_OP_add, row, c->prefetch), g);
  ts_tile_vec_visit(v, f->root->value, &f->root->map, ts_tile_vec_ask, &far);
  ts_tile_vec_drop(v, mark);
}

static int collect(TsVec *v, Columns *c, TsTileVal *list, bool trees) {
  TsTileType t = ts_tile_vector(TS_DT_f32, v->at.lanes);
  int n = 0;
  for (int i = 0; i < c->nfold; i++)
    for (int k = 0; (c->fold[i].kind == VEC_TREE) == trees && k < c->fold[i].nregister; k++)
      for (int g = 0; g < c->nvec; g++) {
        TsTileVal *p = &c->fold[i].part[k][g];
        if (!*p) *p = ts_tile_vec_fold_start(v, &c->fold[i], k, &t);
        list[n++] = *p;
      }
  return n;
}

static void spread_out(Columns *c, TsTileVal const *list, bool trees) {
  int n = 0;
  for (int i = 0; i < c->nfold; i++)
    for (int k = 0; (c->fold[i].kind == VEC_TREE) == trees && k < c->fold[i].nregister; k++)
      for (int g = 0; g < c->nvec; g++) c->fold[i].part[k][g] = list ? list[n++] : NULL;
}

enum { MAX_CARRY = MAX_FOLD * 3 * MAX_VECTORS };

/* The rows lo, lo + step, .. below hi, behind `first`. */
static void walk_rows(TsVec *v, Columns *c, TsTileVal first, TsTileVal lo, TsTileVal hi,
                      int64_t step, bool trees) {
  TsTileVal list[MAX_CARRY], out[MAX_CARRY] = {0};
  int n = collect(v, c, list, trees), mark = ts_tile_vec_mark(v);
  TsTileLoop l = ts_tile_for(&v->b, lo, hi, step, false, n, list);
  if (!l.carry || v->k->failed) return;
  spread_out(c, l.carry, trees);
  TsTileVal row = first ? ts_tile_op2(&v->b, TS_OP_add, first, l.i) : l.i;
  for (int g = 0; g < c->nvec; g++) {
    for (int i = 0; i < c->nfold && c->prefetch && trees; i++)
      if (c->fold[i].kind == VEC_TREE) ask_row(v, c, &c->fold[i], row, g);
    step_row(v, c, row, g, trees);
  }
  collect(v, c, list, trees);
  ts_tile_vec_drop(v, mark);
  ts_tile_for_end(&v->b, &l, list, out);
  spread_out(c, out, trees);
}

/* ---- sums */
/* log2 of the lanes of a leaf of m rows: of the power of two from m on, at most all. */
static TsTileVal lane_bits(TsVec *v, TsTileVal m, int lanes) {
  TsTileVal one = ts_tile_index(&v->b, 1), two = ts_tile_index(&v->b, 2);
  TsTileVal high = ts_tile_op2(&v->b, TS_OP_maximum, m, two);
  TsTileVal k = op2(v, TS_OP_add, ts_tile_vec_log2(v, op2(v, TS_OP_sub, high, 1)), 1);
  k = ts_tile_op3(&v->b, TS_OP_where, ts_tile_op2(&v->b, TS_OP_le, m, one),
                  ts_tile_index(&v->b, 0), k);
  return less(v, k, ts_tile_index(&v->b, lanes == 256 ? 8 : 7));
}

/* So many that some 64 rows lie between asking and reading, as a lane has 1 to 16. */
static int64_t prefetch_distance(const Columns *c, int lanes) {
  int64_t rows = ts_tile_dim_is(c->m) || c->m >= VEC_LEAF ? VEC_LEAF : c->m;
  int64_t prefetch = rows > lanes ? 64 * lanes / rows : 64;
  return prefetch < 4 ? 4 : prefetch > 32 ? 32 : prefetch;
}

static void leaf(TsVec *v, Columns *c, VecCounter *lane, TsTileVal first, TsTileVal m,
                 int lanes) {
  TsTileVal k = lane_bits(v, m, lanes);
  TsTileVal w = ts_tile_op2(&v->b, TS_TILE_shl, ts_tile_index(&v->b, 1), k);
  TsTileVal rest = ts_tile_op2(&v->b, TS_OP_sub, ts_tile_index(&v->b, 8), k);
  TsTileLoop q = ts_tile_for(&v->b, ts_tile_index(&v->b, 0), w, 1, false, 0, NULL);
  int mark = ts_tile_vec_mark(v);
  spread_out(c, NULL, true);
  TsTileVal lo = ts_tile_op2(&v->b, TS_TILE_shr, reversed(v, q.i), rest);
  TsTileVal next = reversed(v, op2(v, TS_OP_add, q.i, prefetch_distance(c, lanes)));
  next = ts_tile_op2(&v->b, TS_TILE_shr, next, rest);
  c->prefetch = c->edge ? NULL : ts_tile_op2(&v->b, TS_OP_sub, next, lo);
  walk_rows(v, c, first, lo, m, lanes, true);
  c->prefetch = NULL;
  for (int i = 0; i < c->nfold; i++)
    if (c->fold[i].kind == VEC_TREE)
      ts_tile_vec_counter_push(v, &lane[i], q.i, c->fold[i].part[0]);
  ts_tile_vec_drop(v, mark);
  ts_tile_for_end(&v->b, &q, NULL, NULL);
  for (int i = 0; i < c->nfold; i++)
    if (c->fold[i].kind == VEC_TREE) ts_tile_vec_counter_at(v, &lane[i], k, c->fold[i].part[0]);
}

static void leaves(TsVec *v, Columns *c, VecCounter *lane, VecCounter *whole, int lanes) {
  TsTileVal m = ts_tile_vec_size(v, c->m), count;
  count = op2(v, TS_TILE_shr, op2(v, TS_OP_add, m, VEC_LEAF - 1), 12);
  TsTileLoop l = ts_tile_for(&v->b, ts_tile_index(&v->b, 0), count, 1, false, 0, NULL);
  int mark = ts_tile_vec_mark(v);
  TsTileVal first = op2(v, TS_TILE_shl, l.i, 12);
  TsTileVal left = ts_tile_op2(&v->b, TS_OP_sub, m, first);
  leaf(v, c, lane, first, less(v, left, ts_tile_index(&v->b, VEC_LEAF)), lanes);
  for (int i = 0; i < c->nfold; i++)
    if (c->fold[i].kind == VEC_TREE)
      ts_tile_vec_counter_push(v, &whole[i], l.i, c->fold[i].part[0]);
  ts_tile_vec_drop(v, mark);
  ts_tile_for_end(&v->b, &l, NULL, NULL);
  for (int i = 0; i < c->nfold; i++)
    if (c->fold[i].kind == VEC_TREE)
      ts_tile_vec_counter_end(v, &whole[i], count, c->fold[i].part[0]);
}

/* The rows are leaves themselves. */
static void rows_are_leaves(TsVec *v, Columns *c, VecCounter *whole) {
  TsTileVal m = ts_tile_vec_size(v, c->m);
  TsTileLoop l = ts_tile_for(&v->b, ts_tile_index(&v->b, 0), m, 1, false, 0, NULL);
  int mark = ts_tile_vec_mark(v);
  for (int i = 0; i < c->nfold; i++)
    for (int g = 0; g < c->nvec; g++) c->fold[i].part[0][g] = NULL;
  for (int g = 0; g < c->nvec; g++) step_row(v, c, l.i, g, true);
  for (int i = 0; i < c->nfold; i++)
    ts_tile_vec_counter_push(v, &whole[i], l.i, c->fold[i].part[0]);
  ts_tile_vec_drop(v, mark);
  ts_tile_for_end(&v->b, &l, NULL, NULL);
  for (int i = 0; i < c->nfold; i++)
    ts_tile_vec_counter_end(v, &whole[i], m, c->fold[i].part[0]);
}

static void trees(TsVec *v, Columns *c) {
  VecCounter lane[MAX_FOLD], whole[MAX_FOLD];
  int lanes = 0;
  bool pairs = false, one = !ts_tile_dim_is(c->m) && c->m <= VEC_LEAF;
  for (int i = 0; i < c->nfold; i++) {
    if (c->fold[i].kind != VEC_TREE) continue;
    lanes = ts_tile_vec_fold_lanes(c->fold[i].dtype);
    pairs = c->fold[i].op == TS_TILE_pairs;
    if (!pairs) lane[i] = ts_tile_vec_counter(v, &c->fold[i], c->nvec);
    if (pairs || !one) whole[i] = ts_tile_vec_counter(v, &c->fold[i], c->nvec);
  }
  if (!lanes) return;
  if (pairs)
    rows_are_leaves(v, c, whole);
  else if (one)
    leaf(v, c, lane, NULL, ts_tile_vec_size(v, c->m), lanes);
  else
    leaves(v, c, lane, whole, lanes);
}

/* What no rows give: +0, 1, an infinity, index -1; integers have begun with it. */
static TsTileVal of_none(TsVec *v, const Columns *c, const VecFold *f, TsTileVal x) {
  if (!x || !ts_tile_dim_is(c->m) || f->kind == VEC_FREE) return x;
  double number = f->kind == VEC_ARG     ? -1
                  : f->op == TS_TILE_max ? -INFINITY
                  : f->op == TS_TILE_min ? INFINITY
                                         : f->op == TS_TILE_prod;
  TsTileVal none = op2(v, TS_OP_eq, ts_tile_vec_size(v, c->m), 0);
  TsTileType t = ts_tile_vector(TS_DT_bool, v->at.lanes);
  none = ts_tile_broadcast(&v->b, none, &t, NULL);
  return ts_tile_op3(&v->b, TS_OP_where, none, ts_tile_const(&v->b, number, &x->type), x);
}

static void put(TsVec *v, Columns *c) {
  static _Thread_local VecFold one;
  for (int i = 0; i < c->nfold; i++)
    for (int g = 0; g < c->nvec; g++) {
      one = c->fold[i];
      for (int k = 0; k < one.nregister; k++) one.part[k][0] = c->fold[i].part[k][g];
      TsTileVal x = of_none(v, c, &one, ts_tile_vec_fold_end(v, &one, false));
      TsTileVal at = ts_tile_vec_sum(v, c->base, NULL, c->plus + (int64_t)g * v->at.lanes);
      if (x) ts_tile_store(&v->b, one.root->home, &at, x, NULL);
    }
}

/* `nvec` vectors of columns from base + plus on, `live` columns of them. */
static void group(TsVec *v, Columns *c, TsTileVal base, int64_t plus, int64_t live) {
  int mark = ts_tile_vec_mark(v);
  c->base = base;
  c->plus = plus;
  c->live = live;
  c->nvec = (int)((live + v->at.lanes - 1) / v->at.lanes);
  c->trees = false;
  for (int i = 0; i < c->nfold; i++) {
    ts_tile_vec_fold_of(v, &c->fold[i], c->fold[i].root);
    c->trees |= c->fold[i].kind == VEC_TREE;
  }
  if (v->failed) return;
  trees(v, c);
  TsTileVal list[MAX_CARRY];
  if (collect(v, c, list, false))
    walk_rows(v, c, NULL, ts_tile_vec_int(v, 0), ts_tile_vec_size(v, c->m), 1, false);
  put(v, c);
  ts_tile_vec_drop(v, mark);
}

static void groups(TsVec *v, Columns *c, int64_t n, bool edge) {
  int most = MAX_VECTORS / (c->nfold > 2 ? 4 : c->nfold);
  if (c->p->wide > 1) most = 1; /* each has the code of an element, which is dear */
  int64_t width = (int64_t)most * v->at.lanes, whole = n / width * width;
  c->edge = edge;
  if (whole > width) {
    TsTileLoop l = ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, whole), width,
                               false, 0, NULL);
    group(v, c, l.i, 0, width);
    ts_tile_for_end(&v->b, &l, NULL, NULL);
  } else if (whole) {
    group(v, c, NULL, 0, width);
  }
  if (whole < n) group(v, c, NULL, whole, n - whole);
}

void ts_tile_vec_columns(TsVec *v, VecPass *p) {
  static _Thread_local Columns c;
  VecNest nest;
  int64_t n = p->space.dim[p->space.rank - 1];
  c = (Columns){.p = p, .m = p->space.dim[0]};
  for (int i = 0; i < p->nroot; i++) {
    VecRoot *r = p->root[i];
    if (r->kind != VEC_REDUCE) continue;
    if (p->space.rank != 2 || r->map.at[ts_tile_attr(r->stmt, "axis")->i].axis || v->rows ||
        ts_tile_dim_is(n) || c.nfold == MAX_FOLD) {
      ts_tile_vec_fail(v, r->stmt, "a reduction along this axis");
      return;
    }
    c.fold[c.nfold++].root = r;
  }
  ts_tile_vec_open(v, &nest, &p->space, 0);
  v->at.lanes = v->at.live = p->lanes;
  ts_tile_vec_hoist(v, p);
  v->at.base[0] = NULL;
  TsTileVal inside = ts_tile_vec_inside(v, p->nroot, p->root, n);
  if (inside) { /* of the first row; and of the last one, between which all others lie */
    TsTileVal rows = ts_tile_vec_size(v, c.m);
    v->at.base[0] = op2(v, TS_OP_sub, rows, 1);
    TsTileVal last = ts_tile_vec_inside(v, p->nroot, p->root, n);
    inside = last ? less(v, inside, last) : inside;
    v->at.base[0] = NULL;
    TsTileVal all = ts_tile_op2(&v->b, TS_OP_ge, inside, ts_tile_vec_int(v, n));
    TsTileStmt *s = ts_tile_emit(&v->b, TS_TILE_if, 1, &all, NULL, 0, NULL);
    TsTileBuild here = v->b;
    for (int k = 0; s && k < 2; k++) {
      v->b.at = s->region[k];
      groups(v, &c, n, k == 1);
    }
    v->b = here;
  } else {
    groups(v, &c, n, false);
  }
  ts_tile_vec_close(v, &nest);
}
