/* Shape rule of optimiser steps: new values have the shapes of old ones, and state
 * keeps a dtype of its own, so that a bf16 parameter may have f32 moments. */
#include "lib/infer.h"

static int not_like(TsInfer *inf, int i) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s %s does not fit p %s",
                      ts_op_info(inf->op)->name, ts_op_info(inf->op)->input[i],
                      ts_meta_text(inf->in[i], a), ts_meta_text(inf->in[0], b));
}

static void copy_of(TsInfer *inf, int out, int in) {
  inf->out[out] = *inf->in[in];
  inf->out[out].weak = 0;
  inf->out[out].device = inf->in[0]->device;
  if (inf->nout <= out) inf->nout = out + 1;
}

/* r holds row means and c column means of matrices; a vector has only r, in full. */
static int factored(TsInfer *inf) {
  const TsMeta *p = inf->in[0], *r = inf->in[2], *c = inf->nin > 3 ? inf->in[3] : NULL;
  TsMeta want = *p;
  if (!c) {
    if (!ts_meta_same_shape(p, r)) return not_like(inf, 2);
    copy_of(inf, 1, 2);
    return 0;
  }
  if (p->ndim < 2) return not_like(inf, 3);
  want.ndim--;
  if (!ts_meta_same_shape(&want, r)) return not_like(inf, 2);
  want.dim[want.ndim - 1] = p->dim[p->ndim - 1];
  if (!ts_meta_same_shape(&want, c)) return not_like(inf, 3);
  copy_of(inf, 1, 2);
  copy_of(inf, 2, 3);
  return 0;
}

static int wrong_clock(TsInfer *inf, int i) {
  char a[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape,
                      "%s: clock must be f64[2] of rate and step, not %s",
                      ts_op_info(inf->op)->name, ts_meta_text(inf->in[i], a));
}

/* sgd without momentum has no state: one output. */
int ts_shape_rule_optim(TsInfer *inf) {
  int clock = ts_op_info(inf->op)->nin - 1, states = inf->nin <= clock ? inf->nin : clock;
  const TsMeta *k = inf->nin > clock ? inf->in[clock] : NULL;
  if (k && (k->ndim != 1 || k->dim[0] != 2 || k->dtype != TS_DT_f64))
    return wrong_clock(inf, clock);
  if (!ts_meta_same_shape(inf->in[0], inf->in[1])) return not_like(inf, 1);
  copy_of(inf, 0, 0);
  inf->nout = 1;
  if (inf->op == TS_OP_adafactor_step) return factored(inf);
  for (int i = 2; i < states; i++) {
    if (!inf->in[i]) continue;
    if (!ts_meta_same_shape(inf->in[0], inf->in[i])) return not_like(inf, i);
    copy_of(inf, i - 1, i);
  }
  if (inf->op == TS_OP_sgd_step && inf->nout == 1 && inf->attr[1].f != 0) copy_of(inf, 1, 0);
  return 0;
}
