/* Rows of the interpreter of Tile IR that make a tile from tiles. */
#include <string.h>

#include "ir/tile/pairs.h"
#include "ir/tile/square.h"
#include "ir/tile/run/state.h"

/* A constant is the same in every round. */
static void repeat(TsTileRunPlace *y, int64_t size, const void *one) {
  for (int64_t i = 0; i < y->n && !y->filled; i++) memcpy(y->at + i * size, one, (size_t)size);
  y->filled = true;
}

int ts_tile_do_const(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  TsTileRunPlace *y = ts_tile_run_place(r, v);
  char one[8];
  if (!y) return -1;
  if (ts_dtype_is(v->type.dtype, TS_KIND_C | TS_KIND_X))
    return ts_tile_run_fail(r, s, TS_ERR_dtype, "not of %s", ts_dtype_name(v->type.dtype));
  ts_tile_run_number(v->type.dtype, one, ts_tile_attr(s, "value")->f);
  repeat(y, ts_tile_run_size(v), one);
  return 0;
}

/* The machine is little endian: the low bytes come first. */
int ts_tile_do_bits(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *y = ts_tile_run_place(r, s->out[0]);
  int64_t bits[3] = {ts_tile_attr(s, "value")->i}; /* as long as any element */
  if (!y) return -1;
  repeat(y, ts_tile_run_size(s->out[0]), bits);
  return 0;
}

int ts_tile_do_dim(TsTileRun *r, const TsTileStmt *s) {
  int64_t *y = ts_tile_run_tile(r, s->out[0]), i = ts_tile_attr(s, "index")->i;
  if (!y) return -1;
  if (i < 0 || i >= r->k->ndim)
    return ts_tile_run_fail(r, s, TS_ERR_index, "no size %d", (int)i);
  *y = r->dim[i];
  return 0;
}

int ts_tile_do_iota(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  TsTileRunPlace *y = ts_tile_run_place(r, v);
  int64_t axis = ts_tile_attr(s, "axis")->i, size = ts_tile_run_size(v), inner = 1;
  if (!y) return -1;
  for (int i = (int)axis + 1; i < v->type.rank; i++) inner *= y->dim[i];
  for (int64_t i = 0; i < y->n; i++) {
    int64_t at = i / inner % y->dim[axis];
    ts_tile_run_cast(v->type.dtype, y->at + i * size, TS_DT_i64, &at, 1);
  }
  return 0;
}

/* Word w of block c, key and stream of 64 bits; written apart from ir/tile/pass/random.c. */
static uint32_t philox(uint64_t seed, uint64_t stream, uint64_t c, int w) {
  uint32_t x[4] = {(uint32_t)c, (uint32_t)(c >> 32), (uint32_t)stream,
                   (uint32_t)(stream >> 32)};
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    uint64_t p = (uint64_t)x[0] * 0xD2511F53, q = (uint64_t)x[2] * 0xCD9E8D57;
    uint32_t y[4] = {(uint32_t)(q >> 32) ^ x[1] ^ k0, (uint32_t)q,
                     (uint32_t)(p >> 32) ^ x[3] ^ k1, (uint32_t)p};
    memcpy(x, y, sizeof x);
  }
  return x[w];
}

int ts_tile_do_random(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *y = ts_tile_run_place(r, s->out[0]);
  uint64_t in[3];
  if (!y) return -1;
  for (int i = 0; i < 3; i++) in[i] = (uint64_t)ts_tile_run_scalar(r, s->in[i]);
  for (int64_t e = 0; e < y->n; e++) {
    uint64_t i = in[2] + (uint64_t)e;
    uint32_t bits = philox(in[0], in[1], 16 * (i / 64) + i % 16, (int)(i / 16 % 4));
    memcpy(y->at + 4 * e, &bits, sizeof bits);
  }
  return 0;
}

/* ---- moves: an element of the result is one of the operand, base and strides away */
static char *pick(char *to, const char *from, int rank, const int64_t *dim,
                  const int64_t *stride, int64_t size) {
  if (rank == 0) return memcpy(to, from, (size_t)size), to + size;
  if (rank == 1) {
    ts_tile_run_line(to, 1, from, stride[0], dim[0], size);
    return to + dim[0] * size;
  }
  for (int64_t i = 0; i < dim[0]; i++)
    to = pick(to, from + i * stride[0] * size, rank - 1, dim + 1, stride + 1, size);
  return to;
}

static int picked(TsTileRun *r, const TsTileStmt *s, int64_t base, const int64_t *stride) {
  TsTileRunPlace *y = ts_tile_run_place(r, s->out[0]), *x = ts_tile_run_place(r, s->in[0]);
  int64_t size = ts_tile_run_size(s->out[0]);
  if (!y || !x) return -1;
  if (y->n) pick(y->at, x->at + base * size, s->out[0]->type.rank, y->dim, stride, size);
  return 0;
}

