/* Kernels of devices called with tensors. */
#include "jit/build/device_instruction.h"

#include <stdlib.h>
#include <string.h>

#include "jit/launch/launch.h"
#include "jit/launch/profile.h"
#include "jit/build/instruction.h"

typedef struct Instruction {
  TsFused base; /* first */
  TsArena arena;
  int device;
  TsDeviceKernel *kernel;
  int ndim;
  int64_t dim[TS_TILE_DIMS];
  TsInstructionNeeds needs;
  int npart; /* of the one result, or 0 */
  int64_t shift[TS_FUSED_PARTS];
} Instruction;

static double bytes_of(const TsFused *f, TsTensor *const *in, TsTensor *const *out) {
  double n = 0;
  for (int i = 0; i < f->nin; i++) n += (double)ts_meta_nbytes(&in[i]->meta);
  for (int i = 0; i < f->nout; i++) n += (double)ts_meta_nbytes(&out[i]->meta);
  return n;
}

static int run(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out) {
  Instruction *u = (Instruction *)f;
  void *arg[TS_SCHED_PARAMS];
  for (int i = 0; i < f->nin; i++)
    if (!(arg[i] = ts_tensor_read_on(in[i], u->device))) return -1;
  for (int i = 0; i < f->nout; i++) {
    bool whole = ts_meta_nbytes(&out[i]->meta) == out[i]->storage->nbytes;
    if (!(arg[f->nin + i] = ts_tensor_write_on(out[i], u->device, whole))) return -1;
  }
  for (int i = 0; i < f->nin; i++) ts_launch_touch(c, in[i], arg[i], false);
  for (int i = 0; i < f->nout; i++) ts_launch_touch(c, out[i], arg[f->nin + i], true);
  char *whole = u->npart ? arg[f->nin] : NULL;
  for (int i = 0; i < u->npart; i++) arg[f->nin + i] = whole + u->shift[i];
  int nout = u->npart ? u->npart : f->nout;
  if (ts_profile_on()) ts_profile_label(f->what, bytes_of(f, in, out), f->flops);
  return ts_launch(c, u->kernel, f->nin + nout, arg, u->ndim, u->dim);
}

static int before(TsFused *f, TsContext *c, TsTensor *const *in) {
  Instruction *u = (Instruction *)f;
  return ts_instruction_before(&u->needs, c, in, u->dim);
}

static void release(TsFused *f) {
  Instruction *u = (Instruction *)f;
  ts_device_kernel_free(u->kernel);
  ts_arena_free(&u->arena);
  free(u);
}

TsFused *ts_device_instruction(TsDevice *d, TsDeviceKernel *kernel, const TsSchedKernel *from,
                               TsLayouts *layouts) {
  Instruction *u = calloc(1, sizeof *u);
  if (!u) return NULL;
  u->device = d->index;
  u->ndim = from->tile->ndim;
  memcpy(u->dim, from->dim, sizeof u->dim);
  ts_instruction_needs(&u->needs, from);
  if (ts_instruction_describe(&u->base, &u->arena, from, layouts)) {
    ts_arena_free(&u->arena);
    free(u);
    return NULL;
  }
  u->base.run = run;
  if (u->needs.nguard || u->needs.ndraw) u->base.before = before;
  u->base.free = release;
  u->kernel = kernel;
  return &u->base;
}

void ts_device_instruction_join(TsFused *f, const int64_t *shift) {
  Instruction *u = (Instruction *)f;
  u->npart = f->nout;
  memcpy(u->shift, shift, sizeof u->shift);
  f->nout = 1;
  f->over = NULL;
}
