/* uniform, normal, bernoulli, dropout, randint, permutation on a device: an element's bits
 * follow from seed, stream and its index (row `random` of ir/tile/tile.def), and its number
 * from them as vm/kernels/random_float.inc says. */
#include "ir/graph/graph.h"
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

#include <math.h>

#include "lib/narrow.h"

typedef TsTileVal V;

enum { PIECE = 1024, SIDE = 16 }; /* words of 32 bits at a time; that are neighbours */

typedef struct Draw {
  TsOp op;
  TsDtype d;
  TsDtype made;   /* what it is made in: f32, f64 */
  bool wide;      /* 64 bits an element */
  double a, b;    /* low and high; mean and deviation; probability */
  int64_t low;    /* of whole numbers */
  uint64_t range; /* how many they are */
} Draw;

typedef struct Make {
  const Draw *s;
  TsTileBuild b;
  V x, y;
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }

/* A number of the type in which elements are made. */
static V number(Make *m, V like, double v) {
  if (!like) return NULL;
  double x = m->s->made == TS_DT_f64 ? v : (double)(float)v;
  return ts_short_number(&m->b, &like->type, m->s->made, x);
}

static V shifted(Make *m, int op, V x, int n) {
  if (!x) return NULL;
  V in[2] = {x, ts_tile_bits(&m->b, (uint64_t)n, &x->type)};
  return ts_tile_emit1(&m->b, op, 2, in, NULL, &x->type);
}

static V floated(Make *m, V x) { return ts_tile_cast(&m->b, x, m->s->made); }
static V times(Make *m, V x, double v) { return op2(m, TS_OP_mul, x, number(m, x, v)); }

/* 32 bits as a number from 0 on, of i64. */
static V unsigned32(Make *m, V x) {
  return ts_short_by(&m->b, TS_OP_bitwise_and, ts_tile_cast(&m->b, x, TS_DT_i64), UINT32_MAX);
}

/* ---- words: of an element the only one, or the low and the high one */
typedef struct Words {
  V low, high;
} Words;

/* Bits of [PIECE] as n parts, [PIECE / (SIDE n), SIDE] each: part i of every n neighbours. */
static void split(Make *m, V bits, int n, V *at) {
  static const int64_t sides[2] = {0, 2};
  TsTileBuild *b = &m->b;
  int64_t rows = PIECE / (SIDE * n), dim[3] = {rows, n, SIDE}, part[2] = {rows, SIDE};
  TsTileType all = ts_tile_vector(TS_DT_i32, PIECE), t = ts_tile_type(TS_DT_i32, 2, part);
  TsTileAccess side = {.naxis = 2, .axes = sides};
  V zero = ts_tile_index(b, 0), shared = ts_tile_alloc(b, TS_SPACE_shared, &all);
  ts_tile_store(b, shared, &zero, bits, NULL);
  V view = ts_short_view(b, shared, 3, dim);
  for (int i = 0; i < n; i++)
    at[i] = ts_tile_load(b, view, (V[]){zero, ts_tile_index(b, i), zero}, &t, &side);
}

/* Places from the first on of numbers like x, [rows, SIDE], whose rows are so far apart. */
static V places(Make *m, V x, V first, int64_t apart) {
  if (!x) return NULL;
  TsTileBuild *b = &m->b;
  TsTileType t = x->type;
  t.dtype = TS_DT_i64;
  V e = op2(m, TS_OP_add, ts_short_by(b, TS_OP_mul, ts_short_iota(b, &t, 0), apart),
            ts_short_iota(b, &t, 1));
  return op2(m, TS_OP_add, e, ts_short_splat(b, &t, first));
}

static void put(Make *m, V at, V x) {
  V in[3] = {m->y, at, ts_tile_cast(&m->b, x, m->s->d)};
  TsAttr edge = {.type = TS_ATTR_bool, .i = true};
  if (in[1] && in[2]) ts_tile_emit(&m->b, TS_TILE_scatter, 3, in, &edge, 0, NULL);
}

/* ---- numbers */
/* In [0, 1): 24 bits, or 53, whose low ones are added to the others without rounding. */
static V unit(Make *m, Words w) {
  if (!w.high) return times(m, floated(m, shifted(m, TS_TILE_shr, w.low, 8)), 0x1p-24);
  V low = times(m, floated(m, shifted(m, TS_TILE_shr, w.low, 11)), 0x1p-53);
  V high = floated(m, unsigned32(m, w.high));
  return ts_tile_op3(&m->b, TS_OP_fma, high, number(m, high, 0x1p-32), low);
}

