/* The program over a driver of AMD's without a GPU (fake_hip.c) whose kernels run: what each is
 * made of is noted where its code is made, and a launch of the code runs that, thread by
 * thread, by the emulation of GPU code, on the arguments that the driver was given. So
 * everything between an operator and the driver is what a real GPU has. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/gpu/gpu.h"
#include "jit/gpu/marks.h"
#include "lib/clock.h"
#include "tests/devices/driver/fake_hip.h"

/* The linker puts these in the places of the functions of their names. */
int __real_ts_gpu_code(const TsTile *k, const TsTarget *t, TsGpuForm form, TsGpuCode *code,
                       TsError *err);
int __wrap_ts_gpu_code(const TsTile *k, const TsTarget *t, TsGpuForm form, TsGpuCode *code,
                       TsError *err);
int64_t __real_ts_gpu_batch_table(const TsGpuCode *code, int n, void *const *arg,
                                  const int64_t *dim, uint64_t table[TS_GPU_BATCH_WORDS],
                                  TsError *err);
int64_t __wrap_ts_gpu_batch_table(const TsGpuCode *code, int n, void *const *arg,
                                  const int64_t *dim, uint64_t table[TS_GPU_BATCH_WORDS],
                                  TsError *err);

/* ---- what code was made of */
typedef struct Made {
  struct Made *next;
  TsTile *k;
  TsGpuForm form;
  TsGpuCode code; /* with an image of its own */
} Made;
static Made *made;

/* A launch of many runs, by its table. */
typedef struct Many {
  struct Many *next;
  int n;
  uint64_t table[TS_GPU_BATCH_WORDS];
  void *arg[TS_GPU_BATCH_WORDS];
  int64_t dim[TS_GPU_BATCH_WORDS];
} Many;
static Many *many;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int __wrap_ts_gpu_code(const TsTile *k, const TsTarget *t, TsGpuForm form, TsGpuCode *code,
                       TsError *err) {
  if (__real_ts_gpu_code(k, t, form, code, err)) return -1;
  Made *m = calloc(1, sizeof *m);
  *m = (Made){.k = ts_tile_share(k), .form = form, .code = *code};
  memcpy(m->code.image = malloc(code->size), code->image, code->size);
  pthread_mutex_lock(&lock);
  m->next = made, made = m;
  pthread_mutex_unlock(&lock);
  return 0;
}

int64_t __wrap_ts_gpu_batch_table(const TsGpuCode *code, int n, void *const *arg,
                                  const int64_t *dim, uint64_t table[TS_GPU_BATCH_WORDS],
                                  TsError *err) {
  int64_t blocks = __real_ts_gpu_batch_table(code, n, arg, dim, table, err);
  if (blocks < 0) return blocks;
  Many *m = calloc(1, sizeof *m);
  m->n = n;
  memcpy(m->table, table, sizeof m->table);
  memcpy(m->arg, arg, sizeof *arg * (size_t)(n * code->nparam));
  memcpy(m->dim, dim, sizeof *dim * (size_t)(n * code->ndim));
  pthread_mutex_lock(&lock);
  m->next = many, many = m;
  pthread_mutex_unlock(&lock);
  return blocks;
}

/* ---- launches */
static const Made *made_of(const void *image) {
  pthread_mutex_lock(&lock);
  const Made *m = made;
  while (m && memcmp(m->code.image, image, m->code.size)) m = m->next;
  pthread_mutex_unlock(&lock);
  return m;
}

static int run_many(const Made *m, const uint64_t *table, TsError *err) {
  pthread_mutex_lock(&lock);
  const Many *runs = many;
  while (runs && memcmp(runs->table, table, sizeof runs->table)) runs = runs->next;
  pthread_mutex_unlock(&lock);
  if (!runs) return ts_error_set(err, TS_ERR_device, "a table that nobody made");
  return ts_gpu_emulate_many(m->k, runs->n, runs->arg, runs->dim, err);
}

