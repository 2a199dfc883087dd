/* Starting kernels of jit/gpu/roles.h: views of the parameters, arguments, the grid. */
#include "jit/gpu/roles.h"

/* Rows of the last two axes; above them heads, and batches of those. */
static TsTensorMap shape_of(const TsTileType *t, const TsGpuMap *map, const int64_t *dim) {
  int64_t n[4] = {1, 1, 1, 1}, step[4], bytes = ts_dtypes[t->dtype].nbytes, all = bytes;
  int outer = 4 - t->rank;
  for (int i = 4; i-- > 0; all *= n[i]) {
    if (i >= outer) n[i] = ts_tile_extent(t, i - outer, dim);
    step[i] = t->strided && i >= outer ? t->stride[i - outer] * bytes : all;
  }
  for (int i = 0; i < 2; i++) /* one matrix: any distance that the copy engine takes */
    if (n[i] == 1) step[i] = step[2];
  TsTensorMap view = {.dtype = t->dtype, .rows = n[2], .cols = n[3], .pitch = step[2]};
  view.box_rows = map->rows, view.box_cols = map->cols, view.swizzle = map->swizzle;
  if (!map->panels && t->rank < 4) return view;
  view.box_panels = map->panels;
  view.heads = n[1], view.head_pitch = step[1];
  if (t->rank == 4) view.batch = n[0], view.batch_pitch = step[0];
  return view;
}

int ts_gpu_roles_map(TsDevice *d, const TsTile *k, const TsGpuMap *map, void *at,
                     const int64_t *dim, void *out, TsError *err) {
  const TsTileType *t = &k->param[map->param]->type;
  TsTensorMap view = shape_of(t, map, dim);
  view.at = at;
  if (t->strided && t->stride[t->rank - 1] != 1)
    return ts_error_set(err, TS_ERR_argument, "%s: rows that are not adjacent", d->name);
  return d->run->tensor_map(d, &view, out, err);
}

static int plain(TsDevice *d, void *of, const TsTile *k, const TsLaunch *l, TsError *err) {
  (void)of, (void)k;
  return d->run->launch(d, l, err);
}

int ts_gpu_roles_launch(TsDevice *d, void *kernel, const TsTile *k, const TsGpuRoles *info,
                        void *const *arg, void *scratch, const int64_t *dim, TsError *err) {
  return ts_gpu_roles_launch_by(d, plain, NULL, kernel, k, info, arg, scratch, dim, err);
}

int ts_gpu_roles_launch_by(TsDevice *d, TsGpuLaunchFn *launch, void *of, void *kernel,
                           const TsTile *k, const TsGpuRoles *info, void *const *arg,
                           void *scratch, const int64_t *dim, TsError *err) {
  struct {
    _Alignas(TS_TENSOR_MAP_ALIGN) char at[TS_TENSOR_MAP_NBYTES];
  } map[TS_GPU_MAPS];
  void *list[TS_GPU_MAPS + 40];
  int n = 0;
  bool views = !info->nmap || (d->run && d->run->tensor_map);
  if (!d->run || !views || info->nparam + info->ndim > 40 || !info->ndim)
    return ts_error_set(err, TS_ERR_device, "%s has no copy engine", d->name);
  for (int i = 0; i < info->nparam; i++) list[n++] = (void *)(uintptr_t)&arg[i];
  if (info->scratch) list[n++] = &scratch;
  for (int i = 0; i < info->nmap; i++) {
    int p = info->map[i].param;
    if (ts_gpu_roles_map(d, k, &info->map[i], arg[p], dim, map[i].at, err)) return -1;
    list[n++] = map[i].at;
  }
  for (int i = 0; i < info->ndim; i++) list[n++] = (void *)(uintptr_t)&dim[i];
  uint32_t cluster = (uint32_t)info->cluster;
  TsLaunch l = {.kernel = kernel,
                .grid = {(uint32_t)dim[info->ndim - 1] * cluster, 1, 1},
                .block = {(uint32_t)info->threads, 1, 1},
                .shared = info->shared,
                .dependent = info->dependent,
                .args = list};
  if (cluster > 1) l.cluster[0] = cluster, l.cluster[1] = l.cluster[2] = 1;
  return launch(d, of, k, &l, err);
}
