/* Rows of kernels lie along the last axes. A call along other axes is one along the last ones
 * of the same elements seen in another order: operands only change their strides. */
#include <string.h>

#include "jit/eager/state.h"

/* Operand axis i becomes what axis perm[i] was. */
static void permute(Operand *o, const int *perm) {
  Operand old = *o;
  int n = o->meta.ndim;
  for (int i = 0; i < n; i++) {
    o->meta.dim[i] = old.meta.dim[perm[i]];
    o->stride[i] = old.stride[perm[i]];
  }
  o->strided = !ts_meta_row_major(&o->meta, o->stride);
}

/* ---- reductions */
static bool reduces(int op) {
  return op == TS_OP_sum || op == TS_OP_prod || op == TS_OP_mean || op == TS_OP_min ||
         op == TS_OP_max;
}

static void reduction_last(Form *f) {
  Operand *x = &f->in[0], *y = &f->out[0];
  const TsAttr *axis = &f->attr[0];
  int n = x->meta.ndim, perm[TS_MAX_RANK] = {0}, kept = 0, last;
  bool reduced[TS_MAX_RANK] = {false};
  if (axis->type != TS_ATTR_ints || n > TS_MAX_RANK) return;
  for (int i = 0; i < axis->n; i++)
    reduced[axis->ints[i] < 0 ? axis->ints[i] + n : axis->ints[i]] = true;
  for (int i = 0; i < n; i++)
    if (!reduced[i]) perm[kept++] = i;
  last = kept;
  for (int i = 0; i < n; i++)
    if (reduced[i]) perm[last++] = i;
  for (int i = 0; i < kept; i++) y->meta.dim[i] = x->meta.dim[perm[i]];
  y->meta.ndim = (uint8_t)kept;
  permute(x, perm);
  for (int i = kept; i < n; i++) f->axis[i - kept] = i;
  f->own[0] = (TsAttr){.type = TS_ATTR_ints, .n = n - kept, .ints = f->axis};
  f->own[1] = (TsAttr){.type = TS_ATTR_bool, .i = 0};
  f->attr = f->own;
}

/* ---- what keeps the shape */
static bool keeps(int op) {
  return op == TS_OP_softmax || op == TS_OP_log_softmax || op == TS_OP_softmax_grad ||
         op == TS_OP_log_softmax_grad;
}

static void rows_last(Form *f) {
  int n = f->out[0].meta.ndim, perm[TS_MAX_RANK];
  int64_t axis = f->attr[0].i < 0 ? f->attr[0].i + n : f->attr[0].i;
  for (int i = 0; i < f->nin; i++)
    if (f->in[i].kind != OPERAND_tensor || !ts_meta_same_shape(&f->in[i].meta, &f->out[0].meta))
      return;
  if (n < 2 || axis == n - 1) return;
  for (int i = 0; i < n; i++) perm[i] = i < axis ? i : i + 1;
  perm[n - 1] = (int)axis;
  for (int i = 0; i < f->nin; i++) permute(&f->in[i], perm);
  permute(&f->out[0], perm);
  memcpy(f->own, f->attr, sizeof *f->own * ts_op_info((TsOp)f->op)->nattr);
  f->own[0].i = n - 1;
  f->attr = f->own;
}

void ts_offload_permute(Form *f) {
  if (f->nout != 1 || f->in[0].kind != OPERAND_tensor) return;
  if (reduces(f->op))
    reduction_last(f);
  else if (keeps(f->op))
    rows_last(f);
}
