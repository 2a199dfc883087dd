/* rope and rope_grad on a device: frequencies, cosines and sines of all positions, then the turns.
 * All of it as vm/exec/rope.c has it, which says what they are. */
#include <stdlib.h>
#include <string.h>

#include "ir/lower/short.h"
#include "ir/lower/steps.h"

typedef TsTileVal V;

/* Attributes, and words of SCALING. */
enum { THETA, DIMS, OFFSET, INTERLEAVED, SCALING, FACTOR, FAST, SLOW, CONTEXT, CONCENTRATION };
enum { NONE, LINEAR, YARN };

enum { PIECE = 256, ROWS = 16 };

typedef struct Rope {
  TsOp op;
  const TsAttr *attr;
  TsDtype d, wide, positions; /* of x; of the tables; of the positions, if they are given */
  bool given, neighbours, back;
  int64_t n, half;
} Rope;

/* ---- frequencies: f64 [half] */
typedef struct Frequencies {
  const Rope *r;
  TsTileBuild b;
  TsTileType t;
} Frequencies;

static V number(Frequencies *m, double v) { return ts_tile_const(&m->b, v, &m->t); }
static V op2(Frequencies *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }

static V limit(Frequencies *m, V x, double lo, double hi) {
  V least = number(m, lo), most = number(m, hi);
  V upper = ts_tile_op3(&m->b, TS_OP_where, op2(m, TS_OP_gt, x, most), most, x);
  return ts_tile_op3(&m->b, TS_OP_where, op2(m, TS_OP_lt, x, least), least, upper);
}

/* Index of the pair that turns so often within the original context. */
static V pair_of(Frequencies *m, double rotations) {
  const TsAttr *a = m->r->attr;
  double context = (double)a[CONTEXT].i,
         part = context / (rotations * (2 * 0x1.921fb54442d18p+1));
  V above = ts_tile_op1(&m->b, TS_OP_log, number(m, part));
  V below = ts_tile_op1(&m->b, TS_OP_log, number(m, a[THETA].f));
  above = op2(m, TS_OP_mul, number(m, 2 * (double)m->r->half), above);
  return op2(m, TS_OP_div, above, op2(m, TS_OP_mul, number(m, 2), below));
}

/* How much of what is stretched pair i takes. */
static V ramp(Frequencies *m, V i) {
  const TsAttr *a = m->r->attr;
  double last = 2 * (double)m->r->half - 1;
  if (a[SCALING].i != YARN) return number(m, a[SCALING].i == NONE ? 0 : 1);
  V lo = limit(m, ts_tile_op1(&m->b, TS_OP_floor, pair_of(m, a[FAST].f)), 0, last);
  V hi = limit(m, ts_tile_op1(&m->b, TS_OP_ceil, pair_of(m, a[SLOW].f)), 0, last);
  V apart = op2(m, TS_OP_add, hi, number(m, 0.001));
  hi = ts_tile_op3(&m->b, TS_OP_where, op2(m, TS_OP_eq, lo, hi), apart, hi);
  V up = op2(m, TS_OP_div, op2(m, TS_OP_sub, i, lo), op2(m, TS_OP_sub, hi, lo));
  return limit(m, up, 0, 1);
}

