/* See jit/device/sequence.h. Temporaries of all kernels of a device lie in the same memory, one
 * run behind the other: work of a device is in one order. It is kept, so that recorded launches
 * find it, and so that large blocks are not asked for and given back at every run. What begins
 * as zeros and ends so is a kernel's own; what kernels share by name one leaves there for
 * another one of the same function, in the same run. What only steps use that may have nothing
 * to do is asked for when they have. All of it is asked for when the kernel first runs: kernels are
 * opened by any thread, but a device's memory is the program's alone. */
#include "jit/device/sequence.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/ahead.h"

enum {
  ALIGN = 256,
  LEAST = 1 << 16,                /* bytes of a room */
  ARGS = 2 * TS_TILE_STEP_PARAMS, /* of the whole, at most */
  KEPT =
      1 << 30, /* bytes of temporaries that are kept; larger ones are asked for at each run */
};

/* What kernels share, by name, while one of them lives; 0: room for temporaries. */
typedef struct Common {
  struct Common *next;
  TsDevice *device;
  uint64_t name, check; /* check: of constants, of their bytes once more; else 0 */
  int64_t nbytes;
  void *at;
  int refs, writers;
} Common;

static struct {
  pthread_mutex_t lock;
  Common *first;
} commons = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Runs do not come between the steps of another one, which use the same room. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

/* Where a temporary is, as far as it has a place of its own. */
typedef struct Place {
  void *kept, *placed; /* own or shared by name; in the room */
  Common *common;
} Place;

struct TsDeviceSequence {
  TsDevice *device;
  TsTileSequence of; /* copies of its lists, whose kernels are not used */
  TsDeviceKernel **step;
  int *nparam;
  Place *place;         /* of each temporary */
  void **at, **nowhere; /* of a run, under the lock; NULL of each */
  bool settled, dirty;  /* its memory is there; a run failed that should have left zeros */
  Common *room;
  int narg, nread;
  struct Wider { /* of the whole's parameters: what steps see as wider elements */
    int64_t nbytes;
    uintptr_t size; /* of these; 0: none do */
  } wider[ARGS];
};

/* Used by no step but those that run if a shared temporary has no writer. */
static bool is_rare(const TsDeviceSequence *p, int temp) {
  for (int i = 0; i < p->of.n; i++) {
    const TsTileStep *step = &p->of.step[i];
    if (step->unless && p->of.temp[-1 - step->unless].shared) continue;
    for (int a = 0; a < p->nparam[i]; a++)
      if (step->arg[a] == -1 - temp) return false;
  }
  return true;
}

static Common *find_common(TsDevice *d, uint64_t name, uint64_t check, int64_t nbytes) {
  for (Common *c = commons.first; c; c = c->next)
    if (c->device == d && c->name == name && c->check == check &&
        (name ? c->nbytes == nbytes : c->nbytes >= nbytes))
      return c;
  return NULL;
}

static Common *new_common(TsDevice *d, uint64_t name, uint64_t check, int64_t nbytes,
                          TsError *err) {
  Common *c = calloc(1, sizeof *c);
  if (!c) return ts_error_set(err, TS_ERR_memory, "jit: out of memory"), NULL;
  *c = (Common){
      .device = d, .name = name, .check = check, .nbytes = nbytes, .next = commons.first};
  if (!(c->at = d->alloc(d, nbytes, err))) return free(c), NULL;
  return commons.first = c;
}

static Common *join(TsDevice *d, uint64_t name, int64_t nbytes, bool writes, TsError *err) {
  pthread_mutex_lock(&commons.lock);
  Common *c = find_common(d, name, 0, nbytes);
  if (!c) c = new_common(d, name, 0, nbytes, err);
  if (c) c->refs++, c->writers += writes;
  pthread_mutex_unlock(&commons.lock);
  return c;
}

static int share(TsDeviceSequence *p, int i, TsError *err) {
  const TsTileTemp *t = &p->of.temp[i];
  p->place[i].common = join(p->device, t->shared, t->nbytes, t->writes, err);
  if (p->place[i].common) p->place[i].kept = p->place[i].common->at;
  return p->place[i].common ? 0 : -1;
}

