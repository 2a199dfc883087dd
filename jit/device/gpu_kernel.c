/* Kernels whose code is one of threads, on a device: the disk cache, modules, launches. What
 * makes the code is jit/gpu/gpu.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/ahead.h"
#include "ir/tile/check.h"
#include "jit/code/cache.h"
#include "jit/gpu/code.h"
#include "jit/code/kernel.h"
#include "jit/code/link.h"
#include "jit/compile/llvm.h"
#include "jit/compile/spirv.h"
#include "jit/device/kind.h"
#include "jit/device/marks.h"
#include "lib/clock.h"
#include "lib/activity.h"

enum { MOST_ARGS = 128 };

/* Code for parameters that begin at multiples of 16 bytes, and for others once they come. */
typedef struct Variant {
  bool made;
  TsGpuCode code;
  void *module, *phase[TS_GPU_PHASES];
} Variant;

typedef struct Kernel {
  TsDevice *d;
  TsTile *k;
  uint8_t digest[32];
  const TsTarget *target;
  Variant aligned, other, many;
  pthread_mutex_t lock;
  bool cached;
  double llvm_usec, driver_usec;
} Kernel;

/* ---- the disk cache: what LLVM found out, then PTX */
typedef struct Head {
  char mark[8];
  uint32_t nphase;
  TsGpuPhase phase[TS_GPU_PHASES];
} Head;

static const char mark[8] = "tsptx1";

static bool is_sound(const Head *h, const TsGpuCode *code, const TsTarget *t) {
  bool sound = !memcmp(h->mark, mark, sizeof mark) && h->nphase == (uint32_t)code->nphase;
  for (int i = 0; i < code->nphase && sound; i++) sound = ts_gpu_phase_sound(&h->phase[i], t);
  return sound;
}

/* PTX is a text, which drivers compile; of the others a loader believes what they say of themselves. */
static bool image_sound(const TsGpuCode *code, const TsTarget *t) {
  const char *name[TS_GPU_PHASES];
  for (int i = 0; i < code->nphase; i++) name[i] = code->phase[i].name;
  if (t->maker == TS_MAKER_amd)
    return ts_link_sound(code->image, code->size, code->nphase, name);
  return t->maker != TS_MAKER_spirv || ts_spirv_sound(code->image, code->size) > 0;
}

static bool from_disk(TsGpuCode *code, const TsTarget *t, const uint8_t *key) {
  size_t n;
  Head head;
  char *data = ts_cache_read(ts_cache_usual(), key, &n);
  if (!data) return false;
  bool whole = n > sizeof head;
  if (whole) memcpy(&head, data, sizeof head);
  whole = whole && is_sound(&head, code, t);
  if (whole) whole = (code->image = malloc(n - sizeof head + 1)) != NULL;
  if (whole) {
    code->size = n - sizeof head;
    memcpy(code->image, data + sizeof head, code->size);
    code->image[code->size] = 0;
    memcpy(code->phase, head.phase, sizeof code->phase);
    whole = image_sound(code, t);
    if (!whole) ts_gpu_code_free(code);
  }
  free(data);
  return whole;
}

static void to_disk(const TsGpuCode *code, const uint8_t *key) {
  Head head = {.nphase = (uint32_t)code->nphase};
  memcpy(head.mark, mark, sizeof mark);
  memcpy(head.phase, code->phase, sizeof head.phase);
  char *data = malloc(sizeof head + code->size);
  if (!data) return;
  memcpy(data, &head, sizeof head);
  memcpy(data + sizeof head, code->image, code->size);
  ts_cache_write(ts_cache_usual(), key, data, sizeof head + code->size);
  free(data);
}

static void key_of(const uint8_t *digest, const TsTarget *t, TsGpuForm form, uint8_t *key) {
  static const char *const word[] = {"", "aligned", "batch"};
  char salt[80];
  snprintf(salt, sizeof salt, "gpu code %s llvm %s %s", ts_code_version(), ts_llvm_version(),
           word[form]);
  ts_kernel_key_of(digest, t, salt, key);
}

