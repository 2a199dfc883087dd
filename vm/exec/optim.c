/* Optimiser steps. In f64 if p is f64, else in f32, and every result is rounded once to
 * its tensor's type; constants are made in f64 and rounded to the working type. With
 * fma(a, b, c) rounded once, and all else as it stands:
 *
 *   sgd   g' = fma(wd, p, g), or g if wd is 0
 *         without momentum: p = fma(-lr, g', p)
 *         m = g' at the first step, else fma(momentum, m, (1 - dampening) * g')
 *         p = fma(-lr, d, p), d = m, or with nesterov fma(momentum, m, g')
 *   adam  (arXiv 1412.6980, algorithm 1) g' = fma(wd, p, g), or g if wd is 0
 *         AdamW (arXiv 1711.05101, algorithm 2): g' = g, p = p * (1 - lr wd)
 *         m = fma(b1, m, (1 - b1) * g'); v = fma(b2, v, (1 - b2) * (g' * g'))
 *         p = fma(-(lr / (1 - b1^t)), m / fma(sqrt(v), 1 / sqrt(1 - b2^t), eps), p)
 *   lion  (arXiv 2302.06675, algorithm 2) u = fma(b1, m, (1 - b1) * g)
 *         p = fma(-lr, fma(wd, p, sign(u)), p); m = fma(b2, m, (1 - b2) * g)
 *   adafactor (arXiv 1804.04235, algorithms 4 and 5, without momentum and relative
 *         steps: lr and beta2 are given) on tensors, operator by operator:
 *         u = g * g + eps1
 *         matrices: r = b2 r + (1 - b2) mean of u's rows, c the same of columns,
 *         d = g * rsqrt(r / mean(r)) * rsqrt(c); vectors: r = b2 r + (1 - b2) u,
 *         d = g * rsqrt(r); d = d / max(1, sqrt(mean(d * d)) / clip)
 *         p = p - lr d - lr wd p
 *
 * b^t is made by squaring, so that it does not depend on a C library. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/drive/optim.h"
#include "vm/core/scratch.h"

enum { BLOCK = 1024, GRAIN = 1 << 14, MOST = 4 };

typedef struct Job {
  const TsKernels *k;
  TsOptimFn *fn;
  TsOptimStep step;
  int nin, nout, wide;  /* wide: bytes of the working type */
  const char *in[MOST]; /* NULL where absent */
  char *out[MOST];
  int isize[MOST], osize[MOST];
  TsConvertFn *load[MOST], *store[MOST]; /* NULL: already of the working type */
  TsTensor *held[MOST];                  /* row-major inputs */
  int64_t first;                         /* of a group: elements of the jobs before */
} Job;

static void block(const Job *j, int64_t at, int64_t n) {
  double value[MOST][BLOCK], result[MOST][BLOCK];
  const void *in[MOST] = {NULL};
  void *out[MOST] = {NULL};
  for (int i = 0; i < j->nin; i++) {
    if (!j->in[i]) continue;
    in[i] = j->in[i] + at * j->isize[i];
    if (j->load[i]) j->load[i](n, value[i], in[i]), in[i] = value[i];
  }
  for (int i = 0; i < j->nout; i++)
    out[i] = j->store[i] ? (void *)result[i] : j->out[i] + at * j->osize[i];
  j->fn(n, out, in, &j->step);
  for (int i = 0; i < j->nout; i++)
    if (j->store[i]) j->store[i](n, j->out[i] + at * j->osize[i], result[i]);
}

static void blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  bool staged = false;
  (void)worker;
  for (int i = 0; i < MOST; i++) staged |= j->load[i] || j->store[i];
  if (!staged) {
    block(j, lo, hi - lo);
    return;
  }
  for (; lo < hi; lo += BLOCK) block(j, lo, hi - lo < BLOCK ? hi - lo : BLOCK);
}

static double power(double base, int64_t n) {
  double r = 1;
  for (; n > 0; n >>= 1, base *= base)
    if (n & 1) r *= base;
  return r;
}

/* Learning rate and step: those of the clock, if there is one. */
typedef struct Clock {
  double lr;
  int64_t step;
} Clock;