/* In (0, 1]. */
static V above(Make *m, Words w) {
  if (w.high) {
    V u = unit(m, w);
    return op2(m, TS_OP_sub, number(m, u, 1), u);
  }
  V x = floated(m, shifted(m, TS_TILE_shr, w.low, 1));
  return ts_tile_op3(&m->b, TS_OP_fma, x, number(m, x, 0x1p-31), number(m, x, 0x1p-32));
}

/* In [-pi, pi), of 24 bits or 52. */
static V angle(Make *m, Words w) {
  enum { OF_LOW = 20 };
  if (!w.high)
    return times(m, floated(m, shifted(m, TS_TILE_sar, w.low, 8)), 0x1.921fb54442d18p-22);
  V low = ts_tile_cast(&m->b, shifted(m, TS_TILE_shr, w.low, 32 - OF_LOW), TS_DT_i64);
  V high = ts_tile_cast(&m->b, w.high, TS_DT_i64);
  high = ts_short_by(&m->b, TS_OP_mul, high, 1 << OF_LOW);
  return times(m, floated(m, op2(m, TS_OP_add, high, low)), 0x1.921fb54442d18p-50);
}

static V below(Make *m, Words w, double p) {
  V u = unit(m, w);
  return op2(m, TS_OP_lt, u, number(m, u, w.high ? p : ceil(p * 0x1p24) * 0x1p-24));
}

static V uniform(Make *m, Words w) {
  double low = m->s->a, high = m->s->b;
  double width = m->s->wide ? high - low : (double)((float)high - (float)low);
  double top = low < high ? ts_narrow_below(m->s->d, high) : high;
  V u = times(m, unit(m, w), width);
  u = op2(m, TS_OP_add, number(m, u, low), u);
  V most = number(m, u, top);
  return ts_tile_op3(&m->b, TS_OP_where, op2(m, TS_OP_lt, u, most), u, most);
}

static V dropout(Make *m, Words w, V x) {
  V kept = times(m, floated(m, x), 1 / (1 - m->s->a));
  return ts_tile_op3(&m->b, TS_OP_where, below(m, w, m->s->a), number(m, kept, 0), kept);
}

static void put_dropout(Make *m, Words w, V first) {
  V at = places(m, w.low, first, SIDE);
  if (at) put(m, at, dropout(m, w, ts_short_gather(&m->b, m->x, at, true)));
}

/* Of a group of 32 elements those of the first half have lengths, the others angles. */
static void put_normal(Make *m, V bits, V first) {
  TsTileBuild *b = &m->b;
  V at[4];
  int each = m->s->wide ? 2 : 1;
  split(m, bits, 2 * each, at);
  Words length = {at[0], each > 1 ? at[1] : NULL}, turn = {at[each], each > 1 ? at[3] : NULL};
  V e = places(m, at[0], first, 2 * SIDE), phi = angle(m, turn);
  V r = ts_tile_op1(b, TS_OP_sqrt, times(m, ts_tile_op1(b, TS_OP_log, above(m, length)), -2.0));
  for (int i = 0; i < 2; i++) {
    V z = op2(m, TS_OP_mul, r, ts_tile_op1(b, i ? TS_OP_sin : TS_OP_cos, phi));
    z = op2(m, TS_OP_add, number(m, z, m->s->a), times(m, z, m->s->b));
    put(m, ts_short_by(b, TS_OP_add, e, i * SIDE), z);
  }
}

/* The high half of 64 bits times the range, in products of words. */
static V integer(Make *m, Words w) {
  enum { WORD = 32 };
  TsTileBuild *b = &m->b;
  int64_t low = (int64_t)(m->s->range & UINT32_MAX), high = (int64_t)(m->s->range >> WORD);
  V x[2] = {unsigned32(m, w.low), unsigned32(m, w.high)}, y;
  y = op2(m, TS_OP_add, ts_short_by(b, TS_OP_mul, x[1], low),
          shifted(m, TS_TILE_shr, ts_short_by(b, TS_OP_mul, x[0], low), WORD));
  V over = shifted(m, TS_TILE_shr, y, WORD);
  if (high) {
    V rest = ts_short_by(b, TS_OP_bitwise_and, y, UINT32_MAX);
    rest = op2(m, TS_OP_add, ts_short_by(b, TS_OP_mul, x[0], high), rest);
    over = op2(m, TS_OP_add, over, shifted(m, TS_TILE_shr, rest, WORD));
    over = op2(m, TS_OP_add, over, ts_short_by(b, TS_OP_mul, x[1], high));
  }
  return ts_short_by(b, TS_OP_add, over, m->s->low);
}

