/* uniform, normal, bernoulli, dropout, randint on a device: an element's bits follow from seed, stream
 * and its index (row `random` of ir/tile/tile.def), and its number from them as
 * vm/kernels/random_float.inc says. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

#include <math.h>

typedef TsTileVal V;

enum { PIECE = 1024, GROUP = 32, HALF = 16, PARTS = PIECE / GROUP };

typedef struct Draw {
  TsOp op;
  TsDtype d;
  double a, b;        /* low and high; mean and deviation; probability */
  int64_t low, range; /* of whole numbers */
} Draw;

typedef struct Make {
  const Draw *s;
  TsTileBuild b;
  V x, y;
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }

static V f32(Make *m, V like, double v) {
  return like ? ts_short_number(&m->b, &like->type, TS_DT_f32, (double)(float)v) : NULL;
}

static V shifted(Make *m, int op, V x, int n) {
  if (!x) return NULL;
  V in[2] = {x, ts_tile_bits(&m->b, (uint64_t)n, &x->type)};
  return ts_tile_cast(&m->b, ts_tile_emit1(&m->b, op, 2, in, NULL, &x->type), TS_DT_f32);
}

static V times(Make *m, V x, double v) { return op2(m, TS_OP_mul, x, f32(m, x, v)); }

/* ---- numbers */
static V unit(Make *m, V bits) { return times(m, shifted(m, TS_TILE_shr, bits, 8), 0x1p-24); }

static V below(Make *m, V bits, double p) {
  V u = unit(m, bits);
  return op2(m, TS_OP_lt, u, f32(m, u, ceil(p * 0x1p24) * 0x1p-24));
}

static V uniform(Make *m, V bits) {
  double low = m->s->a, high = m->s->b;
  float width = (float)high - (float)low, top = (float)high;
  if (low < high && (double)top >= high) top = nextafterf(top, -INFINITY);
  V u = times(m, unit(m, bits), (double)width);
  u = op2(m, TS_OP_add, f32(m, u, low), u);
  V most = f32(m, u, (double)top);
  return ts_tile_op3(&m->b, TS_OP_where, op2(m, TS_OP_lt, u, most), u, most);
}

static V dropout(Make *m, V bits, V first) {
  TsTileType t = ts_tile_vector(m->s->d, PIECE);
  TsTileAccess edge = {.edge = true};
  V x = ts_tile_cast(&m->b, ts_tile_load(&m->b, m->x, &first, &t, &edge), TS_DT_f32);
  V kept = times(m, x, 1 / (1 - m->s->a));
  return ts_tile_op3(&m->b, TS_OP_where, below(m, bits, m->s->a), f32(m, kept, 0), kept);
}

/* A group of 32 and its two halves, [PARTS, HALF] each. */
static void halves(Make *m, V bits, V at[2]) {
  static const int64_t sides[2] = {0, 2};
  TsTileBuild *b = &m->b;
  int64_t dim[3] = {PARTS, 2, HALF}, half[2] = {PARTS, HALF};
  TsTileType all = ts_tile_vector(TS_DT_i32, PIECE), t = ts_tile_type(TS_DT_i32, 2, half);
  TsTileAccess side = {.naxis = 2, .axes = sides};
  V zero = ts_tile_index(b, 0), shared = ts_tile_alloc(b, TS_SPACE_shared, &all);
  ts_tile_store(b, shared, &zero, bits, NULL);
  V view = ts_short_view(b, shared, 3, dim);
  for (int i = 0; i < 2; i++)
    at[i] = ts_tile_load(b, view, (V[]){zero, ts_tile_index(b, i), zero}, &t, &side);
}

/* Places from the first on of [PARTS, HALF] numbers, whose rows are so far apart. */
static V places(Make *m, V first, int64_t apart) {
  int64_t half[2] = {PARTS, HALF};
  TsTileBuild *b = &m->b;
  TsTileType t = ts_tile_type(TS_DT_i64, 2, half);
  V e = op2(m, TS_OP_add, ts_short_by(b, TS_OP_mul, ts_short_iota(b, &t, 0), apart),
            ts_short_iota(b, &t, 1));
  return op2(m, TS_OP_add, e, ts_short_splat(b, &t, first));
}

static void put(Make *m, V at, V x) {
  V in[3] = {m->y, at, ts_tile_cast(&m->b, x, m->s->d)};
  TsAttr edge = {.type = TS_ATTR_bool, .i = true};
  if (in[1] && in[2]) ts_tile_emit(&m->b, TS_TILE_scatter, 3, in, &edge, 0, NULL);
}

