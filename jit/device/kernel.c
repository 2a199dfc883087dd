/* Kernels of devices that are open, of whatever kind (jit/device/kind.h), and of several steps. */
#include "jit/device/kernel.h"
#include "jit/code/catch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/ahead.h"
#include "ir/tile/pass/stages.h"
#include "jit/device/kind.h"
#include "jit/device/marks.h"
#include "jit/device/sequence.h"
#include "jit/code/kernel.h"
#include "jit/compile/llvm.h"
#include "jit/device/stand_in.h"
#include "lib/clock.h"

struct TsDeviceKernel {
  TsDevice *device;
  int refs;
  TsDeviceKernel *next; /* of those that are shared */
  uint8_t key[32];
  const TsDeviceKind *kind; /* of `of`, its code, once it is open; or: */
  void *of;
  void *marked[2]; /* its code with profile marks, once somebody collected them: TsMarksOf */
  TsDeviceSequence *sequence; /* of one that is several */
  TsQueueJob job;             /* that opens it; holds a reference */
  TsQueue *queue;             /* of the job, NULL when it is done */
  TsTile *wanted;             /* what it opens, until it has code */
  TsError why;                /* that it could not be */
  bool from_disk;             /* the job only loads it */
  atomic_bool pending;
};

static bool has_roles(const TsTile *k) { return k->form == TS_FORM_explicit && k->threads; }

const TsDeviceKind *ts_device_kind(const TsDevice *d, const TsTile *k) {
  if (d->simulated) return &ts_device_simulated;
  return has_roles(k) ? &ts_device_roles : &ts_device_threads;
}

const TsTarget *ts_device_target(TsDevice *d, const char **why) {
  const TsTarget *t = ts_target_of(d);
  *why = NULL;
  if (d->simulated) return t;
  if (!ts_llvm_present())
    *why = "the program was built without LLVM";
  else if (!ts_target_gpu(t))
    *why = "there is no code generator for this device";
  return *why ? NULL : t;
}

static bool open_into(TsDeviceKernel *made, const TsTile *k, const uint8_t *key, TsError *err) {
  const TsDeviceKind *kind = ts_device_kind(made->device, k);
  made->of = kind->open(made->device, k, key, err);
  if (made->of) made->kind = kind;
  return made->of;
}

static TsDeviceKernel *new_kernel(TsDevice *d, TsError *err) {
  TsDeviceKernel *made = calloc(1, sizeof *made);
  if (!made) return ts_error_memory(err), NULL;
  made->device = d, made->refs = 1;
  return made;
}

/* queue: as of ts_device_sequence_open. */
static TsDeviceKernel *open_sequence(TsDevice *d, const TsTile *k, TsQueue *queue,
                                     TsOpening how, TsError *err) {
  TsDeviceKernel *made = new_kernel(d, err);
  if (!made || (made->sequence = ts_device_sequence_open(d, k->sequence, queue, how, err)))
    return made;
  free(made);
  return NULL;
}

static TsDeviceKernel *open_new(TsDevice *d, const TsTile *k, const uint8_t *key,
                                TsError *err) {
  TsDeviceKernel *made = new_kernel(d, err);
  if (!made || open_into(made, k, key, err)) return made;
  free(made);
  return NULL;
}

/* ---- kernels that are open, by what they do: layers of a model have the same ones. What is
 * several has memory of its own, its steps are shared. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t opened;
  TsDeviceKernel *first;
  double usec[2]; /* that opening took so far, of new ones and from disk; how many these were */
  double count[2];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .opened = PTHREAD_COND_INITIALIZER,
           .usec = {30000, 2000},
           .count = {1, 1}};

void ts_device_kernel_key(const TsTile *k, uint8_t key[32]) { ts_kernel_digest(k, key); }

static TsDeviceKernel *find(const TsDevice *d, const uint8_t *key) {
  TsDeviceKernel *k = table.first;
  while (k && (k->device != d || memcmp(k->key, key, sizeof k->key))) k = k->next;
  return k;
}