int ts_tile_do_broadcast(TsTileRun *r, const TsTileStmt *s) {
  const TsAttr *axes = ts_tile_attr(s, "axes");
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]);
  int64_t stride[TS_TILE_RANK] = {0};
  if (!x) return -1;
  if (axes->n != s->in[0]->type.rank)
    return ts_tile_run_fail(r, s, TS_ERR_shape, "%d axes for a tile of rank %d", axes->n,
                            s->in[0]->type.rank);
  for (int i = 0; i < axes->n; i++) stride[axes->ints[i]] = x->dim[i] == 1 ? 0 : x->stride[i];
  return picked(r, s, 0, stride);
}

int ts_tile_do_transpose(TsTileRun *r, const TsTileStmt *s) {
  const TsAttr *perm = ts_tile_attr(s, "perm");
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]);
  int64_t stride[TS_TILE_RANK] = {0};
  for (int i = 0; x && i < perm->n; i++) stride[i] = x->stride[perm->ints[i]];
  return x ? picked(r, s, 0, stride) : -1;
}

int ts_tile_do_part(TsTileRun *r, const TsTileStmt *s) {
  const TsAttr *start = ts_tile_attr(s, "start");
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]), *y = ts_tile_run_place(r, s->out[0]);
  int64_t base = 0;
  if (!x || !y) return -1;
  for (int i = 0; i < start->n; i++) {
    if (start->ints[i] < 0 || start->ints[i] + y->dim[i] > x->dim[i])
      return ts_tile_run_fail(r, s, TS_ERR_index, "axis %d: no %lld elements from %lld on", i,
                              (long long)y->dim[i], (long long)start->ints[i]);
    base += start->ints[i] * x->stride[i];
  }
  return picked(r, s, base, x->stride);
}

static int same_elements(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]), *y = ts_tile_run_place(r, s->out[0]);
  int64_t xsize = ts_tile_run_size(s->in[0]), ysize = ts_tile_run_size(s->out[0]);
  if (!x || !y) return -1;
  if (x->n * xsize != y->n * ysize)
    return ts_tile_run_fail(r, s, TS_ERR_shape, "%lld bytes become %lld",
                            (long long)(x->n * xsize), (long long)(y->n * ysize));
  memcpy(y->at, x->at, (size_t)(x->n * xsize));
  return 0;
}

int ts_tile_do_reshape(TsTileRun *r, const TsTileStmt *s) { return same_elements(r, s); }
int ts_tile_do_bitcast(TsTileRun *r, const TsTileStmt *s) { return same_elements(r, s); }

int ts_tile_do_join(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  TsTileRunPlace *y = ts_tile_run_place(r, v);
  int64_t axis = ts_tile_attr(s, "axis")->i, size = ts_tile_run_size(v), outer = 1, row, at = 0;
  if (!y) return -1;
  for (int i = 0; i < axis; i++) outer *= y->dim[i];
  row = outer ? y->n / outer * size : 0;
  for (int i = 0; i < s->nin; i++) {
    TsTileRunPlace *x = ts_tile_run_place(r, s->in[i]);
    if (!x) return -1;
    int64_t part = outer ? x->n / outer * size : 0;
    if (at + part > row)
      return ts_tile_run_fail(r, s, TS_ERR_shape, "more than its result holds");
    for (int64_t o = 0; o < outer; o++)
      memcpy(y->at + o * row + at, x->at + o * part, (size_t)part);
    at += part;
  }
  return 0;
}

int ts_tile_do_cast(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]), *y = ts_tile_run_place(r, s->out[0]);
  TsDtype from = s->in[0]->type.dtype, to = s->out[0]->type.dtype;
  if (!x || !y) return -1;
  if (!ts_tile_run_cast(to, y->at, from, x->at, y->n)) return 0;
  return ts_tile_run_fail(r, s, TS_ERR_dtype, "from %s to %s", ts_dtype_name(from),
                          ts_dtype_name(to));
}

int ts_tile_do_rare(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[1]), *z = ts_tile_run_place(r, s->in[2]);
  TsTileRunPlace *y = ts_tile_run_place(r, s->out[0]);
  const bool *holds = ts_tile_run_tile(r, s->in[0]);
  int64_t size = ts_tile_run_size(s->out[0]);
  if (!x || !y || !z || !holds) return -1;
  for (int64_t i = 0; i < y->n; i++)
    memcpy((char *)y->at + i * size, (const char *)(holds[i] ? z : x)->at + i * size,
           (size_t)size);
  return 0;
}

