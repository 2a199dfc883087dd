/* Optimiser steps on a device: one kernel for each kind of step and types, over all elements of
 * a parameter. What changes from step to step is among the kernel's sizes, as bits of an f64.
 * What each computes stands in vm/exec/optim.c; the lines here are those of
 * vm/kernels/optim.inc. */
#include "vm/drive/optim.h"

#include <stdlib.h>
#include <string.h>

#include "jit/eager/state.h"
#include "jit/launch/profile.h"
#include "vm/core/vm.h"

enum { PIECE = 1024 };

/* Sizes of the kernel behind N. */
typedef enum Constant { LR = 1, DECAY, BETA1, REST1, BETA2, EPS, CORRECTION } Constant;

typedef struct Make {
  const TsOptimStep *s;
  TsTileBuild b;
  TsDtype d; /* in which it computes */
  TsTileVal p, g, m, v;
} Make;

static TsTileVal bits(Make *k, Constant which) {
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsAttr a = {.type = TS_ATTR_int, .i = which};
  return ts_tile_bitcast(&k->b, ts_tile_emit1(&k->b, TS_TILE_dim, 0, NULL, &a, &index),
                         TS_DT_f64);
}

static TsTileVal spread(Make *k, TsTileVal x) {
  TsTileType t = ts_tile_vector(k->d, PIECE);
  return ts_tile_broadcast(&k->b, ts_tile_cast(&k->b, x, k->d), &t, NULL);
}

static TsTileVal constant(Make *k, Constant which) { return spread(k, bits(k, which)); }

static TsTileVal literal(Make *k, double value) {
  TsTileType t = ts_tile_scalar(k->d);
  return spread(k, ts_tile_const(&k->b, value, &t));
}

/* 1 - a constant, in f64. */
static TsTileVal rest(Make *k, Constant of) {
  TsTileType t = ts_tile_scalar(TS_DT_f64);
  return spread(k, ts_tile_op2(&k->b, TS_OP_sub, ts_tile_const(&k->b, 1, &t), bits(k, of)));
}

static TsTileVal mul(Make *k, TsTileVal x, TsTileVal y) {
  return ts_tile_op2(&k->b, TS_OP_mul, x, y);
}

static TsTileVal fma3(Make *k, TsTileVal x, TsTileVal y, TsTileVal z) {
  return ts_tile_op3(&k->b, TS_OP_fma, x, y, z);
}

static TsTileVal fnma(Make *k, TsTileVal x, TsTileVal y, TsTileVal z) {
  return fma3(k, ts_tile_op1(&k->b, TS_OP_neg, x), y, z);
}

static TsTileVal weight_decay(Make *k, TsTileVal g, TsTileVal p) {
  return k->s->decay != 0 ? fma3(k, constant(k, DECAY), p, g) : g;
}

static void sgd(Make *k, bool moments) {
  TsTileVal g = weight_decay(k, k->g, k->p), d = g;
  if (moments) {
    TsTileVal beta = constant(k, BETA1);
    k->m = k->s->first ? g : fma3(k, beta, k->m, mul(k, constant(k, REST1), g));
    d = k->s->nesterov ? fma3(k, beta, k->m, g) : k->m;
  }
  k->p = fnma(k, constant(k, LR), d, k->p);
}

static void adam(Make *k) {
  TsTileVal p = k->s->decoupled ? mul(k, k->p, constant(k, DECAY)) : k->p;
  TsTileVal g = k->s->decoupled ? k->g : weight_decay(k, k->g, p);
  k->m = fma3(k, constant(k, BETA1), k->m, mul(k, rest(k, BETA1), g));
  k->v = fma3(k, constant(k, BETA2), k->v, mul(k, rest(k, BETA2), mul(k, g, g)));
  TsTileVal root =
      fma3(k, ts_tile_op1(&k->b, TS_OP_sqrt, k->v), constant(k, CORRECTION), constant(k, EPS));
  k->p = fnma(k, constant(k, LR), ts_tile_op2(&k->b, TS_OP_div, k->m, root), p);
}

