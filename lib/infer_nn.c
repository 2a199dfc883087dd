/* Shape rules of layers: convolutions, pools, resampling, norms, attention, losses. */
#include "lib/infer.h"

static const char *opname(const TsInfer *inf) { return ts_op_info(inf->op)->name; }

/* The attribute of that name; the row has it. */
static const TsAttr *attribute(const TsInfer *inf, const char *name) {
  const TsOpInfo *o = ts_op_info(inf->op);
  int i = 0;
  while (strlen(name) != (size_t)o->attr[i].namelen ||
         memcmp(name, o->attr[i].name, strlen(name)))
    i++;
  return &inf->attr[i];
}

/* A list with a number for each of n space axes, or one number for all of them. */
static int spread(TsInfer *inf, const char *name, int n, int64_t least, int64_t *out) {
  const TsAttr *a = attribute(inf, name);
  if (a->n != n && a->n != 1)
    return ts_error_set(inf->err, TS_ERR_attribute, "%s: %s has %d numbers for %d space axes",
                        opname(inf), name, a->n, n);
  for (int i = 0; i < n; i++) {
    out[i] = a->ints[a->n == 1 ? 0 : i];
    if (out[i] < least || out[i] > INT64_C(1) << 31)
      return ts_error_set(inf->err, TS_ERR_value, "%s: %s is %lld, %lld to 2^31 make sense",
                          opname(inf), name, (long long)out[i], (long long)least);
  }
  return 0;
}

static TsMeta *like_first(TsInfer *inf) {
  TsMeta *m = &inf->out[0];
  int dtype = m->dtype;
  *m = *inf->in[0];
  m->dtype = (uint8_t)dtype, m->weak = 0;
  inf->nout = 1;
  return m;
}

static int wrong_rank(TsInfer *inf, int i, const char *want) {
  char text[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s must be %s, not %s", opname(inf),
                      ts_op_info(inf->op)->input[i], want, ts_meta_text(inf->in[i], text));
}

/* Optional input i is a vector of n numbers. */
static int check_vector(TsInfer *inf, int i, int64_t n, const char *what) {
  const TsMeta *b = inf->nin > i ? inf->in[i] : NULL;
  char text[TS_META_TEXT];
  if (!b || (b->ndim == 1 && b->dim[0] == n)) return 0;
  return ts_error_set(inf->err, TS_ERR_shape,
                      "%s: %s must be [%lld], one number for each %s, not %s", opname(inf),
                      ts_op_info(inf->op)->input[i], (long long)n, what, ts_meta_text(b, text));
}

/* ---- convolutions */
typedef struct Window {
  int64_t size[3], stride[3], padding[3], dilation[3];
} Window;

static int read_window(TsInfer *inf, Window *w, int nd) {
  return spread(inf, "stride", nd, 1, w->stride) || spread(inf, "padding", nd, 0, w->padding) ||
                 spread(inf, "dilation", nd, 1, w->dilation)
             ? -1
             : 0;
}

/* Positions of a window along a space axis of n elements. */
static int slide(TsInfer *inf, const Window *w, int a, int64_t n, int64_t *out) {
  int64_t room = n + 2 * w->padding[a] - (w->dilation[a] * (w->size[a] - 1) + 1);
  char text[TS_META_TEXT];
  if (w->size[a] < 1 || room < 0)
    return ts_error_set(
        inf->err, TS_ERR_shape,
        "%s: a window of %lld with dilation %lld does not fit into %s with padding %lld",
        opname(inf), (long long)w->size[a], (long long)w->dilation[a],
        ts_meta_text(inf->in[0], text), (long long)w->padding[a]);
  *out = room / w->stride[a] + 1;
  return 0;
}

static int check_groups(TsInfer *inf, int64_t groups, int64_t c, int64_t wc, int64_t o) {
  if (groups >= 1 && c % groups == 0 && c / groups == wc && o % groups == 0) return 0;
  char a[TS_META_TEXT], b[TS_META_TEXT];
  ts_error_set(inf->err, TS_ERR_shape, "%s: channels do not fit: x %s, w %s, groups %lld",
               opname(inf), ts_meta_text(inf->in[0], a), ts_meta_text(inf->in[1], b),
               (long long)groups);
  return ts_error_hint(inf->err,
                       "w has channels / groups input channels, and a multiple of groups "
                       "output channels");
}

