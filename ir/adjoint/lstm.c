/* The adjoint of lstm where a tape has it as one call, and that of its gradient, by a definition.
 * Graphs have the steps, and their adjoints. */
#include "ir/adjoint/common.h"
#include "ir/compose/compose.h"

int ts_adjoint_lstm(TsAdjoint *a) {
  TsVal out[TS_MAX_OUT] = {NULL};
  const TsVal in[8] = {a->in[0],  a->in[1],   a->in[2],   a->in[3],
                       a->out[0], a->grad[0], a->grad[1], a->grad[2]};
  ts_build(a->b, TS_OP_lstm_grad, 8, in, TS_ATTRS({"reverse", a->attr[0]}), out);
  for (int i = 0; i < 4; i++) a->grad_in[i] = out[i];
  return a->b->failed ? -1 : 0;
}

/* ---- the gradient, step by step */
typedef struct Step {
  TsVal h, c;    /* before it */
  TsVal gate[4]; /* i, f, g, o */
  TsVal tanh;    /* of the state behind it */
} Step;

static TsVal row(TsBuild *b, TsVal x, int64_t i) {
  return ts_build(b, TS_OP_select, TS_IN(x),
                  TS_ATTRS({"axis", ts_b_int(0)}, {"index", ts_b_int(i)}), NULL);
}

static TsVal sum(TsBuild *b, TsVal x, TsVal y) {
  return x && y ? ts_build_add(b, x, y) : x ? x : y;
}

static TsVal turned(TsBuild *b, TsVal x) { return ts_build1(b, TS_OP_transpose, x); }

static TsVal by_slope(TsBuild *b, TsVal g, TsVal y, bool of_tanh) {
  TsVal one = b->number(b, 1), slope;
  if (of_tanh)
    slope = ts_build(b, TS_OP_fma, TS_IN(y, ts_build_neg(b, y), one), TS_NO_ATTRS, NULL);
  else
    slope = ts_build_mul(b, y, ts_build_sub(b, one, y));
  return ts_build_mul(b, g, slope);
}

/* The state behind the step. */
static TsVal forward(TsCompose *k, Step *s, int64_t t, int64_t n) {
  TsBuild *b = k->b;
  TsVal product = ts_build2(b, TS_OP_matmul, s->h, turned(b, k->in[1]));
  TsVal a = ts_build_add(b, row(b, k->in[0], t), product);
  for (int i = 0; i < 4; i++)
    s->gate[i] =
        ts_build1(b, i == 2 ? TS_OP_tanh : TS_OP_sigmoid, ts_build_narrow(b, a, -1, i * n, n));
  TsVal c = ts_build_add(b, ts_build_mul(b, s->gate[1], s->c),
                         ts_build_mul(b, s->gate[0], s->gate[2]));
  s->tanh = ts_build1(b, TS_OP_tanh, c);
  return c;
}

/* The gradient of the sums; *dc becomes that of the state before. */
static TsVal back(TsBuild *b, const Step *s, TsVal dh, TsVal *dc) {
  TsVal g[4] = {NULL};
  if (dh) {
    *dc = sum(b, *dc, by_slope(b, ts_build_mul(b, dh, s->gate[3]), s->tanh, true));
    g[3] = by_slope(b, ts_build_mul(b, dh, s->tanh), s->gate[3], false);
  } else {
    g[3] = ts_build_zeros_like(b, s->tanh);
  }
  g[0] = by_slope(b, ts_build_mul(b, *dc, s->gate[2]), s->gate[0], false);
  g[1] = by_slope(b, ts_build_mul(b, *dc, s->c), s->gate[1], false);
  g[2] = by_slope(b, ts_build_mul(b, *dc, s->gate[0]), s->gate[2], true);
  *dc = ts_build_mul(b, *dc, s->gate[1]);
  return ts_build(b, TS_OP_concat, 4, g, TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
}

static int lstm_grad(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *x = b->meta(b, k->in[0]);
  int64_t steps = x->dim[0], n = x->dim[2] / 4;
  TsVal g[3], da[TS_LSTM_STEPS], dw = NULL, dh, dc;
  Step step[TS_LSTM_STEPS];
  for (int i = 0; i < 3; i++) g[i] = 5 + i < k->nin ? k->in[5 + i] : NULL;
  for (int i = 0; i < 4; i++) k->out[i] = ts_build_zeros_like(b, k->in[i]);
  k->nout = 4;
  if ((!g[0] && !g[1] && !g[2]) || steps < 1) return b->failed ? -1 : 0;
  if (steps > TS_LSTM_STEPS)
    return ts_build_fail(b, TS_ERR_value,
                         "lstm_grad: %lld steps, its derivative takes %d at most",
                         (long long)steps, TS_LSTM_STEPS);
  bool reverse = k->attr[0].i;
  for (int64_t i = 0; i < steps; i++) {
    int64_t t = reverse ? steps - 1 - i : i, last = reverse ? t + 1 : t - 1;
    step[i].h = i ? row(b, k->in[4], last) : k->in[2];
    step[i].c = i ? dc : k->in[3];
    dc = forward(k, &step[i], t, n);
  }
  dh = g[1], dc = g[2];
  for (int64_t i = steps; i-- > 0;) {
    int64_t t = reverse ? steps - 1 - i : i;
    if (g[0]) dh = sum(b, dh, row(b, g[0], t));
    da[t] = back(b, &step[i], dh, &dc);
    dh = ts_build2(b, TS_OP_matmul, da[t], k->in[1]);
    dw = sum(b, dw, ts_build2(b, TS_OP_matmul, turned(b, step[i].h), da[t]));
  }
  k->out[0] = ts_build(b, TS_OP_stack, (int)steps, da, TS_NO_ATTRS, NULL);
  k->out[1] = turned(b, dw), k->out[2] = dh, k->out[3] = dc;
  return b->failed ? -1 : 0;
}

int ts_adjoint_lstm_grad(TsAdjoint *a) { return ts_adjoint_by_definition(a, lstm_grad); }
