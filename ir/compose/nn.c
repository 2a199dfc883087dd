/* Layers out of elementary operators. */
#include <string.h>

#include "ir/compose/compose.h"

static TsVal input(const TsCompose *k, int i) { return i < k->nin ? k->in[i] : NULL; }

int ts_compose_gelu(TsCompose *k) {
  return ts_compose_finish(
      k, ts_build1(k->b, k->attr[0].i ? TS_OP_gelu_tanh : TS_OP_gelu_erf, k->in[0]));
}

static TsVal transposed(TsBuild *b, TsVal w) {
  return ts_build(b, TS_OP_transpose, TS_IN(w), TS_NO_ATTRS, NULL);
}

/* x w^T with bias and an activation in the product's epilogue. */
static TsVal linear(TsBuild *b, TsVal x, TsVal w, TsVal bias, const char *epilogue) {
  TsAttr words = epilogue ? ts_b_str(epilogue) : bias ? ts_b_str("bias") : (TsAttr){0};
  return ts_build(b, TS_OP_matmul, TS_IN(x, transposed(b, w), bias),
                  TS_ATTRS({"epilogue", words}), NULL);
}

int ts_compose_linear(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *x = b->meta(b, k->in[0]), *w = b->meta(b, k->in[1]);
  char tx[TS_META_TEXT], tw[TS_META_TEXT];
  if (w->ndim != 2 || x->ndim < 1 || x->dim[x->ndim - 1] != w->dim[1])
    return ts_build_fail(b, TS_ERR_shape,
                         "linear: x [.., in] does not fit w [out, in]: %s x %s",
                         ts_meta_text(x, tx), ts_meta_text(w, tw));
  const char *words = k->attr[0].type == TS_ATTR_str ? k->attr[0].str : NULL;
  if (!ts_dtype_in_blocks(w->dtype))
    return ts_compose_finish(k, linear(b, k->in[0], k->in[1], input(k, 2), words));
  if (words)
    return ts_build_fail(b, TS_ERR_attribute,
                         "linear: no epilogue where w is stored in blocks: %s",
                         ts_meta_text(w, tw));
  return ts_compose_finish(k,
                           ts_build(b, TS_OP_quantized_matmul,
                                    TS_IN(k->in[0], k->in[1], input(k, 2)), TS_NO_ATTRS, NULL));
}

static TsVal gate(TsBuild *b, TsOp op, TsVal a, int i, int64_t n) {
  return ts_build1(b, op, ts_build_narrow(b, a, -1, i * n, n));
}

int ts_lstm_check(const TsMeta *const in[4], TsError *err) {
  const TsMeta *x = in[0], *w = in[1];
  char tx[TS_META_TEXT], tw[TS_META_TEXT];
  if (x->ndim != 3 || w->ndim != 2 || w->dim[0] != 4 * w->dim[1] || x->dim[2] != w->dim[0])
    return ts_error_set(err, TS_ERR_shape,
                        "lstm: x [steps, batch, 4 n] does not fit w [4 n, n]: %s x %s",
                        ts_meta_text(x, tx), ts_meta_text(w, tw));
  if (x->dim[0] < 1 || x->dim[0] > TS_LSTM_STEPS)
    return ts_error_set(err, TS_ERR_value, "lstm: %lld steps, takes 1 to %d",
                        (long long)x->dim[0], TS_LSTM_STEPS);
  for (int i = 2; i < 4; i++)
    if (in[i]->ndim != 2 || in[i]->dim[0] != x->dim[1] || in[i]->dim[1] != w->dim[1])
      return ts_error_set(err, TS_ERR_shape, "lstm: the state is %s, and has to be [%lld,%lld]",
                          ts_meta_text(in[i], tx), (long long)x->dim[1], (long long)w->dim[1]);
  return 0;
}

int ts_compose_lstm(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *in[4];
  TsVal hs[TS_LSTM_STEPS], h = k->in[2], c = k->in[3];
  for (int i = 0; i < 4; i++) in[i] = b->meta(b, k->in[i]);
  if (ts_lstm_check(in, b->err)) return b->failed = true, -1;
  int64_t n = in[1]->dim[1], steps = in[0]->dim[0];
  for (int64_t i = 0; i < steps; i++) {
    int64_t t = k->attr[0].i ? steps - 1 - i : i;
    TsVal own = ts_build(b, TS_OP_select, TS_IN(k->in[0]),
                         TS_ATTRS({"axis", ts_b_int(0)}, {"index", ts_b_int(t)}), NULL);
    TsVal a = ts_build_add(b, own, linear(b, h, k->in[1], NULL, NULL));
    TsVal kept = ts_build_mul(b, gate(b, TS_OP_sigmoid, a, 1, n), c);
    c = ts_build_add(
        b, kept,
        ts_build_mul(b, gate(b, TS_OP_sigmoid, a, 0, n), gate(b, TS_OP_tanh, a, 2, n)));
    hs[t] = h = ts_build_mul(b, gate(b, TS_OP_sigmoid, a, 3, n), ts_build1(b, TS_OP_tanh, c));
  }
  k->out[0] = ts_build(b, TS_OP_stack, (int)steps, hs, TS_NO_ATTRS, NULL);
  k->out[1] = h, k->out[2] = c, k->nout = 3;
  return b->failed ? -1 : 0;
}

