/* A pool of threads that share one loop at a time.
 *
 * The caller publishes the loop, wakes the workers and takes ranges itself. Each
 * worker begins with a span of its own, the same part of every loop over the same
 * items: what one loop left in a core's caches is there for the next, and lines
 * that another core has read, which are ten times slower to write, are rare. A
 * worker whose span is done takes ranges of the others', so that a loop never waits
 * for a thread that the machine has not scheduled. Workers spin for some
 * microseconds before they sleep, since operators follow each other closely. */
#include "devices/cpu_pool.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/thread.h"

enum {
  MAX_THREADS = 256,
  SPINS = 2000,
  RANGES_PER_THREAD = 4,
  GRAINS_PER_CALL = 16 /* between two looks for an interrupt */
};

/* The items of one worker, on a cache line of their own. */
typedef struct Span {
  _Alignas(64) atomic_llong next; /* first item not yet taken */
  int64_t end;
} Span;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int nthreads, nstarted; /* threads wanted (with the caller), workers running */
  pthread_t thread[MAX_THREADS];
  atomic_uint epoch; /* counts loops; odd while one is open */
  atomic_int inside; /* workers that are in the open loop */
  Span span[MAX_THREADS];
  int nspans;
  int64_t step, piece; /* items of one range, of one call of the task */
  TsTask *task;
  void *arg;
  int nsleeping;
  bool stop;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static pthread_mutex_t one_loop = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int worker_id = -1; /* >= 0 inside a task */

/* ---- Ctrl-C: set by a handler of signals, read by all threads. What is wanted while interrupts
 * are held back is told when they are let through. */
enum { BY_USER = 1, BY_LOSS = 2, COUNTED = 4 /* for tests: looks are counted */ };
static atomic_uint interrupted;
static volatile sig_atomic_t wanted, held;
static atomic_llong looks_left;
static void (*at_last_look)(void);

static bool look(unsigned now) {
  if (now & COUNTED && atomic_fetch_sub(&looks_left, 1) == 1) at_last_look();
  return atomic_load_explicit(&interrupted, memory_order_relaxed) & (BY_USER | BY_LOSS);
}
bool ts_cpu_interrupted(void) {
  unsigned now = atomic_load_explicit(&interrupted, memory_order_relaxed);
  return now && look(now);
}
int64_t ts_cpu_call_at_look(int64_t n, void (*call)(void)) {
  atomic_fetch_and(&interrupted, ~(unsigned)COUNTED);
  at_last_look = call;
  int64_t left = atomic_exchange(&looks_left, n);
  if (n > 0) atomic_fetch_or(&interrupted, COUNTED);
  return left;
}
static void tell(bool yes) {
  if (yes)
    atomic_fetch_or(&interrupted, BY_USER);
  else if (atomic_load(&interrupted) & BY_USER)
    atomic_fetch_and(&interrupted, ~(unsigned)BY_USER);
}
void ts_cpu_lose(void) { atomic_fetch_or(&interrupted, BY_LOSS); }
bool ts_cpu_take_loss(void) {
  return atomic_fetch_and(&interrupted, ~(unsigned)BY_LOSS) & BY_LOSS;
}
void ts_cpu_interrupt(void) {
  wanted = 1;
  if (!held) tell(true);
}
void ts_cpu_clear_interrupt(void) {
  wanted = 0;
  tell(false);
}

/* Each line may be followed by the handler: the count is first when it grows, and last looked at
 * when it falls. */
int ts_cpu_hold_interrupts(void) {
  int before = held;
  held = before + 1;
  tell(false);
  return before;
}
void ts_cpu_let_interrupts(int before) {
  held = before;
  if (!before && wanted) tell(true);
}
bool ts_cpu_holds_interrupts(void) { return held > 0; }

static _Thread_local sigjmp_buf *volatile escape;

void ts_cpu_leave(void) {
  sigjmp_buf *out = escape;
  if (!out || held) return;
  escape = NULL;
  siglongjmp(*out, 1);
}

void ts_cpu_escape(sigjmp_buf *out) {
  escape = out;
  if (out && ts_cpu_interrupted()) ts_cpu_leave();
}

/* ---- the loop */

/* Items lo..hi-1 in calls of `piece` items. */
static void call_task(TsTask *task, void *arg, int64_t lo, int64_t hi, int64_t piece,
                      int worker) {
  for (; lo < hi && !ts_cpu_interrupted(); lo += piece)
    task(arg, lo, lo + piece < hi ? lo + piece : hi, worker);
}

static void take_span(Span *s, int worker) {
  while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
    int64_t lo = atomic_fetch_add(&s->next, pool.step);
    if (lo >= s->end || ts_cpu_interrupted()) return;
    int64_t hi = lo + pool.step < s->end ? lo + pool.step : s->end;
    call_task(pool.task, pool.arg, lo, hi, pool.piece, worker);
  }
}

