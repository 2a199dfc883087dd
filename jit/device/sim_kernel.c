/* Kernels of the simulated device: the interpreter of Tile IR runs them, or the emulator of
 * GPU code (TESSERA_SIM=emulate), thread by thread: for tests of that code, a thousand times
 * slower; or the debugger (TESSERA_SIM=check), whose findings are errors. */
#include <stdlib.h>
#include <string.h>

#include "devices/memory.h"
#include "devices/sim.h"
#include "ir/tile/copy.h"
#include "ir/tile/debug/debug.h"
#include "jit/device/kind.h"
#include "jit/device/marks.h"
#include "jit/device/sim_files.h"
#include "jit/device/sim_meet.h"
#include "jit/gpu/gpu.h"

/* Kernels of several phases leave something in memory of the device that they take for it.
 * Each simulated one does, so that whoever gives it the memory of somebody else is seen. A
 * simulated launch has few runs, so that tests have several. */
enum { SCRATCH = 512, MOST_RUNS = 5, MOST_PARAMS = 128 };

typedef struct Simulated {
  TsDevice *d;
  TsTile *k; /* expanded once, for the interpreter; or as it is, for the others */
  const TsTileStmt *meeting; /* of k: it runs beside kernels of other devices; or NULL */
  bool emulated;
  TsTile *kept; /* as it came, until a launch of it is in a file; NULL */
} Simulated;

static bool has_roles(const TsTile *k) { return k->form == TS_FORM_explicit && k->threads; }

static bool runs_by(const char *word) {
  const char *how = getenv("TESSERA_SIM");
  return how && !strcmp(how, word);
}

static void release(void *of) {
  Simulated *s = of;
  if (s->meeting) ts_sim_meet_end(s->d);
  ts_tile_free(s->k), ts_tile_free(s->kept);
  free(s);
}

static void *open_simulated(TsDevice *d, const TsTile *k, const uint8_t *key, TsError *err) {
  TsGpuCode code = {0};
  (void)key;
  if (ts_tile_check(k, NULL, err) || ts_sim_fails(d, TS_SIM_open, err)) return NULL;
  Simulated *s = calloc(1, sizeof *s);
  if (!s) return ts_error_memory(err), NULL;
  ts_sim_files_code(k);
  s->d = d, s->emulated = runs_by("emulate") && !has_roles(k);
  int failed = s->emulated && ts_gpu_code(k, ts_target_of(d), TS_GPU_aligned, &code, err);
  ts_gpu_code_free(&code);
  if (ts_sim_meeting(k)) s->emulated = false; /* its code is made all the same */
  bool as_it_is = s->emulated || (runs_by("check") && !ts_sim_meeting(k));
  if (!failed) s->k = as_it_is ? ts_tile_copy(k, NULL, NULL, err) : ts_tile_expand(k, err);
  if (s->k) s->meeting = ts_sim_meeting(s->k);
  if (s->k && !s->meeting && getenv("TESSERA_SIM_OBJECTS"))
    s->kept = ts_tile_copy(k, NULL, NULL, err);
  if (s->k) return s;
  release(s);
  return NULL;
}

/* A GPU stops there. */
static bool begins_between(const TsTileType *t, const void *at) {
  return !ts_dtype_in_blocks(t->dtype) && (uintptr_t)at % (uintptr_t)ts_dtypes[t->dtype].nbytes;
}

static int check(const TsTile *k, void *const *arg, const int64_t *dim, TsError *err) {
  TsText text = {0};
  ts_tile_text_places(k, &text);
  TsTileDebug *d = text.failed ? NULL : ts_tile_debug_open(text.at, err);
  if (d) ts_tile_debug_results(d, true);
  int failed = d             ? ts_tile_debug_run(d, arg, dim, err)
               : text.failed ? ts_error_memory(err)
                             : -1;
  if (!failed && ts_tile_debug_count(d))
    failed =
        ts_error_set(err, TS_ERR_value, "%s: %s", k->name, ts_tile_debug_finding(d, 0)->text);
  ts_tile_debug_close(d);
  ts_text_free(&text);
  return failed;
}