static void lion(Make *k) {
  TsTileVal u = fma3(k, constant(k, BETA1), k->m, mul(k, rest(k, BETA1), k->g));
  TsTileVal zero = literal(k, 0), one = literal(k, 1), less = literal(k, -1);
  TsTileVal below = ts_tile_op2(&k->b, TS_OP_lt, u, zero);
  TsTileVal above = ts_tile_op2(&k->b, TS_OP_lt, zero, u);
  TsTileVal sign = ts_tile_op3(&k->b, TS_OP_where, above, one,
                               ts_tile_op3(&k->b, TS_OP_where, below, less, u));
  k->m = fma3(k, constant(k, BETA2), k->m, mul(k, rest(k, BETA2), k->g));
  k->p = fnma(k, constant(k, LR), fma3(k, constant(k, DECAY), k->p, sign), k->p);
}

/* ---- the kernel */
typedef struct Operands {
  int nin, nout;
  TsTensor *in[4], *out[3];
} Operands;

static TsTileVal parameter(Make *k, TsTile *t, const TsTensor *x, bool written) {
  int64_t n = ts_tile_size(t, "N");
  TsTileType type = ts_tile_type(ts_tensor_dtype(x), 1, &n);
  (void)k;
  return ts_tile_param(t, NULL, &type, written);
}