int ts_shape_rule_conv(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *w = inf->in[1];
  static const char *const want[2][3] = {{"[N,C,L]", "[N,C,H,W]", "[N,C,D,H,W]"},
                                         {"[O,C,K]", "[O,C,KH,KW]", "[O,C,KD,KH,KW]"}};
  int nd = ts_op_info(inf->op)->convolves;
  bool last = attribute(inf, "layout")->i == 1;
  int xs = last ? 1 : 2, xc = last ? nd + 1 : 1; /* first space axis, channel axis */
  Window k;
  if (x->ndim != nd + 2) return wrong_rank(inf, 0, want[0][nd - 1]);
  if (w->ndim != nd + 2) return wrong_rank(inf, 1, want[1][nd - 1]);
  if (read_window(inf, &k, nd)) return -1;
  if (check_groups(inf, attribute(inf, "groups")->i, x->dim[xc], w->dim[xc], w->dim[0]))
    return -1;
  TsMeta *m = like_first(inf);
  m->dim[xc] = w->dim[0];
  for (int a = 0; a < nd; a++) {
    k.size[a] = w->dim[xs + a];
    if (slide(inf, &k, a, x->dim[xs + a], &m->dim[xs + a])) return -1;
  }
  if (check_vector(inf, 2, w->dim[0], "output channel")) return -1;
  if (inf->nin > 3 && inf->in[3] && !ts_meta_same_shape(inf->in[3], m)) {
    char a[TS_META_TEXT], b[TS_META_TEXT];
    return ts_error_set(inf->err, TS_ERR_shape, "%s: residual %s does not fit the result %s",
                        opname(inf), ts_meta_text(inf->in[3], a), ts_meta_text(m, b));
  }
  return 0;
}

int ts_shape_rule_conv_transpose(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *w = inf->in[1];
  char text[TS_META_TEXT];
  int nd = x->ndim - 2;
  Window k;
  int64_t extra[3], groups = attribute(inf, "groups")->i;
  if (nd < 1 || nd > 3) return wrong_rank(inf, 0, "[N,C,...] with 1, 2 or 3 space axes");
  if (w->ndim != x->ndim) return wrong_rank(inf, 1, "[C,O/groups,K...] with the rank of x");
  if (read_window(inf, &k, nd) || spread(inf, "output_padding", nd, 0, extra)) return -1;
  if (groups < 1 || x->dim[1] != w->dim[0] || x->dim[1] % groups)
    return check_groups(inf, -1, 0, 0, 0);
  TsMeta *m = like_first(inf);
  m->dim[1] = w->dim[1] * groups;
  for (int a = 0; a < nd; a++) {
    int64_t most = k.stride[a] > k.dilation[a] ? k.stride[a] : k.dilation[a];
    if (extra[a] >= most)
      return ts_error_set(
          inf->err, TS_ERR_value,
          "conv_transpose: output_padding %lld must be below stride or dilation %lld",
          (long long)extra[a], (long long)most);
    m->dim[2 + a] = (x->dim[2 + a] - 1) * k.stride[a] - 2 * k.padding[a] +
                    k.dilation[a] * (w->dim[2 + a] - 1) + extra[a] + 1;
    if (m->dim[2 + a] < 0 || x->dim[2 + a] == 0 || w->dim[2 + a] == 0)
      return ts_error_set(inf->err, TS_ERR_shape, "conv_transpose: nothing is left of %s",
                          ts_meta_text(x, text));
  }
  return check_vector(inf, 2, m->dim[1], "output channel");
}

static int too_many_places(TsInfer *inf, int g, int axis, int64_t most) {
  char text[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape, "%s: g %s has more than %lld places on axis %d",
                      opname(inf), ts_meta_text(inf->in[g], text), (long long)most, axis);
}

/* The shape of w in conv(x, w), g having that of the result; g may lack places at the ends
 * of axes. */