static TsDeviceKernel *take(const TsDevice *d, const uint8_t *key) {
  pthread_mutex_lock(&table.lock);
  TsDeviceKernel *k = find(d, key);
  if (k) k->refs++;
  pthread_mutex_unlock(&table.lock);
  return k;
}

/* Who comes second takes the first one's. */
static TsDeviceKernel *put(TsDeviceKernel *made, const uint8_t *key, double usec) {
  bool cached = ts_device_kernel_cached(made);
  pthread_mutex_lock(&table.lock);
  TsDeviceKernel *rival = find(made->device, key);
  if (rival) {
    rival->refs++;
  } else {
    memcpy(made->key, key, sizeof made->key);
    made->next = table.first;
    table.first = made;
  }
  table.usec[cached] += usec, table.count[cached]++;
  pthread_mutex_unlock(&table.lock);
  if (!rival) return made;
  ts_device_kernel_free(made);
  return rival;
}

/* ---- kernels that another thread opens */
bool ts_device_kernel_ready(const TsDeviceKernel *k) {
  return !atomic_load(&k->pending) && (!k->sequence || ts_device_sequence_ready(k->sequence));
}

/* Its code is there: until then another thread may be writing it. */
static bool is_open(const TsDeviceKernel *k) { return ts_device_kernel_ready(k) && k->kind; }

static void settle(TsDeviceKernel *k, bool well, double usec) {
  pthread_mutex_lock(&table.lock);
  if (well) ts_tile_free(k->wanted), k->wanted = NULL;
  k->queue = NULL;
  if (well) table.usec[k->from_disk] += usec, table.count[k->from_disk]++;
  atomic_store(&k->pending, false);
  pthread_cond_broadcast(&table.opened);
  pthread_mutex_unlock(&table.lock);
  ts_device_kernel_free(k);
}

static void open_job(TsQueueJob *job) {
  TsDeviceKernel *k = (TsDeviceKernel *)((char *)job - offsetof(TsDeviceKernel, job));
  double begun = ts_clock_usec();
  bool well = open_into(k, k->wanted, k->key, &k->why);
  if (!well && !k->why.code) ts_error_set(&k->why, TS_ERR_device, "jit: no kernel");
  settle(k, well, ts_clock_usec() - begun);
}

int ts_device_kernel_wait(TsDeviceKernel *k, TsError *err) {
  if (k->sequence) return ts_device_sequence_wait(k->sequence, err);
  if (!ts_device_kernel_ready(k)) {
    pthread_mutex_lock(&table.lock);
    TsQueue *queue = k->queue;
    pthread_mutex_unlock(&table.lock);
    if (queue && ts_queue_cancel(queue, &k->job)) open_job(&k->job);
    pthread_mutex_lock(&table.lock);
    while (atomic_load(&k->pending)) pthread_cond_wait(&table.opened, &table.lock);
    pthread_mutex_unlock(&table.lock);
  }
  if (!k->why.code) return 0;
  *err = k->why;
  return -1;
}

/* A reference to one that another thread may be opening. */
static TsDeviceKernel *opened(TsDeviceKernel *k, TsError *err) {
  if (!ts_device_kernel_wait(k, err)) return k;
  ts_device_kernel_free(k);
  return NULL;
}

TsDeviceKernel *ts_device_kernel_open_as(TsDevice *d, const TsTile *k, const uint8_t key[32],
                                         TsError *err) {
  if (k->sequence) return open_sequence(d, k, NULL, (TsOpening){0}, err);
  TsDeviceKernel *made = take(d, key);
  if (made) return opened(made, err);
  double begun = ts_clock_usec();
  made = open_new(d, k, key, err);
  made = made ? put(made, key, ts_clock_usec() - begun) : NULL;
  return made ? opened(made, err) : NULL;
}

TsDeviceKernel *ts_device_kernel_open(TsDevice *d, const TsTile *k, TsError *err) {
  uint8_t key[32];
  ts_device_kernel_key(k, key);
  return ts_device_kernel_open_as(d, k, key, err);
}

/* ---- kernels that are opened while the program goes on. They are in the table from the
 * beginning, so that each is compiled once. */
bool ts_device_kernel_takes_time(const TsDevice *d) { return !d->simulated; }