static Clock clock_of(const TsCall *call, double lr, int64_t step) {
  int at = ts_op_info(call->op)->nin - 1;
  TsTensor *t = call->nin > at ? call->in[at] : NULL;
  return t ? (Clock){ts_tensor_get(t, 0), (int64_t)ts_tensor_get(t, 1)} : (Clock){lr, step};
}

/* Addresses and types of a call's tensors. */
static int open_job(TsCall *call, Job *j) {
  TsContext *c = call->ctx;
  TsDtype wide = (TsDtype)ts_dtypes[ts_tensor_dtype(call->out[0])].accum;
  int states = ts_op_info(call->op)->nin - 1;
  j->k = c->k, j->nin = call->nin < states ? call->nin : states, j->nout = call->nout;
  j->wide = ts_dtypes[wide].nbytes;
  for (int i = 0; i < j->nin; i++) {
    if (!call->in[i]) continue;
    if (!(j->held[i] = ts_tensor_contiguous(c, call->in[i]))) return -1;
    if (!(j->in[i] = ts_tensor_read(j->held[i]))) return -1;
    TsDtype d = ts_tensor_dtype(j->held[i]);
    j->isize[i] = ts_dtypes[d].nbytes;
    j->load[i] = d == wide ? NULL : c->k->convert.convert[d][wide];
  }
  for (int i = 0; i < call->nout; i++) {
    TsDtype d = ts_tensor_dtype(call->out[i]);
    if (!(j->out[i] = ts_tensor_write(call->out[i]))) return -1;
    j->osize[i] = ts_dtypes[d].nbytes;
    j->store[i] = d == wide ? NULL : c->k->convert.convert[wide][d];
  }
  return 0;
}

static void close_job(Job *j) {
  for (int i = 0; i < MOST; i++) ts_tensor_unref(j->held[i]);
}

static int run(TsCall *call, Job *j) {
  int failed = open_job(call, j);
  if (!failed) ts_cpu_parallel(ts_tensor_numel(call->out[0]), GRAIN, blocks, j);
  close_job(j);
  return failed;
}

static int wide_index(const TsCall *call) { return ts_tensor_dtype(call->out[0]) == TS_DT_f64; }

static int set_sgd(TsCall *call, Job *j) {
  const TsAttr *a = call->attr;
  j->fn = call->ctx->k->optim.sgd[wide_index(call)];
  bool have = call->nin > 2 && call->in[2];
  Clock now = clock_of(call, a[0].f, a[5].i ? 1 : 2);
  j->step = (TsOptimStep){.lr = now.lr,
                          .beta1 = a[1].f,
                          .rest1 = 1 - a[2].f,
                          .decay = a[3].f,
                          .nesterov = (int)a[4].i,
                          .first = now.step == 1 || !have};
  return 0;
}

int ts_exec_sgd_step(TsCall *call) {
  Job j = {0};
  return set_sgd(call, &j) ? -1 : run(call, &j);
}

static int set_adam(TsCall *call, Job *j) {
  const TsAttr *a = call->attr;
  j->fn = call->ctx->k->optim.adam[wide_index(call)];
  Clock now = clock_of(call, a[0].f, a[1].i);
  double lr = now.lr, b1 = a[2].f, b2 = a[3].f, decay = a[5].f;
  int64_t t = now.step;
  if (t < 1)
    return ts_error_set(&call->ctx->err, TS_ERR_value, "adam_step: step %lld; the first is 1",
                        (long long)t);
  j->step = (TsOptimStep){.lr = lr / (1 - power(b1, t)),
                          .beta1 = b1,
                          .rest1 = 1 - b1,
                          .beta2 = b2,
                          .rest2 = 1 - b2,
                          .eps = a[4].f,
                          .correction = 1 / sqrt(1 - power(b2, t)),
                          .decay = decay,
                          .decoupled = (int)a[6].i};
  if (j->step.decoupled) j->step.decay = 1 - lr * decay;
  return 0;
}

int ts_exec_adam_step(TsCall *call) {
  Job j = {0};
  return set_adam(call, &j) ? -1 : run(call, &j);
}