int ts_shape_rule_conv_weight_grad(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *g = inf->in[1];
  int nd = x->ndim - 2, last = attribute(inf, "layout")->i == 1;
  int xs = last ? 1 : 2, xc = last ? nd + 1 : 1;
  int64_t groups = attribute(inf, "groups")->i, most;
  Window k;
  if (nd < 1 || nd > 3) return wrong_rank(inf, 0, "[N,C,...] with 1, 2 or 3 space axes");
  if (g->ndim != x->ndim || g->dim[0] != x->dim[0])
    return wrong_rank(inf, 1, "the result of a convolution of x");
  if (spread(inf, "window", nd, 1, k.size) || read_window(inf, &k, nd)) return -1;
  if (groups < 1 || x->dim[xc] % groups || g->dim[xc] % groups) {
    char tx[TS_META_TEXT], tg[TS_META_TEXT];
    return ts_error_set(inf->err, TS_ERR_shape,
                        "%s: channels are no multiples of groups %lld: x %s, g %s", opname(inf),
                        (long long)groups, ts_meta_text(x, tx), ts_meta_text(g, tg));
  }
  TsMeta *m = like_first(inf);
  m->dim[0] = g->dim[xc], m->dim[xc] = x->dim[xc] / groups;
  for (int a = 0; a < nd; a++) {
    if (slide(inf, &k, a, x->dim[xs + a], &most)) return -1;
    if (g->dim[xs + a] > most) return too_many_places(inf, 1, xs + a, most);
    m->dim[xs + a] = k.size[a];
  }
  return 0;
}

/* ---- pools and resampling */

/* The same where a last window may reach over the end: it begins before the padding there. */
static int slide_over(TsInfer *inf, const Window *w, int a, int64_t n, int64_t *out) {
  int64_t room = n + 2 * w->padding[a] - (w->dilation[a] * (w->size[a] - 1) + 1);
  int64_t more = room + w->stride[a] - 1;
  if (n < 1 || w->size[a] < 1 || more < 0) return slide(inf, w, a, n, out);
  *out = more / w->stride[a] + 1;
  if ((*out - 1) * w->stride[a] >= n + w->padding[a]) *out -= 1;
  return 0;
}

int ts_shape_rule_pool(TsInfer *inf) {
  const TsAttr *window = attribute(inf, "window");
  const TsMeta *x = inf->in[0];
  static const char *const want[] = {"[N,C,L]", "[N,C,H,W]", "[N,C,D,H,W]"};
  int nd = x->ndim - 2, first = attribute(inf, "layout")->i == 1 ? 1 : 2;
  bool ceil_mode = attribute(inf, "ceil_mode")->i;
  Window k;
  if (window->n > 1) nd = window->n;
  if (nd < 1 || nd > 3 || x->ndim != nd + 2)
    return wrong_rank(inf, 0,
                      nd < 1 || nd > 3 ? "[N,C,...] with 1, 2 or 3 space axes" : want[nd - 1]);
  if (spread(inf, "window", nd, 1, k.size) || spread(inf, "padding", nd, 0, k.padding) ||
      spread(inf, "dilation", nd, 1, k.dilation))
    return -1;
  bool given = attribute(inf, "stride")->type == TS_ATTR_ints;
  if (given && spread(inf, "stride", nd, 1, k.stride)) return -1;
  TsMeta *m = like_first(inf);
  for (int a = 0; a < nd; a++) {
    if (!given) k.stride[a] = k.size[a];
    if (2 * k.padding[a] > k.size[a])
      return ts_error_set(inf->err, TS_ERR_value,
                          "%s: padding %lld is more than half of the window %lld", opname(inf),
                          (long long)k.padding[a], (long long)k.size[a]);
    if (ceil_mode ? slide_over(inf, &k, a, x->dim[first + a], &m->dim[first + a])
                  : slide(inf, &k, a, x->dim[first + a], &m->dim[first + a]))
      return -1;
  }
  return 0;
}

/* The gradient of a pool or of resampling: g with the space axes that x had. The rule of
 * the row itself, asked with that shape, has to give g's. */
