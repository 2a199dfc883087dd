/* Compiled kernels called with tensors. */
#include "jit/unit.h"

#include <stdlib.h>
#include <string.h>

typedef struct Unit {
  TsFused base; /* first */
  TsKernel *kernel; /* or: */
  TsTile *tile;     /* for the interpreter */
  TsArena arena;
  int64_t dim[TS_TILE_DIMS];
} Unit;

static int run(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out) {
  Unit *u = (Unit *)f;
  void *arg[TS_SCHED_PARAMS];
  for (int i = 0; i < f->nin; i++)
    if (!(arg[i] = ts_tensor_read(in[i]))) return -1;
  for (int i = 0; i < f->nout; i++)
    if (!(arg[f->nin + i] = ts_tensor_write(out[i]))) return -1;
  return u->kernel ? ts_kernel_run(u->kernel, arg, u->dim, &c->err)
                   : ts_tile_run(u->tile, arg, u->dim, &c->err);
}

static void release(TsFused *f) {
  Unit *u = (Unit *)f;
  ts_kernel_free(u->kernel);
  ts_tile_free(u->tile);
  ts_arena_free(&u->arena);
  free(u);
}

static const int64_t *layout_of(Unit *u, TsLayouts *layouts, TsVal v) {
  int64_t stride[TS_MAX_RANK];
  if (!layouts || !ts_layouts_of(layouts, v, stride)) return NULL;
  return ts_arena_copy(&u->arena, stride, sizeof *stride * (size_t)(v->meta.ndim ? v->meta.ndim : 1));
}

static TsFused *new_unit(const TsTile *tile, const TsSchedKernel *from, TsLayouts *layouts) {
  Unit *u = calloc(1, sizeof *u);
  if (!u) return NULL;
  memcpy(u->dim, from->dim, sizeof u->dim);
  u->base = (TsFused){.refs = 1, .nin = tile->nin, .nout = tile->nparam - tile->nin, .run = run,
                      .free = release};
  u->base.name = ts_arena_text(&u->arena, tile->name);
  u->base.stride = ts_arena_alloc(&u->arena, sizeof *u->base.stride * TS_SCHED_PARAMS);
  for (int i = 0; u->base.stride && i < tile->nin; i++)
    u->base.stride[i] = layout_of(u, layouts, from->value[i]);
  u->base.over = ts_arena_copy(&u->arena, from->over, sizeof from->over);
  if (u->base.stride && u->base.name && u->base.over) return &u->base;
  ts_arena_free(&u->arena);
  free(u);
  return NULL;
}

TsFused *ts_unit_new(TsKernel *kernel, const TsSchedKernel *from, TsLayouts *layouts) {
  TsFused *f = new_unit(from->tile, from, layouts);
  if (f) ((Unit *)f)->kernel = kernel;
  return f;
}

TsFused *ts_unit_interpreted(TsTile *tile, const TsSchedKernel *from, TsLayouts *layouts) {
  TsFused *f = new_unit(from->tile, from, layouts);
  if (f) ((Unit *)f)->tile = tile;
  return f;
}

const TsKernel *ts_unit_kernel(const TsFused *f) { return ((const Unit *)f)->kernel; }