static TsTile *build_frequencies(const Rope *r) {
  TsTile *k = ts_tile_new("rope_frequencies");
  if (!k) return NULL;
  Frequencies m = {.r = r, .t = ts_tile_vector(TS_DT_f64, PIECE)};
  V to = ts_short_param(k, "frequency", TS_DT_f64, r->half, true);
  TsTileBuild *b = &m.b;
  TsTileType places = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  m.b = ts_tile_build(k);
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, r->half), PIECE, true, 0, NULL);
  V i = ts_short_positions(b, &places, l.i);
  i = ts_tile_cast(b, i, TS_DT_f64);
  V f = op2(&m, TS_OP_pow, number(&m, r->attr[THETA].f),
            op2(&m, TS_OP_div, i, number(&m, (double)r->half)));
  V one = number(&m, 1), own = op2(&m, TS_OP_div, one, f);
  V stretched = op2(&m, TS_OP_div, one, op2(&m, TS_OP_mul, number(&m, r->attr[FACTOR].f), f));
  V part = ramp(&m, i);
  V rest = op2(&m, TS_OP_mul, own, op2(&m, TS_OP_sub, one, part));
  f = op2(&m, TS_OP_add, op2(&m, TS_OP_mul, stretched, part), rest);
  ts_tile_store(b, to, &l.i, f, &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- tables: sizes half * positions, positions, offset */
static V position_of(TsTileBuild *b, V given, V row) {
  if (given) return ts_tile_cast(b, ts_short_gather(b, given, row, true), TS_DT_f64);
  V offset = ts_short_splat(b, &row->type, ts_short_dim(b, 2));
  return ts_tile_cast(b, ts_tile_op2(b, TS_OP_add, row, offset), TS_DT_f64);
}

/* What cosines and sines are multiplied by. */
static V concentration(TsTileBuild *b, const Rope *r, const TsTileType *t) {
  const TsAttr *a = r->attr;
  if (a[CONCENTRATION].type == TS_ATTR_f) return ts_tile_const(b, a[CONCENTRATION].f, t);
  V one = ts_tile_const(b, 1, t);
  if (a[SCALING].i != YARN || !(a[FACTOR].f > 1)) return one;
  V grows = ts_tile_op1(b, TS_OP_log, ts_tile_const(b, a[FACTOR].f, t));
  grows = ts_tile_op2(b, TS_OP_mul, ts_tile_const(b, 0.1, t), grows);
  return ts_tile_op2(b, TS_OP_add, grows, one);
}

static V table(TsTileBuild *b, const Rope *r, int op, V angle) {
  V x = ts_tile_op1(b, op, angle);
  if (!x) return NULL;
  V factor = concentration(b, r, &x->type);
  if (r->back && op == TS_OP_sin) factor = ts_tile_op1(b, TS_OP_neg, factor);
  return ts_tile_cast(b, ts_tile_op2(b, TS_OP_mul, x, factor), r->wide);
}

static TsTile *build_tables(const Rope *r) {
  TsTile *k = ts_tile_new("rope_tables");
  if (!k) return NULL;
  int64_t all = ts_tile_size(k, "all"), n = ts_tile_size(k, "positions");
  ts_tile_size(k, "offset");
  V f = ts_short_param(k, "frequency", TS_DT_f64, r->half, false);
  V p = r->given ? ts_short_param(k, "position", r->positions, n, false) : NULL;
  V cos = ts_short_param(k, "cos", r->wide, all, true),
    sin = ts_short_param(k, "sin", r->wide, all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 0), PIECE, true, 0, NULL);
  V e = ts_short_positions(&b, &t, l.i);
  V own = ts_short_gather(&b, f, ts_short_by(&b, TS_OP_mod, e, r->half), true);
  V at = position_of(&b, p, ts_short_by(&b, TS_OP_floordiv, e, r->half));
  V angle = ts_tile_op2(&b, TS_OP_mul, at, own);
  ts_tile_store(&b, cos, &l.i, table(&b, r, TS_OP_cos, angle), &edge);
  ts_tile_store(&b, sin, &l.i, table(&b, r, TS_OP_sin, angle), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* ---- where x lies: its axes in front of the positions, as few as possible */
enum { FRONT = 3 };

typedef struct Place {
  int n;
  int64_t dim[FRONT], stride[FRONT + 1]; /* of those axes; the last one is from row to row */
  bool apart;
} Place;

static bool find_place(const TsMeta *m, const int64_t *stride, Place *p) {
  int row = m->ndim - 2;
  *p = (Place){.n = 0, .apart = !ts_shape_row_major(m->ndim, m->dim, stride)};
  if (m->dim[row + 1] > 1 && stride[row + 1] != 1) return false;
  for (int i = 0; i < row; i++) {
    int last = p->n - 1;
    if (m->dim[i] == 1) continue;
    if (last >= 0 && p->stride[last] == stride[i] * m->dim[i]) {
      p->dim[last] *= m->dim[i], p->stride[last] = stride[i];
    } else if (p->n == FRONT) {
      return false;
    } else {
      p->dim[p->n] = m->dim[i], p->stride[p->n++] = stride[i];
    }
  }
  p->stride[p->n] = stride[row];
  return true;
}

/* ---- turns: x [front .., S, n], y [outer, S, n], tables [batches, S, half]; sizes outer, S,
 * batches, how many of `outer` share a batch's tables, and axes in front where x lies apart */
typedef struct Rotation {
  const Rope *r;
  TsTileBuild b;
  V x, y, cos, sin;
  V at[FRONT], outer, row, batch; /* at: of x */
  int front;
} Rotation;

/* Half number `which` of rows, of memory that has so many axes in front; x: it is stored. */
static V side(Rotation *m, V memory, const V *front, int n, int which, V x) {
  const Rope *r = m->r;
  TsTileBuild *b = &m->b;
  int64_t dim[2] = {ROWS, r->half}, axes[2] = {n, n + 1};
  TsTileType t = ts_tile_type(r->d, 2, dim);
  TsTileAccess a = {.edge = true, .naxis = 2, .axes = axes};
  V at[FRONT + 3];
  for (int i = 0; i < n; i++) at[i] = front[i];
  at[n] = m->row, at[n + 1] = ts_tile_index(b, r->neighbours ? 0 : which * r->half);
  at[n + 2] = ts_tile_index(b, which);
  if (!x) return ts_tile_cast(b, ts_tile_load(b, memory, at, &t, &a), r->wide);
  ts_tile_store(b, memory, at, ts_tile_cast(b, x, r->d), &a);
  return NULL;
}

static V side_of_x(Rotation *m, int which) {
  return side(m, m->x, m->at, m->front, which, NULL);
}

static void put_side(Rotation *m, int which, V x) { side(m, m->y, &m->outer, 1, which, x); }

static V rotated_by(Rotation *m, V memory) {
  int64_t dim[2] = {ROWS, m->r->half};
  TsTileType t = ts_tile_type(m->r->wide, 2, dim);
  TsTileAccess edge = {.edge = true};
  V at[3] = {m->batch, m->row, ts_tile_index(&m->b, 0)};
  return ts_tile_load(&m->b, memory, at, &t, &edge);
}

/* What is not turned. */
static void put_rest(Rotation *m, int64_t n) {
  TsTileBuild *b = &m->b;
  int64_t dim[2] = {ROWS, n}, axes[2] = {m->front, m->front + 1};
  TsTileType t = ts_tile_type(m->r->d, 2, dim);
  TsTileAccess of = {.edge = true, .naxis = 2, .axes = axes}, edge = {.edge = true};
  V at[FRONT + 2], from = ts_tile_index(b, 2 * m->r->half);
  for (int i = 0; i < m->front; i++) at[i] = m->at[i];
  at[m->front] = m->row, at[m->front + 1] = from;
  V x = ts_tile_load(b, m->x, at, &t, &of);
  ts_tile_store(b, m->y, (V[]){m->outer, m->row, from}, x, &edge);
}

static void put_rotation(Rotation *m) {
  TsTileBuild *b = &m->b;
  const Rope *r = m->r;
  V cos = rotated_by(m, m->cos), sin = rotated_by(m, m->sin);
  V x = side_of_x(m, 0), y = side_of_x(m, 1);
  V less = ts_tile_op1(b, TS_OP_neg, ts_tile_op2(b, TS_OP_mul, y, sin));
  put_side(m, 0, ts_tile_op3(b, TS_OP_fma, x, cos, less));
  put_side(m, 1, ts_tile_op3(b, TS_OP_fma, y, cos, ts_tile_op2(b, TS_OP_mul, x, sin)));
  if (r->n > 2 * r->half) put_rest(m, r->n - 2 * r->half);
}

/* Rows of n numbers, or of pairs. */
static TsTileType rows_of(const Rope *r, int front, const int64_t *dim, int64_t s) {
  int64_t all[FRONT + 3];
  for (int i = 0; i < front; i++) all[i] = dim[i];
  all[front] = s, all[front + 1] = r->neighbours ? r->n / 2 : r->n, all[front + 2] = 2;
  return ts_tile_type(r->d, front + 2 + r->neighbours, all);
}

static void param_x(Rotation *m, TsTile *k, const Place *p, int64_t outer, int64_t s) {
  static const char *const name[FRONT] = {"A", "B", "C"};
  int64_t dim[FRONT] = {outer}, stride[FRONT + 3];
  m->front = p->apart ? p->n : 1;
  for (int i = 0; i < p->n && p->apart; i++) dim[i] = ts_tile_size(k, name[i]);
  TsTileType t = rows_of(m->r, m->front, dim, s);
  for (int i = 0; i <= m->front; i++) stride[i] = p->stride[i];
  stride[m->front + 1] = m->r->neighbours ? 2 : 1, stride[m->front + 2] = 1;
  if (p->apart) ts_tile_set_strides(&t, stride);
  m->x = ts_tile_param(k, "x", &t, false);
}

/* Where in x number l of `outer` is. */
static void find_in_x(Rotation *m, const Place *p, V l) {
  if (!p->apart) m->at[0] = l;
  for (int i = p->n; p->apart && i-- > 0;) {
    V n = ts_short_dim(&m->b, 4 + i);
    m->at[i] = i ? ts_tile_op2(&m->b, TS_OP_mod, l, n) : l;
    if (i) l = ts_tile_op2(&m->b, TS_OP_floordiv, l, n);
  }
}

static TsTile *build(const Rope *r, const Place *p) {
  TsTile *k = ts_tile_new(ts_op_info(r->op)->name);
  if (!k) return NULL;
  Rotation m = {.r = r};
  int64_t outer = ts_tile_size(k, "outer"), s = ts_tile_size(k, "S");
  int64_t batches = ts_tile_size(k, "batches");
  ts_tile_size(k, "each");
  param_x(&m, k, p, outer, s);
  TsTileType y = rows_of(r, 1, &outer, s);
  TsTileType table = ts_tile_type(r->wide, 3, (int64_t[]){batches, s, r->half});
  m.cos = ts_tile_param(k, "cos", &table, false),
  m.sin = ts_tile_param(k, "sin", &table, false);
  m.y = ts_tile_param(k, "y", &y, true);
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 0), 1, true, 0, NULL);
  TsTileLoop i = ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 1), ROWS, true, 0, NULL);
  m.outer = l.i, m.row = i.i;
  m.batch = ts_tile_op2(b, TS_OP_floordiv, l.i, ts_short_dim(b, 3));
  find_in_x(&m, p, l.i);
  put_rotation(&m);
  ts_tile_for_end(b, &i, NULL, NULL);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- tables that are known beforehand: of few positions, which are counted from a number. They
 * are made once, here, and stay in memory. */