static int reversed(TsInfer *inf, TsOp forward, TsRule *rule, int first_attr, int space) {
  const TsMeta *g = inf->in[0];
  int nd = g->ndim - 2;
  int64_t dim[3];
  char a[TS_META_TEXT], b[TS_META_TEXT], c[TS_META_TEXT];
  if (nd < 1 || nd > 3) return wrong_rank(inf, 0, "[N,C,...] with 1, 2 or 3 space axes");
  if (spread(inf, "size", nd, 0, dim)) return -1;
  TsMeta x = *g;
  TsAttr attr[TS_MAX_ATTR];
  for (int i = 0; i < nd; i++) x.dim[space + i] = dim[i];
  const TsMeta *in[1] = {&x};
  TsInfer f = {.op = forward, .nin = 1, .in = in, .attr = attr, .err = inf->err};
  memcpy(attr, inf->attr + first_attr, sizeof(TsAttr) * (size_t)ts_op_info(forward)->nattr);
  if (forward == TS_OP_interpolate && attr[1].type == TS_ATTR_floats)
    attr[0] = (TsAttr){0};
  else if (forward != TS_OP_avg_pool)
    attr[0] = (TsAttr){.type = TS_ATTR_ints, .n = nd, .ints = g->dim + 2};
  f.out[0].dtype = g->dtype;
  if (rule(&f)) return -1;
  if (!ts_meta_same_shape(&f.out[0], g))
    return ts_error_set(inf->err, TS_ERR_shape, "%s: g must be %s for x %s, not %s",
                        opname(inf), ts_meta_text(&f.out[0], a), ts_meta_text(&x, b),
                        ts_meta_text(g, c));
  TsMeta *m = like_first(inf);
  memcpy(m->dim, x.dim, sizeof x.dim);
  return 0;
}

int ts_shape_rule_avg_pool_grad(TsInfer *inf) {
  int space = attribute(inf, "layout")->i == 1 ? 1 : 2;
  return reversed(inf, TS_OP_avg_pool, ts_shape_rule_pool, 1, space);
}

int ts_shape_rule_adaptive_pool(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  int nd = x->ndim - 2;
  int64_t size[3];
  if (nd < 1 || nd > 3) return wrong_rank(inf, 0, "[N,C,...] with 1, 2 or 3 space axes");
  if (spread(inf, "size", nd, 0, size)) return -1;
  TsMeta *m = like_first(inf);
  for (int a = 0; a < nd; a++) {
    if (x->dim[2 + a] == 0 && size[a] > 0) return wrong_rank(inf, 0, "of some size in space");
    m->dim[2 + a] = size[a];
  }
  return 0;
}

int ts_shape_rule_adaptive_pool_grad(TsInfer *inf) {
  return reversed(inf, TS_OP_adaptive_avg_pool, ts_shape_rule_adaptive_pool, 0, 2);
}

static int scaled_size(TsInfer *inf, const TsAttr *scale, int nd, int a, int64_t n,
                       int64_t *out) {
  if (scale->n != nd && scale->n != 1)
    return ts_error_set(inf->err, TS_ERR_attribute,
                        "%s: scale has %d numbers for %d space axes", opname(inf), scale->n,
                        nd);
  double s = scale->floats[scale->n == 1 ? 0 : a] * (double)n;
  if (!(s >= 1 && s < 0x1p31))
    return ts_error_set(inf->err, TS_ERR_value, "%s: %lld elements scaled by %g", opname(inf),
                        (long long)n, scale->floats[scale->n == 1 ? 0 : a]);
  *out = (int64_t)s;
  return 0;
}

int ts_shape_rule_interpolate(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  const TsAttr *size = attribute(inf, "size"), *scale = attribute(inf, "scale");
  int nd = x->ndim - 2;
  int64_t to[3];
  if (nd < 1 || nd > 3) return wrong_rank(inf, 0, "[N,C,...] with 1, 2 or 3 space axes");
  if (attribute(inf, "mode")->i == 2 && nd != 2)
    return wrong_rank(inf, 0, "[N,C,H,W] for mode cubic");
  if ((size->type == TS_ATTR_ints) == (scale->type == TS_ATTR_floats)) {
    ts_error_set(inf->err, TS_ERR_attribute, "interpolate: give either size or scale");
    return ts_error_hint(inf->err, "size={h, w}, or scale=2");
  }
  if (size->type == TS_ATTR_ints && spread(inf, "size", nd, 1, to)) return -1;
  TsMeta *m = like_first(inf);
  for (int a = 0; a < nd; a++) {
    if (x->dim[2 + a] == 0) return wrong_rank(inf, 0, "of some size in space");
    if (scale->type == TS_ATTR_floats && scaled_size(inf, scale, nd, a, x->dim[2 + a], &to[a]))
      return -1;
    m->dim[2 + a] = to[a];
  }
  return 0;
}

