/* Compiled kernels called with tensors. */
#include "jit/build/instruction.h"

#include <stdlib.h>
#include <string.h>

#include "jit/code/catch.h"
#include "vm/drive/random.h"

typedef struct Instruction {
  TsFused base;     /* first */
  TsKernel *kernel; /* or: */
  TsTile *tile;     /* for the interpreter */
  TsArena arena;
  int64_t dim[TS_TILE_DIMS];
  TsInstructionNeeds needs;
  uint8_t key[32]; /* of the block form */
} Instruction;

void ts_instruction_needs(TsInstructionNeeds *u, const TsSchedKernel *from) {
  *u = (TsInstructionNeeds){.ndraw = from->ndraw, .nguard = from->nguard};
  memcpy(u->draw, from->draw, sizeof u->draw);
  for (int i = 0; i < from->nguard; i++) {
    u->guarded[i] = from->guard[i].param;
    const TsSchedGuard *g = &from->guard[i];
    u->guard[i] = ts_guard_of(g->node, g->input, from->function ? from->function : "");
  }
}

int ts_instruction_before(const TsInstructionNeeds *u, TsContext *c, TsTensor *const *in,
                          int64_t *dim) {
  for (int i = 0; i < u->nguard; i++)
    if (ts_guard_check(&u->guard[i], c, in[u->guarded[i]])) return -1;
  for (int i = 0; i < u->ndraw; i++) {
    uint64_t seed, stream;
    ts_random_pick(c, u->draw[i].at, &seed, &stream);
    int64_t *to = dim + u->draw[i].dim;
    to[0] = (int64_t)seed, to[1] = (int64_t)stream;
  }
  return 0;
}

static int run(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out) {
  Instruction *u = (Instruction *)f;
  void *arg[TS_SCHED_PARAMS];
  for (int i = 0; i < f->nin; i++)
    if (!(arg[i] = ts_tensor_read(in[i]))) return -1;
  for (int i = 0; i < f->nout; i++)
    if (!(arg[f->nin + i] = ts_tensor_write(out[i]))) return -1;
  if (ts_catch_wants(u->key) && ts_catch->look(ts_catch->with, NULL, arg, u->dim, &c->err))
    return -1;
  return u->kernel ? ts_kernel_run_timed(u->kernel, arg, u->dim, c->spans, &c->err)
                   : ts_tile_run(u->tile, arg, u->dim, &c->err);
}

static int before(TsFused *f, TsContext *c, TsTensor *const *in) {
  Instruction *u = (Instruction *)f;
  return ts_instruction_before(&u->needs, c, in, u->dim);
}

static void release(TsFused *f) {
  Instruction *u = (Instruction *)f;
  ts_kernel_free(u->kernel);
  ts_tile_free(u->tile);
  ts_arena_free(&u->arena);
  free(u);
}

static const int64_t *layout_of(TsArena *arena, TsLayouts *layouts, TsVal v) {
  int64_t stride[TS_MAX_RANK];
  if (!layouts || !ts_layouts_of(layouts, v, stride)) return NULL;
  return ts_arena_copy(arena, stride,
                       sizeof *stride * (size_t)(v->meta.ndim ? v->meta.ndim : 1));
}

int ts_instruction_describe(TsFused *f, TsArena *arena, const TsSchedKernel *from,
                            TsLayouts *layouts) {
  const TsTile *tile = from->tile;
  *f = (TsFused){.refs = 1, .nin = tile->nin, .nout = tile->nparam - tile->nin};
  f->name = ts_arena_text(arena, tile->name);
  f->stride = ts_arena_alloc(arena, sizeof *f->stride * TS_SCHED_PARAMS);
  for (int i = 0; f->stride && i < tile->nin; i++)
    f->stride[i] = layout_of(arena, layouts, from->value[i]);
  f->over = ts_arena_copy(arena, from->over, sizeof from->over);
  return f->stride && f->name && f->over ? 0 : -1;
}

static TsFused *new_instruction(const TsSchedKernel *from, TsLayouts *layouts) {
  Instruction *u = calloc(1, sizeof *u);
  if (!u) return NULL;
  memcpy(u->dim, from->dim, sizeof u->dim);
  ts_instruction_needs(&u->needs, from);
  ts_kernel_digest(from->tile, u->key);
  int failed = ts_instruction_describe(&u->base, &u->arena, from, layouts);
  u->base.run = run;
  if (u->needs.nguard || u->needs.ndraw) u->base.before = before;
  u->base.free = release;
  if (!failed) return &u->base;
  ts_arena_free(&u->arena);
  free(u);
  return NULL;
}

TsFused *ts_instruction_new(TsKernel *kernel, const TsSchedKernel *from, TsLayouts *layouts) {
  TsFused *f = new_instruction(from, layouts);
  if (f) ((Instruction *)f)->kernel = kernel;
  return f;
}

TsFused *ts_instruction_interpreted(TsTile *tile, const TsSchedKernel *from,
                                    TsLayouts *layouts) {
  TsFused *f = new_instruction(from, layouts);
  if (f) ((Instruction *)f)->tile = tile;
  return f;
}

const TsKernel *ts_instruction_kernel(const TsFused *f) {
  return ((const Instruction *)f)->kernel;
}