static int set_lion(TsCall *call, Job *j) {
  const TsAttr *a = call->attr;
  j->fn = call->ctx->k->optim.lion[wide_index(call)];
  j->step = (TsOptimStep){.lr = clock_of(call, a[0].f, 1).lr,
                          .beta1 = a[1].f,
                          .rest1 = 1 - a[1].f,
                          .beta2 = a[2].f,
                          .rest2 = 1 - a[2].f,
                          .decay = a[3].f};
  return 0;
}

int ts_exec_lion_step(TsCall *call) {
  Job j = {0};
  return set_lion(call, &j) ? -1 : run(call, &j);
}

/* ---- adafactor: a chain of operators; a failure makes all that follows NULL */
typedef struct Chain {
  TsContext *c;
  TsTensor *made[48]; /* released at the end */
  int n;
  TsDtype d;
} Chain;

static TsTensor *keep(Chain *k, TsTensor *t) {
  if (t) k->made[k->n++] = t;
  return t;
}

static TsTensor *op1(Chain *k, TsOp op, TsTensor *x, const TsAttr *attr) {
  return x ? keep(k, ts_vm_call1(k->c, op, 1, &x, attr)) : NULL;
}

static TsTensor *op2(Chain *k, TsOp op, TsTensor *x, TsTensor *y) {
  TsTensor *in[2] = {x, y};
  return x && y ? keep(k, ts_vm_call1(k->c, op, 2, in, NULL)) : NULL;
}

static TsTensor *number(Chain *k, double v) { return keep(k, ts_tensor_number(k->c, v)); }

/* Mean over one axis, or over all for axis 0 of none. */
static TsTensor *mean(Chain *k, TsTensor *x, const int64_t *axis, bool keepdims) {
  TsAttr a[TS_MAX_ATTR];
  ts_op_defaults(TS_OP_mean, a);
  if (axis) a[0] = ts_attr_ints(axis, 1);
  a[1] = ts_attr_bool(keepdims);
  return op1(k, TS_OP_mean, x, a);
}

static TsTensor *unsqueeze(Chain *k, TsTensor *x, int64_t axis) {
  TsAttr a[TS_MAX_ATTR];
  ts_op_defaults(TS_OP_unsqueeze, a);
  a[0] = ts_attr_int(axis);
  return op1(k, TS_OP_unsqueeze, x, a);
}

/* beta x + (1 - beta) y */
static TsTensor *average(Chain *k, TsTensor *x, TsTensor *y, double beta) {
  TsTensor *a = op2(k, TS_OP_mul, x, number(k, beta)),
           *b = op2(k, TS_OP_mul, y, number(k, 1 - beta));
  return op2(k, TS_OP_add, a, b);
}

static TsTensor *factored_step(Chain *k, TsTensor *g, TsTensor *u, TsTensor **r, TsTensor **c,
                               double beta) {
  int64_t last = -1, before = -2;
  *r = average(k, *r, mean(k, u, &last, false), beta);
  *c = average(k, *c, mean(k, u, &before, false), beta);
  TsTensor *rows = op2(k, TS_OP_div, *r, mean(k, *r, &last, true));
  TsTensor *by_row = unsqueeze(k, op1(k, TS_OP_rsqrt, rows, NULL), -1);
  TsTensor *by_column = unsqueeze(k, op1(k, TS_OP_rsqrt, *c, NULL), -2);
  return op2(k, TS_OP_mul, op2(k, TS_OP_mul, g, by_row), by_column);
}

/* d / max(1, rms(d) / clip) */
static TsTensor *clipped(Chain *k, TsTensor *d, double clip) {
  TsTensor *rms = op1(k, TS_OP_sqrt, mean(k, op1(k, TS_OP_square, d, NULL), NULL, false), NULL);
  TsTensor *over = op2(k, TS_OP_div, rms, number(k, clip));
  return op2(k, TS_OP_div, d, op2(k, TS_OP_maximum, over, number(k, 1)));
}

static int give(Chain *k, TsTensor *from, TsTensor *to) {
  return from ? ts_vm_assign(k->c, to, from) : -1;
}