static void leave(TsDeviceSequence *p, Common *c, bool writes) {
  Common **at = &commons.first;
  pthread_mutex_lock(&commons.lock);
  c->writers -= writes;
  bool last = !--c->refs;
  while (last && *at != c) at = &(*at)->next;
  if (last) *at = c->next;
  pthread_mutex_unlock(&commons.lock);
  if (!last) return;
  p->device->free(p->device, c->at, c->nbytes);
  free(c);
}

static int make_zeros(TsDeviceSequence *p, int i, TsError *err) {
  TsDevice *d = p->device;
  int64_t nbytes = p->of.temp[i].nbytes;
  void *zero = calloc(1, (size_t)nbytes);
  if (!zero) return ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  void *at = d->alloc(d, nbytes, err);
  int failed = at ? d->upload(d, at, zero, nbytes, err) : -1;
  if (at && failed) d->free(d, at, nbytes);
  if (!failed) p->place[i].kept = at;
  free(zero);
  return failed;
}

/* Of bytes, never 0. */
static uint64_t name_of(const char *at, int64_t n, uint64_t by) {
  uint64_t h = (uint64_t)n, w;
  for (; n > 0; at += 8, n -= 8) {
    w = 0;
    memcpy(&w, at, n < 8 ? (size_t)n : 8);
    h = (h ^ w) * by;
    h ^= h >> 31;
  }
  return h | 1;
}

/* Kernels of other sizes often have the same constants, which lie there once. */
static int make_table(TsDeviceSequence *p, int i, const void *data, TsError *err) {
  TsDevice *d = p->device;
  int64_t nbytes = p->of.temp[i].nbytes;
  uint64_t name = name_of(data, nbytes, 0x9e3779b97f4a7c15u);
  uint64_t check = name_of(data, nbytes, 0xc2b2ae3d27d4eb4fu);
  pthread_mutex_lock(&commons.lock);
  Common *c = find_common(d, name, check, nbytes);
  if (!c && (c = new_common(d, name, check, nbytes, err)) &&
      d->upload(d, c->at, data, nbytes, err)) {
    commons.first = c->next;
    d->free(d, c->at, nbytes);
    free(c), c = NULL;
  }
  if (c) c->refs++, p->place[i].common = c, p->place[i].kept = c->at;
  pthread_mutex_unlock(&commons.lock);
  return c ? 0 : -1;
}

static int64_t aligned(int64_t nbytes) { return (nbytes + ALIGN - 1) / ALIGN * ALIGN; }

/* Of few sizes, so that larger ones do not pile up on smaller ones. */
static int64_t room_for(int64_t nbytes) {
  int64_t n = LEAST;
  while (n < nbytes) n *= 2;
  return n;
}

/* One behind the other in the room of all. */
static int place(TsDeviceSequence *p, TsError *err) {
  int64_t end = 0;
  for (int i = 0; i < p->of.ntemp; i++)
    if (!p->place[i].kept && !is_rare(p, i)) end += aligned(p->of.temp[i].nbytes);
  if (!end || end > KEPT) return 0;
  if (!(p->room = join(p->device, 0, room_for(end), false, err))) return -1;
  char *at = p->room->at;
  for (int i = 0; i < p->of.ntemp; i++) {
    if (p->place[i].kept || is_rare(p, i)) continue;
    p->place[i].placed = at;
    at += aligned(p->of.temp[i].nbytes);
  }
  return 0;
}

static TsDeviceKernel *open_step(TsDevice *d, const TsTile *k, TsQueue *queue, TsOpening how,
                                 TsError *err) {
  uint8_t key[32];
  ts_device_kernel_key(k, key);
  return queue ? ts_device_kernel_open_later(d, k, key, queue, how, err)
               : ts_device_kernel_open_as(d, k, key, err);
}

static void free_lists(TsDeviceSequence *p) {
  for (int i = 0; i < p->of.ntemp && p->of.temp; i++)
    free((void *)(uintptr_t)p->of.temp[i].data);
  free(p->of.step), free(p->of.temp);
  free(p->step), free(p->nparam), free(p->place), free(p->at);
  free(p);
}

static int keep_constants(TsDeviceSequence *p, const TsTileSequence *from) {
  for (int i = 0; i < from->ntemp; i++) {
    const TsTileTemp *t = &from->temp[i];
    void *own = t->data ? malloc((size_t)t->nbytes) : NULL;
    if (t->data && !own) return -1;
    if (own) p->of.temp[i].data = memcpy(own, t->data, (size_t)t->nbytes);
  }
  return 0;
}