/* ---- integer arithmetic */
static int binary(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal x = s->in[0], y = s->in[1], o = s->out[0];
  TsTileOpFn *fn = ts_tile_run_op(s->op, (TsDtype)x->type.dtype);
  const void *in[2] = {ts_tile_run_tile(r, x), ts_tile_run_tile(r, y)};
  void *out = ts_tile_run_tile(r, o);
  if (!in[0] || !in[1] || !out) return -1;
  if (!fn)
    return ts_tile_run_fail(r, s, TS_ERR_dtype, "not for %s", ts_dtype_name(x->type.dtype));
  fn(r->place[o->id].n, out, in);
  return 0;
}

static int shift(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *n = ts_tile_run_place(r, s->in[1]);
  int64_t width = 8 * ts_tile_run_size(s->in[0]);
  for (int64_t i = 0; n && i < n->n && !(i && n->filled); i++) { /* a constant: once */
    int64_t count = ts_tile_run_int(s->in[1]->type.dtype, n->at, i);
    if (count < 0 || count >= width)
      return ts_tile_run_fail(r, s, TS_ERR_value, "by %lld, outside of [0, %lld)",
                              (long long)count, (long long)width);
  }
  return n ? binary(r, s) : -1;
}

int ts_tile_do_shl(TsTileRun *r, const TsTileStmt *s) { return shift(r, s); }
int ts_tile_do_shr(TsTileRun *r, const TsTileStmt *s) { return shift(r, s); }
int ts_tile_do_sar(TsTileRun *r, const TsTileStmt *s) { return shift(r, s); }
int ts_tile_do_mulhi(TsTileRun *r, const TsTileStmt *s) { return binary(r, s); }
int ts_tile_do_scale(TsTileRun *r, const TsTileStmt *s) { return binary(r, s); }
int ts_tile_do_look(TsTileRun *r, const TsTileStmt *s) {
  const TsAttr *table = ts_tile_attr(s, "table");
  const int32_t *i = ts_tile_run_tile(r, s->in[0]);
  float *y = ts_tile_run_tile(r, s->out[0]);
  if (!i || !y) return -1;
  for (int64_t k = 0; k < r->place[s->out[0]->id].n; k++)
    y[k] = (float)table->floats[i[k] & 31];
  return 0;
}
int ts_tile_do_ult(TsTileRun *r, const TsTileStmt *s) { return binary(r, s); }
int ts_tile_do_decay(TsTileRun *r, const TsTileStmt *s) {
  return ts_tile_run_fail(r, s, TS_ERR_value, "is expanded before it runs");
}

/* ---- over axes */
static int reduce(TsTileRun *r, const TsTileStmt *s) {
  TsTileVal v = s->in[0];
  TsTileRunPlace *x = ts_tile_run_place(r, v), *y = ts_tile_run_place(r, s->out[0]);
  TsDtype d = v->type.dtype, to = s->out[0]->type.dtype;
  int64_t axis = ts_tile_attr(s, "axis")->i, size = ts_tile_run_size(v);
  if (!x || !y) return -1;
  if (axis < 0 || axis >= v->type.rank)
    return ts_tile_run_fail(r, s, TS_ERR_index, "no axis %lld", (long long)axis);
  int64_t n = x->dim[axis], inner = x->stride[axis];
  char *line = ts_tile_run_work(r, s, n * (8 + size));
  if (!line) return -1;
  for (int64_t o = 0; o < y->n; o++) {
    const char *from = x->at + (o / inner * n * inner + o % inner) * size;
    pick(line + n * 8, from, 1, &n, &inner, size);
    if (ts_tile_run_reduce(s->op, to, y->at + o * ts_tile_run_size(s->out[0]), d, line + n * 8,
                           n, line))
      return ts_tile_run_fail(r, s, TS_ERR_dtype, "not of %s", ts_dtype_name(d));
  }
  return 0;
}

int ts_tile_do_sum(TsTileRun *r, const TsTileStmt *s) { return reduce(r, s); }
int ts_tile_do_pairs(TsTileRun *r, const TsTileStmt *s) { return reduce(r, s); }
int ts_tile_do_prod(TsTileRun *r, const TsTileStmt *s) { return reduce(r, s); }
int ts_tile_do_max(TsTileRun *r, const TsTileStmt *s) { return reduce(r, s); }
int ts_tile_do_min(TsTileRun *r, const TsTileStmt *s) { return reduce(r, s); }
int ts_tile_do_argmax(TsTileRun *r, const TsTileStmt *s) { return reduce(r, s); }
int ts_tile_do_argmin(TsTileRun *r, const TsTileStmt *s) { return reduce(r, s); }

