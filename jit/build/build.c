/* Graph to kernels: schedule, then for each group that is worth it tiles, vectors, arithmetic,
 * machine code. A group that fails keeps to the VM, with a reason. */
#include "jit/build/build.h"

#include <stdlib.h>

#include "ir/graph/parts.h"
#include "ir/sched/index.h"
#include "ir/tile/product/product.h"
#include "ir/tile/copy.h"
#include "ir/tile/overlay.h"
#include "jit/build/device.h"
#include "jit/build/join.h"
#include "jit/build/patched.h"
#include "jit/compile/compile.h"
#include "ir/lower/channels.h"
#include "ir/lower/lower.h"
#include "jit/build/device_instruction.h"
#include "jit/build/instruction.h"
#include "lib/clock.h"

enum { KERNEL_USEC = 4000 }; /* what a compilation for the CPU takes, about */

/* Rows that the VM takes longer for, since it keeps exps between its passes, or walks a row of
 * a norm by itself. By themselves, 4096 x 4096 f32 on one thread: a loss 1.25 times as fast as
 * the VM's, its gradient 1.8, softmax 1.1, layernorm 1.1 to 1.4, and of 1024 columns 1.9. */
static bool gains_rows(const TsNode *n) { return ts_op_info((TsOp)n->op)->kernel; }

/* Attention alone is as fast on the VM; what is won is a copy of its result. */
bool ts_build_worth(const TsGroup *g) {
  if (g->kind == TS_GROUP_attention) return g->transposed;
  if (g->kind == TS_GROUP_matmul || g->kind == TS_GROUP_conv) return true;
  if (g->kind != TS_GROUP_vm && g->nnode > 1) return true;
  return g->kind == TS_GROUP_rows && gains_rows(g->node[0]);
}

int ts_build_tile(const TsBuildJob *b, const TsFusion *u, const TsGroup *group,
                  TsSchedKernel *out, TsError *err) {
  if (ts_build_patched(b, u, group, out)) return 0;
  return ts_build_unpatched(b, u, group, NULL, out, err);
}

TsLayouts *ts_build_layouts(const TsBuildJob *b, const TsGraph *g) {
  TsLayouts *l = b->layouts;
  while (l->g != g) l = l->next;
  return l;
}

/* The pipeline below the schedule. */
static TsTile *to_vectors(const TsTile *k, const TsTarget *t, TsError *err) {
  return ts_tile_is_product(k, t) ? ts_tile_product(k, t, err) : ts_tile_vectorise(k, t, err);
}

TsTile *ts_build_explicit(const TsTile *k, const TsTarget *t, bool rows, TsError *err) {
  if (ts_tile_check(k, t, err)) return NULL;
  TsTile *vectors = k->form == TS_FORM_block ? to_vectors(k, t, err) : NULL;
  if (k->form == TS_FORM_block && (!vectors || rows)) return vectors;
  if (rows) return ts_tile_copy(k, NULL, NULL, err);
  TsTile *plain = ts_tile_expand(vectors ? vectors : k, err);
  ts_tile_free(vectors);
  if (!plain || !ts_tile_check(plain, t, err)) return plain;
  ts_tile_free(plain);
  return NULL;
}

TsKernel *ts_build_compile(const TsTile *k, const TsTarget *t, TsError *err) {
  TsTile *plain = ts_build_explicit(k, t, false, err);
  TsKernel *kernel = plain ? ts_kernel_compile(plain, t, err) : NULL;
  ts_tile_free(plain);
  return kernel;
}

static void refuse(TsBuildJob *b, const TsGroup *g, TsError *err) {
  b->nfailed++;
  ts_text_format(&b->why, "group %d (%s .. %s): %s\n", g->index, ts_node_name(g->node[0]),
                 ts_node_name(g->node[g->nnode - 1]), err->message);
  ts_error_clear(err);
}

/* What the group is, for the text of bytecode. */
static const char *label(TsArena *a, const TsGroup *g) {
  TsText what = {0}, where = {0};
  ts_sched_what(g, &what);
  ts_sched_where(g, &where);
  ts_text_take(&what, " at ", &where);
  const char *s = what.at && !what.failed ? ts_arena_text(a, what.at) : NULL;
  ts_text_free(&what);
  return s;
}

/* A group on its way: its kernel is on disk, or must be compiled. */
typedef struct Work {
  TsFusion *f;
  const TsGroup *g;
  TsSchedKernel k;
  TsTile *plain; /* what is compiled, or interpreted; of a device nothing is done before */
  TsKernel *kernel;
  TsDeviceKernel *there;
} Work;

