/* Images by place: grid_sample, im2col. */
#include "ir/compose/compose.h"

static TsVal plus(TsBuild *b, TsVal x, double y) {
  return ts_build2(b, TS_OP_add, x, b->number(b, y));
}
static TsVal times(TsBuild *b, TsVal x, double y) {
  return ts_build2(b, TS_OP_mul, x, b->number(b, y));
}

static TsVal clamped(TsBuild *b, TsVal x, double low, double high) {
  return ts_build(b, TS_OP_clamp, TS_IN(x),
                  TS_ATTRS({"min", ts_b_f(low)}, {"max", ts_b_f(high)}), NULL);
}

/* ---- grid_sample */
enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

/* Back and forth between low and low + span. */
static TsVal reflected(TsBuild *b, TsVal v, double low, double span) {
  if (span <= 0) return times(b, v, 0);
  v = ts_build1(b, TS_OP_abs, plus(b, v, -low));
  TsVal width = b->number(b, span), rest = ts_build2(b, TS_OP_fmod, v, width);
  TsVal turns = ts_build1(b, TS_OP_floor, ts_build2(b, TS_OP_div, v, width));
  TsVal odd =
      ts_build2(b, TS_OP_ne, ts_build2(b, TS_OP_mod, turns, b->number(b, 2)), b->number(b, 0));
  return plus(b, ts_build_where(b, odd, ts_build2(b, TS_OP_sub, width, rest), rest), low);
}

/* A place beyond an image of n elements, as the padding has it. */
static TsVal bounded(TsCompose *k, TsVal v, double n) {
  TsBuild *b = k->b;
  bool corners = k->attr[2].i;
  if (k->attr[1].i == REFLECTION)
    v = corners ? reflected(b, v, 0, n - 1) : reflected(b, v, -0.5, n);
  return k->attr[1].i == ZEROS ? v : clamped(b, v, 0, n - 1);
}

/* Coordinate number i of the grid, from [-1, 1] to elements of n. */
static TsVal coordinate(TsCompose *k, int i, double n, const int64_t *dim) {
  TsBuild *b = k->b;
  bool corners = k->attr[2].i;
  TsVal v = ts_build(b, TS_OP_select, TS_IN(k->in[1]),
                     TS_ATTRS({"axis", ts_b_int(-1)}, {"index", ts_b_int(i)}), NULL);
  v = plus(b, ts_build_reshape(b, v, dim, 3), 1);
  return corners ? times(b, v, (n - 1) / 2) : plus(b, times(b, v, n / 2), -0.5);
}

enum { MOST = 3 }; /* axes of space */

typedef struct Picture {
  TsVal x; /* [N, C, elements] */
  int axes;
  double size[MOST];
  int64_t dim[3]; /* of the result, with one axis of space */
} Picture;

static TsVal inside(TsBuild *b, TsVal v, double n) {
  return ts_build2(b, TS_OP_logical_and, ts_build2(b, TS_OP_ge, v, b->number(b, 0)),
                   ts_build2(b, TS_OP_le, v, b->number(b, n - 1)));
}

