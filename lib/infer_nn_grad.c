/* Shape rules of the gradients of layers: gradients have the shapes of what they belong
 * to, and those that come in have the shapes of results. */
#include "lib/infer.h"

static const char *opname(const TsInfer *inf) { return ts_op_info(inf->op)->name; }

/* Output i is shaped like the input m; its dtype is already set. */
static void output(TsInfer *inf, const TsMeta *m) {
  TsMeta *to = &inf->out[inf->nout];
  int dtype = to->dtype;
  *to = *m;
  to->dtype = (uint8_t)dtype, to->weak = 0;
  inf->nout++;
}

static int check_like(TsInfer *inf, int i, const TsMeta *want) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (ts_meta_same_shape(inf->in[i], want)) return 0;
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s %s does not have the shape of %s",
                      opname(inf), ts_op_info(inf->op)->input[i], ts_meta_text(inf->in[i], a),
                      ts_meta_text(want, b));
}

int ts_shape_rule_softmax_grad(TsInfer *inf) {
  int axis, nd = inf->in[0]->ndim;
  inf->nout = 0;
  if (check_like(inf, 1, inf->in[0]) || ts_infer_axis(inf, inf->attr[0].i, nd ? nd : 1, &axis))
    return -1;
  output(inf, inf->in[0]);
  return 0;
}

/* The rule of the row whose gradient this is, on its inputs. */
static int forward(const TsInfer *inf, TsOp op, int nin, TsInfer *f) {
  *f = *inf;
  f->op = op, f->nin = nin, f->nout = 0;
  return ts_op_info(op)->shape(f);
}

int ts_shape_rule_norm_grad(TsInfer *inf) {
  TsInfer f;
  const TsMeta *x = inf->in[0];
  bool layer = inf->op == TS_OP_layernorm_grad;
  if (forward(inf, layer ? TS_OP_layernorm : TS_OP_rmsnorm, 2, &f)) return -1;
  if (check_like(inf, 2, x)) return -1;
  inf->nout = 0;
  output(inf, x);
  /* Of weights that are integers: the gradient has x's type, as the bias's then. */
  bool real = inf->in[1] && ts_dtype_is((TsDtype)inf->in[1]->dtype, TS_KIND_F);
  if (inf->in[1]) {
    if (real) inf->out[1].dtype = inf->in[1]->dtype;
    output(inf, inf->in[1]);
  }
  if (layer && inf->attr[2].i) {
    TsMeta row = *x;
    row.ndim = (uint8_t)inf->attr[0].i;
    memcpy(row.dim, x->dim + x->ndim - row.ndim, row.ndim * sizeof *row.dim);
    if (real) inf->out[2].dtype = inf->in[1]->dtype;
    output(inf, &row);
  }
  return 0;
}

int ts_shape_rule_cross_entropy_grad(TsInfer *inf) {
  TsInfer f;
  if (forward(inf, TS_OP_cross_entropy, 2, &f)) return -1;
  if (check_like(inf, 2, &f.out[0])) return -1;
  inf->nout = 0;
  output(inf, inf->in[0]);
  return 0;
}

int ts_shape_rule_attention_grad(TsInfer *inf) {
  TsInfer f;
  const TsMeta *q = inf->in[0], *k = inf->in[1], *sink = inf->in[4];
  if (forward(inf, TS_OP_attention, 5, &f)) return -1;
  if (check_like(inf, 5, &f.out[0]) || check_like(inf, 6, &f.out[0])) return -1;
  inf->nout = 0;
  for (int i = 0; i < 3; i++) output(inf, inf->in[i]);
  if (inf->attr[3].i) {
    TsMeta scores = *q;
    scores.dim[q->ndim - 1] = k->dim[q->ndim - 2];
    output(inf, &scores);
  }
  if (sink) {
    if (ts_dtype_is((TsDtype)sink->dtype, TS_KIND_F)) inf->out[inf->nout].dtype = sink->dtype;
    output(inf, sink);
  }
  return 0;
}

int ts_shape_rule_lstm_grad(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *w = inf->in[1];
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (x->ndim != 3 || w->ndim != 2 || w->dim[0] != 4 * w->dim[1] || x->dim[2] != w->dim[0])
    return ts_error_set(inf->err, TS_ERR_shape,
                        "%s: x [steps, batch, 4 n] does not fit w [4 n, n]: %s x %s",
                        opname(inf), ts_meta_text(x, a), ts_meta_text(w, b));
  TsMeta y = *x, state = *w;
  y.dim[2] = w->dim[1], state.dim[0] = x->dim[1];
  for (int i = 2; i < inf->nin; i++)
    if (inf->in[i] && check_like(inf, i, i == 4 || i == 5 ? &y : &state)) return -1;
  inf->nout = 0;
  for (int i = 0; i < 4; i++) output(inf, inf->in[i]);
  return 0;
}