static bool known(const TsDevice *d, const TsTile *k, const uint8_t *digest) {
  (void)k;
  uint8_t key[TS_CACHE_KEY];
  const TsTarget *t = ts_target_of(d);
  if (t) key_of(digest, t, TS_GPU_aligned, key);
  return t && ts_cache_has(ts_cache_usual(), key);
}

/* Threads belong to what is on disk: they follow from the expanded kernel. again: whatever
 * is there. */
static int find_code(Kernel *g, TsGpuForm form, bool again, TsGpuCode *code, TsError *err) {
  uint8_t key[TS_CACHE_KEY];
  TsGpuPlan plan;
  key_of(g->digest, g->target, form, key);
  if (ts_gpu_code_outline(g->k, g->target, form != TS_GPU_loose, code, &plan, err)) return -1;
  g->cached = !again && from_disk(code, g->target, key);
  if (g->cached) return 0;
  if (ts_tile_check(g->k, NULL, err) || ts_gpu_code(g->k, g->target, form, code, err))
    return -1;
  g->llvm_usec += code->usec;
  return 0;
}

/* Once it is loaded: what is on disk costs no compiling, the driver's neither. */
static void keep(const Kernel *g, TsGpuForm form, const TsGpuCode *code) {
  uint8_t key[TS_CACHE_KEY];
  key_of(g->digest, g->target, form, key);
  to_disk(code, key);
}

/* ---- loading */
/* The driver compiles PTX as it loads it, beside what else goes on, and has a cache of its
 * own on disk. Its linker would give code that could be kept here, but compiles for others
 * to link to: with up to twice the registers. */
static int load(Kernel *g, Variant *v, TsError *err) {
  TsDevice *d = g->d;
  double begun = ts_clock_usec();
  TsActivity *a = ts_activity_begin(TS_ACTIVITY_compile, "by the driver", NULL);
  int failed = d->run->module_new(d, v->code.image, v->code.size, &v->module, err);
  ts_activity_end(a, 0, 0);
  if (failed) return -1;
  for (int i = 0; i < v->code.nphase; i++)
    if (d->run->kernel(d, v->module, v->code.phase[i].name, (int)v->code.phase[i].shared,
                       &v->phase[i], err))
      return -1;
  g->driver_usec += ts_clock_usec() - begun;
  return 0;
}

static void drop(Kernel *g, Variant *v) {
  if (v->module) g->d->run->module_free(g->d, v->module);
  ts_gpu_code_free(&v->code);
  *v = (Variant){0};
}

static int make(Kernel *g, Variant *v, TsGpuForm form, TsError *err) {
  if (v->made) return 0;
  int failed = find_code(g, form, false, &v->code, err) || load(g, v, err);
  if (failed && g->cached) { /* nothing that the driver takes was on disk */
    drop(g, v);
    failed = find_code(g, form, true, &v->code, err) || load(g, v, err);
  }
  if (failed) return drop(g, v), -1;
  if (!g->cached) keep(g, form, &v->code);
  v->made = true;
  return 0;
}

static void release(void *of) {
  Kernel *g = of;
  drop(g, &g->aligned);
  drop(g, &g->other);
  drop(g, &g->many);
  ts_tile_free(g->k);
  pthread_mutex_destroy(&g->lock);
  free(g);
}

static void *open(TsDevice *d, const TsTile *k, const uint8_t *digest, TsError *err) {
  const TsTarget *t = d->run ? ts_target_of(d) : NULL;
  if (!ts_target_gpu(t))
    return ts_error_set(err, TS_ERR_device, "jit: no code for %s", d->name), NULL;
  if (ts_device_use(d, err)) return NULL;
  Kernel *g = calloc(1, sizeof *g);
  if (!g) return ts_error_set(err, TS_ERR_memory, "jit: out of memory"), NULL;
  g->d = d, g->target = t;
  memcpy(g->digest, digest, sizeof g->digest);
  pthread_mutex_init(&g->lock, NULL);
  g->k = ts_tile_share(k);
  if (!make(g, &g->aligned, TS_GPU_aligned, err)) return g;
  release(g);
  return NULL;
}

