/* Optimiser steps on a device: one kernel for each kind of step and types, over all elements
 * of a parameter. What changes from step to step is among the kernel's sizes, as bits of an
 * f64. What each computes stands in vm/exec/optim.c; the lines here are those of
 * vm/kernels/optim.inc. */
#include "ir/lower/optim.h"

#include "ir/lower/row.h"
#include "ir/lower/steps.h"

enum { PIECE = 1024 };

/* Sizes of the kernel behind N. */
typedef enum Constant { LR = 1, DECAY, BETA1, REST1, BETA2, EPS, CORRECTION } Constant;

typedef struct Make {
  const TsLowerOptim *s;
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
  return k->s->decays ? fma3(k, constant(k, DECAY), p, g) : g;
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
static TsTileVal parameter(TsTile *t, TsDtype d, bool written) {
  int64_t n = ts_tile_size(t, "N");
  TsTileType type = ts_tile_type(d, 1, &n);
  return ts_tile_param(t, NULL, &type, written);
}

TsTile *ts_lower_optim_tile(const TsLowerOptim *s) {
  static const char *const name[] = {"N",     "lr",    "decay", "beta1",
                                     "rest1", "beta2", "eps",   "correction"};
  TsTile *t = ts_tile_new(ts_op_info(s->op)->name);
  if (!t) return NULL;
  Make k = {.s = s, .d = (TsDtype)ts_dtypes[s->out[0]].accum};
  TsTileVal in[4], out[3], x[4] = {NULL};
  for (int i = 0; i < 8; i++) ts_tile_size(t, name[i]);
  for (int i = 0; i < s->nin; i++) in[i] = parameter(t, s->in[i], false);
  for (int i = 0; i < s->nout; i++) out[i] = parameter(t, s->out[i], true);
  k.b = ts_tile_build(t);
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsAttr first = {.type = TS_ATTR_int, .i = 0};
  TsTileVal n = ts_tile_emit1(&k.b, TS_TILE_dim, 0, NULL, &first, &index);
  TsTileLoop loop = ts_tile_for(&k.b, ts_tile_index(&k.b, 0), n, PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  for (int i = 0; i < s->nin; i++) {
    TsTileType tile = ts_tile_vector(s->in[i], PIECE);
    x[i] = ts_tile_cast(&k.b, ts_tile_load(&k.b, in[i], &loop.i, &tile, &edge), k.d);
  }
  k.p = x[0], k.g = x[1], k.m = x[2], k.v = x[3];
  if (s->op == TS_OP_sgd_step)
    sgd(&k, s->nout > 1);
  else if (s->op == TS_OP_adam_step)
    adam(&k);
  else
    lion(&k);
  TsTileVal result[3] = {k.p, k.m, k.v};
  for (int i = 0; i < s->nout; i++) {
    TsTileVal y = ts_tile_cast(&k.b, result[i], s->out[i]);
    ts_tile_store(&k.b, out[i], &loop.i, y, &edge);
  }
  ts_tile_for_end(&k.b, &loop, NULL, NULL);
  return t;
}

void ts_lower_optim_flags(TsLowerOptim *o, const TsAttr *attr) {
  bool sgd = o->op == TS_OP_sgd_step, adam = o->op == TS_OP_adam_step;
  o->decays = attr[adam ? 5 : 3].f != 0;
  o->nesterov = sgd && attr[4].i, o->first = sgd && attr[5].i;
  o->decoupled = adam && attr[6].i;
}

/* ---- nodes, for whoever looks at their kernels: steps of many parameters are launched together
 * (jit/eager/optim.c), with constants that are known then */
static bool set(TsLowerOptim *s, const TsNode *n, int *which) {
  int most = n->op == TS_OP_adam_step ? 4 : 3;
  *s = (TsLowerOptim){.op = (TsOp)n->op, .nout = n->nout};
  ts_lower_optim_flags(s, n->attr);
  s->first |= n->op == TS_OP_sgd_step && !(n->nin > 2 && n->in[2]);
  for (int i = 0; i < most && i < n->nin; i++) {
    bool unread = n->op == TS_OP_sgd_step && i == 2 && (s->first || n->nout < 2);
    if (!n->in[i] || unread) continue;
    if (!ts_meta_same_shape(&n->in[i]->meta, &n->out[0].meta)) return false;
    which[s->nin] = i, s->in[s->nin++] = (TsDtype)n->in[i]->meta.dtype;
  }
  for (int i = 0; i < n->nout; i++) s->out[i] = (TsDtype)n->out[i].meta.dtype;
  return ts_meta_numel(&n->out[0].meta) > 0;
}

int ts_lower_optim(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  TsLowerOptim s;
  int which[4], list[7], count = 0;
  if (!set(&s, n, which)) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  for (int i = 0; i < s.nin; i++) list[count++] = ts_steps_in(&x, which[i], NULL);
  for (int i = 0; i < s.nout; i++) list[count++] = ts_steps_out(&x, i, NULL);
  int64_t dim[8] = {ts_meta_numel(&n->out[0].meta)};
  ts_steps_add(&x, ts_lower_optim_tile(&s), list, dim);
  return ts_steps_end(&x, out);
}