static void prepare(TsBuildJob *b, Work *w) {
  TsError err = {0};
  if (ts_build_tile(b, w->f, w->g, &w->k, &err)) {
    w->k.tile = NULL;
    if (w->g->kind == TS_GROUP_vm && err.code != TS_ERR_memory) return;
    return refuse(b, w->g, &err);
  }
  if (b->device) return;
  w->plain = b->how == TS_BUILD_block ? ts_tile_copy(w->k.tile, NULL, NULL, &err)
                                      : ts_build_explicit(w->k.tile, b->target, false, &err);
  if (!w->plain) return refuse(b, w->g, &err);
  ts_tile_overlay(w->plain, w->k.over);
  if (b->how != TS_BUILD_compiled) return;
  w->kernel = ts_kernel_find(w->plain, b->target);
}

/* The kernel as an instruction, which takes over what it calls. */
static TsFused *instruction(TsBuildJob *b, Work *w, TsError *err) {
  TsLayouts *l = ts_build_layouts(b, w->f->g);
  bool interpreted = b->how != TS_BUILD_compiled;
  TsFused *f = interpreted ? ts_instruction_interpreted(w->plain, &w->k, l)
                           : ts_instruction_new(w->kernel, &w->k, l);
  if (!f)
    ts_error_memory(err);
  else if (interpreted)
    w->plain = NULL;
  else
    w->kernel = NULL;
  return f;
}

static TsFused *device_instruction(TsBuildJob *b, Work *w, TsError *err) {
  const TsFusedGroup *u = &w->f->of[w->g->index];
  TsFused *f = ts_device_instruction(b->device, w->there, &w->k, ts_build_layouts(b, w->f->g));
  if (f && u->into) ts_device_instruction_join(f, u->shift);
  if (f)
    w->there = NULL;
  else
    ts_error_memory(err);
  return f;
}

/* 1: it came from disk; -1: there is none. */
static int compile(TsBuildJob *b, Work *w, TsError *err) {
  if (b->device) {
    w->there = ts_device_kernel_open(b->device, w->k.tile, err);
    return w->there ? ts_device_kernel_cached(w->there) : -1;
  }
  bool needed = b->how == TS_BUILD_compiled && !w->kernel;
  if (needed && !(w->kernel = ts_kernel_compile(w->plain, b->target, err))) return -1;
  return w->kernel && w->kernel->cached;
}

static void finish(TsBuildJob *b, Work *w) {
  TsError err = {0};
  TsArena *arena = &((TsSched *)(uintptr_t)w->f->sched)->arena;
  TsFusedGroup *u = &w->f->of[w->g->index];
  if (b->device ? !w->k.tile : !w->plain) return;
  int cached = compile(b, w, &err);
  if (cached < 0) return refuse(b, w->g, &err);
  u->group = w->g;
  u->value = ts_arena_copy(arena, w->k.value, sizeof w->k.value);
  if (u->value) u->fused = b->device ? device_instruction(b, w, &err) : instruction(b, w, &err);
  if (!u->fused) return refuse(b, w->g, &err);
  b->ncached += cached;
  u->fused->what = label(arena, w->g);
  bool products = w->g->kind == TS_GROUP_matmul || w->g->kind == TS_GROUP_attention ||
                  w->g->kind == TS_GROUP_conv;
  u->fused->flops = w->g->flops * (products ? 2 : 1); /* a multiply-add is one step */
  b->nkernel++;
  b->nnode += w->g->nnode;
}

static void keep_shown(TsBuildJob *b, const Work *work, int n) {
  if (!b->shows || b->device || b->how != TS_BUILD_compiled) return;
  b->shown = malloc(sizeof *b->shown * ((size_t)n + 1));
  for (int i = 0; b->shown && i < n; i++)
    if (work[i].k.tile && work[i].f->of[work[i].g->index].fused)
      b->shown[b->nshown++] = ts_tile_share(work[i].k.tile);
}

static void drop(Work *w) {
  ts_tile_free(w->k.tile);
  ts_tile_free(w->plain);
  ts_kernel_free(w->kernel);
  ts_device_kernel_free(w->there);
}

/* A row operator by itself is worth a kernel where that writes its part of a whole. */
static bool writes_part(const TsBuildJob *b, const TsGroup *g) {
  for (const TsFusion *f = &b->fusion; f && g->nnode == 1; f = f->next) {
    const TsSched *s = f->sched;
    if (s && g->index < s->ngroup && s->group[g->index]->node == g->node)
      return s->spread && s->spread[g->node[0]->id] &&
             (g->kind == TS_GROUP_rows || g->kind == TS_GROUP_columns);
  }
  return false;
}

const TsTarget *ts_build_target(const TsBuildJob *b) {
  const char *why;
  return b->device ? ts_device_target(b->device, &why) : b->target;
}

static bool is_gpu(const TsBuildJob *b) { return ts_target_gpu(ts_build_target(b)); }