static const TsTile *tile(const void *of) {
  const Kernel *g = of;
  bool told = ts_gpu_marks_by_launch(g->target) ? !g->d->no_clock : g->d->run->variable != NULL;
  return told ? g->k : NULL;
}
static bool cached(const void *of) { return ((const Kernel *)of)->cached; }
const TsGpuCode *ts_device_threads_code(const void *of) {
  return &((const Kernel *)of)->aligned.code;
}

static void times(const void *of, double *llvm_usec, double *driver_usec) {
  const Kernel *g = of;
  *llvm_usec = g->llvm_usec, *driver_usec = g->driver_usec;
}

/* ---- launches */
static int launch(Kernel *g, Variant *v, void **args, const int64_t *dim, TsError *err) {
  int64_t rounds[TS_GPU_PHASES], before = 0;
  bool early = ts_target_has(g->target, TS_UNIT_early);
  if (ts_gpu_rounds(&v->code, dim, rounds))
    return ts_error_set(err, TS_ERR_value, "jit: sizes are too large");
  for (int i = 0; i < v->code.nphase; i++) {
    const TsGpuPhase *p = &v->code.phase[i];
    int64_t blocks = (rounds[i] + p->rounds - 1) / p->rounds;
    if (!blocks) {
      g->d->skipped++; /* for which the phase before may have let others come */
      continue;
    }
    if (blocks > INT32_MAX) return ts_error_set(err, TS_ERR_value, "jit: sizes are too large");
    TsLaunch l = {.kernel = v->phase[i],
                  .grid = {(uint32_t)blocks, 1, 1},
                  .block = {(uint32_t)p->threads, 1, 1},
                  .shared = p->shared,
                  .early = before > 0 && early,
                  .dependent = i == 0 && early,
                  .small = (i ? before : blocks) < TS_GPU_MANY_BLOCKS,
                  .args = args,
                  .pointers = v->code.nparam + v->code.nscratch,
                  .words = v->code.ndim};
    if (g->k->marks ? ts_marks_launch(g->d, v->module, g->k, &l, err)
                    : g->d->run->launch(g->d, &l, err))
      return -1;
    before = blocks;
  }
  return 0;
}

static Variant *variant_for(Kernel *g, void *const *arg, TsError *err) {
  uintptr_t low = 0;
  for (int i = 0; i < g->aligned.code.nparam; i++) low |= (uintptr_t)arg[i];
  if (low % (unsigned)g->aligned.code.align == 0) return &g->aligned;
  pthread_mutex_lock(&g->lock);
  int failed = make(g, &g->other, TS_GPU_loose, err);
  pthread_mutex_unlock(&g->lock);
  return failed ? NULL : &g->other;
}

static int64_t scratch_of(const TsGpuCode *c, int i, const int64_t *dim) {
  return (ts_tile_dense_bytes(&c->scratch[i], dim) + 255) & ~(int64_t)255;
}

/* Of few blocks it waits before it reads. */
static uint64_t ahead(const void *of, void *const *arg, const int64_t *dim) {
  const Kernel *g = of;
  int64_t rounds[TS_GPU_PHASES];
  uintptr_t low = 0;
  for (int i = 0; i < g->aligned.code.nparam; i++) low |= (uintptr_t)arg[i];
  bool aligned = low % (unsigned)g->aligned.code.align == 0;
  if (!aligned || !ts_target_has(g->target, TS_UNIT_early) ||
      ts_gpu_rounds(&g->aligned.code, dim, rounds))
    return TS_TILE_AHEAD_ALL;
  int64_t blocks =
      (rounds[0] + g->aligned.code.phase[0].rounds - 1) / g->aligned.code.phase[0].rounds;
  return blocks && blocks < TS_GPU_MANY_BLOCKS ? 0 : TS_TILE_AHEAD_ALL;
}

