/* grid_sample: elements of an image at places of a grid, between which it is linear in each axis. */
#include "ir/compose/compose.h"

enum { LINEAR, NEAREST };
enum { ZEROS, BORDER, REFLECTION };

static TsVal add(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_add, x, y); }
static TsVal sub(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_sub, x, y); }
static TsVal mul(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_mul, x, y); }
static TsVal both(TsBuild *b, TsVal x, TsVal y) {
  return ts_build2(b, TS_OP_logical_and, x, y);
}
static TsVal number(TsBuild *b, double x) { return b->number(b, x); }

static TsVal where(TsBuild *b, TsVal condition, TsVal x, TsVal y) {
  return ts_build(b, TS_OP_where, TS_IN(condition, x, y), TS_NO_ATTRS, NULL);
}

static TsVal limited(TsBuild *b, TsVal x, double lo, double hi) {
  return ts_build(b, TS_OP_clamp, TS_IN(x), TS_ATTRS({"min", ts_b_f(lo)}, {"max", ts_b_f(hi)}),
                  NULL);
}

/* Thrown back at lo and hi as often as needed. */
static TsVal reflected(TsBuild *b, TsVal x, double lo, double hi) {
  double span = hi - lo;
  if (span <= 0) return mul(b, x, number(b, 0));
  TsVal far = ts_build1(b, TS_OP_abs, sub(b, x, number(b, lo)));
  TsVal rest = ts_build2(b, TS_OP_mod, far, number(b, 2 * span));
  TsVal back = sub(b, number(b, 2 * span), rest);
  TsVal past = ts_build2(b, TS_OP_gt, rest, number(b, span));
  return add(b, where(b, past, back, rest), number(b, lo));
}

/* From [-1, 1] to places along an axis of n elements. */
static TsVal place(TsBuild *b, TsVal x, int64_t n, const TsAttr *attr) {
  int64_t outside = attr[1].i;
  bool corners = attr[2].i;
  double half = corners ? (double)(n - 1) / 2 : (double)n / 2;
  x = mul(b, add(b, x, number(b, 1)), number(b, half));
  if (!corners) x = sub(b, x, number(b, 0.5));
  if (outside == REFLECTION)
    x = corners ? reflected(b, x, 0, (double)(n - 1)) : reflected(b, x, -0.5, (double)n - 0.5);
  return outside == ZEROS ? x : limited(b, x, 0, (double)(n - 1));
}

typedef struct Sample {
  TsBuild *b;
  int nd;
  TsMeta x;
  int64_t places[3]; /* images, 1, places of each */
  TsVal flat;        /* x as [N, C, elements] */
  TsVal low[3];      /* the element at or before the place, along each space axis */
  TsVal at[3];
} Sample;

/* The elements at low + step, times their shares; nothing where they lie outside. */
static TsVal corner(Sample *s, const int *step, bool shares) {
  TsBuild *b = s->b;
  TsVal index = NULL, inside = NULL, share = NULL;
  for (int a = 0; a < s->nd; a++) {
    int64_t n = s->x.dim[2 + a];
    TsVal i = step[a] ? add(b, s->low[a], number(b, 1)) : s->low[a];
    TsVal ok = both(b, ts_build2(b, TS_OP_ge, i, number(b, 0)),
                    ts_build2(b, TS_OP_lt, i, number(b, (double)n)));
    TsVal whole = ts_build_cast(b, where(b, ok, i, number(b, 0)), TS_DT_i64);
    index = index ? add(b, mul(b, index, number(b, (double)n)), whole) : whole;
    inside = inside ? both(b, inside, ok) : ok;
    if (!shares) continue;
    TsVal part = sub(b, s->at[a], s->low[a]);
    if (!step[a]) part = sub(b, number(b, 1), part);
    share = share ? mul(b, share, part) : part;
  }
  int64_t spread[3] = {s->places[0], s->x.dim[1], s->places[2]};
  index = ts_build_reshape(b, index, s->places, 3);
  index =
      ts_build(b, TS_OP_expand, TS_IN(index), TS_ATTRS({"shape", ts_b_ints(spread, 3)}), NULL);
  TsVal v =
      ts_build(b, TS_OP_gather, TS_IN(s->flat, index), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  if (share) v = mul(b, v, ts_build_reshape(b, share, s->places, 3));
  return where(b, ts_build_reshape(b, inside, s->places, 3), v, number(b, 0));
}

static int check(TsCompose *k, const TsMeta *x, const TsMeta *grid) {
  char tx[TS_META_TEXT], tg[TS_META_TEXT];
  int nd = x->ndim - 2;
  if ((nd == 2 || nd == 3) && grid->ndim == x->ndim && grid->dim[nd + 1] == nd &&
      grid->dim[0] == x->dim[0])
    return 0;
  ts_build_fail(k->b, TS_ERR_shape, "grid_sample: grid does not fit x: x %s, grid %s",
                ts_meta_text(x, tx), ts_meta_text(grid, tg));
  return ts_error_hint(k->b->err,
                       "x [N,C,H,W] has a grid [N,h,w,2], x [N,C,D,H,W] [N,d,h,w,3]");
}

int ts_compose_grid_sample(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta grid = *b->meta(b, k->in[1]);
  Sample s = {.b = b, .x = *b->meta(b, k->in[0])};
  if (check(k, &s.x, &grid)) return -1;
  bool linear = k->attr[0].i == LINEAR;
  int64_t flat[3] = {s.x.dim[0], s.x.dim[1], 1}, out[TS_MAX_RANK] = {s.x.dim[0], s.x.dim[1]};
  s.nd = s.x.ndim - 2, s.places[0] = s.x.dim[0], s.places[1] = s.places[2] = 1;
  for (int a = 0; a < s.nd; a++) {
    flat[2] *= s.x.dim[2 + a];
    s.places[2] *= out[2 + a] = grid.dim[1 + a];
  }
  if (!flat[2])
    return ts_build_fail(b, TS_ERR_shape, "grid_sample: x has no elements in space");
  s.flat = ts_build_reshape(b, k->in[0], flat, 3);
  for (int a = 0; a < s.nd; a++) {
    TsVal g =
        ts_build(b, TS_OP_select, TS_IN(k->in[1]),
                 TS_ATTRS({"axis", ts_b_int(-1)}, {"index", ts_b_int(s.nd - 1 - a)}), NULL);
    s.at[a] = place(b, g, s.x.dim[2 + a], k->attr);
    s.low[a] = ts_build1(b, linear ? TS_OP_floor : TS_OP_round, s.at[a]);
  }
  TsVal sum = NULL;
  for (int i = 0; i < (linear ? 1 << s.nd : 1); i++) {
    int step[3] = {i >> (s.nd - 1) & 1, s.nd > 1 ? i >> (s.nd - 2) & 1 : 0, i & 1};
    TsVal v = corner(&s, step, linear);
    sum = sum ? add(b, sum, v) : v;
  }
  k->out[0] = ts_build_reshape(b, sum, out, s.x.ndim);
  return b->failed ? -1 : 0;
}