/* Of a group of 32 the first half of the bits are lengths, the others angles. */
static void put_normal(Make *m, V bits, V first) {
  TsTileBuild *b = &m->b;
  V at[2], e = places(m, first, GROUP);
  halves(m, bits, at);
  V above = shifted(m, TS_TILE_shr, at[0], 1);
  above = ts_tile_op3(b, TS_OP_fma, above, f32(m, above, 0x1p-31), f32(m, above, 0x1p-32));
  V angle = times(m, shifted(m, TS_TILE_sar, at[1], 8), 0x1.921fb54442d18p-22);
  V r = ts_tile_op1(b, TS_OP_sqrt, times(m, ts_tile_op1(b, TS_OP_log, above), -2.0));
  for (int i = 0; i < 2; i++) {
    V z = op2(m, TS_OP_mul, r, ts_tile_op1(b, i ? TS_OP_sin : TS_OP_cos, angle));
    z = op2(m, TS_OP_add, f32(m, z, m->s->a), times(m, z, m->s->b));
    put(m, ts_short_by(b, TS_OP_add, e, i * HALF), z);
  }
}

/* The 64 bits of element 16 p + r are the 32 of 32 p + r, low, and of 32 p + 16 + r: of their product
 * with the range the high half, in two steps, since the range has 31 bits. */
static void put_integer(Make *m, V bits, V first) {
  enum { WORD = 32 };
  TsTileBuild *b = &m->b;
  V at[2], part[2];
  halves(m, bits, at);
  for (int i = 0; i < 2; i++) {
    V wide = ts_short_by(b, TS_OP_bitwise_and, ts_tile_cast(b, at[i], TS_DT_i64), UINT32_MAX);
    part[i] = ts_short_by(b, TS_OP_mul, wide, m->s->range);
  }
  V low = ts_short_by(b, TS_OP_floordiv, part[0], (int64_t)1 << WORD);
  V y = ts_short_by(b, TS_OP_floordiv, op2(m, TS_OP_add, part[1], low), (int64_t)1 << WORD);
  put(m, places(m, first, HALF), ts_short_by(b, TS_OP_add, y, m->s->low));
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
  int words = s->op == TS_OP_randint ? 2 : 1; /* of 32 bits an element */
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 0), PIECE / words, true, 0, NULL);
  TsAttr aligned = {.type = TS_ATTR_bool}; /* blocks side by side would be for all threads */
  V from = words > 1 ? op2(&m, TS_OP_mul, l.i, ts_tile_index(b, words)) : l.i;
  V in[3] = {ts_short_dim(b, 1), ts_short_dim(b, 2), from}, y = NULL;
  V bits = ts_tile_emit1(b, TS_TILE_random, 3, in, &aligned, &bits_type);
  TsTileAccess edge = {.edge = true};
  switch (s->op) {
  case TS_OP_uniform: y = uniform(&m, bits); break;
  case TS_OP_bernoulli: y = below(&m, bits, s->a); break;
  case TS_OP_dropout: y = dropout(&m, bits, l.i); break;
  case TS_OP_randint: put_integer(&m, bits, l.i); break;
  default: put_normal(&m, bits, l.i); break;
  }
  if (y) ts_tile_store(b, m.y, &l.i, ts_tile_cast(b, y, s->d), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- nodes */
static bool is_narrow(TsDtype d) { return d == TS_DT_f32 || d == TS_DT_f16 || d == TS_DT_bf16; }

static bool whole(Draw *s, int64_t low, int64_t high) {
  int64_t least, most;
  if (!ts_dtype_is(s->d, TS_KIND_U | TS_KIND_I) || ts_dtype_in_blocks(s->d)) return false;
  ts_dtype_int_range(s->d, &least, &most);
  if (low >= high || low < least || high - 1 > most) return false;
  if ((uint64_t)high - (uint64_t)low > INT32_MAX) return false;
  s->low = low, s->range = high - low;
  return true;
}

/* What is wrong with the numbers, the VM says. */
static bool set(Draw *s, const TsNode *n) {
  const TsAttr *a = n->attr;
  switch (s->op) {
  case TS_OP_uniform:
    s->a = a[1].f, s->b = a[2].f;
    return s->d == TS_DT_f32 && s->a <= s->b && isfinite((double)((float)s->b - (float)s->a));
  case TS_OP_normal:
    s->a = a[1].f, s->b = a[2].f;
    return is_narrow(s->d) && s->b >= 0 && isfinite(s->b) && isfinite(s->a);
  case TS_OP_bernoulli:
    s->a = a[1].f;
    return s->a >= 0 && s->a <= 1 && !ts_dtype_in_blocks(s->d) && !ts_dtype_is(s->d, TS_KIND_C);
  case TS_OP_dropout:
    s->a = a[0].f;
    return is_narrow(s->d) && s->a >= 0 && s->a < 1 && n->in[0]->meta.dtype == s->d;
  case TS_OP_randint: return whole(s, a[1].i, a[2].i);
  default: return false;
  }
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
  list[count++] = ts_steps_out(&x, 0, NULL);
  ts_steps_add(&x, build(&s), list, dim);
  int seed = ts_steps_draw(&x);
  ts_steps_bind(&x, 1, seed), ts_steps_bind(&x, 2, seed + 1);
  return ts_steps_end(&x, out);
}
