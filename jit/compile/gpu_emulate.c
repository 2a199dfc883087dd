/* A GPU's kernel on the host: the code of one thread, compiled for this processor, run for each
 * thread of a round as a coroutine. Threads meet by giving way to the next: all do the same
 * meetings in the same order, so who comes again finds that all others were there. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "devices/cpu_pool.h"
#include "jit/gpu/code.h"
#include "jit/compile/llvm.h"
#include "jit/code/object.h"

enum { STACK = 96 << 10, SHARED = 256 << 10, PAGE = 4096, MOST_THREADS = 1024 };

typedef void ThreadFn(void **arg, const int64_t *dim, int64_t block, int32_t thread,
                      void *shared, void *env);

/* What the code sees of the emulator comes first. */
typedef struct Block {
  void (*meet)(struct Block *);
  uint64_t *exchange;
  ThreadFn *fn;
  void **arg;
  const int64_t *dim;
  int64_t number, blocks;
  int first, threads, now; /* of a group */
  char *room, *shared, *stacks;
  bool done[MOST_THREADS];
  ucontext_t self, thread[MOST_THREADS];
} Block;

static _Thread_local Block *running;

static void meet(Block *b) { swapcontext(&b->thread[b->now], &b->self); }

static void enter(void) {
  Block *b = running;
  int t = b->now;
  b->fn(b->arg, b->dim, b->number, b->first + t, b->shared, b);
  b->done[t] = true;
}

static void prepare(Block *b, int t) {
  ucontext_t *u = &b->thread[t];
  getcontext(u);
  u->uc_stack.ss_sp = b->stacks + (size_t)t * STACK;
  u->uc_stack.ss_size = STACK;
  u->uc_link = &b->self;
  makecontext(u, enter, 0);
}

static void run_group(Block *b) {
  running = b;
  memset(b->done, 0, sizeof b->done);
  for (int t = 0; t < b->threads; t++) prepare(b, t);
  for (bool any = true; any;) {
    any = false;
    for (b->now = 0; b->now < b->threads; b->now++) {
      if (b->done[b->now]) continue;
      swapcontext(&b->self, &b->thread[b->now]);
      any = true;
    }
  }
}

/* Memory that nobody wrote is NaN. What a launch asks for ends where a page begins that cannot
 * be read: a GPU ends the program as well when a thread looks there. */
static void run_phase(Block *b, const TsGpuPhase *p, int64_t taken) {
  b->shared = b->room + SHARED - taken * p->rounds;
  b->threads = p->threads / p->rounds;
  for (b->number = 0; b->number < b->blocks && !ts_cpu_interrupted(); b->number++) {
    memset(b->room, 0xff, SHARED);
    for (b->first = 0; b->first < p->threads; b->first += b->threads) run_group(b);
  }
}

static char *open_room(void) {
  char *at =
      mmap(NULL, SHARED + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  if (!mprotect(at + SHARED, PAGE, PROT_NONE)) return at;
  munmap(at, SHARED + PAGE);
  return NULL;
}

static int run_blocks(const TsGpuCode *code, void **fn, void **list, const int64_t *dim,
                      const int64_t *blocks, const int64_t *shared, TsError *err) {
  Block *b = calloc(1, sizeof *b);
  int failed = 0;
  if (!b) return ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  b->meet = meet;
  b->exchange = calloc(MOST_THREADS, sizeof *b->exchange);
  b->room = open_room();
  b->stacks = malloc((size_t)MOST_THREADS * STACK);
  b->arg = list, b->dim = dim;
  if (!b->exchange || !b->room || !b->stacks)
    failed = ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  for (int i = 0; i < code->nphase && !failed; i++) {
    memcpy(&b->fn, &fn[i], sizeof b->fn);
    b->blocks = blocks[i];
    run_phase(b, &code->phase[i], shared[i]);
  }
  if (b->room) munmap(b->room, SHARED + PAGE);
  free(b->exchange), free(b->stacks), free(b);
  return failed;
}

static int run_one(const TsGpuCode *code, void **fn, void *const *arg, const int64_t *dim,
                   const int64_t *shared, TsError *err) {
  int64_t rounds[TS_GPU_PHASES];
  void *list[256];
  int failed = ts_gpu_rounds(code, dim, rounds), n = code->nparam + code->nscratch;
  if (n > 256) return ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  memcpy(list, arg, sizeof *list * (size_t)code->nparam);
  for (int i = 0; i < code->nscratch; i++)
    list[code->nparam + i] = aligned_alloc(
        64, (size_t)(ts_tile_dense_bytes(&code->scratch[i], dim) + 127) & ~(size_t)63);
  for (int i = 0; i < code->nphase; i++)
    rounds[i] = (rounds[i] + code->phase[i].rounds - 1) / code->phase[i].rounds;
  if (!failed) failed = run_blocks(code, fn, list, dim, rounds, shared, err);
  for (int i = 0; i < code->nscratch; i++) free(list[code->nparam + i]);
  return failed;
}

/* A launch of many runs: the table takes the place of the parameters. */
static int run_batch(const TsGpuCode *code, void **fn, int n, void *const *arg,
                     const int64_t *dim, const int64_t *shared, TsError *err) {
  uint64_t table[TS_GPU_BATCH_WORDS] = {0};
  int64_t blocks = ts_gpu_batch_table(code, n, arg, dim, table, err);
  return blocks < 0 ? -1 : run_blocks(code, fn, (void **)table, dim, &blocks, shared, err);
}

static int emulate(const TsTile *k, TsGpuForm form, int n, void *const *arg, const int64_t *dim,
                   TsError *err) {
  static const char *const name[TS_GPU_PHASES] = {
      "phase0", "phase1", "phase2",  "phase3",  "phase4",  "phase5",  "phase6",  "phase7",
      "phase8", "phase9", "phase10", "phase11", "phase12", "phase13", "phase14", "phase15"};
  const TsTarget *t = ts_jit_target("avx2");
  TsGpuPlan plan;
  TsGpuCode code = {0};
  TsText object = {0};
  TsObject loaded = {0};
  int64_t shared[TS_GPU_PHASES];
  void *fn[TS_GPU_PHASES];
  if (!t) return ts_error_set(err, TS_ERR_device, "jit: no host to emulate on");
  TsTile *e = ts_tile_expand(k, err);
  if (!e || ts_tile_dce(e, err) < 0) return ts_tile_free(e), -1;
  TsGpuJob job = {.plan = &plan, .form = form, .host = true, .shared = shared};
  int failed = ts_gpu_code_outline(e, t, form != TS_GPU_loose, &code, &plan, err) ||
               ts_llvm_emit(e, t, NULL, TS_LLVM_object, ts_gpu_emit, &job, &object, err);
  if (!failed)
    failed = ts_object_load(&loaded, object.at, object.len, code.nphase, name, fn, err);
  if (!failed) {
    failed = form == TS_GPU_batch ? run_batch(&code, fn, n, arg, dim, shared, err)
                                  : run_one(&code, fn, arg, dim, shared, err);
    ts_object_unload(&loaded);
  }
  ts_text_free(&object);
  ts_tile_free(e);
  return failed ? -1 : 0;
}

int ts_gpu_emulate(const TsTile *k, bool aligned, void *const *arg, const int64_t *dim,
                   TsError *err) {
  return emulate(k, aligned ? TS_GPU_aligned : TS_GPU_loose, 1, arg, dim, err);
}

int ts_gpu_emulate_many(const TsTile *k, int n, void *const *arg, const int64_t *dim,
                        TsError *err) {
  return emulate(k, TS_GPU_batch, n, arg, dim, err);
}