/* A device has no kernels of the VM's. */
bool ts_build_worth_on(const TsBuildJob *b, const TsGroup *g) {
  const TsTarget *t = ts_build_target(b);
  if (ts_target_gpu(t)) return g->kind != TS_GROUP_vm || ts_lower_has(t, g->node[0]);
  return ts_build_worth(g) || writes_part(b, g);
}

static Work *find_work(TsBuildJob *b, int *count) {
  int n = 0;
  for (TsFusion *f = &b->fusion; f; f = f->next) n += f->sched->ngroup;
  Work *work = calloc((size_t)n + 1, sizeof *work);
  n = 0;
  for (TsFusion *f = &b->fusion; f && work; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++)
      if (ts_build_worth_on(b, f->sched->group[i]) &&
          !(b->device && ts_sched_gathered(f->sched, f->sched->group[i])))
        work[n++] = (Work){.f = f, .g = f->sched->group[i]};
  *count = n;
  return work;
}

/* Results that are turned lie so for every kernel that reads them, and row-major where they are
 * looked at the other way round. */
static int transpose_layouts(const TsBuildJob *b, const TsSched *s) {
  TsLayouts *l = ts_build_layouts(b, s->g);
  for (int i = 0; i < s->ngroup; i++) {
    const TsGroup *g = s->group[i];
    if (!g->transposed || !ts_build_worth_on(b, g)) continue;
    if (ts_layouts_transpose(l, s->g, &g->node[0]->out[0])) return -1;
  }
  return 0;
}

/* Values that are written straight into the result of a concat or pad, where that is not one
 * piece of memory: by kernels, and by the VM's handlers of pointwise rows. */
static bool can_spread(const TsBuildJob *b, const TsSched *s, const TsPart *p) {
  int k = s->of[p->v->node->id];
  const TsGroup *g = k >= 0 ? s->group[k] : NULL;
  if (!g) return false;
  if (g->kind == TS_GROUP_rows || g->kind == TS_GROUP_columns) return true;
  if (!ts_build_worth_on(b, g))
    return ts_op_info((TsOp)p->v->node->op)->cls == TS_CLASS_POINTWISE && !is_gpu(b);
  return g->kind == TS_GROUP_map;
}

/* Large values go past the caches in whole aligned vectors; what begins elsewhere would be read
 * before it is written, which costs as much as its copy. */
static bool goes_past(const TsPart *p) {
  enum { LARGE = 12 << 20 };
  const TsMeta *whole = &p->whole->out[0].meta;
  int64_t size = ts_dtypes[whole->dtype].nbytes, step[TS_MAX_RANK], start = 0;
  bool aligned = true;
  ts_meta_strides(whole, step);
  for (int i = 0; i < whole->ndim; i++) {
    start += p->start[i] * step[i];
    aligned &= i == whole->ndim - 1 || step[i] * size % 64 == 0;
  }
  return ts_meta_nbytes(&p->v->meta) < LARGE || (aligned && start * size % 64 == 0);
}

static bool worth_spreading(const TsBuildJob *b, const TsSched *s, const TsParts *all,
                            const TsNode *whole) {
  int64_t sum = 0;
  for (int i = 0; i < all->n; i++) {
    const TsPart *p = &all->part[i];
    if (p->whole != whole || !(p->dense || can_spread(b, s, p))) continue;
    sum += ts_meta_nbytes(&p->v->meta);
  }
  return 2 * sum >= ts_meta_nbytes(&whole->out[0].meta);
}

static int spread_parts(const TsBuildJob *b, TsSched *s) {
  TsParts all;
  TsLayouts *l = ts_build_layouts(b, s->g);
  int failed = ts_parts_find(s->g, &all);
  for (int i = 0; i < all.n && !failed; i++) {
    const TsPart *p = &all.part[i];
    if (p->dense || !can_spread(b, s, p) || !worth_spreading(b, s, &all, p->whole)) continue;
    if (!goes_past(p)) continue;
    if (!s->spread) s->spread = ts_arena_alloc(&s->arena, (size_t)s->g->nnode + 1);
    failed = !s->spread || ts_layouts_set(l, p->v, p->stride);
    if (!failed) s->spread[p->v->node->id] = 1;
  }
  ts_parts_free(&all);
  return failed ? -1 : 0;
}

/* Decoding writes its result as it is. */
static void keep_straight(const TsBuildJob *b, const TsSched *s) {
  TsLayouts *l = ts_build_layouts(b, s->g);
  for (int i = 0; i < s->ngroup; i++) {
    if (s->group[i]->transposed && ts_lower_straight(s, s->group[i], ts_layouts_of, l))
      s->group[i]->transposed = false;
  }
}