static TsDeviceSequence *copy_of(TsDevice *d, const TsTileSequence *from) {
  size_t n = (size_t)from->n, m = (size_t)from->ntemp;
  TsDeviceSequence *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  *p = (TsDeviceSequence){.device = d, .of = *from};
  p->of.step = malloc(sizeof *p->of.step * (n + 1));
  p->of.temp = calloc(m + 1, sizeof *p->of.temp);
  p->step = calloc(n + 1, sizeof *p->step);
  p->nparam = calloc(n + 1, sizeof *p->nparam);
  p->place = calloc(m + 1, sizeof *p->place);
  p->at = calloc(2 * m + 1, sizeof *p->at);
  p->nowhere = p->at ? p->at + m : NULL;
  if (!p->of.step || !p->of.temp || !p->step || !p->nparam || !p->place || !p->at)
    return free_lists(p), NULL;
  if (n) memcpy(p->of.step, from->step, sizeof *from->step * n);
  if (m) memcpy(p->of.temp, from->temp, sizeof *from->temp * m);
  for (size_t i = 0; i < m; i++)
    p->of.temp[i].data = NULL; /* those are of the kernel's arena */
  return keep_constants(p, from) ? (free_lists(p), NULL) : p;
}

/* Pairs of f32 as one number of 8 bytes: in the middle of memory these need not begin at a multiple
 * of that. */
static void find_wider(TsDeviceSequence *p, const TsTileSequence *from) {
  const TsTile *k = from->whole;
  TS_ASSERT(k->nparam <= ARGS);
  p->narg = k->nparam, p->nread = k->nin;
  for (int i = 0; i < from->n; i++)
    for (int a = 0; a < p->nparam[i]; a++) {
      int arg = from->step[i].arg[a];
      if (arg < 0) continue;
      const TsTileType *whole = &k->param[arg]->type, *own = &from->step[i].k->param[a]->type;
      uintptr_t size = (uintptr_t)ts_dtypes[own->dtype].nbytes;
      if (size <= (uintptr_t)ts_dtypes[whole->dtype].nbytes || size <= p->wider[arg].size)
        continue;
      p->wider[arg] =
          (struct Wider){ts_tile_numel(whole) * ts_dtypes[whole->dtype].nbytes, size};
    }
}

static bool is_unaligned(const TsDeviceSequence *p, int i, const void *arg) {
  return p->wider[i].size && (uintptr_t)arg % p->wider[i].size;
}

TsDeviceSequence *ts_device_sequence_open(TsDevice *d, const TsTileSequence *from,
                                          TsQueue *queue, TsOpening how, TsError *err) {
  TsDeviceSequence *p = copy_of(d, from);
  if (!p) return ts_error_set(err, TS_ERR_memory, "jit: out of memory"), NULL;
  int failed = ts_device_use(d, err);
  for (int i = 0; i < from->n && !failed; i++) {
    p->nparam[i] = from->step[i].k->nparam;
    failed = !(p->step[i] = open_step(d, from->step[i].k, queue, how, err));
  }
  if (!failed) return find_wider(p, from), p;
  ts_device_sequence_free(p);
  return NULL;
}

static int zero_again(TsDeviceSequence *p, TsError *err) {
  int failed = 0;
  for (int i = 0; i < p->of.ntemp && !failed; i++) {
    if (!p->of.temp[i].zero || !p->place[i].kept) continue;
    p->device->free(p->device, p->place[i].kept, p->of.temp[i].nbytes);
    p->place[i].kept = NULL;
    failed = make_zeros(p, i, err);
  }
  if (!failed) p->dirty = false;
  return failed;
}

/* What a run that failed for want of memory has, the next one need not ask for. */
static int settle(TsDeviceSequence *p, TsError *err) {
  int failed = p->dirty ? zero_again(p, err) : 0;
  for (int i = 0; i < p->of.ntemp && !failed && !p->settled; i++) {
    const TsTileTemp *t = &p->of.temp[i];
    if (p->place[i].kept) continue;
    failed = t->data     ? make_table(p, i, t->data, err)
             : t->zero   ? make_zeros(p, i, err)
             : t->shared ? share(p, i, err)
                         : 0;
  }
  if (!failed && !p->settled) failed = place(p, err);
  p->settled |= !failed;
  return failed;
}

