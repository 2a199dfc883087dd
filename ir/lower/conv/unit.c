/* Around the kernels of ir/tile/gpu/conv.c: images with their channels last, weights tap by
 * tap, and what of the result is an image. Copies of a few microseconds each, of which those
 * go away that lie well already. */
#include "ir/lower/conv/conv.h"

enum {
  LEAST = 32,         /* channels that a stage of 64 is worth */
  ALIGN = 8,          /* numbers of 16 bytes */
  LEAST_FOLDED = 16,  /* numbers of a window of fewer channels that are */
  MOST_FOLDED = 1024, /* and that are written once more for each position */
};

/* ---- the image */
TsConvPadded ts_conv_unit_padded(const TsConvUnit *u, const TsMeta *m) {
  int nd = u->w->c.nd;
  TsConvPadded r = ts_conv_padded(m, u->w->last ? m->ndim - 1 : 1);
  for (int a = 3 - nd; a < 3; a++) r.size[1 + a - (3 - nd)] = u->q[a];
  return r;
}

/* From the first place of the window to the last. */
static int64_t reach(const TsConv *c, int a) { return (c->window[a] - 1) * c->dilation[a]; }

/* What windows see of x. */
static TsConvPadded padded_image(const TsConvUnit *u) {
  const TsConv *c = &u->w->c;
  TsConvPadded r = ts_conv_unit_padded(u, &u->w->n->in[0]->meta);
  for (int a = 3 - c->nd; a < 3; a++) {
    int i = 1 + a - (3 - c->nd);
    r.size[i] = u->q[a] * c->stride[a], r.first[i] = u->before[a];
    r.part[i] = r.size[i] - r.first[i] < c->in[a] ? r.size[i] - r.first[i] : c->in[a];
  }
  return r;
}

/* Positions of a stride side by side. */
static int phases(TsConvUnit *u, int from, int64_t numel) {
  const TsConv *c = &u->w->c;
  int64_t step = u->channels, own = step, far[3], near[3], at[3];
  for (int a = 3; a-- > 0; step *= u->q[a] * c->stride[a]) far[a] = step;
  for (int a = 3; a-- > 0; own *= c->stride[a]) near[a] = own;
  for (int a = 3; a-- > 0; own *= u->q[a]) at[a] = own;
  TsDtype d = u->w->d;
  int to = ts_steps_temp(&u->x, numel * ts_dtypes[d].nbytes);
  TsStepsMove v = {.to = {.arg = to, .dtype = d}, .from = {.arg = from, .dtype = d}};
  ts_steps_along(&v, c->batch, own, step);
  for (int a = 3 - c->nd; a < 3; a++) {
    ts_steps_along(&v, u->q[a], at[a], far[a] * c->stride[a]);
    if (c->stride[a] > 1) ts_steps_along(&v, c->stride[a], near[a], far[a]);
  }
  ts_steps_along(&v, u->channels, 1, 1);
  ts_steps_move(&u->x, &v);
  return to;
}

int ts_conv_unit_image(TsConvUnit *u) {
  const int64_t *stride = u->w->c.stride;
  if (u->folded) return ts_conv_folded_image(u);
  TsConvPadded r = padded_image(u);
  int image = ts_conv_padded_in(&u->x, 0, &r);
  bool strided = stride[0] > 1 || stride[1] > 1 || stride[2] > 1;
  return strided ? phases(u, image, ts_conv_padded_numel(&r)) : image;
}

/* ---- the product */
/* Few channels: a window is a row of a matrix, and nothing moves. */
static bool fold(TsConvUnit *u) {
  const TsConvWork *w = u->w;
  const TsConv *c = &w->c;
  int64_t all = c->cg * c->window[0] * c->window[1] * c->window[2];
  if (w->transposed || all < LEAST_FOLDED || all > MOST_FOLDED || u->n % ALIGN) return false;
  for (int a = 0; a < 3; a++) {
    u->before[a] = c->before[a], u->q[a] = c->out[a];
    if (c->stride[a] < 1 || c->before[a] > (c->out[a] - 1) * c->stride[a] + reach(c, a))
      return false;
    u->k.window[a] = u->k.pitch[a] = u->k.dilation[a] = u->k.stride[a] = 1;
  }
  u->folded = true;
  u->channels = (all + ALIGN - 1) / ALIGN * ALIGN;
  u->rows = c->batch * c->out[0] * c->out[1] * c->out[2];
  u->k.in = u->k.out = w->d, u->k.n = u->n, u->k.l = u->k.channels = u->channels;
  u->k.bias = w->bias;
  return u->rows > 0 && u->rows < INT32_MAX;
}

bool ts_conv_unit_plan(TsConvUnit *u, const TsConvWork *w, const TsSched *s) {
  const TsConv *c = &w->c;
  TsGpuConv *k = &u->k;
  bool narrow = w->d == TS_DT_bf16 || w->d == TS_DT_f16;
  int64_t phases = 1, pitch = 1;
  *u = (TsConvUnit){.w = w, .channels = c->cg, .n = c->og};
  if (s->profile == TS_PROFILE_strict || !narrow || c->groups != 1) return false;
  if (u->channels < LEAST) return fold(u);
  if (u->channels % ALIGN || u->n % ALIGN) return false;
  for (int a = 3; a-- > 0;) {
    int64_t step = c->stride[a], far = reach(c, a);
    if (step < 1) return false;
    u->before[a] = w->transposed ? far - c->before[a] : c->before[a];
    u->q[a] = c->out[a] + far / step;
    if (u->before[a] < 0 || u->before[a] > u->q[a] * step) return false;
    k->window[a] = c->window[a], k->pitch[a] = pitch, k->dilation[a] = c->dilation[a];
    k->stride[a] = step;
    pitch *= u->q[a], phases *= step;
  }
  u->rows = c->batch * pitch;
  k->in = k->out = w->d, k->n = u->n, k->l = phases * u->channels, k->channels = u->channels;
  k->backwards = w->transposed, k->bias = w->bias;
  return u->rows > 0 && u->rows < INT32_MAX;
}