static TsTile *build(TsOp op, const Operands *o, const TsOptimStep *s) {
  static const char *const name[] = {"N",     "lr",    "decay", "beta1",
                                     "rest1", "beta2", "eps",   "correction"};
  TsTile *t = ts_tile_new(ts_op_info(op)->name);
  if (!t) return NULL;
  Make k = {.s = s, .d = (TsDtype)ts_dtypes[ts_tensor_dtype(o->out[0])].accum};
  TsTileVal in[4], out[3], x[4] = {NULL};
  for (int i = 0; i < 8; i++) ts_tile_size(t, name[i]);
  for (int i = 0; i < o->nin; i++) in[i] = parameter(&k, t, o->in[i], false);
  for (int i = 0; i < o->nout; i++) out[i] = parameter(&k, t, o->out[i], true);
  k.b = ts_tile_build(t);
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsAttr first = {.type = TS_ATTR_int, .i = 0};
  TsTileVal n = ts_tile_emit1(&k.b, TS_TILE_dim, 0, NULL, &first, &index);
  TsTileLoop loop = ts_tile_for(&k.b, ts_tile_index(&k.b, 0), n, PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  for (int i = 0; i < o->nin; i++) {
    TsTileType tile = ts_tile_vector(ts_tensor_dtype(o->in[i]), PIECE);
    x[i] = ts_tile_cast(&k.b, ts_tile_load(&k.b, in[i], &loop.i, &tile, &edge), k.d);
  }
  k.p = x[0], k.g = x[1], k.m = x[2], k.v = x[3];
  if (op == TS_OP_sgd_step)
    sgd(&k, o->nout > 1);
  else if (op == TS_OP_adam_step)
    adam(&k);
  else
    lion(&k);
  TsTileVal result[3] = {k.p, k.m, k.v};
  for (int i = 0; i < o->nout; i++) {
    TsTileVal y = ts_tile_cast(&k.b, result[i], ts_tensor_dtype(o->out[i]));
    ts_tile_store(&k.b, out[i], &loop.i, y, &edge);
  }
  ts_tile_for_end(&k.b, &loop, NULL, NULL);
  if (!t->failed) return t;
  ts_tile_free(t);
  return NULL;
}

/* ---- calls */
/* Row-major tensors of one shape, and none over another element of another. */
static bool collect(const TsCall *call, const TsOptimStep *s, Operands *o) {
  int most = call->op == TS_OP_adam_step ? 4 : 3;
  const TsTensor *p = call->out[0];
  *o = (Operands){.nout = call->nout};
  for (int i = 0; i < most && i < call->nin; i++) {
    bool unread = call->op == TS_OP_sgd_step && i == 2 && (s->first || call->nout < 2);
    if (!call->in[i] || unread) continue;
    o->in[o->nin++] = call->in[i];
  }
  for (int i = 0; i < call->nout; i++) o->out[i] = call->out[i];
  for (int i = 0; i < o->nin; i++) {
    const TsTensor *x = o->in[i];
    if (!x->contiguous || !ts_meta_same_shape(&x->meta, &p->meta)) return false;
    for (int k = 0; k < o->nout; k++)
      if (x->storage == o->out[k]->storage &&
          (x->offset != o->out[k]->offset || x->meta.dtype != o->out[k]->meta.dtype))
        return false;
  }
  for (int k = 0; k < o->nout; k++)
    if (!o->out[k]->contiguous || !ts_meta_same_shape(&o->out[k]->meta, &p->meta)) return false;
  return true;
}

/* All that the kernel depends on. */
static uint64_t key_of(const TsCall *call, const Operands *o, const TsOptimStep *s,
                       int device) {
  uint64_t k = (uint64_t)call->op | (uint64_t)device << 10;
  for (int i = 0; i < o->nin; i++) k = k << 5 | o->in[i]->meta.dtype;
  for (int i = 0; i < o->nout; i++) k = k << 5 | o->out[i]->meta.dtype;
  unsigned flags = (unsigned)s->decoupled | (unsigned)s->nesterov << 1 |
                   (unsigned)s->first << 2 | (unsigned)(s->decay != 0) << 3 |
                   (unsigned)o->nin << 4 | (unsigned)o->nout << 7;
  return k << 11 | flags << 1 | 1;
}

static OptimPlan *plan_of(TsOffloader *o, TsCall *call, const Operands *t, const TsOptimStep *s,
                          int device) {
  uint64_t key = key_of(call, t, s, device);
  TsError err = {0};
  for (int i = 0; i < OFFLOAD_OPTIM; i++)
    if (o->optim[i].key == key) return &o->optim[i];
  OptimPlan *p = &o->optim[o->noptim++ % OFFLOAD_OPTIM];
  TsTile *k = build(call->op, t, s);
  *p = (OptimPlan){.key = key};
  if (k) p->kernel = ts_offload_kernel(o, ts_device_at(device), k, &err);
  if (!p->kernel) ts_offload_refused(o, call->op, device, err.message);
  ts_tile_free(k);
  return p;
}

static int64_t bits_of(double v) {
  int64_t w;
  memcpy(&w, &v, 8);
  return w;
}

static double bytes_of(const Operands *t) {
  double bytes = 0;
  for (int i = 0; i < t->nin; i++) bytes += (double)ts_meta_nbytes(&t->in[i]->meta);
  for (int i = 0; i < t->nout; i++) bytes += (double)ts_meta_nbytes(&t->out[i]->meta);
  return bytes;
}

int ts_offload_optim_ready(TsOffloader *o, TsCall *call, int device, TsOffloadLaunch *l) {
  TsOptimStep s;
  Operands t;
  *l = (TsOffloadLaunch){.kernel = NULL};
  if (ts_optim_constants(call, &s)) return -1;
  if (!collect(call, &s, &t)) return 0;
  OptimPlan *p = plan_of(o, call, &t, &s, device);
  if (!p->kernel) return 0;
  for (int i = 0; i < t.nin; i++)
    if (!(l->arg[i] = ts_tensor_read_on(t.in[i], device))) return -1;
  for (int i = 0; i < t.nout; i++) {
    bool whole = ts_meta_nbytes(&t.out[i]->meta) == t.out[i]->storage->nbytes;
    if (!(l->arg[t.nin + i] = ts_tensor_write_on(t.out[i], device, whole))) return -1;
  }
  int64_t dim[] = {
      ts_tensor_numel(t.out[0]), bits_of(s.lr),    bits_of(s.decay), bits_of(s.beta1),
      bits_of(s.rest1),          bits_of(s.beta2), bits_of(s.eps),   bits_of(s.correction)};
  memcpy(l->dim, dim, sizeof dim);
  l->kernel = p->kernel, l->nparam = t.nin + t.nout, l->ndim = 8;
  l->nbytes = bytes_of(&t);
  l->nread = t.nin;
  for (int i = 0; i < t.nin; i++) l->size[i] = ts_meta_nbytes(&t.in[i]->meta);
  for (int i = 0; i < t.nout; i++) l->size[t.nin + i] = ts_meta_nbytes(&t.out[i]->meta);
  o->stats.calls++;
  return 1;
}

int ts_offload_optim(TsOffloader *o, TsCall *call, int device) {
  TsOffloadLaunch l;
  int done = ts_offload_optim_ready(o, call, device, &l);
  if (done != 1) return done;
  for (int i = 0; i < l.nparam; i++)
    ts_offload_touch_bytes(call->ctx, l.arg[i], l.size[i], i >= l.nread);
  if (ts_profile_on()) ts_profile_label(ts_op_info(call->op)->name, l.nbytes, 0);
  return ts_offload_launch(call->ctx, l.kernel, l.nparam, l.arg, l.ndim, l.dim) ? -1 : 1;
}
