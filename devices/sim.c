/* A GPU that is not there: it has memory of its own, at addresses that fault when the CPU
 * follows them, and its kernels are run by the interpreter of Tile IR (jit/device/kernel.c). So
 * placement, residency and every kernel's block form are tested without a GPU. */
#include "devices/sim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/backends.h"
#include "devices/memory.h"

/* No processor of 64 bits follows an address with only one of the upper bits set. */
static const uintptr_t TAG = (uintptr_t)1 << 62;
static int64_t limit; /* bytes of TESSERA_SIM_BYTES, for tests; 0: as many as the host has */

void *ts_sim_host(void *at) { return (void *)((uintptr_t)at & ~TAG); }

/* Memory freed while launches are still to come. As on a GPU it may be had again at once, since
 * all work is in one order: what is put off must not ask for memory when it runs. */
static struct {
  bool on[TS_MAX_DEVICES]; /* by index */
  int n, cap;
  struct {
    void *at;
    const TsDevice *d;
    size_t size;
  } * of;
} held;

/* As a GPU's, its memory is one thread's, the program's: what others open, that one gives
 * memory to. */
static pthread_t program;
static bool known;

static void check_thread(void) {
  if (!known) program = pthread_self(), known = true;
  if (!pthread_equal(program, pthread_self()))
    TS_BUG("another thread uses the memory of sim:0");
}

static void (*on_use)(TsDevice *d);
void ts_sim_on_use(void (*call)(TsDevice *d)) { on_use = call; }
void ts_sim_use(TsDevice *d) {
  if (on_use) on_use(d);
}

/* ---- failures, for tests */
static struct {
  TsSimCall call;
  int64_t after; /* calls of this kind until one fails; 0: none */
  bool loses, lost;
} fault[TS_MAX_DEVICES];

int64_t ts_sim_fail_after(TsDevice *d, TsSimCall call, int64_t n, bool lost) {
  int64_t left = fault[d->index].after;
  fault[d->index].call = call, fault[d->index].after = n;
  fault[d->index].loses = lost, fault[d->index].lost = false;
  return left;
}

static int lost(const TsDevice *d, TsError *err) {
  ts_error_set(err, TS_ERR_device, "%s is lost: a call before has failed on it", d->name);
  return ts_error_hint(err, "%s works again after a restart of the program", d->name);
}

int ts_sim_fails(TsDevice *d, TsSimCall call, TsError *err) {
  static const char *const name[] = {"launch", "upload", "download", "copy", "miss"};
  if (fault[d->index].lost) return lost(d, err);
  if (!fault[d->index].after || fault[d->index].call != call || --fault[d->index].after)
    return 0;
  fault[d->index].lost = fault[d->index].loses;
  ts_error_set(err, TS_ERR_device, "%s: %s failed: as a test wants it", d->name, name[call]);
  return fault[d->index].lost
             ? ts_error_hint(err, "%s works again after a restart of the program", d->name)
             : -1;
}

static size_t size_of(int64_t nbytes) {
  return nbytes ? ((size_t)nbytes + 511) & ~(size_t)511 : 512;
}

/* With what put-off launches will find there. */
static void *held_again(const TsDevice *d, size_t size) {
  for (int i = held.n; i-- > 0;) {
    if (held.of[i].size < size || held.of[i].d != d) continue;
    void *at = held.of[i].at;
    held.of[i] = held.of[--held.n];
    return at;
  }
  return NULL;
}

/* What put-off launches will find counts as well; without room for that they are made. */
static int make_room(TsDevice *d, int64_t nbytes, TsError *err) {
  int64_t all = d->live + nbytes;
  for (int i = 0; i < held.n; i++) all += held.of[i].d == d ? (int64_t)held.of[i].size : 0;
  return limit && all > limit && d->let_go ? d->let_go(d->holder, err) : 0;
}

