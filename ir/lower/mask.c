/* See ir/lower/mask.h. */
#include "ir/lower/mask.h"

#include <limits.h>
#include <string.h>

bool ts_lower_mask(TsGpuMaskFrom *from, TsVal mask, TsDtype inputs, TsLayoutFn *layout,
                   void *arg) {
  const TsMeta *m = &mask->meta;
  int64_t stride[TS_MAX_RANK];
  if (m->ndim > 4 || m->weak || (m->dtype != TS_DT_bool && m->dtype != inputs)) return false;
  ts_sched_strides(layout, arg, mask, stride);
  *from = (TsGpuMaskFrom){.dtype = (TsDtype)m->dtype, .dim = {1, 1, 1, 1}};
  for (int i = 4 - m->ndim, at = 0; i < 4; i++, at++)
    if (m->dim[at] != 1 && stride[at]) from->dim[i] = m->dim[at], from->stride[i] = stride[at];
  ts_shape_settle(4, from->dim, from->stride);
  for (int i = 0; i < 4; i++)
    if (from->stride[i] < 1) return false;
  return true;
}

void ts_lower_mask_param(TsTile *whole, const TsGpuMaskFrom *from) {
  TsTileType t = ts_tile_type(from->dtype, 4, from->dim);
  t.strided = true;
  memcpy(t.stride, from->stride, sizeof from->stride);
  ts_tile_param(whole, NULL, &t, false);
}

int ts_lower_mask_step(TsTileSequence *to, const TsGpuMask *m, const TsGpuMaskFrom *from,
                       TsDtype inputs, bool transposed, int arg, int unless, TsError *err) {
  if (!transposed && ts_gpu_mask_has_layout(m, from, inputs)) return arg;
  int made = ts_tile_sequence_temp(to, ts_gpu_mask_bytes(m), false);
  TsTile *k = ts_tile_gpu_mask(m, from, inputs, transposed, err);
  if (!ts_tile_sequence_add(to, k, (int[]){arg, made}, NULL)) return INT_MIN;
  to->step[to->n - 1].unless = unless;
  return made;
}