int ts_exec_adafactor_step(TsCall *call) {
  const TsAttr *a = call->attr;
  Clock now = clock_of(call, a[0].f, 0);
  double lr = now.lr, beta = now.step ? 1 - pow((double)now.step, -a[2].f) : a[1].f;
  double eps = a[3].f, clip = a[4].f, decay = a[5].f;
  Chain k = {.c = call->ctx, .d = (TsDtype)ts_dtypes[ts_tensor_dtype(call->out[0])].accum};
  TsTensor *in[4] = {NULL};
  if (ts_tensor_numel(call->out[0]) == 0) { /* nothing is averaged: the state stays */
    for (int i = 1; i < call->nout; i++)
      if (ts_vm_assign(call->ctx, call->out[i], call->in[i + 1])) return -1;
    return 0;
  }
  for (int i = 0; i < call->nin && i < 4; i++)
    if (call->in[i] && !(in[i] = keep(&k, ts_tensor_cast(call->ctx, call->in[i], k.d))))
      goto end;
  TsTensor *p = in[0], *g = in[1], *r = in[2], *c = in[3], *d;
  TsTensor *u = op2(&k, TS_OP_add, op2(&k, TS_OP_mul, g, g), number(&k, eps));
  if (c) {
    d = factored_step(&k, g, u, &r, &c, beta);
  } else {
    r = average(&k, r, u, beta);
    d = op2(&k, TS_OP_mul, g, op1(&k, TS_OP_rsqrt, r, NULL));
  }
  TsTensor *to =
      op2(&k, TS_OP_sub, p, op2(&k, TS_OP_mul, clipped(&k, d, clip), number(&k, lr)));
  if (decay != 0) to = op2(&k, TS_OP_sub, to, op2(&k, TS_OP_mul, p, number(&k, lr * decay)));
  int failed = give(&k, to, call->out[0]) || give(&k, r, call->out[1]) ||
               (c && give(&k, c, call->out[2]));
  while (k.n) ts_tensor_unref(k.made[--k.n]);
  return failed ? -1 : 0;
end:
  while (k.n) ts_tensor_unref(k.made[--k.n]);
  return -1;
}

/* ---- a group: the steps of many parameters as one parallel loop over all their elements */
typedef struct Group {
  Job *job;
  int n;
} Group;

static void group_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Group *g = arg;
  int at = 0, end = g->n;
  while (end - at > 1) { /* the job of element lo */
    int mid = (at + end) / 2;
    if (g->job[mid].first <= lo)
      at = mid;
    else
      end = mid;
  }
  for (; lo < hi; at++) {
    int64_t last = g->job[at + 1].first < hi ? g->job[at + 1].first : hi,
            first = g->job[at].first;
    if (last > lo) blocks(&g->job[at], lo - first, last - first, worker);
    lo = last;
  }
}

static int set_job(TsCall *call, Job *j) {
  switch (call->op) {
  case TS_OP_sgd_step: return set_sgd(call, j);
  case TS_OP_adam_step: return set_adam(call, j);
  case TS_OP_lion_step: return set_lion(call, j);
  default: TS_BUG("%s has no groups", ts_op_info(call->op)->name);
  }
}

int ts_optim_constants(TsCall *call, TsOptimStep *step) {
  Job j = {0};
  int failed = set_job(call, &j);
  *step = j.step;
  return failed;
}

bool ts_optim_groups(TsOp op) {
  return op == TS_OP_sgd_step || op == TS_OP_adam_step || op == TS_OP_lion_step;
}

int ts_optim_group(int n, TsCall *const *call) {
  Group g = {.job = ts_work_take(sizeof(Job) * ((size_t)n + 1)), .n = n};
  int64_t total = 0;
  if (!g.job) return ts_scratch_failed(call[0]);
  memset(g.job, 0, sizeof(Job) * ((size_t)n + 1));
  int failed = 0;
  for (int i = 0; i < n && !failed; i++) {
    g.job[i].first = total;
    failed = set_job(call[i], &g.job[i]) || open_job(call[i], &g.job[i]);
    total += ts_tensor_numel(call[i]->out[0]);
  }
  g.job[n].first = total;
  if (!failed) ts_cpu_parallel(total, GRAIN, group_blocks, &g);
  for (int i = 0; i < n; i++) close_job(&g.job[i]);
  ts_work_give(g.job);
  return failed ? -1 : 0;
}