int ts_compose_fused_mlp(TsCompose *k) {
  static const char *const with_bias[] = {"bias_relu", "bias_silu", "bias_gelu"};
  static const char *const plain[] = {"relu", "silu", "gelu"};
  TsBuild *b = k->b;
  int64_t act = k->attr[0].i;
  if (!input(k, 3))
    return ts_build_fail(b, TS_ERR_argument, "fused_mlp: input 'w2' is missing");
  TsVal h = linear(b, k->in[0], k->in[1], k->in[2], (k->in[2] ? with_bias : plain)[act]);
  return ts_compose_finish(k, linear(b, h, k->in[3], input(k, 4), NULL));
}

static TsVal heads_of(TsBuild *b, TsVal y, int64_t from, int64_t heads, int64_t d) {
  const TsMeta *m = b->meta(b, y);
  int64_t dim[4] = {m->dim[0], m->dim[1], heads, d}, perm[4] = {0, 2, 1, 3};
  TsVal part = ts_build_narrow(b, y, 2, from, heads * d);
  return ts_build_permute(b, ts_build_reshape(b, part, dim, 4), perm, 4);
}

int ts_compose_qkv_projection(TsCompose *k) {
  TsBuild *b = k->b;
  int64_t heads = k->attr[0].i, kv = k->attr[1].type == TS_ATTR_int ? k->attr[1].i : heads;
  const TsMeta *x = b->meta(b, k->in[0]), *w = b->meta(b, k->in[1]);
  char tx[TS_META_TEXT], tw[TS_META_TEXT];
  if (heads < 1 || kv < 1)
    return ts_build_fail(b, TS_ERR_value, "qkv_projection: heads must be positive");
  bool many = w->ndim == 2 && (heads > w->dim[0] || kv > w->dim[0]);
  if (x->ndim != 3 || w->ndim != 2 || many || w->dim[0] % (heads + 2 * kv) ||
      x->dim[2] != w->dim[1])
    return ts_build_fail(
        b, TS_ERR_shape,
        "qkv_projection: x [B,S,E] and w [(%lld + 2*%lld) D, E] do not fit: %s x %s",
        (long long)heads, (long long)kv, ts_meta_text(x, tx), ts_meta_text(w, tw));
  int64_t d = w->dim[0] / (heads + 2 * kv);
  TsVal y = linear(b, k->in[0], k->in[1], input(k, 2), NULL);
  k->out[0] = heads_of(b, y, 0, heads, d);
  k->out[1] = heads_of(b, y, heads * d, kv, d);
  k->out[2] = heads_of(b, y, (heads + kv) * d, kv, d);
  k->nout = 3;
  return b->failed ? -1 : 0;
}

/* A vector over axis 1 as [C, 1, 1, ...], to meet x of the given rank. */
static TsVal per_channel(TsBuild *b, TsVal v, int ndim) {
  int64_t dim[TS_MAX_RANK];
  for (int i = 0; i < ndim - 1; i++) dim[i] = 1;
  dim[0] = b->meta(b, v)->ndim ? b->meta(b, v)->dim[0] : 1;
  return ts_build_reshape(b, v, dim, ndim - 1);
}

static TsVal scale_and_shift(TsBuild *b, TsVal y, TsVal weight, TsVal bias, int ndim) {
  if (weight) y = ts_build_mul(b, y, per_channel(b, weight, ndim));
  if (bias) y = ts_build_add(b, y, per_channel(b, bias, ndim));
  return y;
}

/* Narrow floats are normalised in f32 and rounded at the end. */
static TsVal widened(TsBuild *b, TsVal x) {
  TsDtype d = (TsDtype)b->meta(b, x)->dtype;
  return ts_dtypes[d].compute == d ? x : ts_build_cast(b, x, (TsDtype)ts_dtypes[d].compute);
}

static TsVal narrowed(TsBuild *b, TsVal y, TsDtype d) {
  return ts_dtypes[d].compute == d || b->failed ? y : ts_build_cast(b, y, d);
}

int ts_compose_batch_norm(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *x = b->meta(b, k->in[0]);
  char text[TS_META_TEXT];
  int nd = x->ndim;
  if (nd < 2)
    return ts_build_fail(b, TS_ERR_shape, "batch_norm: needs [N, C, ...], not %s",
                         ts_meta_text(x, text));
  TsDtype d = (TsDtype)x->dtype;
  TsVal eps = b->number(b, k->attr[0].f);
  TsVal std = ts_build1(b, TS_OP_sqrt, ts_build_add(b, widened(b, k->in[2]), eps));
  TsVal y = ts_build_sub(b, widened(b, k->in[0]), per_channel(b, k->in[1], nd));
  y = ts_build2(b, TS_OP_div, y, per_channel(b, std, nd));
  return ts_compose_finish(k,
                           narrowed(b, scale_and_shift(b, y, input(k, 3), input(k, 4), nd), d));
}