void ts_device_sequence_free(TsDeviceSequence *p) {
  if (!p) return;
  for (int i = 0; i < p->of.n; i++) ts_device_kernel_free(p->step[i]);
  for (int i = 0; i < p->of.ntemp; i++)
    if (p->place[i].common)
      leave(p, p->place[i].common, p->of.temp[i].writes);
    else if (p->place[i].kept)
      p->device->free(p->device, p->place[i].kept, p->of.temp[i].nbytes);
  if (p->room) leave(p, p->room, false);
  free_lists(p);
}

bool ts_device_sequence_ready(const TsDeviceSequence *p) {
  for (int i = 0; i < p->of.n; i++)
    if (!ts_device_kernel_ready(p->step[i])) return false;
  return true;
}

int ts_device_sequence_wait(const TsDeviceSequence *p, TsError *err) {
  for (int i = 0; i < p->of.n; i++)
    if (ts_device_kernel_wait(p->step[i], err)) return -1;
  return 0;
}

bool ts_device_sequence_stand_in(const TsDeviceSequence *p) {
  for (int i = 0; i < p->of.n; i++)
    if (!ts_device_kernel_ready(p->step[i]) && !ts_device_kernel_stands_in(p->step[i]))
      return false;
  return true;
}

/* Whether the step has something to do. */
static bool runs(const TsDeviceSequence *p, int i) {
  int unless = p->of.step[i].unless;
  return !unless || !p->place[-1 - unless].common || !p->place[-1 - unless].common->writers;
}

static bool is_used(const TsDeviceSequence *p, int temp) {
  for (int i = 0; i < p->of.n; i++)
    for (int a = 0; a < p->nparam[i] && runs(p, i); a++)
      if (p->of.step[i].arg[a] == -1 - temp) return true;
  return false;
}

static void arguments(const TsDeviceSequence *p, int i, void *const *arg, void *const *temp,
                      void **out) {
  for (int a = 0; a < p->nparam[i]; a++) {
    int from = p->of.step[i].arg[a];
    char *at = from >= 0 ? arg[from] : temp[-1 - from];
    out[a] = at ? at + p->of.step[i].byte[a] : NULL;
  }
}

/* The step's sizes, of a run with those of the whole. */
static void sizes(const TsDeviceSequence *p, int i, const int64_t *whole, int64_t *dim) {
  const TsTileStep *step = &p->of.step[i];
  for (int d = 0; d < TS_TILE_DIMS; d++)
    dim[d] = step->of[d] ? whole[step->of[d] - 1] : step->dim[d];
}

/* Where temporaries are, those that have no place of their own one behind the other in
 * `scratch`; behind them is what one step at a time takes. Gives its offset. */
static int64_t find_temps(const TsDeviceSequence *p, char *scratch, void **temp) {
  int64_t end = 0;
  for (int i = 0; i < p->of.ntemp; i++) {
    void *own = p->place[i].kept ? p->place[i].kept : p->place[i].placed;
    bool here = !own && is_used(p, i);
    if (temp) temp[i] = here && scratch ? scratch + end : own;
    if (here) end += aligned(p->of.temp[i].nbytes);
  }
  return end;
}

int64_t ts_device_sequence_scratch_bytes(TsDeviceSequence *p, const int64_t *whole) {
  int64_t most = 0, dim[TS_TILE_DIMS];
  TsError ignored = {0};
  if (settle(p, &ignored)) return 0; /* the run says so */
  for (int i = 0; i < p->of.n; i++) {
    sizes(p, i, whole, dim);
    int64_t n = runs(p, i) ? ts_device_kernel_scratch_bytes(p->step[i], dim) : 0;
    if (n > most) most = n;
  }
  return find_temps(p, NULL, NULL) + most;
}

/* What is changed in place is not copied before. */
static bool is_there(const TsDeviceSequence *p, int i, void *const *list) {
  return p->of.step[i].copies && list[0] == list[1];
}