static void *sim_alloc(TsDevice *d, int64_t nbytes, TsError *err) {
  size_t size = size_of(nbytes);
  check_thread();
  if (fault[d->index].lost) return lost(d, err), NULL;
  bool full = limit && d->live + nbytes > limit;
  if (ts_memory_should_fail()) full = true;
  void *again = full || !held.on[d->index] ? NULL : held_again(d, size);
  if (!full && !again && make_room(d, nbytes, err)) return NULL;
  void *at = full || again ? again : malloc(size);
  if (!at) return ts_device_full(d, nbytes, err), NULL;
  if (!again) memset(at, 0xa5, size);
  d->live += nbytes;
  if (d->live > d->peak) d->peak = d->live;
  ts_sim_aside_made(d, (void *)((uintptr_t)at | TAG), nbytes);
  return (void *)((uintptr_t)at | TAG);
}

static void sim_free(TsDevice *d, void *at, int64_t nbytes) {
  check_thread();
  ts_sim_use(d);
  if (ts_sim_aside_keeps(d, at, nbytes)) return;
  d->live -= nbytes;
  bool on = held.on[d->index];
  if (on && held.n == held.cap) {
    int cap = held.cap ? 2 * held.cap : 64;
    void *more = realloc(held.of, sizeof *held.of * (size_t)cap);
    if (!more) return; /* lost */
    held.of = more, held.cap = cap;
  }
  if (on) {
    held.of[held.n].at = ts_sim_host(at);
    held.of[held.n].d = d;
    held.of[held.n++].size = size_of(nbytes);
  } else {
    free(ts_sim_host(at));
  }
}

static void sim_hold(TsDevice *d, bool on) {
  held.on[d->index] = on;
  for (int i = held.n; !on && i-- > 0;) {
    if (held.of[i].d != d) continue;
    free(held.of[i].at);
    held.of[i] = held.of[--held.n];
  }
}

static const TsDeviceRun sim_run = {.hold = sim_hold,
                                    .aside_begin = ts_sim_aside_begin,
                                    .aside_end = ts_sim_aside_end,
                                    .aside_rejoin = ts_sim_aside_rejoin};

static int sim_upload(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  check_thread();
  ts_sim_use(d);
  if (ts_sim_fails(d, TS_SIM_upload, err)) return -1;
  ts_sim_aside_touch(d, to);
  memcpy(ts_sim_host(to), from, (size_t)nbytes);
  return 0;
}

static int sim_download(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  check_thread();
  ts_sim_use(d);
  if (ts_sim_fails(d, TS_SIM_download, err)) return -1;
  ts_sim_aside_touch(d, from);
  memcpy(to, ts_sim_host((void *)(uintptr_t)from), (size_t)nbytes);
  return 0;
}

static int sim_copy(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
                    TsError *err) {
  check_thread();
  ts_sim_use(d), ts_sim_use(source);
  if (ts_sim_fails(d, TS_SIM_copy, err)) return -1;
  if (fault[source->index].lost) return lost(source, err);
  ts_sim_aside_touch(d, to), ts_sim_aside_touch(d, from);
  memcpy(ts_sim_host(to), ts_sim_host((void *)(uintptr_t)from), (size_t)nbytes);
  return 0;
}

static bool linked = true;
void ts_sim_link(bool there) { linked = there; }
static bool sim_reach(TsDevice *d, TsDevice *other) {
  return linked && d->simulated && other->simulated;
}

static int sim_synchronize(TsDevice *d, TsError *err) {
  ts_sim_use(d);
  return fault[d->index].lost ? lost(d, err) : 0;
}

static void sim_describe(TsDevice *d, char *text, int size) {
  snprintf(text, (size_t)size, "simulated: kernels are interpreted; %lld bytes",
           (long long)d->live);
}

void ts_sim_device(TsDevice *d) {
  const char *most = getenv("TESSERA_SIM_BYTES");
  limit = most ? atoll(most) : 0;
  d->runs_kernels = true;
  d->target = ts_target_with(TS_UNIT_roles);
  d->processors = 2;
  d->simulated = true;
  d->most_work = 1 << 22; /* which the interpreter does in a wink */
  d->alloc = sim_alloc;
  d->free = sim_free;
  d->upload = sim_upload;
  d->download = sim_download;
  d->copy = d->copy_met = sim_copy;
  d->reach = sim_reach;
  d->synchronize = sim_synchronize;
  d->run = &sim_run;
  d->describe = sim_describe;
}
