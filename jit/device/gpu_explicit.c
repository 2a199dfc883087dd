/* Kernels with roles (jit/gpu/roles.h) on a device: the disk cache, scratch, addresses. */
#include "jit/gpu/roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/ahead.h"
#include "ir/tile/copy.h"
#include "jit/code/cache.h"
#include "jit/code/kernel.h"
#include "jit/compile/llvm.h"
#include "jit/device/kind.h"
#include "jit/device/marks.h"
#include "lib/clock.h"
#include "lib/activity.h"

enum { MOST_PARAMS = 16, ALIGN = 16 };

typedef struct Kernel {
  TsDevice *d;
  TsTile *k;
  TsGpuRoles info;
  void *module, *function, *scratch;
  uint64_t ahead; /* of the parameters, those that it touches before it waits */
  bool cached;
  double llvm_usec, driver_usec;
} Kernel;

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

static bool known(const TsDevice *d, const TsTile *k, const uint8_t *digest) {
  uint8_t key[TS_CACHE_KEY];
  (void)digest; /* it is not of what the code is */
  key_of(d, k, key);
  return ts_cache_has(ts_cache_usual(), key);
}

static int find_function(Kernel *g, TsError *err) {
  return g->d->run->kernel(g->d, g->module, g->info.name, (int)g->info.shared, &g->function,
                           err);
}

static bool from_disk(Kernel *g, const uint8_t *key) {
  size_t n;
  TsError stale;
  char *data = ts_cache_read(ts_cache_usual(), key, &n);
  TsGpuRoles *info = &g->info;
  bool whole = data && n > sizeof *info && !data[n - 1];
  if (whole) memcpy(info, data, sizeof *info);
  if (whole && ts_gpu_roles_sound(info, g->k, g->d->target) &&
      !g->d->run->module_new(g->d, data + sizeof *info, n - sizeof *info, &g->module, &stale)) {
    g->cached = !find_function(g, &stale);
    if (!g->cached) g->d->run->module_free(g->d, g->module), g->module = NULL;
  }
  free(data);
  return g->cached;
}

static void to_disk(const Kernel *g, const uint8_t *key, const char *ptx) {
  size_t n = strlen(ptx) + 1;
  char *data = malloc(sizeof g->info + n);
  if (!data) return;
  memcpy(data, &g->info, sizeof g->info);
  memcpy(data + sizeof g->info, ptx, n);
  ts_cache_write(ts_cache_usual(), key, data, sizeof g->info + n);
  free(data);
}

static int compile(Kernel *g, const uint8_t *key, TsError *err) {
  TsText ptx = {0};
  memset(&g->info, 0, sizeof g->info);
  double begun = ts_clock_usec();
  int failed = ts_gpu_roles_text(g->k, false, &g->info, &ptx, err);
  double made = ts_clock_usec();
  TsActivity *a = failed ? NULL : ts_activity_begin(TS_ACTIVITY_compile, "by the driver", NULL);
  if (!failed) failed = g->d->run->module_new(g->d, ptx.at, ptx.len + 1, &g->module, err);
  ts_activity_end(a, 0, 0);
  g->llvm_usec = made - begun, g->driver_usec = ts_clock_usec() - made;
  if (!failed) to_disk(g, key, ptx.at);
  ts_text_free(&ptx);
  return failed ? -1 : 0;
}

/* ---- loading */
/* With the first run: loading goes on in any thread, and a device's memory belongs to the one
 * that runs. */
