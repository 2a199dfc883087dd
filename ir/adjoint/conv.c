/* Adjoints of convolutions. conv(x, w) is linear in each of its operands: by x its adjoint
 * is conv_transpose of the gradient with the same w, by w it is conv_weight_grad, and the
 * three are each other's adjoints. All of it is written for channels first; nhwc operands
 * of conv_transpose are views with their axes moved. */
#include "ir/adjoint/common.h"

typedef struct Conv {
  TsBuild *b;
  int nd;    /* space axes */
  bool last; /* layout nhwc */
  TsAttr stride, padding, dilation, groups;
} Conv;

static int64_t number(const TsAttr *a, int axis) { return a->ints[a->n == 1 ? 0 : axis]; }

/* The first space axis, and that of the channels, of images and, but for the first
 * axis, of weights. */
static int space(const Conv *c) { return c->last ? 1 : 2; }
static int channel(const Conv *c) { return c->last ? c->nd + 1 : 1; }

/* The channel axis, or the one at its place, moved: views. */
static TsVal channels_first(const Conv *c, TsVal x) {
  int64_t perm[TS_MAX_RANK] = {0, c->nd + 1};
  for (int i = 0; i < c->nd; i++) perm[2 + i] = 1 + i;
  return c->last ? ts_build_permute(c->b, x, perm, c->nd + 2) : x;
}

static TsVal channels_back(const Conv *c, TsVal x) {
  int64_t perm[TS_MAX_RANK] = {0};
  for (int i = 0; i < c->nd; i++) perm[1 + i] = 2 + i;
  perm[c->nd + 1] = 1;
  return c->last ? ts_build_permute(c->b, x, perm, c->nd + 2) : x;
}

static TsVal convolve(const Conv *c, TsVal x, TsVal w) {
  static const TsOp op[] = {TS_OP_conv1d, TS_OP_conv2d, TS_OP_conv3d};
  return ts_build(c->b, op[c->nd - 1], TS_IN(x, w),
                  TS_ATTRS({"stride", c->stride}, {"padding", c->padding},
                           {"dilation", c->dilation}, {"groups", c->groups},
                           {"layout", ts_b_choice(c->last)}),
                  NULL);
}

/* The gradient of w in conv(x, w), w having that shape, by the gradient g of the result. */
static TsVal by_weights(const Conv *c, TsVal x, TsVal g, const TsMeta *w) {
  return ts_build(c->b, TS_OP_conv_weight_grad, TS_IN(x, g),
                  TS_ATTRS({"window", ts_b_ints(w->dim + space(c), c->nd)},
                           {"stride", c->stride}, {"padding", c->padding},
                           {"dilation", c->dilation}, {"groups", c->groups},
                           {"layout", ts_b_choice(c->last)}),
                  NULL);
}

/* The gradient of x in conv(x, w), x having that shape. Positions that g lacks at the
 * ends are zeros. */
static TsVal by_image(const Conv *c, TsVal g, TsVal w, const TsMeta *x) {
  TsBuild *b = c->b;
  int64_t extra[3], pads[6] = {0};
  bool lacks = false;
  g = channels_first(c, g), w = channels_first(c, w);
  if (b->failed) return NULL;
  const TsMeta *mg = b->meta(b, g), *mw = b->meta(b, w);
  for (int i = 0; i < c->nd; i++) {
    int64_t s = number(&c->stride, i);
    int64_t room = x->dim[space(c) + i] + 2 * number(&c->padding, i) -
                   number(&c->dilation, i) * (mw->dim[2 + i] - 1) - 1;
    extra[i] = room % s;
    pads[2 * i + 1] = room / s + 1 - mg->dim[2 + i];
    lacks |= pads[2 * i + 1] > 0;
  }
  if (lacks)
    g = ts_build(b, TS_OP_pad, TS_IN(g), TS_ATTRS({"pads", ts_b_ints(pads, 2 * c->nd)}), NULL);
  TsVal gx = ts_build(b, TS_OP_conv_transpose, TS_IN(g, w),
                      TS_ATTRS({"stride", c->stride}, {"padding", c->padding},
                               {"output_padding", ts_b_ints(extra, c->nd)},
                               {"dilation", c->dilation}, {"groups", c->groups}),
                      NULL);
  return channels_back(c, gx);
}

/* y without the positions beyond those of an image of that shape. */
static TsVal cut(const Conv *c, TsVal y, const TsMeta *like) {
  for (int i = space(c); i < space(c) + c->nd && !c->b->failed; i++)
    if (c->b->meta(c->b, y)->dim[i] > like->dim[i])
      y = ts_build_narrow(c->b, y, i, 0, like->dim[i]);
  return y;
}

