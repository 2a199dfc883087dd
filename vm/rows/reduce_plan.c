/* Planning and staging of reductions: see reduce_plan.h. */
#include "vm/rows/reduce_plan.h"

#include <string.h>

/* Appends an axis, merging it into the one before where the two are one line. */
static int push_axis(int64_t *dim, int64_t *stride, int n, int64_t d, int64_t s) {
  if (d == 1) return n;
  if (n > 0 && stride[n - 1] == d * s) {
    dim[n - 1] *= d;
    stride[n - 1] = s;
    return n;
  }
  dim[n] = d, stride[n] = s;
  return n + 1;
}

static int copy_axes(int64_t *dim, int64_t *stride, int n, const int64_t *d, const int64_t *s,
                     int64_t scale, int64_t *total) {
  int m = 0;
  *total = 1;
  for (int i = 0; i < n; i++) {
    *total *= d[i];
    m = push_axis(dim, stride, m, d[i], s[i] * scale);
  }
  return m;
}

static int kernel_op(TsReduceOp op) {
  switch (op) {
  case TS_REDUCE_prod: return TS_RED_PROD;
  case TS_REDUCE_min:
  case TS_REDUCE_all: return TS_RED_MIN;
  case TS_REDUCE_max:
  case TS_REDUCE_any: return TS_RED_MAX;
  case TS_REDUCE_argmin: return 1;
  case TS_REDUCE_argmax: return 0;
  default: return TS_RED_SUM;
  }
}

static bool is_test(TsReduceOp op) {
  return op == TS_REDUCE_any || op == TS_REDUCE_all || op == TS_REDUCE_count_nonzero;
}

static void plan_types(TsReducePlan *p, const TsReduce *r, const TsReduceTables *t) {
  TsDtype d = r->dtype, accum = is_test(r->op) ? TS_DT_i64 : (TsDtype)ts_dtypes[d].accum;
  bool wide = d == TS_DT_f64 || d == TS_DT_complex128;
  p->dtype = d;
  p->esize = ts_dtypes[d].nbytes;
  p->kind = TS_KIND_tree;
  p->acc = accum == TS_DT_i64 ? TS_RED_I64 : wide ? TS_RED_F64 : TS_RED_F32;
  p->osize = p->acc == TS_RED_F32 ? 4 : 8;
  p->load = NULL;
  if (is_test(r->op))
    p->load = t->reduce->nonzero[d];
  else if (d != accum)
    p->load = t->convert->convert[d][accum];
  if (r->op == TS_REDUCE_argmin || r->op == TS_REDUCE_argmax) {
    p->kind = TS_KIND_arg;
    p->osize = 8;
  } else if (r->op == TS_REDUCE_prod && ts_dtype_is(d, TS_KIND_C)) {
    p->kind = TS_KIND_cprod;
    p->osize = p->esize;
  }
}

static TsReducePath choose_path(const TsReducePlan *p) {
  bool adjacent = p->ninner == 0 || p->istride[p->ninner - 1] == 1;
  bool beside = p->nouter > 0 && p->ostride[p->nouter - 1] == 1;
  if (p->kind == TS_KIND_cprod) return TS_PATH_staged;
  if (p->kind == TS_KIND_test) return TS_PATH_rows;
  if (adjacent && p->ninner <= 1) return p->load ? TS_PATH_staged : TS_PATH_rows;
  if (!beside || (adjacent && p->idim[p->ninner - 1] >= 32)) return TS_PATH_staged;
  return TS_PATH_cols;
}

void ts_reduce_plan(TsReducePlan *p, const TsReduce *r, const TsReduceTables *t) {
  plan_types(p, r, t);
  p->op = kernel_op(r->op);
  p->map = (int)r->map;
  p->k = t->reduce;
  p->x = r->x, p->c = r->c, p->out = r->out, p->p = r->p;
  /* A sum of complex numbers is two sums side by side. */
  bool pairs = ts_dtype_is(r->dtype, TS_KIND_C) && p->kind == TS_KIND_tree && !p->load;
  p->nouter = copy_axes(p->odim, p->ostride, r->nouter, r->outer_dim, r->outer_stride,
                        1 + pairs, &p->outer);
  p->ninner = copy_axes(p->idim, p->istride, r->ninner, r->inner_dim, r->inner_stride,
                        1 + pairs, &p->n);
  if (pairs) {
    p->nouter = push_axis(p->odim, p->ostride, p->nouter, 2, 1);
    p->outer *= 2;
    p->esize /= 2;
  }
  p->leaves = (p->n + TS_RED_LEAF - 1) / TS_RED_LEAF;
  if (is_test(r->op) && (p->ninner == 0 || (p->ninner == 1 && p->istride[0] == 1)))
    p->kind = TS_KIND_test;
  p->path = choose_path(p);
}