static TsDeviceKernel *begin(TsDevice *d, const TsTile *k, const uint8_t key[32],
                             TsQueue *queue, bool soon, bool known, TsError *err) {
  TsDeviceKernel *made = new_kernel(d, err);
  if (!made) return NULL;
  made->wanted = ts_tile_share(k);
  made->from_disk = known;
  made->refs = 2, made->queue = queue;
  made->job = (TsQueueJob){.run = open_job, .frees = true};
  memcpy(made->key, key, sizeof made->key);
  atomic_store(&made->pending, true);
  pthread_mutex_lock(&table.lock);
  made->next = table.first;
  table.first = made;
  pthread_mutex_unlock(&table.lock);
  if ((soon ? ts_queue_add_first : ts_queue_add)(queue, &made->job)) open_job(&made->job);
  return made;
}

TsDeviceKernel *ts_device_kernel_open_later(TsDevice *d, const TsTile *k, const uint8_t key[32],
                                            TsQueue *queue, TsOpening how, TsError *err) {
  if (k->sequence) return open_sequence(d, k, queue, how, err);
  TsDeviceKernel *made = take(d, key);
  if (made) return made;
  bool known = !ts_device_kernel_takes_time(d) || ts_device_kernel_known(d, k, key);
  if (!ts_device_kernel_takes_time(d) || (known && how.known_now))
    return ts_device_kernel_open_as(d, k, key, err);
  return begin(d, k, key, queue, how.soon, known, err);
}

void ts_device_kernel_abandon(TsQueue *queue) {
  for (TsDeviceKernel *k = NULL;;) {
    pthread_mutex_lock(&table.lock);
    for (k = table.first; k && k->queue != queue;) k = k->next;
    pthread_mutex_unlock(&table.lock);
    if (!k) return;
    ts_queue_cancel(queue, &k->job);
    ts_error_set(&k->why, TS_ERR_device, "jit: the program ends");
    settle(k, false, 0);
  }
}

bool ts_device_kernel_known(const TsDevice *d, const TsTile *k, const uint8_t key[32]) {
  const TsDeviceKind *kind = ts_device_kind(d, k);
  return !kind->known || kind->known(d, k, key);
}

double ts_device_kernel_cost(TsDevice *d, const TsTile *k, const uint8_t key[32]) {
  if (ts_device_kind(d, k)->instant) return 0;
  bool known = ts_device_kernel_known(d, k, key);
  pthread_mutex_lock(&table.lock);
  const TsDeviceKernel *open = find(d, key);
  double usec =
      open && ts_device_kernel_ready(open) ? 0 : table.usec[known] / table.count[known];
  pthread_mutex_unlock(&table.lock);
  return usec;
}