static TsVal sum_of_channels(const Conv *c, TsVal g) {
  int64_t axis[TS_MAX_RANK];
  int n = 0;
  for (int i = 0; i < c->nd + 2; i++)
    if (i != channel(c)) axis[n++] = i;
  return ts_build_sum(c->b, g, axis, n, false);
}

static Conv read_conv(TsBuild *b, int nd, const TsAttr *attr) {
  return (Conv){.b = b,
                .nd = nd,
                .last = attr[4].i == 1,
                .stride = attr[0],
                .padding = attr[1],
                .dilation = attr[2],
                .groups = attr[3]};
}

/* The row as its sum and one operator for each word: for activations, whose derivative
 * needs what went into them. */
static int in_steps(TsCompose *k) {
  TsBuild *b = k->b;
  int nd = b->meta(b, k->in[0])->ndim - 2;
  TsEpilogueWord word[TS_EPILOGUE_WORDS + 1];
  int n = ts_epilogue_words(&k->attr[5], k->nin > 2 && k->in[2], k->nin > 3 && k->in[3], word);
  Conv c = read_conv(b, nd, k->attr);
  TsVal y = convolve(&c, k->in[0], k->in[1]);
  for (int i = 0; i < n && !b->failed; i++) {
    if (word[i] == TS_EPILOGUE_bias) {
      int64_t dim[TS_MAX_RANK] = {0, 1, 1, 1};
      dim[0] = b->meta(b, k->in[2])->dim[0];
      y = ts_build_add(b, y, c.last ? k->in[2] : ts_build_reshape(b, k->in[2], dim, nd + 1));
    } else if (word[i] == TS_EPILOGUE_residual) {
      y = ts_build_add(b, y, k->in[3]);
    } else {
      y = ts_epilogue_activation(b, word[i], y);
    }
  }
  k->out[0] = y;
  return b->failed ? -1 : 0;
}

/* ---- rows */
static int conv(TsAdjoint *a, int nd) {
  TsBuild *b = a->b;
  Conv c = read_conv(b, nd, a->attr);
  TsVal g = a->grad[0];
  TsEpilogueWord word[TS_EPILOGUE_WORDS + 1];
  int n = ts_epilogue_words(&a->attr[5], ts_input(a, 2), ts_input(a, 3), word);
  for (int i = 0; i < n; i++)
    if (word[i] >= TS_EPILOGUE_relu && !(word[i] == TS_EPILOGUE_relu && i == n - 1))
      return ts_adjoint_by_definition(a, in_steps);
  while (n-- > 0) {
    if (word[n] == TS_EPILOGUE_relu) g = ts_common_open(b, a->out[0], g);
    if (word[n] == TS_EPILOGUE_bias && ts_wanted(a, 2)) a->grad_in[2] = sum_of_channels(&c, g);
    if (word[n] == TS_EPILOGUE_residual) a->grad_in[3] = g;
  }
  TsMeta x = *b->meta(b, a->in[0]), w = *b->meta(b, a->in[1]);
  if (ts_wanted(a, 0)) a->grad_in[0] = by_image(&c, g, ts_build_conj(b, a->in[1]), &x);
  if (ts_wanted(a, 1)) a->grad_in[1] = by_weights(&c, ts_build_conj(b, a->in[0]), g, &w);
  return 0;
}

int ts_adjoint_conv1d(TsAdjoint *a) { return conv(a, 1); }
int ts_adjoint_conv2d(TsAdjoint *a) { return conv(a, 2); }
int ts_adjoint_conv3d(TsAdjoint *a) { return conv(a, 3); }

int ts_adjoint_conv_transpose(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal g = a->grad[0];
  TsMeta x = *b->meta(b, a->in[0]), w = *b->meta(b, a->in[1]);
  Conv c = {.b = b,
            .nd = x.ndim - 2,
            .stride = a->attr[0],
            .padding = a->attr[1],
            .dilation = a->attr[3],
            .groups = a->attr[4]};
  if (ts_wanted(a, 0)) a->grad_in[0] = cut(&c, convolve(&c, g, ts_build_conj(b, a->in[1])), &x);
  if (ts_wanted(a, 1)) a->grad_in[1] = by_weights(&c, g, ts_build_conj(b, a->in[0]), &w);
  if (ts_wanted(a, 2)) a->grad_in[2] = sum_of_channels(&c, g);
  return 0;
}

int ts_adjoint_conv_weight_grad(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal h = a->grad[0]; /* in the place of w */
  TsMeta x = *b->meta(b, a->in[0]), g = *b->meta(b, a->in[1]);
  Conv c = read_conv(b, x.ndim - 2, a->attr + 1);
  if (ts_wanted(a, 0)) a->grad_in[0] = by_image(&c, ts_build_conj(b, a->in[1]), h, &x);
  if (ts_wanted(a, 1)) a->grad_in[1] = cut(&c, convolve(&c, ts_build_conj(b, a->in[0]), h), &g);
  return 0;
}
