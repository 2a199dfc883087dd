/* Random rows in kernels. An element's bits depend on seed, stream and its own index in the
 * whole tensor, so a draw is one more element-wise operation, in whatever order elements are
 * made; the definitions are those of vm/exec/random.c and vm/kernels/random_float.inc. Seed and
 * stream are known when the kernel runs, and stand among its symbolic sizes. */
#include "ir/sched/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/narrow.h"

enum { GROUP = 64 }; /* elements whose bits are made together */

/* Bits of 32 make f32 and what is rounded from it. */
static bool narrow(TsDtype d) { return d == TS_DT_f32 || d == TS_DT_f16 || d == TS_DT_bf16; }

static const TsAttr *seed_of(const TsNode *n) {
  return n->attr + ts_op_info((TsOp)n->op)->nattr - 2;
}

/* A call that takes the next stream is counted by the VM. */
static bool placed(const TsNode *n) {
  const TsAttr *at = seed_of(n);
  return at[0].type != TS_ATTR_none || at[1].type != TS_ATTR_none;
}

static bool probability(double p) { return p >= 0 && p <= 1; }

bool ts_sched_draws(const TsNode *n) {
  TsDtype d = (TsDtype)(n->nout ? n->out[0].meta.dtype : TS_DT_COUNT);
  switch (n->op) {
  case TS_OP_dropout: return placed(n) && narrow(d) && probability(n->attr[0].f);
  case TS_OP_bernoulli: return placed(n) && probability(n->attr[1].f);
  case TS_OP_uniform:
    return placed(n) && narrow(d) && n->attr[1].f <= n->attr[2].f &&
           isfinite((double)((float)n->attr[2].f - (float)n->attr[1].f));
  default: return false;
  }
}

/* ---- seed and stream as symbolic sizes */
static bool same_place(const TsAttr *a, const TsAttr *b) {
  for (int i = 0; i < 2; i++)
    if (a[i].type != b[i].type || (a[i].type != TS_ATTR_none && a[i].i != b[i].i)) return false;
  return true;
}

static const TsSchedDraw *draw_of(TsLower *l, const TsNode *n) {
  const TsAttr *at = seed_of(n);
  for (int i = 0; i < l->ndraw; i++)
    if (same_place(l->draw[i].at, at)) return &l->draw[i];
  if (l->ndraw == TS_SCHED_DRAWS) return NULL;
  char seed[16], stream[16];
  snprintf(seed, sizeof seed, "seed%d", l->ndraw);
  snprintf(stream, sizeof stream, "stream%d", l->ndraw);
  TsSchedDraw *d = &l->draw[l->ndraw++];
  memcpy(d->at, at, sizeof d->at);
  d->dim = ts_tile_dim_index(ts_tile_size(l->k, seed));
  ts_tile_size(l->k, stream);
  return d;
}

static TsTileVal number_of(TsLower *l, int dim) {
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  TsAttr index = {.type = TS_ATTR_int, .i = dim};
  return ts_tile_emit1(&l->b, TS_TILE_dim, 0, NULL, &index, &t);
}

/* ---- bits */
/* The index of the round's first element in n's result. */
static TsTileVal first_of(TsLower *l, bool full) {
  int64_t step[TS_TILE_RANK];
  TsTileVal at = NULL;
  ts_space_own(&l->space, full, step);
  for (int i = 0; i < l->space.naxis; i++) {
    if (!step[i] || l->space.axis[i] == 1) continue;
    TsTileVal x = l->at[i];
    if (step[i] > 1) x = ts_tile_op2(&l->b, TS_OP_mul, x, ts_tile_index(&l->b, step[i]));
    at = at ? ts_tile_op2(&l->b, TS_OP_add, at, x) : x;
  }
  return at ? at : ts_tile_index(&l->b, 0);
}

/* Whether rounds begin at multiples of 64, as whole groups of bits do. */
static bool even(const TsLower *l) {
  int64_t step[TS_TILE_RANK];
  int last = l->space.naxis - 1;
  ts_space_own(&l->space, true, step);
  for (int i = 0; i < last; i++)
    if (step[i] % GROUP) return false;
  return last == 0 || l->n == l->space.axis[last] || l->n % GROUP == 0;
}

/* Rows that begin anywhere, on a CPU: the groups around the row, through memory of the thread,
 * from where the row is read as it lies. Single elements, each with a block of its own, would
 * cost four times as much. */
