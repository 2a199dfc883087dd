/* Graph to kernels: schedule, then for each group that is worth it tiles, vectors, arithmetic,
 * machine code. A group that fails keeps to the VM, with a reason. */
#include "jit/build.h"

#include <stdlib.h>
#include <time.h>

#include "jit/compile.h"
#include "jit/unit.h"

enum { KERNEL_USEC = 4000 }; /* what a compilation takes, about */

static double now_msec(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

bool ts_build_worth(const TsGroup *g) { return g->kind != TS_GROUP_vm && g->nnode > 1; }

int ts_build_tile(const TsBuildJob *b, const TsGroup *group, TsSchedKernel *out, TsError *err) {
  return ts_sched_lower(b->fusion.sched, group, ts_layouts_of, b->layouts, out, err);
}

/* The pipeline below the schedule. */
static TsKernel *compile(const TsBuildJob *b, const TsTile *block, TsError *err) {
  const TsTarget *t = &b->target->tile;
  if (ts_tile_check(block, t, err)) return NULL;
  TsTile *vectors = ts_tile_vectorise(block, t, err);
  TsTile *k = vectors ? ts_tile_expand(vectors, err) : NULL;
  TsKernel *kernel =
      k && !ts_tile_check(k, t, err) ? ts_kernel_compile(k, b->target, err) : NULL;
  ts_tile_free(vectors);
  ts_tile_free(k);
  return kernel;
}

static void refuse(TsBuildJob *b, const TsGroup *g, TsError *err) {
  b->nfailed++;
  ts_text_format(&b->why, "group %d (%s .. %s): %s\n", g->index, ts_node_name(g->node[0]),
                 ts_node_name(g->node[g->nnode - 1]), err->message);
  ts_error_clear(err);
}

static TsVal *keep_values(TsBuildJob *b, const TsSchedKernel *k) {
  TsSched *s = (TsSched *)(uintptr_t)b->fusion.sched;
  return ts_arena_copy(&s->arena, k->value, sizeof k->value);
}

static void build_group(TsBuildJob *b, const TsGroup *g) {
  TsError err = {0};
  TsSchedKernel k;
  if (ts_build_tile(b, g, &k, &err)) return refuse(b, g, &err);
  TsFusedGroup *u = &b->fusion.of[g->index];
  TsKernel *kernel = compile(b, k.tile, &err);
  if (!kernel) {
    refuse(b, g, &err);
  } else {
    u->group = g;
    u->value = keep_values(b, &k);
    b->ncached += kernel->cached;
    if (u->value) u->fused = ts_unit_new(kernel, k.tile, &k, b->layouts);
    if (!u->fused) ts_kernel_free(kernel);
    b->nkernel++;
    b->nnode += g->nnode;
  }
  ts_tile_free(k.tile);
}

static double cost_msec(const TsSched *s) {
  int n = 0;
  for (int i = 0; i < s->ngroup; i++) n += ts_build_worth(s->group[i]);
  return n * (KERNEL_USEC / 1000.0);
}

int ts_build_run(TsBuildJob *b, TsError *err) {
  double start = now_msec();
  TsSched *s = ts_sched_new(b->g, &b->target->tile, b->threads, err);
  if (!s) return -1;
  b->fusion.sched = s;
  b->fusion.of = ts_arena_alloc(&s->arena, sizeof *b->fusion.of * ((size_t)s->ngroup + 1));
  if (!b->fusion.of) return ts_error_set(err, TS_ERR_memory, "out of memory");
  if (ts_sched_check(s, err)) return -1;
  /* At worst as much again as was spent: then nobody loses more than a factor. */
  double cost = cost_msec(s) / 2;
  if (cost > b->spent_msec) {
    b->need_msec = cost;
    return 0;
  }
  for (int i = 0; i < s->ngroup; i++)
    if (ts_build_worth(s->group[i])) build_group(b, s->group[i]);
  b->msec = now_msec() - start;
  return 0;
}

void ts_build_free(TsBuildJob *b) {
  TsSched *s = (TsSched *)(uintptr_t)b->fusion.sched;
  for (int i = 0; b->fusion.of && i < s->ngroup; i++) ts_fused_unref(b->fusion.of[i].fused);
  ts_sched_free(s);
  ts_layouts_free(b->layouts);
  ts_text_free(&b->why);
  *b = (TsBuildJob){.g = NULL};
}