enum { KNOWN_BYTES = 1 << 16 };

static bool run(TsTile *k, void *const *arg, const int64_t *dim, TsError *err) {
  bool fine = k && !k->failed && !ts_tile_run(k, arg, dim, err);
  ts_tile_free(k);
  return fine;
}

/* Cosines, then sines; for free(). NULL: out of memory. */
static char *known_tables(const Rope *r, int64_t positions, TsError *err) {
  int64_t all = positions * r->half, size = ts_dtypes[r->wide].nbytes;
  double *f = malloc((size_t)r->half * sizeof *f);
  char *cos = malloc((size_t)(2 * all * size)), *sin = cos + all * size;
  bool fine = f && cos && run(build_frequencies(r), (void *[]){f}, NULL, err) &&
              run(build_tables(r), (void *[]){f, cos, sin},
                  (int64_t[]){all, positions, r->attr[OFFSET].i}, err);
  free(f);
  if (fine) return cos;
  free(cos);
  return NULL;
}

/* ---- the operators */
/* The offset of a loop that writes one word after the other is another one each time. */
static void put_tables(TsSteps *x, const Rope *r, int64_t positions, int *cos, int *sin) {
  int64_t all = positions * r->half, size = ts_dtypes[r->wide].nbytes;
  bool known = !r->given && !x->s->numbers_vary && 2 * all * size <= KNOWN_BYTES;
  char *made = known && !x->failed ? known_tables(r, positions, x->err) : NULL;
  if (made) {
    *cos = ts_steps_table(x, made, 2 * all * size);
    *sin = ts_steps_from(x, *cos, all * size);
    free(made);
    return;
  }
  int f = ts_steps_temp(x, 8 * r->half), list[4] = {f}, n = 1;
  *cos = ts_steps_temp(x, all * size), *sin = ts_steps_temp(x, all * size);
  ts_steps_add(x, build_frequencies(r), &f, NULL);
  if (r->given) list[n++] = ts_steps_in(x, 1, NULL);
  list[n++] = *cos, list[n++] = *sin;
  ts_steps_add(x, build_tables(r), list, (int64_t[]){all, positions, r->attr[OFFSET].i});
  if (x->s->numbers_vary && !r->given) ts_steps_bind(x, 2, ts_steps_attr(x, OFFSET));
}