/* Convolutions whose readers want their channels last write them so. */
static void turn_images(const TsBuildJob *b, const TsSched *s) {
  for (int i = 0; i < s->ngroup; i++) {
    TsGroup *g = s->group[i];
    if (g->kind != TS_GROUP_vm || !ts_build_worth_on(b, g)) continue;
    g->transposed = ts_lower_conv_turned(s, g->node[0]);
  }
}

static int schedule(TsBuildJob *b, TsFusion *f, const TsGraph *g, TsError *err) {
  TsSched *s = ts_sched_open(g, ts_build_target(b), b->threads, err);
  if (!s) return -1;
  s->profile = b->profile;
  if (b->device)
    ts_lower_for(s, b->device);
  else if (is_gpu(b))
    s->processors = b->target->processors;
  if (s->processors > b->g->spare) s->processors -= b->g->spare;
  s->marks = b->marks;
  if (ts_sched_fuse(s, err)) return ts_sched_free(s), -1;
  ts_sched_cost(s);
  f->g = g;
  f->sched = s;
  if (is_gpu(b)) keep_straight(b, s), turn_images(b, s);
  f->of = ts_arena_alloc(&s->arena, sizeof *f->of * ((size_t)s->ngroup + 1));
  bool whole = f->of && !transpose_layouts(b, s) && !spread_parts(b, s) &&
               (!is_gpu(b) || !ts_build_join(b, f));
  if (!whole) return ts_error_memory(err);
  return ts_sched_check(s, err);
}

int ts_build_schedule(TsBuildJob *b, TsError *err) {
  TsFusion *f = &b->fusion;
  for (TsLayouts *l = b->layouts; l; l = l->next) {
    if (l != b->layouts && !(f = f->next = calloc(1, sizeof *f))) return ts_error_memory(err);
    if (schedule(b, f, l->g, err)) return -1;
  }
  if (b->choose) b->choose(b->tuner, b);
  ts_build_settle(b);
  return 0;
}

static TsDeviceSet *device_set(const TsBuildJob *b, const Work *work, int n, TsError *err) {
  const TsTile **k = malloc(sizeof *k * ((size_t)n + 1));
  if (!k) return ts_error_memory(err), NULL;
  for (int i = 0; i < n; i++) k[i] = work[i].k.tile;
  TsDeviceSet *s = ts_device_set(b->device, n, k, err);
  free(k);
  return s;
}

static double cost_msec(const TsBuildJob *b, const Work *work, int n, const TsDeviceSet *set) {
  double cost = 0;
  if (set) return ts_device_set_usec(set) / 1000;
  for (int i = 0; i < n; i++)
    if (work[i].plain && !work[i].kernel && b->how == TS_BUILD_compiled)
      cost += KERNEL_USEC / 1000.0;
  return cost;
}

int ts_build_run(TsBuildJob *b, TsError *err) {
  double start = ts_clock_msec();
  int n = 0;
  if (!b->fusion.sched && ts_build_schedule(b, err)) return -1;
  Work *work = find_work(b, &n);
  if (!work) return ts_error_memory(err);
  for (int i = 0; i < n; i++) prepare(b, &work[i]);
  TsDeviceSet *set = b->device ? device_set(b, work, n, err) : NULL;
  int failed = b->device && !set;
  double cost = failed ? 0 : cost_msec(b, work, n, set);
  /* At worst half as much again as was spent: then nobody loses more than that. */
  bool at_hand = b->at_hand && set && ts_device_set_known(set);
  if (cost / 2 > b->spent_msec && !at_hand) {
    b->need_msec = cost / 2;
  } else {
    if (set) failed = ts_device_set_open(set, err);
    for (int i = 0; i < n && !failed; i++) finish(b, &work[i]);
  }
  ts_device_set_free(set);
  keep_shown(b, work, n);
  for (int i = 0; i < n; i++) drop(&work[i]);
  free(work);
  b->msec = ts_clock_msec() - start;
  return failed ? -1 : 0;
}

/* What was made of one function, but not f itself. */
static void free_fusion(TsFusion *f) {
  TsSched *s = (TsSched *)(uintptr_t)f->sched;
  for (int i = 0; f->of && i < s->ngroup; i++) ts_fused_unref(f->of[i].fused);
  ts_sched_free(s);
}

void ts_build_free(TsBuildJob *b) {
  for (TsFusion *f = b->fusion.next, *next; f; f = next) {
    next = f->next;
    free_fusion(f);
    free(f);
  }
  free_fusion(&b->fusion);
  ts_layouts_free(b->layouts);
  ts_build_chosen_free(b->chosen);
  ts_text_free(&b->why);
  while (b->nshown) ts_tile_free(b->shown[--b->nshown]);
  free(b->shown);
  *b = (TsBuildJob){.g = NULL};
}
