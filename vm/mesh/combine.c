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

/* ---- each its piece */
static TsTensor *piece_of(TsContext *c, const TsMeta *whole, const TsLayout *from, int p,
                          TsTensor *summand) {
  const TsLayout *to = ts_layout_of(whole);
  TsTensor *t = ts_tensor_ref(summand);
  for (int d = 0; d < whole->ndim && t; d++) {
    int64_t have = 0, all = 0, want = 0, count = 0;
    ts_layout_run(from, d, whole->dim[d], p, 0, &have, &all);
    if (!ts_layout_run(to, d, whole->dim[d], p, 0, &want, &count)) want = have, count = 0;
    if (want == have && count == all) continue;
    TsAttr a[] = {ts_attr_int(d), ts_attr_int(want - have), ts_attr_int(count)};
    TsTensor *next = ts_vm_call1(c, TS_OP_narrow, 1, &t, a);
    ts_tensor_unref(t);
    t = next;
  }
  TsTensor *packed = t ? ts_tensor_contiguous(c, t) : NULL;
  ts_tensor_unref(t);
  return packed;
}

static TsTensor *sum_of_piece(TsContext *c, const TsMeta *whole, const TsLayout *from,
                              uint8_t axes, TsFactorKind kind, int leaves,
                              TsLeafSum *const *sum, const int *nsum, int p) {
  const TsMesh *m = from->mesh;
  int n = 0, all = 0, device = m->device[p] < 0 ? 0 : m->device[p];
  for (int q = 0; q < m->n; q++) all += in_group(m, axes, p, q) ? nsum[q] : 0;
  TsLeafSum *list = malloc(sizeof *list * (size_t)(all + 1));
  bool failed = !list;
  if (failed) ts_error_memory(&c->err);
  for (int q = 0; q < m->n && !failed; q++)
    for (int k = 0; k < nsum[q] && in_group(m, axes, p, q) && !failed; k++) {
      TsTensor *piece = piece_of(c, whole, from, p, sum[q][k].value);
      list[n] = sum[q][k];
      list[n].value = piece ? ts_tensor_to(c, piece, device) : NULL;
      ts_tensor_unref(piece);
      failed = !list[n++].value;
    }
  TsTensor *y = failed ? NULL : ts_leaves_root(c, kind, leaves, n, list);
  for (int i = 0; i < n && failed; i++) ts_tensor_unref(list[i].value);
  free(list);
  return rounded(c, y, (TsDtype)whole->dtype);
}

int ts_mesh_combine_scattered(TsContext *c, const TsMeta *whole, const TsLayout *from,
                              uint8_t axes, TsFactorKind kind, int leaves,
                              TsLeafSum *const *sum, const int *nsum, TsTensor **out) {
  for (int p = 0; p < from->mesh->n; p++)
    if (!(out[p] = sum_of_piece(c, whole, from, axes, kind, leaves, sum, nsum, p))) return -1;
  return 0;
}