/* The elements at whole places, 0 outside. */
static TsVal fetched(TsBuild *b, const Picture *p, const TsVal *place) {
  TsVal zero = b->number(b, 0), in = NULL, at = NULL;
  for (int i = 0; i < p->axes; i++) {
    TsVal one = inside(b, place[i], p->size[i]);
    in = in ? ts_build2(b, TS_OP_logical_and, in, one) : one;
  }
  for (int i = 0; i < p->axes; i++) {
    TsVal v = ts_build_cast(b, ts_build_where(b, in, place[i], zero), TS_DT_i64);
    at = at ? ts_build2(b, TS_OP_add, times(b, at, p->size[i]), v) : v;
  }
  at = ts_build(b, TS_OP_broadcast_to, TS_IN(at), TS_ATTRS({"shape", ts_b_ints(p->dim, 3)}),
                NULL);
  TsVal v = ts_build(b, TS_OP_gather, TS_IN(p->x, at), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  return ts_build_where(b, in, v, zero);
}

/* All corners of the cell, each times what is left to the opposite one along each axis. */
static TsVal interpolated(TsBuild *b, const Picture *p, const TsVal *place) {
  TsVal low[MOST], part[MOST][2], sum = NULL, one = b->number(b, 1);
  for (int i = 0; i < p->axes; i++) {
    low[i] = ts_build1(b, TS_OP_floor, place[i]);
    part[i][1] = ts_build2(b, TS_OP_sub, place[i], low[i]);
    part[i][0] = ts_build2(b, TS_OP_sub, one, part[i][1]);
  }
  for (int corner = 0; corner < 1 << p->axes; corner++) {
    TsVal at[MOST], share = NULL;
    for (int i = 0; i < p->axes; i++) {
      int up = corner >> (p->axes - 1 - i) & 1;
      at[i] = up ? plus(b, low[i], 1) : low[i];
      share = share ? ts_build2(b, TS_OP_mul, share, part[i][up]) : part[i][up];
    }
    TsVal v = ts_build2(b, TS_OP_mul, fetched(b, p, at), share);
    sum = sum ? ts_build2(b, TS_OP_add, sum, v) : v;
  }
  return sum;
}

/* Shares of the four elements around a place that lies t behind the second: cubic convolution
 * (Keys 1981) with a = -0.75. */
static void cubic_shares(TsBuild *b, TsVal t, TsVal share[4]) {
  const double a = -0.75;
  TsVal rest = ts_build2(b, TS_OP_sub, b->number(b, 1), t);
  for (int side = 0; side < 2; side++) {
    TsVal near = side ? rest : t, far = plus(b, near, 1), v;
    v = plus(b, times(b, near, a + 2), -(a + 3));
    v = ts_build2(b, TS_OP_mul, ts_build2(b, TS_OP_mul, v, near), near);
    share[1 + side] = plus(b, v, 1);
    v = plus(b, times(b, far, a), -5 * a);
    v = plus(b, ts_build2(b, TS_OP_mul, v, far), 8 * a);
    share[side ? 3 : 0] = plus(b, ts_build2(b, TS_OP_mul, v, far), -4 * a);
  }
}

/* Sixteen elements, each where the padding has it. */
static TsVal bicubic(TsCompose *k, const Picture *p, const TsVal *place) {
  TsBuild *b = k->b;
  TsVal at[2][4], share[2][4], sum = NULL;
  for (int i = 0; i < 2; i++) {
    TsVal low = ts_build1(b, TS_OP_floor, place[i]);
    cubic_shares(b, ts_build2(b, TS_OP_sub, place[i], low), share[i]);
    for (int j = 0; j < 4; j++) at[i][j] = bounded(k, plus(b, low, j - 1), p->size[i]);
  }
  for (int row = 0; row < 4; row++) {
    TsVal line = NULL;
    for (int column = 0; column < 4; column++) {
      TsVal v = fetched(b, p, (TsVal[]){at[0][row], at[1][column]});
      v = ts_build2(b, TS_OP_mul, v, share[1][column]);
      line = line ? ts_build2(b, TS_OP_add, line, v) : v;
    }
    line = ts_build2(b, TS_OP_mul, line, share[0][row]);
    sum = sum ? ts_build2(b, TS_OP_add, sum, line) : line;
  }
  return sum;
}

/* The grid names the last axis of space first. */
int ts_compose_grid_sample(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta m = *b->meta(b, k->in[0]), g = *b->meta(b, k->in[1]);
  char tm[TS_META_TEXT], tg[TS_META_TEXT];
  int axes = m.ndim - 2;
  bool fits = (axes == 2 || axes == 3) && g.ndim == m.ndim && g.dim[g.ndim - 1] == axes &&
              g.dim[0] == m.dim[0];
  int64_t elements = 1, places = 1, dim[2 + MOST] = {m.dim[0], m.dim[1]};
  for (int i = 0; fits && i < axes; i++)
    elements *= m.dim[2 + i], places *= dim[2 + i] = g.dim[1 + i];
  if (!fits || elements == 0)
    return ts_build_fail(b, TS_ERR_shape,
                         "grid_sample: x [N, C, H, W] and grid [N, h, w, 2] are needed, or [N, "
                         "C, D, H, W] and [N, d, h, w, 3]: %s x %s",
                         ts_meta_text(&m, tm), ts_meta_text(&g, tg));
  int64_t image[3] = {m.dim[0], m.dim[1], elements}, line[3] = {m.dim[0], 1, places};
  Picture p = {.x = ts_build_reshape(b, k->in[0], image, 3),
               .axes = axes,
               .dim = {m.dim[0], m.dim[1], places}};
  if (k->attr[0].i == BICUBIC && axes != 2)
    return ts_build_fail(b, TS_ERR_attribute,
                         "grid_sample: mode 'bicubic' is for images [N, C, H, W], not %s",
                         ts_meta_text(&m, tm));
  TsVal place[MOST], v;
  for (int i = 0; i < axes; i++) {
    p.size[i] = (double)m.dim[2 + i];
    place[i] = coordinate(k, axes - 1 - i, p.size[i], line);
    if (k->attr[0].i != BICUBIC) place[i] = bounded(k, place[i], p.size[i]);
    if (k->attr[0].i == NEAREST) place[i] = ts_build1(b, TS_OP_round, place[i]);
  }
  switch (k->attr[0].i) {
  case NEAREST: v = fetched(b, &p, place); break;
  case BICUBIC: v = bicubic(k, &p, place); break;
  default: v = interpolated(b, &p, place);
  }
  k->out[0] = ts_build_reshape(b, v, dim, 2 + axes);
  return b->failed ? -1 : 0;
}

/* ---- im2col */
static int pair(TsCompose *k, int i, int64_t least, int64_t two[2]) {
  const TsAttr *a = &k->attr[i];
  for (int j = 0; j < 2 && a->n >= 1 && a->n <= 2; j++) {
    two[j] = a->ints[a->n == 1 ? 0 : j];
    if (two[j] < least) break;
    if (j == 1) return 0;
  }
  const TsAttrSpec *s = &ts_op_info(k->op)->attr[i];
  return ts_build_fail(k->b, TS_ERR_attribute,
                       "im2col: %.*s is one number or two, from %lld on", s->namelen, s->name,
                       (long long)least);
}

/* Every dilation-th element of windows that span all of it, for both axes of space. */
int ts_compose_im2col(TsCompose *k) {
  TsBuild *b = k->b;
  int64_t window[2], stride[2], padding[2], dilation[2];
  if (pair(k, 0, 1, window) || pair(k, 1, 1, stride) || pair(k, 2, 0, padding) ||
      pair(k, 3, 1, dilation))
    return -1;
  TsVal v = k->in[0];
  TsMeta m = *b->meta(b, v);
  char text[TS_META_TEXT];
  int nd = m.ndim;
  if (nd < 3 || nd > TS_MAX_RANK - 2)
    return ts_build_fail(b, TS_ERR_shape, "im2col: x [.., C, H, W] is needed, not %s",
                         ts_meta_text(&m, text));
  int64_t pads[4] = {padding[0], padding[0], padding[1], padding[1]};
  if (padding[0] || padding[1])
    v = ts_build(b, TS_OP_pad, TS_IN(v), TS_ATTRS({"pads", ts_b_ints(pads, 4)}), NULL);
  for (int i = 0; i < 2; i++)
    v = ts_build(b, TS_OP_unfold, TS_IN(v),
                 TS_ATTRS({"axis", ts_b_int(nd - 2 + i)},
                          {"size", ts_b_int((window[i] - 1) * dilation[i] + 1)},
                          {"step", ts_b_int(stride[i])}),
                 NULL);
  int64_t start[TS_MAX_RANK], stop[TS_MAX_RANK], step[TS_MAX_RANK], perm[TS_MAX_RANK];
  for (int i = 0; i < nd + 2; i++) {
    start[i] = stop[i] = INT64_MIN;
    step[i] = i < nd ? 1 : dilation[i - nd];
    perm[i] = i < nd - 2 ? i : i < nd ? i + 2 : i - 2;
  }
  v = ts_build(b, TS_OP_slice, TS_IN(v),
               TS_ATTRS({"start", ts_b_ints(start, nd + 2)}, {"stop", ts_b_ints(stop, nd + 2)},
                        {"step", ts_b_ints(step, nd + 2)}),
               NULL);
  if (b->failed) return -1;
  TsMeta made = *b->meta(b, v);
  m.dim[nd - 3] *= window[0] * window[1];
  m.dim[nd - 2] = made.dim[nd - 2] * made.dim[nd - 1];
  k->out[0] = ts_build_reshape(b, ts_build_permute(b, v, perm, nd + 2), m.dim, nd - 1);
  return b->failed ? -1 : 0;
}