static int run_there(Simulated *s, void *const *arg, const int64_t *dim, TsError *err) {
  ts_sim_use(s->d);
  if (ts_sim_fails(s->d, TS_SIM_launch, err)) return -1;
  void *at[MOST_PARAMS];
  uintptr_t low = 0;
  const TsTile *k = s->k;
  if (k->nparam > MOST_PARAMS)
    return ts_error_set(err, TS_ERR_value, "%s: more than %d parameters", k->name, MOST_PARAMS);
  for (int i = 0; i < k->nparam; i++) {
    at[i] = ts_sim_host(arg[i]);
    ts_sim_aside_touch(s->d, arg[i]);
    low |= (uintptr_t)at[i];
    if (begins_between(&k->param[i]->type, at[i]))
      return ts_error_set(err, TS_ERR_device, "%s: parameter %d begins between elements",
                          k->name, i);
  }
  TsError none = {0};
  if (s->meeting && ts_sim_fails(s->d, TS_SIM_miss, &none)) return 0;
  if (s->meeting) return ts_sim_meet_launch(s->d, k, s->meeting, at, dim, err);
  TsTileRunAs as = {.mark = NULL};
  TsSimMarks *marks = NULL;
  if (k->marks && !s->emulated && !(marks = ts_sim_marks_begin(s->d, k, &as, err))) return -1;
  TsSimFile *file = NULL;
  if (s->kept && ts_sim_file_begin(s->d, s->kept, low % 16 == 0, at, dim, &file, err))
    return -1;
  ts_memory_spare(true);
  int failed = s->emulated        ? ts_gpu_emulate(k, low % 16 == 0, at, dim, err)
               : runs_by("check") ? check(k, at, dim, err)
                                  : ts_tile_run_as(k, at, dim, &as, err);
  ts_memory_spare(false);
  if (file) ts_sim_file_end(file, failed), ts_tile_free(s->kept), s->kept = NULL;
  return marks ? ts_sim_marks_end(marks, failed, err) : failed;
}

static const TsTile *tile(const void *of) {
  const Simulated *s = of;
  return s->emulated || s->meeting ? NULL : s->k;
}

static int run(void *of, void *scratch, void *const *arg, const int64_t *dim, TsError *err) {
  Simulated *s = of;
  if (s->meeting) return run_there(s, arg, dim, err);
  void *own = scratch ? scratch : s->d->alloc(s->d, SCRATCH, err);
  if (own)
    memset(ts_sim_host(own), 0xff, SCRATCH); /* without it the kernel runs all the same */
  int failed = run_there(s, arg, dim, err);
  if (!scratch && own) s->d->free(s->d, own, SCRATCH);
  return failed;
}

static int64_t scratch_bytes(const void *of, const int64_t *dim) {
  (void)of, (void)dim;
  return SCRATCH;
}

static int most(const void *of) {
  const TsTile *k = ((const Simulated *)of)->k;
  return !has_roles(k) && k->ndim ? MOST_RUNS : 1;
}

static int emulate_many(const Simulated *s, int n, void *const *arg, const int64_t *dim,
                        TsError *err) {
  const TsTile *k = s->k;
  void *at[TS_GPU_BATCH_WORDS];
  if (n * k->nparam > TS_GPU_BATCH_WORDS)
    return ts_error_set(err, TS_ERR_value, "%s: too many runs in a launch", k->name);
  for (int i = 0; i < n * k->nparam; i++) {
    at[i] = ts_sim_host(arg[i]);
    ts_sim_aside_touch(s->d, arg[i]);
  }
  ts_memory_spare(true);
  int failed = ts_gpu_emulate_many(k, n, at, dim, err);
  ts_memory_spare(false);
  return failed;
}

static int run_many(void *of, int n, void *const *arg, const int64_t *dim, TsError *err) {
  Simulated *s = of;
  int failed = 0;
  if (s->emulated && ts_sim_fails(s->d, TS_SIM_launch, err)) return -1;
  if (s->emulated) return emulate_many(s, n, arg, dim, err);
  for (int i = 0; i < n && !failed; i++)
    failed = run_there(s, arg + i * s->k->nparam, dim + i * s->k->ndim, err);
  return failed;
}

const TsDeviceKind ts_device_simulated = {.name = "simulated",
                                          .instant = true,
                                          .open = open_simulated,
                                          .free = release,
                                          .run = run,
                                          .scratch = scratch_bytes,
                                          .most = most,
                                          .run_many = run_many,
                                          .tile = tile};
