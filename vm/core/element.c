/* Numbers given as options, as elements of a type; single elements of tensors. */
#include "vm/core/element.h"

#include <string.h>

int ts_element_make(TsCall *call, TsDtype d, double value, void *out) {
  TsError *e = &call->ctx->err;
  const char *name = ts_op_info(call->op)->name;
  if (d == TS_DT_mxfp4)
    return ts_error_set(e, TS_ERR_dtype, "%s: mxfp4 is a storage format", name);
  if (ts_dtype_check_number(d, value, name, e)) return -1;
  memset(out, 0, 16);
  if (d == TS_DT_f64)
    memcpy(out, &value, sizeof value);
  else
    call->ctx->k->convert.convert[TS_DT_f64][d](1, out, &value);
  return 0;
}

/* ---- of tensors */
static void *element(TsTensor *t, int64_t index) {
  char *base = ts_tensor_read(t);
  if (!base) return NULL;
  int64_t at = 0;
  for (int i = t->meta.ndim; i-- > 0;) {
    at += index % t->meta.dim[i] * t->stride[i];
    index /= t->meta.dim[i];
  }
  return base + at * ts_dtypes[t->meta.dtype].nbytes;
}

/* A block element is found by converting its whole block. */
static double block_element(TsTensor *t, int64_t index) {
  float v[TS_MXFP4_BLOCK];
  const char *base = ts_tensor_read(t);
  TsConvertFn *f = t->storage->ctx->k->convert.convert[TS_DT_mxfp4][TS_DT_f32];
  f(TS_MXFP4_BLOCK, v, base + index / TS_MXFP4_BLOCK * 17);
  return (double)v[index % TS_MXFP4_BLOCK];
}

static void convert_one(TsTensor *t, int64_t index, TsDtype to, void *out) {
  const void *at = element(t, index);
  memset(out, 0, ts_dtypes[to].nbytes);
  if (at) t->storage->ctx->k->convert.convert[t->meta.dtype][to](1, out, at);
}

double ts_tensor_get(TsTensor *t, int64_t index) {
  double v;
  if (t->meta.dtype == TS_DT_mxfp4) return block_element(t, index);
  convert_one(t, index, TS_DT_f64, &v);
  return v;
}

int64_t ts_tensor_get_int(TsTensor *t, int64_t index) {
  int64_t v;
  convert_one(t, index, TS_DT_i64, &v);
  return v;
}

void ts_tensor_get_complex(TsTensor *t, int64_t index, double part[2]) {
  convert_one(t, index, TS_DT_complex128, part);
}
