/* Starting kernels of jit/gpu_mma.h: views of the parameters, arguments, the grid. */
#include "jit/gpu_mma.h"

static int64_t size_of(int64_t d, const int64_t *dim) {
  return ts_tile_dim_is(d) ? dim[ts_tile_dim_index(d)] : d;
}

static int view_of(TsDevice *d, const TsTile *k, const TsGpuMap *map, void *at,
                   const int64_t *dim, void *out, TsError *err) {
  const TsTileType *t = &k->param[map->param]->type;
  TsTensorMap view = {.at = at,
                      .dtype = t->dtype,
                      .rows = size_of(t->dim[0], dim),
                      .cols = size_of(t->dim[1], dim),
                      .box_rows = map->rows,
                      .box_cols = map->cols,
                      .swizzle = map->swizzle};
  if (map->panels) {
    view.batch = view.rows, view.rows = view.cols, view.cols = size_of(t->dim[2], dim);
    view.box_panels = map->panels;
  }
  view.pitch = view.cols * ts_dtypes[t->dtype].nbytes;
  return d->run->tensor_map(d, &view, out, err);
}

int ts_gpu_mma_launch(TsDevice *d, void *kernel, const TsTile *k, const TsGpuMma *info,
                      void *const *arg, void *scratch, const int64_t *dim, TsError *err) {
  struct {
    _Alignas(TS_TENSOR_MAP_ALIGN) char at[TS_TENSOR_MAP_NBYTES];
  } map[TS_GPU_MAPS];
  void *list[TS_GPU_MAPS + 40];
  int n = 0;
  if (!d->run || !d->run->tensor_map || info->nparam + info->ndim > 40 || !info->ndim)
    return ts_error_set(err, TS_ERR_device, "%s has no copy engine", d->name);
  for (int i = 0; i < info->nparam; i++) list[n++] = (void *)(uintptr_t)&arg[i];
  if (info->scratch) list[n++] = &scratch;
  for (int i = 0; i < info->nmap; i++) {
    if (view_of(d, k, &info->map[i], arg[info->map[i].param], dim, map[i].at, err)) return -1;
    list[n++] = map[i].at;
  }
  for (int i = 0; i < info->ndim; i++) list[n++] = (void *)(uintptr_t)&dim[i];
  uint32_t cluster = (uint32_t)info->cluster;
  TsLaunch l = {.kernel = kernel,
                .grid = {(uint32_t)dim[info->ndim - 1] * cluster, 1, 1},
                .block = {(uint32_t)info->threads, 1, 1},
                .shared = info->shared,
                .args = list};
  if (cluster > 1) l.cluster[0] = cluster, l.cluster[1] = l.cluster[2] = 1;
  return d->run->launch(d, &l, err);
}