/* The emulation runs all phases: with the first of a run that has blocks. */
static bool is_first(const TsGpuCode *code, const char *name, const int64_t *dim) {
  int64_t rounds[TS_GPU_PHASES];
  int first = 0;
  if (ts_gpu_rounds(code, dim, rounds)) return false;
  while (first < code->nphase && !rounds[first]) first++;
  return first < code->nphase && !strcmp(code->phase[first].name, name);
}

/* What a kernel with profile marks writes down, in ticks of ten nanoseconds: each warp is a while
 * in the first stage, and as long outside of it; one with empty stages (kernel/profile.lua
 * measures what a turn costs by it) a few cycles. */
static void write_marks(const FakeHipLaunch *l, const TsTile *k, int pointers, int ndim) {
  enum { TICK_NSEC = 10, TURNS = 3 };
  uint32_t stay = strcmp(k->name, "marks") ? 200 : 8;
  char *records;
  uint64_t word[TS_GPU_MARKS_WORDS];
  memcpy(&records, l->arg[pointers], sizeof records);
  for (int i = 0; i < TS_GPU_MARKS_WORDS; i++)
    memcpy(&word[i], l->arg[pointers + 1 + ndim + i], sizeof *word);
  TsGpuMarksRoom says;
  memcpy(&says.lists, word, sizeof word);
  uint32_t warps = (l->block[0] + 31) / 32;
  for (uint32_t block = 0; block < l->grid[0]; block++)
    for (uint32_t warp = 0; warp < warps; warp++) {
      uint32_t nth = block * says.recorded.inverse, list = block * says.listed.inverse;
      if (nth >= says.recorded.blocks) continue;
      uint64_t now = (uint64_t)ts_clock_nsec() / TICK_NSEC;
      bool listed = list < says.listed.blocks && says.turns >= TURNS;
      TsGpuRecord r = {.begun_ns = now, .ended_ns = now + 4, .begun = block * 1000};
      r.ended = r.begun + 3 * stay;
      r.processor = block % 304, r.block = block, r.warp = warp, r.nturn = listed ? TURNS : 0;
      memcpy(records + (nth * warps + warp) * sizeof r, &r, sizeof r);
      TsGpuTurn turn[TURNS] = {{(uint32_t)r.begun, 0},
                               {(uint32_t)r.begun + stay, 1},
                               {(uint32_t)r.begun + 2 * stay, 0}};
      if (listed)
        memcpy(records + says.lists + (list * warps + warp) * says.turns * sizeof *turn, turn,
               sizeof turn);
    }
}

static int run_one(const Made *m, const FakeHipLaunch *l, TsError *err) {
  void *arg[256];
  int64_t dim[TS_TILE_DIMS];
  int pointers = m->code.nparam + m->code.nscratch, marks = m->k->marks ? 1 : 0;
  int wanted = pointers + m->code.ndim + marks * (1 + TS_GPU_MARKS_WORDS);
  if (l->narg != wanted)
    return ts_error_set(err, TS_ERR_device, "%d arguments, not %d", l->narg, wanted);
  pointers += marks;
  for (int i = 0; i < m->code.nparam; i++) memcpy(&arg[i], l->arg[i], sizeof *arg);
  for (int i = 0; i < m->code.ndim; i++) memcpy(&dim[i], l->arg[pointers + i], sizeof *dim);
  int failed = is_first(&m->code, l->kernel, dim)
                   ? ts_gpu_emulate(m->k, m->form == TS_GPU_aligned, arg, dim, err)
                   : 0;
  if (marks && !failed) write_marks(l, m->k, pointers - 1, m->code.ndim);
  return failed;
}

static int run(const FakeHipLaunch *l) {
  TsError err = {0};
  const Made *m = made_of(l->code);
  if (!m) return fprintf(stderr, "hip: code that nobody made\n"), 1;
  int failed = m->form == TS_GPU_batch ? run_many(m, l->arg[0], &err) : run_one(m, l, &err);
  if (failed) fprintf(stderr, "hip: %s: %s\n", m->k->name, err.message);
  return failed ? 1 : 0;
}

/* Code from the disk would be of what nobody noted. */
__attribute__((constructor)) static void begin(void) {
  setenv("TESSERA_LIBHIP", "self", 1);
  setenv("TESSERA_CACHE", "off", 1);
  fake_hip_run(run);
}
