/* Transposed convolutions of a stride: results whose positions leave the same remainders by it, one
 * phase, are met by the same places of the window, at inputs that step by one. So each phase is a
 * transposed one of stride 1 with a part of the window (vm/exec/conv_transpose.c has the same
 * phases), whose results are put where they belong. */
#include "ir/lower/conv/conv.h"

static int64_t divided(int64_t x, int64_t y) { return x / y - (x % y < 0); }

/* Which places of an axis meet position `at` of the result; false: none. */
static bool places(const TsConv *c, TsConvPhase *p, int a) {
  int64_t stride = c->stride[a], dilation = c->dilation[a];
  p->place[a] = p->step[a] = -1;
  for (int64_t k = 0; k < c->window[a] && p->step[a] < 0; k++) {
    if ((p->at[a] + c->before[a] - k * dilation) % stride) continue;
    if (p->place[a] < 0)
      p->place[a] = k;
    else
      p->step[a] = k - p->place[a];
  }
  if (p->step[a] < 0) p->step[a] = c->window[a]; /* one */
  return p->place[a] >= 0;
}

int ts_conv_phases(const TsConvWork *w) {
  int64_t n = 1;
  for (int a = 0; a < 3; a++) {
    n *= w->c.stride[a] < w->c.out[a] ? w->c.stride[a] : w->c.out[a];
    if (n > TS_CONV_PHASES) return 0;
  }
  return (int)n;
}

bool ts_conv_has_phases(const TsConvWork *w) {
  const int64_t *stride = w->c.stride;
  return w->transposed && (stride[0] > 1 || stride[1] > 1 || stride[2] > 1);
}

bool ts_conv_phase(const TsConvWork *w, int i, TsConvWork *own) {
  const TsConv *c = &w->c;
  TsConvPhase *p = &own->phase;
  bool met = true;
  *own = *w;
  own->in_phases = true;
  for (int a = 3; a-- > 0;) {
    int each = (int)(c->stride[a] < c->out[a] ? c->stride[a] : c->out[a]);
    p->at[a] = i % each, i /= each;
    p->stride[a] = c->stride[a];
    own->c.out[a] = (c->out[a] - p->at[a] + c->stride[a] - 1) / c->stride[a];
    own->c.stride[a] = 1;
    met = places(c, p, a) && met;
    if (!met) continue;
    own->c.window[a] = (c->window[a] - p->place[a] + p->step[a] - 1) / p->step[a];
    own->c.dilation[a] = p->step[a] * c->dilation[a] / c->stride[a];
    int64_t reach = p->at[a] + c->before[a] - p->place[a] * c->dilation[a];
    own->c.before[a] = divided(reach, c->stride[a]);
    if (own->c.window[a] == 1) own->c.dilation[a] = 1;
  }
  return met;
}

int ts_conv_phase_weights(TsSteps *x, const TsConvWork *w, bool taps, int64_t channels) {
  const TsConv *c = &w->c;
  const TsConvPhase *p = &w->phase;
  const TsMeta *m = &w->n->in[1]->meta;
  TsStepsView own = ts_steps_in_view(x, 1);
  int64_t in = m->dim[0], out = m->dim[1], window = 1, first = 0, n, step;
  int nbytes = ts_dtypes[w->d].nbytes;
  for (int a = 0; a < 3; a++) window *= c->window[a];
  n = taps ? out * window * channels : in * out * window;
  TsStepsMove v = {.to = {.arg = ts_steps_temp(x, n * nbytes), .dtype = w->d}};
  if (taps && channels > in) ts_steps_fill(x, v.to.arg, w->d, n, 0);
  step = taps ? window * channels : window;
  if (taps) ts_steps_along(&v, out, step, own.stride[1]);
  if (!taps)
    ts_steps_along(&v, in, out * step, own.stride[0]),
        ts_steps_along(&v, out, step, own.stride[1]);
  step = taps ? channels : 1;
  for (int a = 0; a < 3; a++) {
    int at = 2 + a - (3 - c->nd);
    if (a < 3 - c->nd) continue;
    int64_t inner = step;
    for (int b = a + 1; b < 3; b++) inner *= c->window[b];
    ts_steps_along(&v, c->window[a], inner, own.stride[at] * p->step[a]);
    first += own.stride[at] * p->place[a];
  }
  if (taps) ts_steps_along(&v, in, 1, own.stride[0]);
  v.from.arg = ts_steps_from(x, own.arg, first * nbytes), v.from.dtype = w->d;
  ts_steps_move(x, &v);
  return v.to.arg;
}

void ts_conv_phase_back(TsSteps *x, const TsConvWork *w, int arg, const int64_t stride[5]) {
  const TsConv *c = &w->c;
  const TsConvPhase *p = &w->phase;
  TsStepsView own = ts_steps_out_view(x, 0);
  int64_t first = 0;
  TsStepsMove v = {.from = {.arg = arg, .dtype = w->d}};
  ts_steps_along(&v, c->batch, own.stride[0], stride[0]);
  ts_steps_along(&v, w->n->out[0].meta.dim[1], own.stride[1], stride[1]);
  for (int a = 3 - c->nd; a < 3; a++) {
    int64_t step = own.stride[2 + a - (3 - c->nd)];
    ts_steps_along(&v, c->out[a], step * p->stride[a], stride[2 + a]);
    first += step * p->at[a];
  }
  v.to.arg = ts_steps_from(x, own.arg, first * ts_dtypes[w->d].nbytes), v.to.dtype = w->d;
  ts_steps_move(x, &v);
}

void ts_conv_phase_zeros(TsSteps *x, const TsConvWork *w) {
  const TsConv *c = &w->c;
  int64_t none[5] = {0}, one = ts_dtypes[w->d].nbytes;
  int zero = ts_steps_temp(x, one);
  ts_steps_fill(x, zero, w->d, 1, 0);
  if (c->batch) ts_conv_phase_back(x, w, zero, none);
}