static void put_steps(TsSteps *x, const Rope *r, const TsMeta *m, int64_t positions) {
  int64_t s = m->dim[m->ndim - 2], outer = ts_meta_numel(m) / (s * r->n);
  int64_t batches = positions / s;
  TsStepsView view = ts_steps_in_view(x, 0);
  Place p;
  int cos, sin, from = view.arg;
  put_tables(x, r, positions, &cos, &sin);
  if (x->failed || !find_place(m, view.stride, &p))
    from = ts_steps_in(x, 0, NULL), p = (Place){.n = 1};
  int rotation[] = {from, cos, sin, ts_steps_out(x, 0, NULL)};
  int64_t dim[4 + FRONT] = {outer, s, batches, outer / batches};
  memcpy(dim + 4, p.dim, sizeof p.dim);
  ts_steps_add(x, build(r, &p), rotation, dim);
}

int ts_lower_rope(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *m = &n->in[0]->meta, *p = n->nin > 1 && n->in[1] ? &n->in[1]->meta : NULL;
  TsDtype d = (TsDtype)n->out[0].meta.dtype;
  if (ts_dtype_in_blocks(d) || m->dtype != d || !ts_meta_numel(m)) return 0;
  if (p && (ts_dtype_is((TsDtype)p->dtype, TS_KIND_C) || ts_dtype_in_blocks(p->dtype)))
    return 0;
  Rope r = {.op = (TsOp)n->op, .attr = n->attr, .d = d, .given = p != NULL};
  r.wide = (TsDtype)ts_dtypes[d].accum, r.positions = p ? (TsDtype)p->dtype : TS_DT_i64;
  r.neighbours = n->attr[INTERLEAVED].i, r.back = n->op == TS_OP_rope_grad;
  r.n = m->dim[m->ndim - 1];
  r.half = (n->attr[DIMS].type == TS_ATTR_int ? n->attr[DIMS].i : r.n) / 2;
  if (!r.half || (r.neighbours && r.n != 2 * r.half)) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  put_steps(&x, &r, m, p ? ts_meta_numel(p) : m->dim[m->ndim - 2]);
  return ts_steps_end(&x, out);
}