static int run_steps(TsDeviceSequence *p, char *scratch, void *const *arg, const int64_t *whole,
                     TsError *err) {
  void *list[TS_TILE_STEP_PARAMS];
  int64_t dim[TS_TILE_DIMS];
  int failed = 0;
  pthread_mutex_lock(&order);
  int64_t rest = find_temps(p, scratch, p->at);
  for (int i = 0; i < p->of.n && !failed; i++) {
    if (!runs(p, i)) continue;
    arguments(p, i, arg, p->at, list);
    if (is_there(p, i, list)) continue;
    sizes(p, i, whole, dim);
    failed =
        ts_device_kernel_run_in(p->step[i], scratch ? scratch + rest : NULL, list, dim, err);
  }
  p->dirty |= failed;
  pthread_mutex_unlock(&order);
  return failed ? -1 : 0;
}

static int run_whole(TsDeviceSequence *p, void *scratch, void *const *arg, const int64_t *dim,
                     TsError *err) {
  TsDevice *d = p->device;
  int64_t nbytes = scratch ? 0 : ts_device_sequence_scratch_bytes(p, dim);
  if (!nbytes) return run_steps(p, scratch, arg, dim, err);
  void *own = d->alloc(d, nbytes, err);
  int failed = own ? run_steps(p, own, arg, dim, err) : -1;
  if (own) d->free(d, own, nbytes);
  return failed;
}

/* Over copies of what lies between elements as steps see them. */
int ts_device_sequence_run(TsDeviceSequence *p, void *scratch, void *const *arg,
                           const int64_t *dim, TsError *err) {
  TsDevice *d = p->device;
  void *at[ARGS];
  int n = 0, failed = settle(p, err);
  for (; n < p->narg && !failed; n++) {
    bool moves = is_unaligned(p, n, arg[n]);
    at[n] = moves ? d->alloc(d, p->wider[n].nbytes, err) : arg[n];
    failed = !at[n];
    if (moves && !failed && n < p->nread)
      failed = d->copy(d, at[n], d, arg[n], p->wider[n].nbytes, err);
  }
  if (!failed) failed = run_whole(p, scratch, at, dim, err);
  for (int i = p->nread; i < n && !failed; i++)
    if (at[i] != arg[i]) failed = d->copy(d, arg[i], d, at[i], p->wider[i].nbytes, err);
  while (n-- > 0)
    if (at[n] && at[n] != arg[n]) d->free(d, at[n], p->wider[n].nbytes);
  return failed ? -1 : 0;
}

int ts_device_sequence_launches(const TsDeviceSequence *p, void *const *arg) {
  void *list[TS_TILE_STEP_PARAMS];
  int n = 0;
  for (int i = 0; i < p->of.n; i++) {
    arguments(p, i, arg, p->nowhere, list);
    if (runs(p, i) && !is_there(p, i, list)) n += ts_device_kernel_launches(p->step[i], list);
  }
  return n;
}

uint64_t ts_device_sequence_ahead(const TsDeviceSequence *p, void *const *arg,
                                  const int64_t *whole) {
  void *list[TS_TILE_STEP_PARAMS];
  int64_t dim[TS_TILE_DIMS];
  int i = 0;
  for (; i < p->of.n; i++) {
    arguments(p, i, arg, p->nowhere, list);
    if (runs(p, i) && !is_there(p, i, list)) break;
  }
  if (i == p->of.n || !p->settled) return TS_TILE_AHEAD_ALL;
  sizes(p, i, whole, dim);
  uint64_t own = ts_device_kernel_ahead(p->step[i], list, dim), bits = 0;
  for (int a = 0; a < p->nparam[i] && own != TS_TILE_AHEAD_ALL; a++) {
    int from = p->of.step[i].arg[a];
    if (own >> a & 1 && from < 0)
      return TS_TILE_AHEAD_ALL; /* others write where temporaries lie */
    if (own >> a & 1) bits |= 1ull << from;
  }
  return own == TS_TILE_AHEAD_ALL ? own : bits;
}

bool ts_device_sequence_cached(const TsDeviceSequence *p) {
  bool all = true;
  for (int i = 0; i < p->of.n; i++) all &= ts_device_kernel_cached(p->step[i]);
  return all;
}

/* Memory of the device itself lies well. */
bool ts_device_sequence_record(const TsDeviceSequence *p, void *const *arg) {
  void *list[TS_TILE_STEP_PARAMS];
  for (int i = 0; i < p->narg; i++)
    if (is_unaligned(p, i, arg[i])) return false;
  for (int i = 0; i < p->of.n; i++) {
    arguments(p, i, arg, p->nowhere, list);
    if (!ts_device_kernel_records(p->step[i], list)) return false;
  }
  return true;
}
