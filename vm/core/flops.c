/* Floating-point operations of a call. See vm/core/flops.h. */
#include "vm/core/flops.h"

#include <math.h>

static double product(const TsMeta *a, double out) {
  return a->ndim ? 2 * out * (double)a->dim[a->ndim - 1] : 2 * out;
}

/* q [.., S, D] with k [.., T, D]: so many products of all queries with all keys. */
static double attention(const TsMeta *q, const TsMeta *k, int products) {
  double keys = (double)k->dim[k->ndim - 2];
  return 2.0 * products * (double)ts_meta_numel(q) * keys;
}

/* k in pages [Hk, pages, P, D], so many of a text. */
static double paged(const TsMeta *q, const TsMeta *k, const TsMeta *table) {
  return 4 * (double)ts_meta_numel(q) * (double)(table->dim[1] * k->dim[2]);
}

/* Of all axes that are transformed, of which the last stands for one of them. */
static double transforms(double elements, double length) {
  return length > 1 ? 5 * elements * log2(length) : 0;
}

double ts_flops(TsOp op, int nin, const TsMeta *const *in, const TsMeta *out) {
  const TsMeta *a = nin > 0 ? in[0] : NULL, *b = nin > 1 ? in[1] : NULL;
  double n = out ? (double)ts_meta_numel(out) : 0;
  if (op >= TS_OP_COUNT || !a || !n || !ts_meta_numel(a)) return 0;
  switch (op) {
  case TS_OP_matmul:
  case TS_OP_quantized_matmul:
  case TS_OP_experts_linear:
  case TS_OP_grouped_matmul: return product(a, n);
  case TS_OP_grouped_matmul_weight_grad:
    return 2 * (double)ts_meta_numel(a) * (double)out->dim[2];
  case TS_OP_conv1d:
  case TS_OP_conv2d:
  case TS_OP_conv3d: return 2 * n * (double)ts_meta_numel(b) / (double)b->dim[0];
  case TS_OP_conv_transpose:
    return 2 * (double)ts_meta_numel(a) * (double)ts_meta_numel(b) / (double)b->dim[0];
  case TS_OP_conv_weight_grad: return 2 * (double)ts_meta_numel(b) * n / (double)out->dim[0];
  case TS_OP_attention: return attention(a, b, 2);
  case TS_OP_attention_grad: return attention(a, b, 5);
  case TS_OP_paged_attention: return paged(a, b, in[3]);
  case TS_OP_sddmm: return product(a, n);
  case TS_OP_spmm_coo:
  case TS_OP_spmm_csr:
    return 2 * (double)ts_meta_numel(a) * (out->ndim > 1 ? (double)out->dim[out->ndim - 1] : 1);
  case TS_OP_fft:
  case TS_OP_ifft: return transforms(n, (double)out->dim[out->ndim - 1]);
  default: return ts_op_info(op)->cls == TS_CLASS_POINTWISE ? n : 0;
  }
}
