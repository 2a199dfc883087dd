/* Sizes and result types of a kernel that a program brings along, solved from its arguments. */
#include <stdio.h>
#include <string.h>

#include "devices/device.h"
#include "ir/tile/text.h"
#include "jit/user/kernel.h"
#include "jit/user/state.h"

/* "x: f32[M,N]" */
static void put_param(const TsTile *k, int i, TsText *t) {
  ts_text_format(t, "%s: ", k->param[i]->name ? k->param[i]->name : "?");
  ts_tile_type_text(k, &k->param[i]->type, t);
}

static int wrong_type(const TsTile *k, int i, const TsMeta *m, TsErrorCode code,
                      const char *what, TsError *err) {
  char have[TS_META_TEXT];
  TsText t = {0};
  put_param(k, i, &t);
  ts_error_set(err, code, "%.60s: argument %d is %s, the kernel takes %.100s%s", k->name, i + 1,
               ts_meta_text(m, have), t.at ? t.at : "", what);
  ts_text_free(&t);
  return -1;
}

/* Two sizes for one letter: the argument that gave the first is named too, if there is one. */
static int wrong_size(const TsTile *k, int i, const TsMeta *const *in, int dim, int64_t size,
                      int from, TsError *err) {
  char what[160], other[TS_META_TEXT];
  const char *name = k->dim[dim];
  if (from < 0)
    snprintf(what, sizeof what, ", where %.30s is given as %lld", name, (long long)size);
  else
    snprintf(what, sizeof what, ", and %.30s is %lld by argument %d, which is %s", name,
             (long long)size, from + 1, ts_meta_text(in[from], other));
  return wrong_type(k, i, in[i], TS_ERR_shape, what, err);
}

static int match(const TsTile *k, int i, const TsMeta *const *in, int64_t *dim, int *from,
                 TsError *err) {
  const TsTileType *t = &k->param[i]->type;
  const TsMeta *m = in[i];
  if (m->dtype != t->dtype) return wrong_type(k, i, m, TS_ERR_dtype, "", err);
  if (m->ndim != t->rank) return wrong_type(k, i, m, TS_ERR_shape, "", err);
  for (int a = 0; a < t->rank; a++) {
    if (!ts_tile_dim_is(t->dim[a])) {
      if (t->dim[a] != m->dim[a]) return wrong_type(k, i, m, TS_ERR_shape, "", err);
      continue;
    }
    int d = ts_tile_dim_index(t->dim[a]);
    if (dim[d] < 0) {
      dim[d] = m->dim[a];
      from[d] = i;
    } else if (dim[d] != m->dim[a]) {
      return wrong_size(k, i, in, d, dim[d], from[d], err);
    }
  }
  return 0;
}

static int result(const TsTile *k, int i, const int64_t *dim, int device, TsMeta *out,
                  TsError *err) {
  const TsTileType *t = &k->param[i]->type;
  *out = (TsMeta){.dtype = t->dtype, .ndim = t->rank};
  out->device = (uint8_t)device;
  for (int a = 0; a < t->rank; a++) out->dim[a] = ts_tile_extent(t, a, dim);
  return ts_meta_check_size(out, k->name, err);
}

int ts_user_kernel_infer(const TsUserKernel *u, int nin, const TsMeta *const *in, int64_t *dim,
                         TsMeta *out, TsError *err) {
  const TsTile *k = u->tile;
  int from[TS_TILE_DIMS];
  memset(from, -1, sizeof from);
  if (nin != k->nin) {
    TsText names = {0};
    ts_error_set(err, TS_ERR_argument, "%.60s: takes %d tensor%s, %d given", k->name, k->nin,
                 k->nin == 1 ? "" : "s", nin);
    for (int i = 0; i < k->nin; i++)
      ts_text_format(&names, "%s%s", i ? ", " : "", k->param[i]->name);
    ts_error_hint(err, "its arguments are %s", names.at ? names.at : "none");
    ts_text_free(&names);
    return -1;
  }
  for (int i = 1; i < nin; i++)
    if (in[i]->device != in[0]->device) {
      ts_error_set(err, TS_ERR_device, "%.60s: argument %d is on %s, argument 1 on %s", k->name,
                   i + 1, ts_device_at(in[i]->device)->name, ts_device_at(in[0]->device)->name);
      return ts_error_hint(err, "move one with x:to(\"%s\")",
                           ts_device_at(in[0]->device)->name);
    }
  for (int i = 0; i < nin; i++)
    if (match(k, i, in, dim, from, err)) return -1;
  for (int d = 0; d < k->ndim; d++)
    if (dim[d] < 0) {
      ts_error_set(err, TS_ERR_argument, "%.60s: no argument gives the size %.30s", k->name,
                   k->dim[d]);
      return ts_error_hint(err, "give it behind the tensors: {%.30s = ..}", k->dim[d]);
    }
  for (int i = k->nin; i < k->nparam; i++)
    if (result(k, i, dim, nin ? in[0]->device : 0, &out[i - k->nin], err)) return -1;
  return 0;
}