static TsTileVal shifted_row(TsLower *l, TsTileVal *in, const TsTileType *t) {
  TsTileBuild *b = &l->b;
  TsTileType all = ts_tile_vector(TS_DT_i32, (l->n + 2 * GROUP - 2) / GROUP * GROUP);
  TsTileVal first = in[2], zero = ts_tile_index(b, 0);
  in[2] = ts_tile_op2(b, TS_OP_bitwise_and, first, ts_tile_index(b, -GROUP));
  TsTileVal own = ts_tile_alloc(b, TS_SPACE_local, &all);
  TsTileVal bits = ts_tile_emit1(b, TS_TILE_random, 3, in, NULL, &all);
  ts_tile_store(b, own, &zero, bits, NULL);
  TsTileVal off = ts_tile_op2(b, TS_OP_sub, first, in[2]);
  return ts_tile_load(b, own, &off, t, NULL);
}

static TsTileVal bits_of(TsLower *l, const TsNode *n) {
  const TsSchedDraw *d = draw_of(l, n);
  if (!d) return NULL;
  bool full = ts_access_full(l, &n->out[0].meta) && ts_meta_numel(&n->out[0].meta) > 1;
  bool cpu = !ts_target_gpu(l->s->target);
  TsTileVal in[3] = {number_of(l, d->dim), number_of(l, d->dim + 1), first_of(l, full)};
  TsTileType t = ts_nodes_type(l, TS_DT_i32, full);
  if (full && cpu && !even(l)) return shifted_row(l, in, &t);
  return ts_tile_emit1(&l->b, TS_TILE_random, 3, in, NULL, &t);
}

/* ---- numbers */
static TsTileVal shifted(TsLower *l, TsTileVal bits, int n) {
  if (!bits) return NULL;
  return ts_tile_op2(&l->b, TS_TILE_shr, bits, ts_tile_bits(&l->b, (uint64_t)n, &bits->type));
}

static TsTileVal constant(TsLower *l, double v, const TsTileType *like) {
  TsTileType t = *like;
  t.dtype = TS_DT_f32;
  return ts_tile_const(&l->b, (double)(float)v, &t);
}

/* u in [0, 1), exact */
static TsTileVal unit(TsLower *l, TsTileVal bits) {
  TsTileVal x = ts_tile_cast(&l->b, shifted(l, bits, 8), TS_DT_f32);
  return x ? ts_tile_op2(&l->b, TS_OP_mul, x, constant(l, 0x1p-24, &x->type)) : NULL;
}

static TsTileVal below(TsLower *l, TsTileVal bits, double p) {
  TsTileVal u = unit(l, bits);
  double limit = ceil(p * 0x1p24) * 0x1p-24;
  return u ? ts_tile_op2(&l->b, TS_OP_lt, u, constant(l, limit, &u->type)) : NULL;
}

static TsTileVal dropout(TsLower *l, const TsNode *n, TsTileVal bits) {
  double p = n->attr[0].f;
  TsTileVal x = ts_nodes_operand(l, n, n->in[0], TS_DT_f32), gone = below(l, bits, p);
  if (!x || !gone) return NULL;
  if (!(x = ts_nodes_spread(l, x, gone->type.rank))) return NULL;
  TsTileVal kept = ts_tile_op2(&l->b, TS_OP_mul, x, constant(l, 1 / (1 - p), &x->type));
  return ts_tile_op3(&l->b, TS_OP_where, gone, constant(l, 0, &x->type), kept);
}

static TsTileVal uniform(TsLower *l, const TsNode *n, TsTileVal bits) {
  double low = n->attr[1].f, high = n->attr[2].f;
  float width = (float)high - (float)low;
  double top = low < high ? ts_narrow_below((TsDtype)n->out[0].meta.dtype, high) : high;
  TsTileVal u = unit(l, bits);
  if (!u) return NULL;
  TsTileType t = u->type;
  u = ts_tile_op2(&l->b, TS_OP_mul, constant(l, (double)width, &t), u);
  u = ts_tile_op2(&l->b, TS_OP_add, constant(l, low, &t), u);
  TsTileVal most = constant(l, top, &t);
  return ts_tile_op3(&l->b, TS_OP_where, ts_tile_op2(&l->b, TS_OP_lt, u, most), u, most);
}

TsTileVal ts_sched_draw(TsLower *l, const TsNode *n) {
  TsTileVal bits = bits_of(l, n);
  if (!bits) {
    ts_lower_refuse(l, "more draws than a kernel takes");
    return NULL;
  }
  switch (n->op) {
  case TS_OP_dropout: return dropout(l, n, bits);
  case TS_OP_uniform: return uniform(l, n, bits);
  default: return below(l, bits, n->attr[1].f);
  }
}