int ts_shape_rule_interpolate_grad(TsInfer *inf) {
  return reversed(inf, TS_OP_interpolate, ts_shape_rule_interpolate, 0, 2);
}

/* ---- rows */
int ts_shape_rule_axis(TsInfer *inf) {
  int axis, nd = inf->in[0]->ndim;
  if (ts_infer_axis(inf, attribute(inf, "axis")->i, nd ? nd : 1, &axis)) return -1;
  like_first(inf);
  return 0;
}

/* weight and bias have the sizes of the last dims axes of x. */
int ts_shape_rule_layernorm(TsInfer *inf) {
  const TsMeta *x = inf->in[0];
  int64_t dims = attribute(inf, "dims")->i;
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (dims < 1 || dims > x->ndim)
    return ts_error_set(inf->err, TS_ERR_attribute, "%s: dims = %lld of %s", opname(inf),
                        (long long)dims, ts_meta_text(x, a));
  for (int i = 1; i < inf->nin; i++) {
    const TsMeta *w = inf->in[i];
    if (w && (w->ndim != dims ||
              memcmp(w->dim, x->dim + x->ndim - dims, (size_t)dims * sizeof *w->dim)))
      return ts_error_set(inf->err, TS_ERR_shape,
                          "%s: %s %s does not fit the last %lld axes of %s", opname(inf),
                          ts_op_info(inf->op)->input[i], ts_meta_text(w, a), (long long)dims,
                          ts_meta_text(x, b));
  }
  like_first(inf);
  return 0;
}

int ts_shape_rule_cross_entropy(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *t = inf->in[1];
  bool index = ts_dtype_is((TsDtype)t->dtype, TS_KIND_I | TS_KIND_U);
  TsMeta rows = *x;
  if (x->ndim < 1) return wrong_rank(inf, 0, "[.., C]");
  rows.ndim--;
  if (!index && !ts_dtype_is((TsDtype)t->dtype, TS_KIND_F)) {
    ts_error_set(inf->err, TS_ERR_dtype,
                 "cross_entropy: target must be integers or floats, not %s",
                 ts_dtype_name((TsDtype)t->dtype));
    return -1;
  }
  if (!index && ts_meta_same_shape(&rows, t)) {
    ts_error_set(inf->err, TS_ERR_dtype, "cross_entropy: classes must be integers, not %s",
                 ts_dtype_name((TsDtype)t->dtype));
    return ts_error_hint(inf->err, "target:cast(\"i64\"); floats are probabilities, [.., C]");
  }
  if (!ts_meta_same_shape(index ? &rows : x, t)) {
    ts_infer_mismatch(inf,
                      index ? "a target index for each row of logits is needed"
                            : "target probabilities differ from logits in shape",
                      0, 1);
    return ts_error_hint(inf->err, "classes stand on the last axis of logits: [.., C]");
  }
  TsMeta *m = like_first(inf);
  m->ndim = attribute(inf, "reduction")->i == 2 ? rows.ndim : 0;
  return 0;
}

/* ---- attention */
static int attention_mismatch(TsInfer *inf, const char *what) {
  char q[TS_META_TEXT], k[TS_META_TEXT], v[TS_META_TEXT];
  ts_error_set(inf->err, TS_ERR_shape, "attention: %s: q %s, k %s, v %s", what,
               ts_meta_text(inf->in[0], q), ts_meta_text(inf->in[1], k),
               ts_meta_text(inf->in[2], v));
  return ts_error_hint(inf->err, "q [..,H,S,D], k and v [..,Hk,T,D], H a multiple of Hk");
}