/* A key of permutation, whose order as a number with a sign is that of its bits without one. */
static V key(Make *m, Words w) {
  enum { WORD = 32 };
  TsTileBuild *b = &m->b;
  V high = ts_short_by(b, TS_OP_bitwise_xor, ts_tile_cast(b, w.high, TS_DT_i64), INT32_MIN);
  high = ts_short_by(b, TS_OP_mul, high, (int64_t)1 << WORD);
  return op2(m, TS_OP_add, high, unsigned32(m, w.low));
}

/* The 64 bits of element 16 p + r are the 32 of 32 p + r, low, and of 32 p + 16 + r. */
static void put_wide(Make *m, V bits, V first) {
  V at[2];
  split(m, bits, 2, at);
  Words w = {at[0], at[1]};
  V e = places(m, at[0], first, SIDE);
  switch (m->s->op) {
  case TS_OP_uniform: put(m, e, uniform(m, w)); break;
  case TS_OP_dropout: put_dropout(m, w, first); break;
  case TS_OP_permutation: put(m, e, key(m, w)); break;
  default: put(m, e, integer(m, w)); break;
  }
}

static V loaded(Make *m, V first) {
  TsTileType t = ts_tile_vector(m->s->d, PIECE);
  TsTileAccess edge = {.edge = true};
  return ts_tile_load(&m->b, m->x, &first, &t, &edge);
}

/* Of 32 bits an element, which stay where they are. */
static void put_straight(Make *m, V bits, V first) {
  Words w = {.low = bits};
  V y = NULL;
  switch (m->s->op) {
  case TS_OP_uniform: y = uniform(m, w); break;
  case TS_OP_dropout: y = dropout(m, w, loaded(m, first)); break;
  default: y = below(m, w, m->s->a); break;
  }
  TsTileAccess edge = {.edge = true};
  ts_tile_store(&m->b, m->y, &first, ts_tile_cast(&m->b, y, m->s->d), &edge);
}

/* ---- the kernel: sizes N, seed, stream */
static TsTile *build(const Draw *s) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  Make m = {.s = s};
  int64_t n = ts_tile_size(k, "N");
  ts_tile_size(k, "seed"), ts_tile_size(k, "stream");
  TsTileType t = ts_tile_vector(s->d, n), bits_type = ts_tile_vector(TS_DT_i32, PIECE);
  if (s->op == TS_OP_dropout) m.x = ts_tile_param(k, "x", &t, false);
  m.y = ts_tile_param(k, "y", &t, true);
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  k->threads = PIECE / 4;
  int words = s->wide ? 2 : 1; /* of 32 bits an element */
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 0), PIECE / words, true, 0, NULL);
  TsAttr aligned = {.type = TS_ATTR_bool}; /* blocks side by side would be for all threads */
  V from = words > 1 ? op2(&m, TS_OP_mul, l.i, ts_tile_index(b, words)) : l.i;
  V in[3] = {ts_short_dim(b, 1), ts_short_dim(b, 2), from};
  V bits = ts_tile_emit1(b, TS_TILE_random, 3, in, &aligned, &bits_type);
  if (s->op == TS_OP_normal)
    put_normal(&m, bits, l.i);
  else if (s->wide)
    put_wide(&m, bits, l.i);
  else
    put_straight(&m, bits, l.i);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- nodes */
static bool is_float(TsDtype d) {
  return d == TS_DT_f32 || d == TS_DT_f16 || d == TS_DT_bf16 || d == TS_DT_f64;
}

static bool whole(Draw *s, int64_t low, int64_t high) {
  int64_t least, most;
  bool exact = ts_dtype_is(s->d, TS_KIND_B | TS_KIND_U | TS_KIND_I);
  if (ts_dtype_in_blocks(s->d) || (!exact && !is_float(s->d)) || low >= high) return false;
  if (exact) ts_dtype_int_range(s->d, &least, &most);
  if (exact && (low < least || high - 1 > most)) return false;
  s->low = low, s->range = (uint64_t)high - (uint64_t)low;
  return true;
}