/* ---- contractions: operands are widened, which is exact, to the type of the accumulator */
bool ts_tile_run_by_unit(const TsTileStmt *s) {
  const TsAttr *unit = s->op == TS_TILE_mma ? ts_tile_attr(s, "unit") : NULL;
  return unit && unit->type == TS_ATTR_str && unit->str && *unit->str &&
         strcmp(unit->str, "fma") != 0 && !ts_tile_square_of(s);
}

/* Whether its sums are the unit's own. */
static bool is_of_unit(const TsTileRun *r, const TsTileStmt *s) {
  int d = s->in[0]->type.dtype;
  return r->as.unit && (d == TS_DT_bf16 || d == TS_DT_f16) && ts_tile_run_by_unit(s);
}

static int product(TsTileRun *r, const TsTileStmt *s, int64_t k) {
  TsTileRunPlace *a = ts_tile_run_place(r, s->in[0]), *b = ts_tile_run_place(r, s->in[1]);
  TsTileRunPlace *acc = ts_tile_run_place(r, s->in[2]), *y = ts_tile_run_place(r, s->out[0]);
  TsDtype d = s->out[0]->type.dtype;
  int64_t size = ts_tile_run_size(s->out[0]);
  if (!a || !b || !acc || !y) return -1;
  int64_t m = y->dim[0], n = y->dim[1];
  if (a->n != m * k || b->n != k * n || acc->n != m * n)
    return ts_tile_run_fail(r, s, TS_ERR_shape,
                            "sizes differ: %lld, %lld, %lld for %lld x %lld", (long long)a->n,
                            (long long)b->n, (long long)acc->n, (long long)m, (long long)n);
  memcpy(y->at, acc->at, (size_t)(y->n * size));
  TsTilePairs pairs = ts_tile_pairs_of(s);
  if (pairs) {
    bool words = s->in[0]->type.dtype == TS_DT_i32;
    ts_tile_run_pairs(pairs, m, n, words ? 2 * k : k, (const uint16_t *)(const void *)a->at,
                      (const uint16_t *)(const void *)b->at, words, (float *)(void *)y->at);
    return 0;
  }
  if (is_of_unit(r, s))
    return ts_tile_run_unit(s->in[0]->type.dtype, m, n, k, a->at, b->at, (float *)(void *)y->at,
                            r->as.spread)
               ? ts_tile_run_fail(r, s, TS_ERR_memory, "out of memory, or interrupted")
               : 0;
  char *wide = ts_tile_run_work(r, s, (a->n + b->n) * size);
  if (!wide) return -1;
  if (ts_tile_run_cast(d, wide, s->in[0]->type.dtype, a->at, a->n) ||
      ts_tile_run_cast(d, wide + a->n * size, s->in[1]->type.dtype, b->at, b->n))
    return ts_tile_run_fail(r, s, TS_ERR_dtype, "not of %s", ts_dtype_name(d));
  TsSquare unit = ts_tile_square_of(s);
  if ((unit == TS_SQUARE_wmma || unit == TS_SQUARE_dpas) && d == TS_DT_f32) {
    (unit == TS_SQUARE_wmma ? ts_tile_run_wmma : ts_tile_run_dpas)(
        m, n, k, (const float *)(const void *)wide,
        (const float *)(const void *)(wide + a->n * size), (float *)(void *)y->at);
    return 0;
  }
  if (ts_tile_run_mma(d, m, n, k, wide, wide + a->n * size, y->at))
    return ts_tile_run_fail(r, s, TS_ERR_dtype, "not of %s", ts_dtype_name(d));
  return 0;
}

int ts_tile_do_mma(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *a = ts_tile_run_place(r, s->in[0]);
  return a ? product(r, s, a->dim[1]) : -1;
}

int ts_tile_do_outer(TsTileRun *r, const TsTileStmt *s) { return product(r, s, 1); }

int ts_tile_do_dot2(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *a = ts_tile_run_place(r, s->in[0]), *b = ts_tile_run_place(r, s->in[1]);
  TsTileRunPlace *acc = ts_tile_run_place(r, s->in[2]), *y = ts_tile_run_place(r, s->out[0]);
  if (!a || !b || !acc || !y) return -1;
  if (a->n != y->n || b->n != y->n || acc->n != y->n)
    return ts_tile_run_fail(r, s, TS_ERR_shape, "sizes differ");
  memcpy(y->at, acc->at, (size_t)(y->n * (int64_t)sizeof(float)));
  for (int64_t i = 0; i < y->n; i++)
    ts_tile_run_pairs(
        TS_PAIRS_avx512_bf16, 1, 1, 2, (const uint16_t *)(const void *)a->at + 2 * i,
        (const uint16_t *)(const void *)b->at + 2 * i, true, (float *)(void *)y->at + i);
  return 0;
}