static void take_ranges(int worker) {
  for (int i = 0; i < pool.nspans && !ts_cpu_interrupted(); i++) {
    take_span(&pool.span[(worker + i) % pool.nspans], worker);
  }
}

static inline void relax(void) {
#if defined __x86_64__
  __builtin_ia32_pause();
#endif
}

/* Waits until a loop later than `seen` is open; false when the pool stops. */
static bool wait_for_loop(unsigned seen) {
  for (int i = 0; i < SPINS; i++) {
    unsigned e = atomic_load(&pool.epoch);
    if (e != seen && (e & 1)) return true;
    relax();
  }
  pthread_mutex_lock(&pool.lock);
  pool.nsleeping++;
  for (;;) {
    unsigned e = atomic_load(&pool.epoch);
    if (pool.stop || (e != seen && (e & 1))) break;
    pthread_cond_wait(&pool.wake, &pool.lock);
  }
  pool.nsleeping--;
  bool go = !pool.stop;
  pthread_mutex_unlock(&pool.lock);
  return go;
}

static void *work(void *arg) {
  worker_id = (int)(intptr_t)arg;
  unsigned seen = 0;
  while (wait_for_loop(seen)) {
    atomic_fetch_add(&pool.inside, 1);
    unsigned e = atomic_load(&pool.epoch);
    if (e & 1) take_ranges(worker_id);
    seen = e;
    atomic_fetch_sub(&pool.inside, 1);
  }
  return NULL;
}

static int processors(void) {
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
  return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int ts_cpu_threads(void) {
  if (!pool.nthreads) ts_cpu_set_threads(0);
  return pool.nthreads;
}

static void stop_workers(void) {
  pthread_mutex_lock(&pool.lock);
  pool.stop = true;
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  for (int i = 0; i < pool.nstarted; i++) pthread_join(pool.thread[i], NULL);
  pool.nstarted = 0;
  pool.stop = false;
}

void ts_cpu_set_threads(int n) {
  if (n <= 0) n = processors();
  if (n > MAX_THREADS) n = MAX_THREADS;
  if (n < 1) n = 1;
  pthread_mutex_lock(&one_loop); /* another thread's may be open */
  if (pool.nstarted) stop_workers();
  pool.nthreads = n;
  pthread_mutex_unlock(&one_loop);
}

/* A thread that cannot be started is no failure: the others do its part. */
static void start_workers(void) {
  while (pool.nstarted < pool.nthreads - 1) {
    int i = pool.nstarted;
    if (!ts_thread_start(&pool.thread[i], 0, work, (void *)(intptr_t)(i + 1))) break;
    pool.nstarted++;
  }
}

/* Equal spans of whole grains. */
static void set_spans(int64_t n, int64_t grain) {
  int64_t grains = (n - 1) / grain + 1, first = 0;
  int count = pool.nstarted + 1;
  int64_t each = grains / count, more = grains % count;
  for (int i = 0; i < count; i++) {
    int64_t end = first + (each + (i < more)) * grain;
    pool.span[i].end = end < n ? end : n; /* the last grain may be a part of one */
    atomic_store_explicit(&pool.span[i].next, first, memory_order_relaxed);
    first = end;
  }
  pool.nspans = count;
  pool.step = (each + RANGES_PER_THREAD) / RANGES_PER_THREAD * grain;
  pool.piece = GRAINS_PER_CALL * grain;
}

static void run_loop(int64_t n, int64_t grain, TsTask *task, void *arg) {
  pool.task = task, pool.arg = arg;
  set_spans(n, grain);
  atomic_fetch_add(&pool.epoch, 1);
  pthread_mutex_lock(&pool.lock);
  if (pool.nsleeping) pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  worker_id = 0;
  take_ranges(0);
  worker_id = -1;
  /* Close the loop first: a worker that comes late sees an even epoch and stays
   * out, so after inside == 0 nobody touches the caller's data any more. */
  atomic_fetch_add(&pool.epoch, 1);
  while (atomic_load(&pool.inside)) relax();
}

void ts_cpu_parallel(int64_t n, int64_t grain, TsTask *task, void *arg) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  int threads = ts_cpu_threads();
  if (worker_id >= 0 || threads == 1 || n <= grain || pthread_mutex_trylock(&one_loop)) {
    call_task(task, arg, 0, n, grain * GRAINS_PER_CALL, worker_id < 0 ? 0 : worker_id);
    return;
  }
  if (pool.nstarted < threads - 1) start_workers();
  run_loop(n, grain, task, arg);
  pthread_mutex_unlock(&one_loop);
}