int ts_compose_group_norm(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta x = *b->meta(b, k->in[0]);
  char text[TS_META_TEXT];
  int64_t groups = k->attr[0].i;
  if (x.ndim < 2 || groups < 1 || x.dim[1] % groups)
    return ts_build_fail(b, TS_ERR_shape,
                         "group_norm: %lld groups do not divide the channels of %s",
                         (long long)groups, ts_meta_text(&x, text));
  int64_t rows[3] = {x.dim[0], groups, ts_meta_numel(&x)};
  rows[2] = rows[0] ? rows[2] / rows[0] / groups : 0;
  TsVal weight = input(k, 1), bias = input(k, 2);
  TsVal y = ts_build_reshape(b, k->in[0], rows, 3);
  if (weight || bias) y = widened(b, y); /* alone layernorm does so itself */
  y = ts_build(b, TS_OP_layernorm, TS_IN(y), TS_ATTRS({"eps", ts_b_f(k->attr[1].f)}), NULL);
  y = ts_build_reshape(b, y, x.dim, x.ndim);
  y = scale_and_shift(b, y, weight, bias, x.ndim);
  return ts_compose_finish(k, weight || bias ? narrowed(b, y, (TsDtype)x.dtype) : y);
}

int ts_compose_depthwise_conv2d(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *x = b->meta(b, k->in[0]);
  bool last = k->attr[3].i == 1;
  int64_t c = x->ndim == 4 ? x->dim[last ? 3 : 1] : 1;
  return ts_compose_finish(k,
                           ts_build(b, TS_OP_conv2d, TS_IN(k->in[0], k->in[1], input(k, 2)),
                                    TS_ATTRS({"stride", k->attr[0]}, {"padding", k->attr[1]},
                                             {"dilation", k->attr[2]}, {"groups", ts_b_int(c)},
                                             {"layout", k->attr[3]}),
                                    NULL));
}

/* ---- channels as blocks of pixels */
static int factor_of(TsCompose *k, int64_t *r) {
  const TsMeta *m = k->b->meta(k->b, k->in[0]);
  const char *name = ts_op_info(k->op)->name;
  char text[TS_META_TEXT];
  *r = k->attr[0].i;
  if (m->ndim < 3 || m->ndim > TS_MAX_RANK - 2)
    return ts_build_fail(k->b, TS_ERR_shape, "%s: [.., C, H, W] is needed, not %s", name,
                         ts_meta_text(m, text));
  if (*r < 1 || *r > INT32_MAX) /* its square is made */
    return ts_build_fail(k->b, TS_ERR_value, "%s: factor = %lld", name, (long long)*r);
  return 0;
}

static int not_whole(TsCompose *k, const char *what) {
  char text[TS_META_TEXT];
  return ts_build_fail(k->b, TS_ERR_shape, "%s: %s of %s", ts_op_info(k->op)->name, what,
                       ts_meta_text(k->b->meta(k->b, k->in[0]), text));
}

/* Three axes as the five of `five`, in another order, as three. */
static int rearranged(TsCompose *k, const int64_t five[5], const int order[5],
                      const int64_t three[3]) {
  TsBuild *b = k->b;
  TsMeta m = *b->meta(b, k->in[0]);
  int at = m.ndim - 3;
  int64_t dim[TS_MAX_RANK + 2], perm[TS_MAX_RANK + 2];
  for (int i = 0; i < at; i++) dim[i] = m.dim[i], perm[i] = i;
  for (int i = 0; i < 5; i++) dim[at + i] = five[i], perm[at + i] = at + order[i];
  TsVal v = ts_build_permute(b, ts_build_reshape(b, k->in[0], dim, at + 5), perm, at + 5);
  for (int i = 0; i < 3; i++) m.dim[at + i] = three[i];
  k->out[0] = ts_build_reshape(b, v, m.dim, m.ndim);
  return b->failed ? -1 : 0;
}

int ts_compose_pixel_shuffle(TsCompose *k) {
  int64_t r;
  if (factor_of(k, &r)) return -1;
  const TsMeta *m = k->b->meta(k->b, k->in[0]);
  const int64_t *d = m->dim + m->ndim - 3, c = d[0] / (r * r);
  if (d[0] % (r * r)) return not_whole(k, "factor^2 does not divide the channels");
  return rearranged(k, (int64_t[]){c, r, r, d[1], d[2]}, (int[]){0, 3, 1, 4, 2},
                    (int64_t[]){c, d[1] * r, d[2] * r});
}

int ts_compose_pixel_unshuffle(TsCompose *k) {
  int64_t r;
  if (factor_of(k, &r)) return -1;
  const TsMeta *m = k->b->meta(k->b, k->in[0]);
  const int64_t *d = m->dim + m->ndim - 3, h = d[1] / r, w = d[2] / r;
  if (d[1] % r || d[2] % r) return not_whole(k, "factor does not divide height and width");
  return rearranged(k, (int64_t[]){d[0], h, r, w, r}, (int[]){0, 2, 4, 1, 3},
                    (int64_t[]){d[0] * r * r, h, w});
}