int64_t ts_reduce_plan_offset(const TsReducePlan *p, int64_t o) {
  int64_t at = 0;
  for (int d = p->nouter - 1; d > 0; d--) {
    at += o % p->odim[d] * p->ostride[d];
    o /= p->odim[d];
  }
  return p->nouter > 0 ? at + o * p->ostride[0] : at;
}

/* The position of reduced element `start`: its index along each axis and its offset. */
static int64_t seek(const TsReducePlan *p, int64_t start, int64_t *index) {
  int64_t at = 0;
  for (int d = p->ninner - 1; d >= 0; d--) {
    index[d] = start % p->idim[d];
    start /= p->idim[d];
    at += index[d] * p->istride[d];
  }
  return at;
}

/* Moves k elements on, at most to the end of the innermost axis. */
static int64_t advance(const TsReducePlan *p, int64_t *index, int64_t at, int64_t k) {
  int d = p->ninner - 1;
  index[d] += k;
  at += k * p->istride[d];
  for (; d > 0 && index[d] == p->idim[d]; d--) {
    at += p->istride[d - 1] - index[d] * p->istride[d];
    index[d] = 0;
    index[d - 1]++;
  }
  return at;
}

void ts_reduce_plan_inner(const TsReducePlan *p, int64_t start, int64_t count, int64_t *at) {
  int64_t index[TS_REDUCE_DIMS], o = seek(p, start, index);
  for (int64_t i = 0; i < count; i++) {
    at[i] = o;
    if (p->ninner > 0) o = advance(p, index, o, 1);
  }
}

#define GATHER(bytes, type)                                                                    \
  case bytes: {                                                                                \
    const type *s = (const type *)src;                                                         \
    type *d = dst;                                                                             \
    for (int64_t i = 0; i < n; i++) d[i] = s[i * stride];                                      \
    break;                                                                                     \
  }

static void gather(void *dst, const void *src, int64_t n, int64_t stride, int esize) {
  typedef struct Pair {
    uint64_t half[2];
  } Pair;
  switch (esize) {
    GATHER(1, uint8_t)
    GATHER(2, uint16_t)
    GATHER(4, uint32_t)
    GATHER(8, uint64_t)
    GATHER(16, Pair)
  }
}

static void stage_run(const TsReducePlan *p, const char *src, int64_t n, int64_t stride,
                      char *dst) {
  char raw[TS_RED_LEAF * 16] __attribute__((aligned(64)));
  if (stride == 1 && p->load) {
    p->load(n, dst, src);
  } else if (stride == 1) {
    memcpy(dst, src, (size_t)(n * p->esize));
  } else if (!p->load) {
    gather(dst, src, n, stride, p->esize);
  } else {
    gather(raw, src, n, stride, p->esize);
    p->load(n, dst, raw);
  }
}

void ts_reduce_plan_stage(const TsReducePlan *p, const char *base, int64_t start, int64_t count,
                          void *dst) {
  if (p->ninner == 0) {
    stage_run(p, base, 1, 1, dst);
    return;
  }
  int last = p->ninner - 1, size = p->load ? (p->acc == TS_RED_F32 ? 4 : 8) : p->esize;
  int64_t index[TS_REDUCE_DIMS], at = seek(p, start, index);
  for (int64_t i = 0; i < count;) {
    int64_t k = p->idim[last] - index[last];
    if (k > count - i) k = count - i;
    stage_run(p, base + at * p->esize, k, p->istride[last], (char *)dst + i * size);
    at = advance(p, index, at, k);
    i += k;
  }
}
