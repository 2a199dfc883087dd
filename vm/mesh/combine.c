/* See vm/mesh/combine.h. The first part of a group adds up, the others get copies. */
#include "vm/mesh/combine.h"

#include <stdlib.h>

static bool in_group(const TsMesh *m, uint8_t axes, int p, int q) {
  for (int a = 0; a < m->naxis; a++)
    if (!(axes >> a & 1) && ts_mesh_coordinate(m, p, a) != ts_mesh_coordinate(m, q, a))
      return false;
  return true;
}

static int first_of_group(const TsMesh *m, uint8_t axes, int p) {
  for (int q = 0; q < p; q++)
    if (in_group(m, axes, p, q)) return q;
  return p;
}

static TsTensor *rounded(TsContext *c, TsTensor *sum, TsDtype dtype) {
  TsAttr a = ts_attr_dtype(dtype);
  if (!sum || ts_tensor_dtype(sum) == dtype) return sum;
  TsTensor *y = ts_vm_call1(c, TS_OP_cast, 1, &sum, &a);
  ts_tensor_unref(sum);
  return y;
}

static TsTensor *sum_of_group(TsContext *c, const TsMesh *m, uint8_t axes, TsFactorKind kind,
                              int leaves, TsLeafSum *const *sum, const int *nsum, int p) {
  int n = 0, all = 0;
  for (int q = 0; q < m->n; q++) all += in_group(m, axes, p, q) ? nsum[q] : 0;
  TsLeafSum *list = malloc(sizeof *list * (size_t)(all + 1));
  if (!list) return ts_error_memory(&c->err), NULL;
  for (int q = 0; q < m->n; q++)
    for (int k = 0; k < nsum[q] && in_group(m, axes, p, q); k++) {
      list[n] = sum[q][k];
      list[n++].value = ts_tensor_ref(sum[q][k].value);
    }
  TsTensor *y = ts_leaves_root(c, kind, leaves, n, list);
  free(list);
  return y;
}

int ts_mesh_combine(TsContext *c, const TsMesh *m, uint8_t axes, TsFactorKind kind, int leaves,
                    TsDtype dtype, TsLeafSum *const *sum, const int *nsum, TsTensor **out) {
  for (int p = 0; p < m->n; p++) {
    int q = first_of_group(m, axes, p), device = m->device[p];
    if (q == p) {
      out[p] = rounded(c, sum_of_group(c, m, axes, kind, leaves, sum, nsum, p), dtype);
    } else {
      TsTensor *there = ts_tensor_to(c, out[q], device < 0 ? 0 : device);
      out[p] = there ? ts_tensor_copy(c, there) : NULL;
      ts_tensor_unref(there);
    }
    if (!out[p]) return -1;
  }
  return 0;
}