static int64_t scratch_bytes(const void *of, const int64_t *dim) {
  const TsGpuCode *c = ts_device_threads_code(of);
  int64_t n = 0;
  for (int i = 0; i < c->nscratch; i++) n += scratch_of(c, i, dim);
  return n;
}

static int run(void *of, void *scratch, void *const *arg, const int64_t *dim, TsError *err) {
  Kernel *g = of;
  Variant *v = variant_for(g, arg, err);
  void *pointer[MOST_ARGS], *list[MOST_ARGS + TS_TILE_DIMS];
  int64_t size[TS_TILE_DIMS], nbytes = scratch_bytes(g, dim);
  int n = 0;
  if (!v) return -1;
  const TsGpuCode *c = &v->code;
  if (c->nparam + c->nscratch > MOST_ARGS)
    return ts_error_set(err, TS_ERR_value, "jit: too many parameters");
  void *own = scratch || !nbytes ? NULL : g->d->alloc(g->d, nbytes, err);
  char *at = scratch ? scratch : own;
  if (nbytes && !at) return -1;
  for (; n < c->nparam; n++) pointer[n] = arg[n], list[n] = &pointer[n];
  for (int i = 0; i < c->nscratch; i++, n++) {
    pointer[n] = at, list[n] = &pointer[n];
    at += scratch_of(c, i, dim);
  }
  for (int i = 0; i < c->ndim; i++) size[i] = dim[i], list[n + i] = &size[i];
  int failed = launch(g, v, list, dim, err);
  if (own) g->d->free(g->d, own, nbytes);
  return failed;
}

static bool simple(const void *of) {
  const TsGpuCode *code = ts_device_threads_code(of);
  return !code->nscratch && code->nphase == 1;
}

static int launches(const void *of) { return ts_device_threads_code(of)->nphase; }

/* ---- many runs */
static int most(const void *of) {
  const Kernel *g = of;
  return g->target->portable ? 1 : ts_gpu_batch_most(&g->aligned.code);
}

static int launch_many(Kernel *g, int64_t blocks, uint64_t *table, const int64_t *dim,
                       TsError *err) {
  const TsGpuPhase *p = &g->many.code.phase[0];
  int64_t size[TS_TILE_DIMS];
  void *list[1 + TS_TILE_DIMS] = {table};
  for (int i = 1; i < g->many.code.ndim; i++) size[i] = dim[i], list[i] = &size[i];
  TsLaunch l = {.kernel = g->many.phase[0],
                .grid = {(uint32_t)blocks, 1, 1},
                .block = {(uint32_t)p->threads, 1, 1},
                .shared = p->shared,
                .args = list};
  return blocks ? g->d->run->launch(g->d, &l, err) : 0;
}

static int run_many(void *of, int n, void *const *arg, const int64_t *dim, TsError *err) {
  Kernel *g = of;
  uint64_t table[TS_GPU_BATCH_WORDS] = {0};
  pthread_mutex_lock(&g->lock);
  int failed = make(g, &g->many, TS_GPU_batch, err);
  pthread_mutex_unlock(&g->lock);
  if (failed) return -1;
  int64_t blocks = ts_gpu_batch_table(&g->many.code, n, arg, dim, table, err);
  return blocks < 0 ? -1 : launch_many(g, blocks, table, dim, err);
}

const TsDeviceKind ts_device_threads = {.name = "threads",
                                        .open = open,
                                        .free = release,
                                        .known = known,
                                        .cached = cached,
                                        .times = times,
                                        .run = run,
                                        .scratch = scratch_bytes,
                                        .ahead = ahead,
                                        .simple = simple,
                                        .launches = launches,
                                        .most = most,
                                        .run_many = run_many,
                                        .tile = tile};