static int zeros(Kernel *g, TsError *err) {
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

static int load(Kernel *g, TsError *err) {
  uint8_t key[TS_CACHE_KEY];
  key_of(g->d, g->k, key);
  if (from_disk(g, key)) return 0;
  return compile(g, key, err) || find_function(g, err) ? -1 : 0;
}

static void release(void *of) {
  Kernel *g = of;
  if (g->module) g->d->run->module_free(g->d, g->module);
  if (g->scratch) g->d->free(g->d, g->scratch, g->info.scratch);
  ts_tile_free(g->k);
  free(g);
}

static void *open(TsDevice *d, const TsTile *k, const uint8_t *digest, TsError *err) {
  (void)digest;
  if (!d->run || k->nparam > MOST_PARAMS)
    return ts_error_set(err, TS_ERR_device, "jit: no kernels on %s", d->name), NULL;
  if (ts_device_use(d, err)) return NULL;
  Kernel *g = calloc(1, sizeof *g);
  if (!g) return ts_error_set(err, TS_ERR_memory, "jit: out of memory"), NULL;
  g->d = d;
  g->k = ts_tile_share(k);
  g->ahead = ts_tile_ahead(k);
  if (!load(g, err)) return g;
  release(g);
  return NULL;
}

static bool cached(const void *of) { return ((const Kernel *)of)->cached; }

static const void *memory(const void *of) {
  return ((const Kernel *)of)->info.scratch > 0 ? of : NULL;
}

static void *room(const void *of) { return ((const Kernel *)of)->scratch; }

static uint64_t ahead(const void *of, void *const *arg, const int64_t *dim) {
  return (void)arg, (void)dim, ((const Kernel *)of)->ahead;
}

static void times(const void *of, double *llvm_usec, double *driver_usec) {
  const Kernel *g = of;
  *llvm_usec = g->llvm_usec, *driver_usec = g->driver_usec;
}

static const TsTile *tile(const void *of) { return ((const Kernel *)of)->k; }

static int start(Kernel *g, void *const *arg, const int64_t *dim, TsError *err) {
  if (!g->k->marks)
    return ts_gpu_roles_launch(g->d, g->function, g->k, &g->info, arg, g->scratch, dim, err);
  return ts_gpu_roles_launch_by(g->d, ts_marks_launch, g->module, g->function, g->k, &g->info,
                                arg, g->scratch, dim, err);
}

/* ---- running. The copy engine wants addresses that are multiples of 16: parameters that lie
 * elsewhere are copied. */
static bool aligned(const Kernel *g, void *const *arg) {
  uintptr_t low = 0;
  for (int i = 0; i < g->k->nparam; i++) low |= (uintptr_t)arg[i];
  return low % ALIGN == 0;
}

/* Copies are not recorded, nor what a first run does. */
static bool records(const void *of, void *const *arg) {
  const Kernel *g = of;
  return aligned(g, arg) && (!g->info.scratch || g->scratch);
}

/* A parameter's bytes from its first one in memory on, and the copy's. */
typedef struct Moved {
  char *from, *block;
  int64_t before, nbytes; /* before: of the block, that nobody reads */
} Moved;

/* Gives the address of the copy; NULL with the error. Results are copied, too: strides may leave
 * gaps between their rows, which are others' and come back as they were. */
static void *move_in(Kernel *g, int i, void *arg, const int64_t *dim, Moved *m, TsError *err) {
  const TsTileType *t = &g->k->param[i]->type;
  int64_t below, above;
  ts_tile_reach(t, dim, &below, &above);
  *m = (Moved){.from = (char *)arg - below, .before = -below & (ALIGN - 1)};
  m->nbytes = below + above;
  m->block = g->d->alloc(g->d, m->before + m->nbytes, err);
  if (!m->block) return NULL;
  bool read = i < g->k->nin || t->strided;
  char *first = m->block + m->before;
  if (read && g->d->copy(g->d, first, g->d, m->from, m->nbytes, err)) return NULL;
  return first + below;
}

static int run_copies(Kernel *g, void *const *arg, const int64_t *dim, TsError *err) {
  TsDevice *d = g->d;
  void *at[MOST_PARAMS] = {NULL};
  Moved moved[MOST_PARAMS] = {{.block = NULL}};
  int n = g->k->nparam, failed = 0;
  for (int i = 0; i < n && !failed; i++) {
    bool moves = (uintptr_t)arg[i] % ALIGN;
    at[i] = moves ? move_in(g, i, arg[i], dim, &moved[i], err) : arg[i];
    failed = !at[i];
  }
  if (!failed) failed = start(g, at, dim, err);
  for (int i = g->k->nin; i < n && !failed; i++) {
    const Moved *m = &moved[i];
    if (m->block) failed = d->copy(d, m->from, d, m->block + m->before, m->nbytes, err);
  }
  for (int i = n; i-- > 0;)
    if (moved[i].block) d->free(d, moved[i].block, moved[i].before + moved[i].nbytes);
  return failed ? -1 : 0;
}

static int run(void *of, void *scratch, void *const *arg, const int64_t *dim, TsError *err) {
  Kernel *g = of;
  (void)scratch; /* it has its own */
  if (zeros(g, err)) return -1;
  if (!aligned(g, arg)) return run_copies(g, arg, dim, err);
  return start(g, arg, dim, err);
}

/* They wait for each other by memory that only they know. */
static bool simple(const void *of) { return (void)of, false; }

const TsDeviceKind ts_device_roles = {.name = "roles",
                                      .open = open,
                                      .free = release,
                                      .known = known,
                                      .cached = cached,
                                      .times = times,
                                      .run = run,
                                      .memory = memory,
                                      .room = room,
                                      .ahead = ahead,
                                      .simple = simple,
                                      .records = records,
                                      .tile = tile};
