/* Hashes of tensors: the same for equal logical elements, whatever the strides
 * and the device; every NaN counts as the canonical quiet NaN. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/mapped.h"

static uint64_t fnv(uint64_t h, const unsigned char *p, int64_t n) {
  for (int64_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
  return h;
}

static void fix_nans(TsDtype d, void *at, int64_t n) {
  if (d == TS_DT_complex64) d = TS_DT_f32, n *= 2;
  if (d == TS_DT_complex128) d = TS_DT_f64, n *= 2;
  float *f = at;
  double *g = at;
  uint16_t *h = at;
  uint8_t *b = at;
  for (int64_t i = 0; i < n; i++) {
    if (d == TS_DT_f32 && f[i] != f[i]) f[i] = __builtin_nanf("");
    if (d == TS_DT_f64 && g[i] != g[i]) g[i] = __builtin_nan("");
    if (d == TS_DT_f16 && (h[i] & 0x7fff) > 0x7c00) h[i] = 0x7e00;
    if (d == TS_DT_bf16 && (h[i] & 0x7fff) > 0x7f80) h[i] = 0x7fc0;
    if (d == TS_DT_fp8_e4m3 && (b[i] & 0x7f) == 0x7f) b[i] = 0x7f;
    if (d == TS_DT_fp8_e5m2 && (b[i] & 0x7f) > 0x7c) b[i] = 0x7e;
  }
}

int ts_tensor_hash(TsContext *c, TsTensor *t, uint64_t *hash) {
  TsTensor *y = ts_tensor_contiguous(c, t);
  const char *p = y ? ts_tensor_read(y) : NULL;
  if (!p) {
    ts_tensor_unref(y);
    return -1;
  }
  TsDtype d = ts_tensor_dtype(t);
  int64_t left = ts_meta_nbytes(&t->meta), size = ts_dtypes[d].nbytes;
  _Alignas(16) unsigned char block[4080]; /* a multiple of every element size */
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  while (left > 0 && !ts_cpu_interrupted()) {
    int64_t n = left < (int64_t)sizeof block ? left : (int64_t)sizeof block;
    memcpy(block, p, (size_t)n);
    fix_nans(d, block, n / size);
    h = fnv(h, block, n);
    p += n;
    left -= n;
  }
  ts_tensor_unref(y);
  *hash = h;
  if (left > 0) return ts_error_set(&c->err, TS_ERR_interrupt, "hash: interrupted");
  return ts_mapped_changed() ? ts_mapped_check(c, 1, &t) : 0;
}