/* ---- what ran */
enum { WATCHED = 512 };
static struct {
  pthread_mutex_t lock;
  atomic_bool on;
  int n;
  uint8_t key[WATCHED][32];
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ts_device_kernel_watch(bool on) {
  pthread_mutex_lock(&watch.lock);
  watch.n = 0;
  atomic_store(&watch.on, on);
  pthread_mutex_unlock(&watch.lock);
}

int ts_device_kernel_watched(uint8_t (*keys)[32], int most) {
  pthread_mutex_lock(&watch.lock);
  int n = watch.n;
  memcpy(keys, watch.key, sizeof *watch.key * (size_t)(n < most ? n : most));
  pthread_mutex_unlock(&watch.lock);
  return n;
}

static void note(const TsDeviceKernel *k) {
  if (!atomic_load_explicit(&watch.on, memory_order_relaxed)) return;
  pthread_mutex_lock(&watch.lock);
  int i = 0;
  while (i < watch.n && memcmp(watch.key[i], k->key, sizeof k->key)) i++;
  if (i == watch.n && i < WATCHED) memcpy(watch.key[watch.n++], k->key, sizeof k->key);
  pthread_mutex_unlock(&watch.lock);
}

int ts_device_kernel_run(TsDeviceKernel *k, void *const *arg, const int64_t *dim,
                         TsError *err) {
  return ts_device_kernel_run_in(k, NULL, arg, dim, err);
}

/* Its Tile IR, the caller's, while there is no code. */
static TsTile *without_code(TsDeviceKernel *k) {
  pthread_mutex_lock(&table.lock);
  TsTile *wanted = k->wanted ? ts_tile_share(k->wanted) : NULL;
  pthread_mutex_unlock(&table.lock);
  return wanted;
}

bool ts_device_kernel_stands_in(TsDeviceKernel *k) {
  if (k->sequence) return ts_device_sequence_stand_in(k->sequence);
  if (ts_device_kernel_ready(k) || k->from_disk) return false; /* a moment's wait at most */
  TsTile *wanted = without_code(k);
  bool can = wanted && ts_stand_in_can(k->device, wanted);
  ts_tile_free(wanted);
  return can;
}

/* Where that fails, for want of memory, or cannot be, its code is waited for: nothing was
 * written. */
static int stand_in(TsDeviceKernel *k, void *const *arg, const int64_t *dim, TsError *err) {
  TsTile *wanted = without_code(k);
  bool can = wanted && ts_stand_in_can(k->device, wanted);
  int failed = can ? ts_stand_in_run(k->device, wanted, arg, dim, err) : -1;
  ts_tile_free(wanted);
  if (!failed) return 0;
  ts_error_clear(err);
  return ts_device_kernel_wait(k, err) ? -1 : ts_device_kernel_run(k, arg, dim, err);
}

/* What a form with marks is made of, while somebody collects; or NULL. */
static const TsTile *to_mark(const TsDeviceKernel *k) {
  return ts_marks_collecting() && k->kind->tile ? k->kind->tile(k->of) : NULL;
}

/* Its code with marks is opened beside it, by this thread. */
static int run_marked(TsDeviceKernel *k, void *scratch, void *const *arg, const int64_t *dim,
                      TsError *err) {
  uint8_t key[32];
  TsMarksOf of = ts_marks_collecting();
  void **marked = &k->marked[of == TS_MARKS_stages];
  if (!*marked) {
    TsTile *t = ts_tile_stages(k->kind->tile(k->of), of == TS_MARKS_warps, err);
    if (t) ts_device_kernel_key(t, key);
    if (t) *marked = k->kind->open(k->device, t, key, err);
    ts_tile_free(t);
  }
  return *marked ? k->kind->run(*marked, scratch, arg, dim, err) : -1;
}

/* ---- runs that are looked at */
static _Thread_local struct {
  TsDeviceGather *take;
  void *with;
} gather;

void ts_device_kernel_gather(TsDeviceGather *by, void *with) {
  gather.take = by, gather.with = with;
}

static int give(TsDeviceKernel *k, void *scratch, void *const *arg, const int64_t *dim,
                TsError *err) {
  const TsDeviceKind *kind = is_open(k) ? k->kind : NULL;
  TsDeviceLeaf leaf = {.kernel = k, .scratch = scratch, .arg = arg, .dim = dim};
  if (kind && kind->tile) leaf.k = kind->tile(k->of);
  if (kind && kind->room) leaf.scratch = kind->room(k->of);
  return gather.take(gather.with, &leaf, err);
}

int ts_device_kernel_run_in(TsDeviceKernel *k, void *scratch, void *const *arg,
                            const int64_t *dim, TsError *err) {
  if (k->sequence) return ts_device_sequence_run(k->sequence, scratch, arg, dim, err);
  if (gather.take) return give(k, scratch, arg, dim, err);
  note(k);
  if (ts_catch_wants(k->key) && ts_catch->look(ts_catch->with, k->device, arg, dim, err))
    return -1;
  if (!ts_device_kernel_ready(k) || k->why.code) return stand_in(k, arg, dim, err);
  if (to_mark(k)) return run_marked(k, scratch, arg, dim, err);
  return k->kind->run(k->of, scratch, arg, dim, err);
}

int64_t ts_device_kernel_scratch_bytes(const TsDeviceKernel *k, const int64_t *dim) {
  if (k->sequence) return ts_device_sequence_scratch_bytes(k->sequence, dim);
  return is_open(k) && k->kind->scratch ? k->kind->scratch(k->of, dim) : 0;
}

uint64_t ts_device_kernel_ahead(const TsDeviceKernel *k, void *const *arg, const int64_t *dim) {
  if (k->sequence) return ts_device_sequence_ahead(k->sequence, arg, dim);
  bool known = is_open(k) && k->kind->ahead;
  return known ? k->kind->ahead(k->of, arg, dim) : TS_TILE_AHEAD_ALL;
}

int ts_device_kernel_most(const TsDeviceKernel *k) {
  return is_open(k) && k->kind->most ? k->kind->most(k->of) : 1;
}

int ts_device_kernel_run_many(TsDeviceKernel *k, int n, void *const *arg, const int64_t *dim,
                              TsError *err) {
  TS_ASSERT(is_open(k));
  if (gather.take) {
    const TsTile *one = k->kind->tile ? k->kind->tile(k->of) : NULL;
    int failed = one ? 0 : give(k, NULL, arg, dim, err);
    for (int i = 0; one && i < n && !failed; i++)
      failed = give(k, NULL, arg + i * one->nparam, dim + i * one->ndim, err);
    return failed;
  }
  note(k);
  const TsTile *t = to_mark(k);
  if (t) { /* one by one: their records are of one run */
    int failed = 0;
    for (int i = 0; i < n && !failed; i++)
      failed = run_marked(k, NULL, arg + i * t->nparam, dim + i * t->ndim, err);
    return failed;
  }
  return k->kind->run_many(k->of, n, arg, dim, err);
}

static atomic_uint freed;

unsigned ts_device_kernel_freed(void) { return atomic_load(&freed); }

static bool last(TsDeviceKernel *k) {
  pthread_mutex_lock(&table.lock);
  bool gone = !--k->refs;
  TsDeviceKernel **at = &table.first;
  while (gone && *at && *at != k) at = &(*at)->next;
  if (gone && *at) *at = k->next;
  pthread_mutex_unlock(&table.lock);
  return gone;
}

void ts_device_kernel_free(TsDeviceKernel *k) {
  if (!k || !last(k)) return;
  atomic_fetch_add(&freed, 1);
  ts_tile_free(k->wanted);
  if (k->kind) k->kind->free(k->of);
  for (int i = 0; i < 2; i++)
    if (k->marked[i]) k->kind->free(k->marked[i]);
  ts_device_sequence_free(k->sequence);
  free(k);
}

/* Kernels of several steps have one room for all of them. */
const void *ts_device_kernel_memory(const TsDeviceKernel *k) {
  static const char room;
  if (k->sequence) return &room;
  return is_open(k) && k->kind->memory ? k->kind->memory(k->of) : NULL;
}

bool ts_device_kernel_simple(const TsDeviceKernel *k) {
  return ts_device_kernel_ready(k) && k->kind && (!k->kind->simple || k->kind->simple(k->of));
}

int ts_device_kernel_launches(const TsDeviceKernel *k, void *const *arg) {
  if (k->sequence) return ts_device_sequence_launches(k->sequence, arg);
  return is_open(k) && k->kind->launches ? k->kind->launches(k->of) : 1;
}

bool ts_device_kernel_cached(const TsDeviceKernel *k) {
  if (k->sequence) return ts_device_sequence_cached(k->sequence);
  if (!ts_device_kernel_ready(k)) return k->from_disk;
  return k->kind && k->kind->cached && k->kind->cached(k->of);
}

void ts_device_kernel_times(const TsDeviceKernel *k, double *llvm_usec, double *driver_usec) {
  *llvm_usec = *driver_usec = 0;
  if (is_open(k) && k->kind->times) k->kind->times(k->of, llvm_usec, driver_usec);
}

TsDevice *ts_device_kernel_device(const TsDeviceKernel *k) { return k->device; }

bool ts_device_kernel_records(const TsDeviceKernel *k, void *const *arg) {
  if (k->sequence) return ts_device_sequence_record(k->sequence, arg);
  return !is_open(k) || !k->kind->records || k->kind->records(k->of, arg);
}
