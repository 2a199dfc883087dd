/* See jit/device/gpu_explicit.h. */
#include "jit/device/gpu_explicit.h"
#include "jit/device/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/tile/copy.h"
#include "jit/code/cache.h"
#include "jit/code/kernel.h"
#include "jit/compile/llvm.h"

enum { MOST_PARAMS = 16, ALIGN = 16 };

struct TsGpuExplicit {
  TsDevice *d;
  TsTile *k;
  TsGpuRoles info;
  void *module, *function, *scratch;
  bool cached;
  double llvm_usec, driver_usec;
};

static double now_usec(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- the disk cache: the outline, then PTX, which the driver compiles, and keeps in a cache
 * of its own. Not what its linker gives: code for linking ignores setmaxnreg (ptxas: C7504), so
 * that products in f32 spill and take 1.4 times as long. */
static void key_of(const TsDevice *d, const TsTile *k, uint8_t *key) {
  char salt[128];
  uint8_t digest[32];
  static const TsTarget none = {.name = "", .triple = "", .cpu = "", .features = ""};
  const TsTarget *t = ts_target(k->target);
  ts_kernel_code_digest(k, digest);
  snprintf(salt, sizeof salt, "gpu roles %s llvm %s driver %d %s", ts_code_version(),
           ts_llvm_version(), d->driver, d->target->name);
  ts_kernel_key_of(digest, t ? t : &none, salt, key);
}

bool ts_gpu_explicit_known(const TsDevice *d, const TsTile *k) {
  uint8_t key[TS_CACHE_KEY];
  key_of(d, k, key);
  return ts_cache_has(ts_cache_usual(), key);
}

static bool from_disk(TsGpuExplicit *g, const uint8_t *key) {
  size_t n;
  TsError stale;
  char *data = ts_cache_read(ts_cache_usual(), key, &n);
  if (data && n > sizeof g->info && !data[n - 1]) {
    memcpy(&g->info, data, sizeof g->info);
    g->cached = !g->d->run->module_new(g->d, data + sizeof g->info, &g->module, &stale);
  }
  free(data);
  return g->cached;
}

static void to_disk(const TsGpuExplicit *g, const uint8_t *key, const char *ptx) {
  size_t n = strlen(ptx) + 1;
  char *data = malloc(sizeof g->info + n);
  if (!data) return;
  memcpy(data, &g->info, sizeof g->info);
  memcpy(data + sizeof g->info, ptx, n);
  ts_cache_write(ts_cache_usual(), key, data, sizeof g->info + n);
  free(data);
}

static int compile(TsGpuExplicit *g, const uint8_t *key, TsError *err) {
  TsText ptx = {0};
  memset(&g->info, 0, sizeof g->info);
  double begun = now_usec();
  int failed = ts_gpu_roles_text(g->k, false, &g->info, &ptx, err);
  double made = now_usec();
  if (!failed) failed = g->d->run->module_new(g->d, ptx.at, &g->module, err);
  g->llvm_usec = made - begun, g->driver_usec = now_usec() - made;
  if (!failed) to_disk(g, key, ptx.at);
  ts_text_free(&ptx);
  return failed ? -1 : 0;
}

/* ---- loading */
/* With the first run: loading goes on in any thread, and a device's memory belongs to the one
 * that runs. */
static int zeros(TsGpuExplicit *g, TsError *err) {
  if (!g->info.scratch || g->scratch) return 0;
  void *zero = calloc(1, (size_t)g->info.scratch);
  if (!zero) return ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  g->scratch = g->d->alloc(g->d, g->info.scratch, err);
  int failed =
      !g->scratch || g->d->upload(g->d, g->scratch, zero, g->info.scratch, err) ? -1 : 0;
  free(zero);
  if (failed && g->scratch) g->d->free(g->d, g->scratch, g->info.scratch);
  if (failed) g->scratch = NULL;
  return failed;
}

static int load(TsGpuExplicit *g, TsError *err) {
  TsDevice *d = g->d;
  uint8_t key[TS_CACHE_KEY];
  key_of(d, g->k, key);
  if (!from_disk(g, key) && compile(g, key, err)) return -1;
  return d->run->kernel(d, g->module, g->info.name, (int)g->info.shared, &g->function, err);
}

TsGpuExplicit *ts_gpu_explicit_open(TsDevice *d, const TsTile *k, TsError *err) {
  if (!d->run || k->nparam > MOST_PARAMS)
    return ts_error_set(err, TS_ERR_device, "jit: no kernels on %s", d->name), NULL;
  if (ts_device_use(d, err)) return NULL;
  TsGpuExplicit *g = calloc(1, sizeof *g);
  if (!g) return ts_error_set(err, TS_ERR_memory, "jit: out of memory"), NULL;
  g->d = d;
  g->k = ts_tile_share(k);
  if (!load(g, err)) return g;
  ts_gpu_explicit_free(g);
  return NULL;
}

void ts_gpu_explicit_free(TsGpuExplicit *g) {
  if (!g) return;
  if (g->module) g->d->run->module_free(g->d, g->module);
  if (g->scratch) g->d->free(g->d, g->scratch, g->info.scratch);
  ts_tile_free(g->k);
  free(g);
}

bool ts_gpu_explicit_cached(const TsGpuExplicit *g) { return g->cached; }

bool ts_gpu_explicit_scratch(const TsGpuExplicit *g) { return g->info.scratch > 0; }

void ts_gpu_explicit_times(const TsGpuExplicit *g, double *llvm_usec, double *driver_usec) {
  *llvm_usec = g->llvm_usec, *driver_usec = g->driver_usec;
}

/* ---- running */
static int64_t bytes_of(const TsTileType *t, const int64_t *dim) {
  int64_t n = 1, last = 0;
  for (int i = 0; i < t->rank; i++) {
    int64_t size = ts_tile_dim_is(t->dim[i]) ? dim[ts_tile_dim_index(t->dim[i])] : t->dim[i];
    n *= size;
    if (t->strided) last += (size - 1) * t->stride[i];
  }
  return (t->strided ? last + 1 : n) * ts_dtypes[t->dtype].nbytes;
}

static bool aligned(const TsGpuExplicit *g, void *const *arg) {
  uintptr_t low = 0;
  for (int i = 0; i < g->k->nparam; i++) low |= (uintptr_t)arg[i];
  return low % ALIGN == 0;
}

bool ts_gpu_explicit_plain(const TsGpuExplicit *g, void *const *arg) {
  return aligned(g, arg) && (!g->info.scratch || g->scratch);
}

static int run_copies(TsGpuExplicit *g, void *const *arg, const int64_t *dim, TsError *err) {
  TsDevice *d = g->d;
  void *at[MOST_PARAMS];
  int64_t nbytes[MOST_PARAMS];
  int n = g->k->nparam, made = 0, failed = 0;
  for (; made < n && !failed; made++) {
    bool moves = (uintptr_t)arg[made] % ALIGN;
    nbytes[made] = bytes_of(&g->k->param[made]->type, dim);
    at[made] = moves ? d->alloc(d, nbytes[made], err) : arg[made];
    failed = !at[made];
    if (moves && !failed && made < g->k->nin)
      failed = d->copy(d, at[made], d, arg[made], nbytes[made], err);
  }
  if (!failed)
    failed = ts_gpu_roles_launch(d, g->function, g->k, &g->info, at, g->scratch, dim, err);
  for (int i = g->k->nin; i < n && !failed; i++)
    if (at[i] != arg[i]) failed = d->copy(d, arg[i], d, at[i], nbytes[i], err);
  while (made-- > 0)
    if (at[made] && at[made] != arg[made]) d->free(d, at[made], nbytes[made]);
  return failed ? -1 : 0;
}

int ts_gpu_explicit_run(TsGpuExplicit *g, void *const *arg, const int64_t *dim, TsError *err) {
  if (zeros(g, err)) return -1;
  if (!aligned(g, arg)) return run_copies(g, arg, dim, err);
  return ts_gpu_roles_launch(g->d, g->function, g->k, &g->info, arg, g->scratch, dim, err);
}

/* ---- as a kind of kernels */
static void *open_kind(TsDevice *d, const TsTile *k, const uint8_t *key, TsError *err) {
  (void)key;
  return ts_gpu_explicit_open(d, k, err);
}
static void free_kind(void *of) { ts_gpu_explicit_free(of); }
static bool known_kind(const TsDevice *d, const TsTile *k, const uint8_t *key) {
  (void)key;
  return ts_gpu_explicit_known(d, k);
}
static bool cached_kind(const void *of) { return ts_gpu_explicit_cached(of); }
static void times_kind(const void *of, double *llvm_usec, double *driver_usec) {
  ts_gpu_explicit_times(of, llvm_usec, driver_usec);
}
static int run_kind(void *of, void *scratch, void *const *arg, const int64_t *dim,
                    TsError *err) {
  (void)scratch; /* it has its own */
  return ts_gpu_explicit_run(of, arg, dim, err);
}
static const void *memory_kind(const void *of) {
  return ts_gpu_explicit_scratch(of) ? of : NULL;
}
static bool simple_kind(const void *of) { return (void)of, false; }
static bool records_kind(const void *of, void *const *arg) {
  return ts_gpu_explicit_plain(of, arg);
}

const TsDeviceKind ts_device_roles = {.name = "roles",
                                      .open = open_kind,
                                      .free = free_kind,
                                      .known = known_kind,
                                      .cached = cached_kind,
                                      .times = times_kind,
                                      .run = run_kind,
                                      .memory = memory_kind,
                                      .simple = simple_kind,
                                      .records = records_kind};
