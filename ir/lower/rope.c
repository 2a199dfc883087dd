/* rope and rope_grad on a device: frequencies, cosines and sines of all positions, then the turns.
 * All of it as vm/exec/rope.c has it, which says what they are. */
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

/* ---- turns: x [outer, S, n], tables [batches, S, half]; sizes outer, S, batches, and how many
 * of `outer` share a batch's tables */
typedef struct Rotation {
  const Rope *r;
  TsTileBuild b;
  V x, y, cos, sin;
  V outer, row, batch;
} Rotation;

static V side(Rotation *m, V memory, int which, V x) {
  static const int64_t axes[2] = {1, 2};
  const Rope *r = m->r;
  TsTileBuild *b = &m->b;
  int64_t dim[2] = {ROWS, r->half};
  TsTileType t = ts_tile_type(r->d, 2, dim);
  TsTileAccess a = {.edge = true, .naxis = 2, .axes = axes};
  V zero = ts_tile_index(b, 0), at[4] = {m->outer, m->row, zero, ts_tile_index(b, which)};
  if (!r->neighbours) at[2] = ts_tile_index(b, which * r->half);
  if (!x) return ts_tile_cast(b, ts_tile_load(b, memory, at, &t, &a), r->wide);
  ts_tile_store(b, memory, at, ts_tile_cast(b, x, r->d), &a);
  return NULL;
}

static V rotated_by(Rotation *m, V memory) {
  int64_t dim[2] = {ROWS, m->r->half};
  TsTileType t = ts_tile_type(m->r->wide, 2, dim);
  TsTileAccess edge = {.edge = true};
  V at[3] = {m->batch, m->row, ts_tile_index(&m->b, 0)};
  return ts_tile_load(&m->b, memory, at, &t, &edge);
}

static void put_rotation(Rotation *m) {
  TsTileBuild *b = &m->b;
  const Rope *r = m->r;
  V cos = rotated_by(m, m->cos), sin = rotated_by(m, m->sin);
  V x = side(m, m->x, 0, NULL), y = side(m, m->x, 1, NULL);
  V less = ts_tile_op1(b, TS_OP_neg, ts_tile_op2(b, TS_OP_mul, y, sin));
  side(m, m->y, 0, ts_tile_op3(b, TS_OP_fma, x, cos, less));
  side(m, m->y, 1, ts_tile_op3(b, TS_OP_fma, y, cos, ts_tile_op2(b, TS_OP_mul, x, sin)));
  int64_t dim[2] = {ROWS, r->n - 2 * r->half};
  if (!dim[1]) return; /* what is not turned */
  TsTileType t = ts_tile_type(r->d, 2, dim);
  TsTileAccess edge = {.edge = true};
  V at[3] = {m->outer, m->row, ts_tile_index(b, 2 * r->half)};
  ts_tile_store(b, m->y, at, ts_tile_load(b, m->x, at, &t, &edge), &edge);
}

static TsTile *build(const Rope *r) {
  TsTile *k = ts_tile_new(ts_op_info(r->op)->name);
  if (!k) return NULL;
  Rotation m = {.r = r};
  int64_t outer = ts_tile_size(k, "outer"), s = ts_tile_size(k, "S");
  int64_t batches = ts_tile_size(k, "batches");
  ts_tile_size(k, "each");
  int64_t dim[4] = {outer, s, r->neighbours ? r->n / 2 : r->n, 2},
          own[3] = {batches, s, r->half};
  TsTileType x = ts_tile_type(r->d, r->neighbours ? 4 : 3, dim);
  TsTileType table = ts_tile_type(r->wide, 3, own);
  m.x = ts_tile_param(k, "x", &x, false);
  m.cos = ts_tile_param(k, "cos", &table, false),
  m.sin = ts_tile_param(k, "sin", &table, false);
  m.y = ts_tile_param(k, "y", &x, true);
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 0), 1, true, 0, NULL);
  TsTileLoop i = ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 1), ROWS, true, 0, NULL);
  m.outer = l.i, m.row = i.i;
  m.batch = ts_tile_op2(b, TS_OP_floordiv, l.i, ts_short_dim(b, 3));
  put_rotation(&m);
  ts_tile_for_end(b, &i, NULL, NULL);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- the operators */
/* The offset of a loop that writes one word after the other is another one each time. */
static void put_steps(TsSteps *x, const Rope *r, const TsMeta *m, int64_t positions) {
  int64_t s = m->dim[m->ndim - 2], all = positions * r->half,
          outer = ts_meta_numel(m) / (s * r->n);
  int64_t batches = positions / s, size = ts_dtypes[r->wide].nbytes;
  int f = ts_steps_temp(x, 8 * r->half), list[4] = {f}, n = 1;
  int cos = ts_steps_temp(x, all * size), sin = ts_steps_temp(x, all * size);
  ts_steps_add(x, build_frequencies(r), &f, NULL);
  if (r->given) list[n++] = ts_steps_in(x, 1, NULL);
  list[n++] = cos, list[n++] = sin;
  ts_steps_add(x, build_tables(r), list, (int64_t[]){all, positions, r->attr[OFFSET].i});
  if (x->s->numbers_vary && !r->given) ts_steps_bind(x, 2, ts_steps_attr(x, OFFSET));
  int rotation[] = {ts_steps_in(x, 0, NULL), cos, sin, ts_steps_out(x, 0, NULL)};
  ts_steps_add(x, build(r), rotation, (int64_t[]){outer, s, batches, outer / batches});
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