int ts_conv_unit_processors(const TsConvUnit *u, const TsSched *s) {
  const int64_t *window = u->k.window;
  int64_t taps = window[0] * window[1] * window[2];
  return ts_lower_roles(s, (double)(u->rows * u->n * u->k.channels * taps));
}

/* Whole stages of channels. */
static bool round_channels(TsConvUnit *u) {
  enum { DEPTH = TS_GPU_CONV_DEPTH };
  u->k.channels = (u->channels + DEPTH - 1) / DEPTH * DEPTH;
  return u->k.l == u->channels || u->k.channels == u->channels;
}

/* [out, taps, channels], with zeros behind the channels. */
static int weights(TsConvUnit *u) {
  if (u->folded) return ts_conv_folded_weights(u);
  if (u->w->in_phases) return ts_conv_phase_weights(&u->x, u->w, true, u->k.channels);
  const TsMeta *m = &u->w->n->in[1]->meta;
  TsConvPadded r = ts_conv_padded(m, u->w->last ? m->ndim - 1 : !u->w->transposed);
  r.size[r.ndim - 1] = u->k.channels;
  return ts_conv_padded_in(&u->x, 1, &r);
}

/* Whole panels of 64 columns, no more than there are; stages that fit. */
static void choose(TsConvUnit *u, const TsSchedChoice *c) {
  enum { PANEL = 64, LEAST_STAGES = 2 };
  TsGpuConv *k = &u->k;
  int cols = (c->columns + PANEL / 2) / PANEL * PANEL;
  ts_gpu_conv_choose(k, TS_GPU_CONV_TILE, k->n);
  if (c->columns && cols < k->cols) k->cols = cols < PANEL ? PANEL : cols, k->stages = 0;
  ts_gpu_conv_choose(k, TS_GPU_CONV_TILE, k->n);
  int stages = c->stages < LEAST_STAGES ? LEAST_STAGES : c->stages;
  if (c->stages && stages < k->stages) k->stages = stages;
}

static bool plan_of(TsConvUnit *u, const TsConvWork *w, const TsSched *s) {
  bool alone = !w->residual && !w->relu;
  return alone && ts_conv_unit_plan(u, w, s) && round_channels(u) &&
         ts_conv_unit_processors(u, s);
}

/* u.x has begun. */
static void add(TsConvUnit *u, const TsSchedChoice *c) {
  const TsConvWork *w = u->w;
  TsSteps *x = &u->x;
  int n = 0, list[4];
  list[n++] = ts_conv_unit_image(u), list[n++] = weights(u);
  if (w->bias) list[n++] = ts_steps_in_as(x, 2, NULL, TS_DT_f32);
  TsConvPadded to = ts_conv_unit_padded(u, &w->n->out[0].meta);
  int64_t nbytes = u->rows * u->n * ts_dtypes[w->d].nbytes, stride[5], step = u->n;
  int y = list[n++] = w->in_phases ? ts_steps_temp(x, nbytes) : ts_conv_padded_out(x, &to);
  choose(u, c);
  int64_t dim[2] = {u->rows, ts_conv_unit_processors(u, x->s)};
  ts_steps_add(x, ts_tile_gpu_conv(&u->k, x->err), list, dim);
  for (int a = 3; a-- > 0; step *= u->q[a]) stride[2 + a] = step;
  stride[0] = step, stride[1] = 1;
  if (w->in_phases)
    ts_conv_phase_back(x, w, y, stride);
  else
    ts_conv_padded_back(x, y, &to);
}

/* Whether the unit can do all phases. One that no place of the window meets has no sum to which a bias would
 * be added. */
static bool takes_phases(const TsConvWork *w, const TsSched *s) {
  for (int i = 0, n = ts_conv_phases(w); i < n; i++) {
    TsConvWork own;
    TsConvUnit u;
    if (ts_conv_phase(w, i, &own) ? !plan_of(&u, &own, s) : w->bias) return false;
  }
  return true;
}

bool ts_conv_unit_takes(const TsConvWork *w, const TsSched *s) {
  TsConvUnit u;
  return ts_conv_has_phases(w) ? takes_phases(w, s) : plan_of(&u, w, s);
}

int ts_conv_unit(const TsConvWork *w, const TsSched *s, const TsSchedChoice *c,
                 TsLayoutFn *layout, void *arg, TsSchedKernel *out, TsError *err) {
  TsConvUnit u = {.w = w};
  TsSteps x;
  bool strided = ts_conv_has_phases(w);
  if (!ts_conv_unit_takes(w, s)) return 0;
  ts_steps_begin(&x, s, layout, arg, w->n, err);
  for (int i = 0, n = strided ? ts_conv_phases(w) : 1; i < n; i++) {
    TsConvWork own = *w;
    if (strided && !ts_conv_phase(w, i, &own)) {
      ts_conv_phase_zeros(&x, &own);
      continue;
    }
    if (!plan_of(&u, &own, s)) break; /* it was asked before */
    u.x = x;
    add(&u, c);
    x = u.x;
  }
  int made = ts_steps_end(&x, out);
  out->told = true;
  out->took = (TsSchedChoice){.columns = u.k.cols, .stages = u.k.stages};
  return made;
}
