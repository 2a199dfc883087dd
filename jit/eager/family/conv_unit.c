/* Around the kernels of ir/tile/gpu/conv.c: images (jit/eager/family/conv_image.c), weights tap by
 * tap, and what of the result is an image. Copies of a few microseconds each, of which those go
 * away that lie well already. */
#include "jit/eager/family/conv_unit.h"


enum {
  LEAST = 32, /* channels that a stage of 64 is worth */
  UNIT = 8,   /* numbers of 16 bytes */
};

/* ---- weights: [out, taps, channels], with zeros behind the channels */
static int make_weights(TsConvJob *j) {
  const TsConv *c = &j->u->c;
  TsTensor *w = j->u->w;
  int first = j->u->last ? 1 : 2; /* axis of the window */
  if (j->u->last && ts_conv_lies_well(w) && j->k.channels == j->channels)
    return (j->w = ts_tensor_ref(w)) ? 0 : -1;
  int64_t taps = c->window[0] * c->window[1] * c->window[2], k = taps * j->k.channels, tap = k;
  bool back = j->u->transposed;
  if (!(j->w = ts_conv_room(j, ts_tensor_dtype(w), j->n * k))) return -1;
  if (j->k.channels != j->channels && ts_conv_zero(j, j->w)) return -1;
  TsConvView vt = ts_conv_view(j->w), vf = ts_conv_view(w);
  ts_conv_axis(&vt, j->n, k), ts_conv_axis(&vf, j->n, w->stride[back]);
  for (int a = 3 - c->nd; a < 3; a++) {
    tap /= c->window[a];
    ts_conv_axis(&vt, c->window[a], tap);
    ts_conv_axis(&vf, c->window[a], w->stride[first + a - (3 - c->nd)]);
  }
  ts_conv_axis(&vt, j->channels, 1),
      ts_conv_axis(&vf, j->channels, w->stride[j->u->last ? 1 + c->nd : !back]);
  return ts_conv_move(j, j->w, &vt, w, &vf);
}

/* ---- the result */
static bool is_whole(const TsConvJob *j) {
  bool same = j->u->last && ts_conv_lies_well(j->call->out[0]);
  for (int a = 0; a < 3; a++) same = same && j->q[a] == j->u->c.out[a];
  return same;
}

static int put_result(TsConvJob *j) {
  const TsConv *c = &j->u->c;
  TsTensor *y = j->call->out[0];
  if (is_whole(j)) return 0;
  TsConvView vf = ts_conv_padded(j, j->c, j->q, j->n),
             vt = ts_conv_image_of(j, y, c->out, j->n);
  for (int i = 0; i < vt.m.ndim; i++) vf.m.dim[i] = vt.m.dim[i];
  return ts_conv_move(j, y, &vt, j->c, &vf);
}

static TsTile *build(const void *arg) {
  TsError err = {0};
  return ts_tile_gpu_conv(arg, &err);
}

void ts_conv_words(TsOwn *k, const TsGpuConv *x) {
  ts_own_word(k, x->in | x->out << 8 | x->backwards << 16 | x->bias << 17);
  ts_own_word(k, x->l), ts_own_word(k, x->n), ts_own_word(k, x->channels);
  for (int a = 0; a < 3; a++) {
    ts_own_word(k, x->window[a]), ts_own_word(k, x->pitch[a]);
    ts_own_word(k, x->dilation[a]), ts_own_word(k, x->stride[a]);
  }
}

static int run(TsConvJob *j, int nsm) {
  TsOwn k = {.build = build, .arg = &j->k, .nout = 1, .ndim = 2};
  bool direct = is_whole(j);
  j->c = direct ? ts_tensor_ref(j->call->out[0])
                : ts_conv_room(j, ts_tensor_dtype(j->call->out[0]), j->rows * j->n);
  if (!j->c || ts_conv_make_image(j) || make_weights(j)) return -1;
  if (j->u->bias && !(j->bias = ts_tensor_cast(j->call->ctx, j->u->bias, TS_DT_f32))) return -1;
  TsTensor *bias =
      j->bias && !ts_conv_lies_well(j->bias) ? ts_tensor_copy(j->call->ctx, j->bias) : NULL;
  if (bias) ts_tensor_unref(j->bias), j->bias = bias;
  k.in[k.nin++] = j->a, k.in[k.nin++] = j->w;
  if (j->bias) k.in[k.nin++] = j->bias;
  k.out[0] = j->c;
  k.dim[0] = j->rows, k.dim[1] = nsm;
  ts_own_word(&k, 'U' << 8);
  ts_conv_words(&k, &j->k);
  int done = ts_own_run(j->o, j->call, j->device, &k);
  return done == 1 && put_result(j) ? -1 : done;
}

bool ts_conv_plan(TsConvJob *j) {
  const TsConv *c = &j->u->c;
  TsGpuConv *k = &j->k;
  TsDtype d = ts_tensor_dtype(j->u->x);
  bool narrow = d == TS_DT_bf16 || d == TS_DT_f16;
  int64_t phases = 1, pitch = 1;
  j->channels = c->cg, j->n = c->og;
  if (j->call->ctx->profile == TS_PROFILE_strict || !narrow || c->groups != 1) return false;
  if (j->channels < LEAST || j->channels % UNIT || j->n % UNIT) return false;
  for (int a = 3; a-- > 0;) {
    int64_t s = c->stride[a], far = (c->window[a] - 1) * c->dilation[a];
    if (s < 1) return false;
    j->before[a] = j->u->transposed ? far - c->before[a] : c->before[a];
    j->q[a] = c->out[a] + far / s;
    if (j->before[a] < 0 || j->before[a] > j->q[a] * s) return false;
    k->window[a] = c->window[a], k->pitch[a] = pitch, k->dilation[a] = c->dilation[a];
    k->stride[a] = s;
    pitch *= j->q[a], phases *= s;
  }
  j->rows = c->batch * pitch;
  k->in = k->out = d, k->n = j->n, k->l = phases * j->channels, k->channels = j->channels;
  k->backwards = j->u->transposed, k->bias = j->u->bias != NULL;
  return j->rows > 0 && j->rows < INT32_MAX;
}

int ts_conv_processors(const TsConvJob *j) {
  const TsConv *c = &j->u->c;
  int64_t taps = c->window[0] * c->window[1] * c->window[2];
  return ts_own_roles(j->device, (double)(j->rows * j->n * j->k.channels * taps));
}

/* Whole stages of channels. */
static bool round_channels(TsConvJob *j) {
  enum { DEPTH = TS_GPU_CONV_DEPTH };
  j->k.channels = (j->channels + DEPTH - 1) / DEPTH * DEPTH;
  return j->k.l == j->channels || j->k.channels == j->channels;
}

int ts_conv_unit(TsOffloader *o, const TsCall *call, int device, const TsConvUnit *u) {
  TsConvJob j = {.o = o, .call = call, .device = device, .u = u};
  if (!ts_conv_plan(&j) || !round_channels(&j)) return 0;
  int nsm = ts_conv_processors(&j), done = nsm ? run(&j, nsm) : 0;
  ts_tensor_unref(j.a), ts_tensor_unref(j.w), ts_tensor_unref(j.bias), ts_tensor_unref(j.c);
  return done;
}