static bool counts_to(const TsNode *n, int64_t most) {
  int64_t low, high = INT64_MAX;
  TsDtype d = (TsDtype)n->out[0].meta.dtype;
  bool exact = ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I);
  if (ts_dtype_in_blocks(d) || (!exact && !is_float(d))) return false;
  if (exact) ts_dtype_int_range(d, &low, &high);
  return most <= high;
}

/* What is wrong with the numbers, the VM says. */
static bool set(Draw *s, const TsNode *n) {
  const TsAttr *a = n->attr;
  bool words = s->op == TS_OP_randint || s->op == TS_OP_permutation;
  s->wide = words || (s->d == TS_DT_f64 && s->op != TS_OP_bernoulli);
  s->made = s->wide ? TS_DT_f64 : TS_DT_f32;
  switch (s->op) {
  case TS_OP_uniform:
    s->a = a[1].f, s->b = a[2].f;
    return is_float(s->d) && s->a <= s->b &&
           isfinite(s->wide ? s->b - s->a : (double)((float)s->b - (float)s->a));
  case TS_OP_normal:
    s->a = a[1].f, s->b = a[2].f;
    return is_float(s->d) && s->b >= 0 && isfinite(s->b) && isfinite(s->a);
  case TS_OP_bernoulli:
    s->a = a[1].f;
    return s->a >= 0 && s->a <= 1 && !ts_dtype_in_blocks(s->d) && !ts_dtype_is(s->d, TS_KIND_C);
  case TS_OP_dropout:
    s->a = a[0].f;
    return is_float(s->d) && s->a >= 0 && s->a < 1 && n->in[0]->meta.dtype == s->d;
  case TS_OP_randint: return whole(s, a[1].i, a[2].i);
  case TS_OP_permutation:
    s->d = TS_DT_i64;
    return counts_to(n, ts_meta_numel(&n->out[0].meta) - 1);
  default: return false;
  }
}

/* ---- permutation: the order of n keys, equal ones as they stand */
static void put_order(TsSteps *x, const TsSched *sched, const TsNode *n, int keys) {
  TsMeta m = n->out[0].meta;
  TsGraph *g = ts_graph_new("permutation", x->err);
  TsSched *s = NULL;
  TsSchedKernel k = {.tile = NULL};
  TsAttr attr[TS_MAX_ATTR];
  TsVal key = NULL, y = NULL;
  TsStepsView from = {.dtype = TS_DT_i64, .stride = {1}}, to = ts_steps_out_view(x, 0);
  int nout = 0;
  m.dtype = TS_DT_i64;
  ts_op_defaults(TS_OP_argsort, attr);
  if (g) g->apart = true, key = ts_graph_param(g, &m, NULL, NULL);
  bool made = key && ts_graph_emit(g, TS_OP_argsort, 1, &key, attr, &y, &nout) &&
              !ts_graph_results(g, 1, &y) && (s = ts_steps_schedule(sched, g, x->err)) &&
              !ts_lower_group(s, s->group[0], NULL, NULL, &k, x->err);
  if (made && ts_steps_takes(&k)) {
    bool straight = n->out[0].meta.dtype == TS_DT_i64;
    from.arg = straight ? ts_steps_out(x, 0, NULL) : ts_steps_temp(x, ts_meta_nbytes(&m));
    ts_steps_add_kernel(x, k.tile, (int[]){keys, from.arg}, k.dim);
    if (!straight) ts_steps_copy(x, 1, m.dim, &to, &from);
  } else {
    ts_tile_free(k.tile);
    x->failed = true;
  }
  ts_sched_free(s);
  if (g) ts_graph_free(g);
}

int ts_lower_draw(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *y = &n->out[0].meta;
  Draw s = {.op = (TsOp)n->op, .d = (TsDtype)y->dtype};
  int64_t dim[3] = {ts_meta_numel(y), 0, 0};
  if (!dim[0] || !set(&s, n)) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int list[2], count = 0;
  if (s.op == TS_OP_dropout) list[count++] = ts_steps_in(&x, 0, NULL);
  bool keys = s.op == TS_OP_permutation;
  list[count++] = keys ? ts_steps_temp(&x, 8 * dim[0]) : ts_steps_out(&x, 0, NULL);
  ts_steps_add(&x, build(&s), list, dim);
  int seed = ts_steps_draw(&x);
  ts_steps_bind(&x, 1, seed), ts_steps_bind(&x, 2, seed + 1);
  if (keys) put_order(&x, sched, n, list[0]);
  return ts_steps_end(&x, out);
}