int ts_shape_rule_attention(TsInfer *inf) {
  const TsMeta *q = inf->in[0], *k = inf->in[1], *v = inf->in[2];
  const TsMeta *mask = inf->nin > 3 ? inf->in[3] : NULL;
  const TsAttr *window = attribute(inf, "window");
  int nd = q->ndim;
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (inf->op == TS_OP_attention && ts_infer_tile_shape(inf, attribute(inf, "tile_shape"), 2))
    return -1;
  if (nd < 2 || k->ndim != nd || v->ndim != nd) return attention_mismatch(inf, "ranks differ");
  if (q->dim[nd - 1] != k->dim[nd - 1]) return attention_mismatch(inf, "sizes of heads differ");
  if (memcmp(k->dim, v->dim, (size_t)(nd - 1) * sizeof *k->dim))
    return attention_mismatch(inf, "k and v differ in shape");
  for (int i = 0; i < nd - 3; i++)
    if (q->dim[i] != k->dim[i]) return attention_mismatch(inf, "batch sizes differ");
  if (nd > 2 && (k->dim[nd - 3] < 1 || q->dim[nd - 3] % k->dim[nd - 3]))
    return attention_mismatch(inf, "heads do not fit");
  if (window->type == TS_ATTR_int && window->i < 1)
    return ts_error_set(inf->err, TS_ERR_value,
                        "attention: option 'window' must be >= 1, not %lld",
                        (long long)window->i);
  TsMeta *m = like_first(inf), scores = *q;
  m->dim[nd - 1] = v->dim[nd - 1];
  scores.dim[nd - 1] = k->dim[nd - 2];
  TsMeta both = scores;
  if (mask && !ts_dtype_is((TsDtype)mask->dtype, TS_KIND_B | TS_KIND_F))
    return ts_error_set(inf->err, TS_ERR_dtype,
                        "attention: mask must be bool or floats, not %s",
                        ts_dtype_name((TsDtype)mask->dtype));
  if (mask && mask->ndim == 0)
    return ts_error_set(inf->err, TS_ERR_shape, "attention: a mask needs at least one axis");
  if (mask && (ts_meta_broadcast(&scores, mask, &both) || !ts_meta_same_shape(&both, &scores)))
    return ts_error_set(inf->err, TS_ERR_shape, "attention: mask %s does not fit the scores %s",
                        ts_meta_text(mask, a), ts_meta_text(&scores, b));
  return check_vector(inf, 4, nd > 2 ? q->dim[nd - 3] : 1, "query head");
}

static int rope_positions(TsInfer *inf, const TsMeta *x, const TsMeta *p) {
  bool own = p->ndim == 1 && p->dim[0] == x->dim[x->ndim - 2];
  bool each =
      p->ndim == 2 && x->ndim > 2 && p->dim[0] == x->dim[0] && p->dim[1] == x->dim[x->ndim - 2];
  char tx[TS_META_TEXT], tp[TS_META_TEXT];
  if (own || each) return 0;
  ts_error_set(inf->err, TS_ERR_shape, "%s: positions %s do not fit %s", opname(inf),
               ts_meta_text(p, tp), ts_meta_text(x, tx));
  return ts_error_hint(inf->err, "positions [S], or [B, S] for x [B, .., S, D]");
}

int ts_shape_rule_rope(TsInfer *inf) {
  enum { THETA, DIMS, FACTOR = 5 };
  const TsMeta *x = inf->in[0];
  const TsAttr *a = inf->attr;
  char text[TS_META_TEXT];
  ts_meta_text(x, text);
  if (x->ndim < 2)
    return ts_error_set(inf->err, TS_ERR_shape, "%s: needs [.., S, D], not %s", opname(inf),
                        text);
  int64_t n = x->dim[x->ndim - 1], dims = a[DIMS].type == TS_ATTR_int ? a[DIMS].i : n;
  if (dims < 0 || dims > n || dims % 2)
    return ts_error_set(inf->err, TS_ERR_value, "%s: %lld dims of %s; an even number is needed",
                        opname(inf), (long long)dims, text);
  if (!(a[FACTOR].f > 0) || !(a[THETA].f > 0))
    return ts_error_set(inf->err, TS_ERR_value, "%s: theta and factor must be positive",
                        opname(inf));
  if (inf->nin > 1 && inf->in[1] && rope_positions(inf, x, inf->in[1])) return -1;
  return ts_shape_rule_same(inf);
}
