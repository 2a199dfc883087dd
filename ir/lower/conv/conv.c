/* conv1d .. conv3d, conv_transpose, conv_weight_grad: what a node says, and by which kernels. */
#include "ir/lower/conv/conv.h"

#include "ir/lower/channels.h"
#include "ir/sched/conv.h"

static TsVal input(const TsNode *n, int i) { return i < n->nin ? n->in[i] : NULL; }

/* ---- geometry; a: the attributes from the stride on */
static void set_images(TsConvWork *w, const TsAttr *a, const TsMeta *x, const TsMeta *y) {
  TsConv *c = &w->c;
  int first = w->last ? 1 : 2;
  c->acc = (TsDtype)ts_dtypes[w->d].accum;
  c->nd = x->ndim - 2, c->batch = x->dim[0];
  ts_window_list(&a[0], c->nd, 1, c->stride);
  ts_window_list(&a[1], c->nd, 0, c->before);
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - c->nd);
    c->in[i] = at < 0 ? 1 : x->dim[first + at];
    c->out[i] = at < 0 ? 1 : y->dim[first + at];
  }
}

static void set_window(TsConvWork *w, const TsMeta *weights) {
  int first = w->last ? 1 : 2;
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - w->c.nd);
    w->c.window[i] = at < 0 ? 1 : weights->dim[first + at];
  }
}

/* Of weights [channels out, channels in of a group, window], or with their channels last. */
static void set_plain(TsConvWork *w, const TsAttr *a, const TsMeta *weights) {
  TsConv *c = &w->c;
  ts_window_list(&a[2], c->nd, 1, c->dilation);
  c->groups = a[3].i;
  c->cg = weights->dim[w->last ? weights->ndim - 1 : 1], c->og = weights->dim[0] / c->groups;
  set_window(w, weights);
}

/* ---- what joins the sums */
/* Bias, residual, relu, in that order. */
static bool read_words(TsConvWork *w) {
  int word[TS_CONV_WORDS], n = ts_sched_conv_words(w->n, word), i = 0;
  w->bias = i < n && word[i] == TS_CONV_bias, i += w->bias;
  w->residual = i < n && word[i] == TS_CONV_residual, i += w->residual;
  w->relu = i < n && word[i] == TS_OP_relu, i += w->relu;
  return i == n;
}

static bool is_bias(const TsConvWork *w, TsVal v) {
  return v->meta.dtype == w->d && !v->meta.weak &&
         ts_meta_numel(&v->meta) == w->c.og * w->c.groups;
}

static bool is_residual(const TsConvWork *w, TsVal v) {
  return v->meta.dtype == w->d && !v->meta.weak &&
         ts_meta_same_shape(&v->meta, &w->n->out[0].meta);
}

/* ---- operators */
static bool forward(TsConvWork *w) {
  const TsNode *n = w->n;
  w->last = n->attr[4].i;
  set_images(w, n->attr, &n->in[0]->meta, &n->out[0].meta);
  set_plain(w, n->attr, &n->in[1]->meta);
  return read_words(w) && (!w->bias || is_bias(w, n->in[2])) &&
         (!w->residual || is_residual(w, n->in[3]));
}

static bool transposed(TsConvWork *w) {
  const TsNode *n = w->n;
  const TsMeta *x = &n->in[0]->meta, *weights = &n->in[1]->meta;
  TsVal bias = input(n, 2);
  TsConv *c = &w->c;
  w->transposed = true, w->bias = bias;
  set_images(w, n->attr, x, &n->out[0].meta);
  set_window(w, weights);
  ts_window_list(&n->attr[3], c->nd, 1, c->dilation);
  c->groups = n->attr[4].i;
  c->cg = x->dim[1] / c->groups, c->og = weights->dim[1];
  return ts_conv_phases(w) && (!bias || is_bias(w, bias));
}

static bool weight_grad(TsConvWork *w) {
  const TsNode *n = w->n;
  w->grad = true, w->last = n->attr[5].i;
  set_images(w, n->attr + 1, &n->in[0]->meta, &n->in[1]->meta);
  set_plain(w, n->attr + 1, &n->out[0].meta);
  return true;
}

/* False: it has no kernel. */
static bool read_node(TsConvWork *w, const TsNode *n) {
  const TsMeta *y = &n->out[0].meta;
  *w = (TsConvWork){.n = n, .d = (TsDtype)y->dtype};
  if (!ts_dtype_is(w->d, TS_KIND_F) || ts_dtype_in_blocks(w->d) || !ts_meta_numel(y))
    return false;
  if (n->in[0]->meta.dtype != w->d || n->in[1]->meta.dtype != w->d) return false;
  return n->op == TS_OP_conv_weight_grad ? weight_grad(w)
         : n->op == TS_OP_conv_transpose ? transposed(w)
                                         : forward(w);
}

bool ts_lower_conv_by_unit(const TsSched *s, const TsNode *n) {
  TsConvWork w;
  bool conv = n->op == TS_OP_conv1d || n->op == TS_OP_conv2d || n->op == TS_OP_conv3d ||
              n->op == TS_OP_conv_transpose;
  return conv && read_node(&w, n) && !w.last && ts_conv_unit_takes(&w, s);
}

int ts_lower_conv(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err) {
  TsConvWork w;
  if (!read_node(&w, g->node[0])) return 0;
  int made = w.grad ? ts_conv_unit_grad(&w, s, layout, arg, out, err)
                    : ts_conv_unit(&w, s, &g->choice, layout, arg, out, err);
  return made ? made : ts_conv_chain(&w, s, layout, arg, out, err);
}
