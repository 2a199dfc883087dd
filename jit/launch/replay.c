/* See jit/launch/replay.h. */
#include "jit/launch/replay.h"

#include "devices/cpu_pool.h"
#include "devices/flags.h"
#include "devices/meet.h"
#include "jit/launch/dependent.h"
#include "jit/launch/replay_areas.h"

#include <stdlib.h>
#include <string.h>

enum {
  KEPT = 2,  /* sequences of a function, which may branch */
  LEAST = 4, /* launches that are worth it */
  OFTEN = 3, /* runs of a sequence before it is recorded */
  MOST_ARGS = 512,
};

typedef struct Launch {
  TsDeviceKernel *kernel;
  int at, nparam, ndim; /* words: addresses, sizes */
  int runs;             /* of a launch of many */
  bool meets;           /* it waits for other devices */
  int64_t order;        /* among those of all devices of a group */
  int access, naccess;  /* naccess < 0: it is not known what it touches */
  void *room;           /* for its scratch, or NULL */
} Launch;

typedef struct Sequence {
  Launch *launch;
  int n, cap;
  int64_t *word;
  int nword, capword;
  TsAccess *access;
  int naccess, capaccess;
  int nscratch;   /* launches that have some */
  unsigned moved; /* areas, when it was recorded */
  void *record;   /* of the device; of a simulated one none is needed */
  bool ordered;   /* its launches wait for those alone that they need */
  int64_t runs;
  uint64_t used;
} Sequence;

struct TsReplay {
  TsDevice *d;
  Sequence now, kept[KEPT];
  bool alive[KEPT]; /* what came so far is its beginning */
  bool off;         /* nothing is put off in this run any more */
  bool cut;         /* and it is no sequence, since bytes moved in between */
  bool refused;     /* the device does not record */
  int launched;     /* of now */
  int touched;      /* accesses of now that belong to the next launch */
  uint64_t clock;
  unsigned freed; /* kernels when the sequences were made */
  unsigned moved; /* areas, when the run began */
  TsReplayGroup *group;
  Sequence *known; /* at the end of a run of a group: what it was */
};

struct TsReplayGroup {
  int n;
  TsReplay *member[TS_MAX_DEVICES];
  int64_t order;         /* launches so far */
  bool meeting;          /* those that come wait for each other: none is launched before all are there, */
  bool due;              /* but then */
};

static TsReplayStats stats;
static bool overlaps, shuffled;

void ts_replay_overlap(bool on) { overlaps = on; }
void ts_replay_shuffle(bool on) { shuffled = on; }

TsReplayStats ts_replay_stats(void) { return stats; }

/* ---- sequences */
static void clear(TsReplay *r, Sequence *s) {
  if (s->record) r->d->run->record_free(r->d, s->record);
  s->record = NULL;
  s->n = s->nword = s->naccess = s->nscratch = 0;
  s->runs = 0;
}

static bool reserve(void **list, int *cap, int need, size_t size) {
  if (need <= *cap) return true;
  int more = need < 64 ? 64 : 2 * need;
  void *p = realloc(*list, size * (size_t)more);
  if (!p) return false;
  *list = p, *cap = more;
  return true;
}

/* Memory that only the kernel knows counts as touched: of several runs one comes behind the
 * other. */
static bool add_access(Sequence *s, const void *at, int64_t nbytes, bool write) {
  if (!reserve((void **)&s->access, &s->capaccess, s->naccess + 1, sizeof *s->access))
    return false;
  s->access[s->naccess++] = (TsAccess){(uintptr_t)at, (uint64_t)nbytes, write};
  return true;
}

/* Scratch of a launch that may be put off, in the order of the program: what is free now is
 * somebody else's when the launch is made. Without room nothing is put off. */
static void *take_room(TsReplay *r, int64_t nbytes) {
  TsError none = {0};
  int area = r->now.nscratch++ % (overlaps ? TS_REPLAY_AREAS : 1);
  void *room = ts_replay_area(r->d, area, nbytes, &none);
  if (!room) r->off = true;
  return room;
}

static bool append(TsReplay *r, TsDeviceKernel *k, int runs, int nparam, void *const *arg,
                   int ndim, const int64_t *dim) {
  Sequence *s = &r->now;
  int touched = r->touched;
  int64_t scratch = runs > 1 ? 0 : ts_device_kernel_scratch_bytes(k, dim);
  bool known = touched > 0;
  const void *own = ts_device_kernel_memory(k);
  void *room = scratch && !r->off ? take_room(r, scratch) : NULL;
  if (known && own) known = add_access(s, own, 1, true), touched++;
  if (known && room) known = add_access(s, room, scratch, true), touched++;
  if (!reserve((void **)&s->launch, &s->cap, s->n + 1, sizeof *s->launch) ||
      !reserve((void **)&s->word, &s->capword, s->nword + nparam + ndim, sizeof *s->word))
    return false;
  s->launch[s->n++] = (Launch){.kernel = k,
                               .at = s->nword,
                               .nparam = nparam,
                               .ndim = ndim,
                               .runs = runs,
                               .meets = r->group && r->group->meeting,
                               .order = r->group ? r->group->order++ : 0,
                               .access = s->naccess - touched,
                               .naccess = known ? touched : -1,
                               .room = room};
  for (int i = 0; i < nparam; i++) s->word[s->nword++] = (int64_t)(intptr_t)arg[i];
  for (int i = 0; i < ndim; i++) s->word[s->nword++] = dim[i];
  return true;
}

/* For a launch of so many words of which nothing is known. */
static bool has_room(TsReplay *r, int words) {
  Sequence *s = &r->now;
  return reserve((void **)&s->launch, &s->cap, s->n + 1, sizeof *s->launch) &&
         reserve((void **)&s->word, &s->capword, s->nword + words, sizeof *s->word);
}

static bool same_kernel(const Sequence *a, const Sequence *b, int i) {
  return i < a->n && i < b->n && a->launch[i].kernel == b->launch[i].kernel &&
         a->launch[i].runs == b->launch[i].runs;
}

static bool same_arguments(const Sequence *a, const Sequence *b, int i) {
  const Launch *x = &a->launch[i], *y = &b->launch[i];
  size_t n = (size_t)(x->nparam + x->ndim);
  return !memcmp(a->word + x->at, b->word + y->at, sizeof *a->word * n);
}

/* ---- launching */
static int run_kernel(TsDeviceKernel *k, int runs, void *scratch, void *const *arg,
                      const int64_t *dim, TsError *err) {
  return runs > 1 ? ts_device_kernel_run_many(k, runs, arg, dim, err)
                  : ts_device_kernel_run_in(k, scratch, arg, dim, err);
}

/* Done whole, by a simulated GPU too: the program may have the result since long. */
static int launch_in(const Sequence *s, int i, void *scratch, TsError *err) {
  const Launch *l = &s->launch[i];
  void *arg[MOST_ARGS];
  int before = ts_cpu_hold_interrupts();
  for (int k = 0; k < l->nparam; k++) arg[k] = (void *)(intptr_t)s->word[l->at + k];
  int failed = run_kernel(l->kernel, l->runs, scratch, arg, s->word + l->at + l->nparam, err);
  ts_cpu_let_interrupts(before);
  return failed;
}

static TsAccesses accesses_of(const Sequence *s, int i) {
  const Launch *l = &s->launch[i];
  return (TsAccesses){.of = s->access + l->access, .n = l->naccess};
}

static int launch(const TsReplay *r, int i, TsError *err) {
  TsAccesses a = accesses_of(&r->now, i);
  ts_dependent_begin(r->d, &a);
  int failed = launch_in(&r->now, i, r->now.launch[i].room, err);
  ts_dependent_end(r->d, &a, failed);
  return failed;
}

/* ---- of a group: in the order of the program */
static TsReplay *next_of(const TsReplayGroup *g) {
  TsReplay *next = NULL;
  for (int i = 0; i < g->n; i++) {
    TsReplay *r = g->member[i];
    if (r->launched < r->now.n && (!next || r->now.launch[r->launched].order <
                                                next->now.launch[next->launched].order))
      next = r;
  }
  return next;
}

/* Some may wait for launches that never come: that ends, and words by which they wait begin anew, before
 * memory that they use goes. */
static void forsake(void) {
  for (int i = 0; ts_flags_at(i); i++) ts_flags_drop(ts_flags_at(i));
}

/* Those that wait for each other follow each other, with no code loaded in between. */
static int launch_group(TsReplayGroup *g, TsError *err) {
  int failed = 0;
  bool together = false;
  for (int i = 0; i < g->n; i++) g->member[i]->off = true;
  for (TsReplay *r; !failed && (r = next_of(g)); r->launched++) {
    bool meets = r->now.launch[r->launched].meets;
    if (meets != together) ts_device_together(together = meets);
    failed = launch(r, r->launched, err);
  }
  if (together) ts_device_together(false);
  for (int i = 0; i < g->n; i++) g->member[i]->launched = g->member[i]->now.n;
  if (failed) forsake();
  return failed;
}

static int launch_rest(TsReplay *r, TsError *err) {
  int failed = 0;
  if (r->group && r->group->meeting) return r->group->due = true, 0;
  if (r->group) return launch_group(r->group, err);
  for (; r->launched < r->now.n && !failed; r->launched++) failed = launch(r, r->launched, err);
  r->launched = r->now.n;
  return failed;
}

static bool any_alive(TsReplay *r) {
  bool any = false;
  for (int k = 0; k < KEPT; k++) any |= r->alive[k];
  return any;
}

int ts_replay_launch_many(TsReplay *r, TsDeviceKernel *k, int n, int nparam, void *const *arg,
                          int ndim, const int64_t *dim, TsError *err) {
  bool fits = nparam <= MOST_ARGS && ts_device_kernel_records(k, arg) &&
              append(r, k, n, nparam, arg, ndim, dim);
  r->touched = 0;
  if (!fits) { /* no sequence any more */
    r->cut = true;
    if (ts_replay_flush(r, err)) return -1;
    return run_kernel(k, n, NULL, arg, dim, err);
  }
  for (int i = 0; i < KEPT && !r->off; i++)
    r->alive[i] = r->alive[i] && same_kernel(&r->kept[i], &r->now, r->now.n - 1);
  if (!r->off && any_alive(r)) return 0;
  r->off = true;
  return launch_rest(r, err);
}

int ts_replay_launch(TsReplay *r, TsDeviceKernel *k, int nparam, void *const *arg, int ndim,
                     const int64_t *dim, TsError *err) {
  return ts_replay_launch_many(r, k, 1, nparam, arg, ndim, dim, err);
}

int ts_replay_flush(TsReplay *r, TsError *err) {
  r->off = r->cut = true;
  return launch_rest(r, err);
}

void ts_replay_touch_all(TsReplay *r) { r->touched = -1; }

void ts_replay_touch(TsReplay *r, const void *at, int64_t nbytes, bool write) {
  if (r->touched < 0 || nbytes <= 0) return;
  r->touched = add_access(&r->now, at, nbytes, write) ? r->touched + 1 : -1;
}

/* ---- a run */
static void hold(TsReplay *r, bool on) {
  if (r->d->run && r->d->run->hold) r->d->run->hold(r->d, on);
}

void ts_replay_begin(TsReplay *r) {
  unsigned freed = ts_device_kernel_freed();
  for (int k = 0; k < KEPT && freed != r->freed; k++) clear(r, &r->kept[k]);
  r->freed = freed;
  r->moved = ts_replay_areas_moved(r->d);
  r->now.n = r->now.nword = r->now.naccess = r->now.nscratch = r->launched = r->touched = 0;
  r->cut = false;
  for (int k = 0; k < KEPT; k++) r->alive[k] = r->kept[k].n > 0;
  r->off = !any_alive(r);
  hold(r, true);
}

static bool records(const TsReplay *r, const Sequence *s) {
  return !r->refused && r->moved == ts_replay_areas_moved(r->d) && s->n >= LEAST &&
         s->runs >= OFTEN && r->d->run && r->d->run->record_begin;
}

static int launches_of(const Sequence *s, int i) {
  return ts_device_kernel_launches(s->launch[i].kernel);
}

/* What the device does not like is no error: launches go on one by one. */
static void refuse(TsReplay *r, Sequence *s) {
  if (s->record) r->d->run->record_free(r->d, s->record);
  s->record = NULL;
  r->refused = true;
}

/* ---- who waits for whom */
static bool order_of(const Sequence *s, TsReplayOrder *o) {
  TsAccesses *a = malloc(sizeof *a * ((size_t)s->n + 1));
  for (int i = 0; a && i < s->n; i++) a[i] = accesses_of(s, i);
  bool whole = a && ts_replay_order(s->n, a, o);
  free(a);
  return whole;
}

/* The nodes behind which launch i comes: the last one of each launch that it waits for. */
static int put_after(TsReplay *r, const TsReplayOrder *o, const int *last, int i,
                     TsError *err) {
  int n = o->first[i + 1] - o->first[i], *node = malloc(sizeof *node * ((size_t)n + 1));
  if (!node) return ts_error_memory(err);
  for (int k = 0; k < n; k++) node[k] = last[o->wait[o->first[i] + k]];
  int failed = r->d->run->record_after(r->d, n, node, err);
  free(node);
  return failed;
}

static int launch_ordered(TsReplay *r, TsError *err) {
  TsReplayOrder o = {.n = 0};
  bool ordered = overlaps && r->d->run->record_after && order_of(&r->now, &o);
  int *last = malloc(sizeof *last * ((size_t)r->now.n + 1)), failed = !last, node = 0;
  for (int i = 0; i < r->now.n && !failed; i++) {
    if (ordered) failed = put_after(r, &o, last, i, err);
    if (!failed) failed = launch_in(&r->now, i, r->now.launch[i].room, err);
    node += launches_of(&r->now, i);
    last[i] = node - 1;
  }
  free(last);
  ts_replay_order_free(&o);
  return failed;
}

/* Launches and their order stay; of what changed its place nothing meets what it did not meet
 * before. */
static bool same_order(const Sequence *was, const Sequence *now) {
  for (int i = 0; i < now->n; i++) {
    const Launch *x = &was->launch[i], *y = &now->launch[i];
    if (x->naccess != y->naccess) return false;
    size_t n = sizeof *now->access * (size_t)(x->naccess > 0 ? x->naccess : 0);
    if (!n || !memcmp(was->access + x->access, now->access + y->access, n)) continue;
    TsAccesses before = accesses_of(was, i), after = accesses_of(now, i);
    for (int k = 0; k < now->n; k++) {
      TsAccesses a = accesses_of(was, k), b = accesses_of(now, k);
      if (k != i && ts_access_meet(&before, &a) != ts_access_meet(&after, &b)) return false;
    }
  }
  return true;
}

static bool keep_accesses(Sequence *to, const Sequence *from) {
  if (!reserve((void **)&to->access, &to->capaccess, from->naccess, sizeof *to->access))
    return false;
  if (from->naccess)
    memcpy(to->access, from->access, sizeof *to->access * (size_t)from->naccess);
  to->naccess = from->naccess;
  for (int i = 0; i < to->n; i++) {
    to->launch[i].access = from->launch[i].access;
    to->launch[i].naccess = from->launch[i].naccess;
  }
  return true;
}

/* ---- records */
static void record(TsReplay *r, Sequence *s) {
  const TsDeviceRun *run = r->d->run;
  TsError err = {0}, end = {0};
  int failed = run->record_begin(r->d, &err);
  if (failed) return refuse(r, s);
  s->moved = ts_replay_areas_moved(r->d);
  s->ordered = overlaps;
  failed = launch_ordered(r, &err);
  if (run->record_end(r->d, &s->record, &end) || failed) refuse(r, s);
}

/* Launches that differ take the place of the record's. */
static void patch(TsReplay *r, Sequence *s) {
  const TsDeviceRun *run = r->d->run;
  TsError err = {0};
  int failed = 0;
  for (int i = 0, at = 0; i < s->n && !failed; at += launches_of(s, i), i++) {
    if (same_arguments(s, &r->now, i)) continue;
    failed = run->record_patch(r->d, s->record, at, &err) ||
             launch_in(&r->now, i, r->now.launch[i].room, &err);
  }
  run->record_patch(r->d, NULL, 0, &err);
  if (failed) return refuse(r, s);
  memcpy(s->word, r->now.word, sizeof *s->word * (size_t)s->nword);
}

/* Of those that wait for nobody any more the last. */
static int launch_shuffled(TsReplay *r, TsError *err) {
  TsReplayOrder o = {.n = 0};
  int n = r->now.n, failed = !order_of(&r->now, &o);
  bool *done = calloc((size_t)n + 1, sizeof *done);
  for (int left = done && !failed ? n : 0; left-- > 0 && !failed;) {
    int i = n;
    for (bool ready = false; !ready && i-- > 0;) {
      ready = !done[i];
      for (int k = o.first[i]; ready && k < o.first[i + 1]; k++) ready = done[o.wait[k]];
    }
    failed = launch(r, i, err);
    done[i] = true;
  }
  free(done);
  ts_replay_order_free(&o);
  r->launched = n;
  return failed;
}

/* It gets its record, if it is to have one. */
static void prepare(TsReplay *r, Sequence *s) {
  s->used = ++r->clock;
  s->runs++;
  bool often = s->runs >= OFTEN && !r->refused;
  bool fits = !s->record || !s->ordered || same_order(s, &r->now);
  if (s->record && (!fits || s->moved != ts_replay_areas_moved(r->d))) {
    r->d->run->record_free(r->d, s->record);
    s->record = NULL;
  }
  if (s->record)
    patch(r, s);
  else if (records(r, s))
    record(r, s);
  if (!keep_accesses(s, &r->now)) refuse(r, s);
  if (often) {
    stats.runs++;
    stats.launches += s->n;
  }
  memcpy(s->word, r->now.word, sizeof *s->word * (size_t)s->nword);
}

static int run_sequence(TsReplay *r, Sequence *s, TsError *err) {
  prepare(r, s);
  if (!s->record && shuffled && !r->launched) return launch_shuffled(r, err);
  if (!s->record) return launch_rest(r, err);
  r->launched = r->now.n;
  return r->d->run->record_launch(r->d, s->record, err);
}

static void keep(TsReplay *r) {
  Sequence *old = &r->kept[0];
  for (int k = 1; k < KEPT; k++)
    if (r->kept[k].used < old->used) old = &r->kept[k];
  clear(r, old);
  Sequence s = *old;
  *old = r->now;
  old->used = ++r->clock;
  old->runs = 1;
  r->now = s;
  r->now.n = r->now.nword = r->now.naccess = r->now.nscratch = 0;
}

static Sequence *known_of(TsReplay *r) {
  Sequence *known = NULL;
  for (int k = 0; k < KEPT && !r->off; k++)
    if (r->alive[k] && r->kept[k].n == r->now.n) known = &r->kept[k];
  return known;
}

int ts_replay_end(TsReplay *r, TsError *err) {
  int failed = 0;
  Sequence *known = known_of(r);
  failed = known ? run_sequence(r, known, err) : launch_rest(r, err);
  if (!known && !r->cut && r->now.n >= LEAST) keep(r);
  hold(r, false);
  return failed;
}

bool ts_replay_matches(const TsReplay *r) { return !r->off; }

/* ---- groups */
void ts_replay_group_begin(TsReplayGroup *g) {
  g->order = 0, g->meeting = g->due = false;
  for (int i = 0; i < g->n; i++) ts_replay_begin(g->member[i]);
}

TsReplay *ts_replay_group_of(const TsReplayGroup *g, const TsDevice *d) {
  for (int i = 0; i < g->n; i++)
    if (g->member[i]->d == d) return g->member[i];
  return NULL;
}

int ts_replay_group_flush(TsReplayGroup *g, TsError *err) {
  for (int i = 0; i < g->n; i++) g->member[i]->off = g->member[i]->cut = true;
  return launch_group(g, err);
}

static bool all_record(const TsReplayGroup *g, int n, const TsReplayMeeting *m) {
  for (int i = 0; i < n; i++)
    if (m[i].nparam > MOST_ARGS || !ts_device_kernel_records(m[i].kernel, m[i].arg) ||
        !ts_replay_group_of(g, ts_device_kernel_device(m[i].kernel)))
      return false;
  return true;
}

/* What cannot be put off goes behind what was. */
static int meet_now(TsReplayGroup *g, int n, const TsReplayMeeting *m, TsError *err) {
  int failed = ts_replay_group_flush(g, err);
  if (failed) return -1;
  ts_device_together(true);
  for (int i = 0; i < n && !failed; i++)
    failed = ts_device_kernel_run(m[i].kernel, m[i].arg, m[i].dim, err);
  ts_device_together(false);
  return failed;
}

/* All of them are put off or none is, whatever memory there is. */
int ts_replay_group_meet(TsReplayGroup *g, int n, const TsReplayMeeting *m, TsError *err) {
  int before[TS_MAX_DEVICES][3], failed = 0;
  if (!all_record(g, n, m)) return meet_now(g, n, m, err);
  for (int i = 0; i < g->n; i++) {
    const Sequence *s = &g->member[i]->now;
    before[i][0] = s->n, before[i][1] = s->nword, before[i][2] = s->naccess;
  }
  g->meeting = true;
  for (int i = 0; i < n && !failed; i++) {
    TsReplay *r = ts_replay_group_of(g, ts_device_kernel_device(m[i].kernel));
    int had = r->now.n;
    if (!has_room(r, m[i].nparam + m[i].ndim))
      failed = ts_error_memory(err);
    else
      failed = ts_replay_launch(r, m[i].kernel, m[i].nparam, m[i].arg, m[i].ndim, m[i].dim, err);
    TS_ASSERT(failed || r->now.n == had + 1);
  }
  g->meeting = false;
  for (int i = 0; i < g->n && failed; i++) {
    Sequence *s = &g->member[i]->now;
    s->n = before[i][0], s->nword = before[i][1], s->naccess = before[i][2];
  }
  if (failed) { /* what waits by these words is launched before they go */
    TsError ignored;
    g->due = false;
    (void)ts_replay_group_flush(g, &ignored);
    return -1;
  }
  if (!g->due) return 0;
  g->due = false;
  return launch_group(g, err);
}

/* One record a device, if all have one. Code of records is there before one of them runs. */
static int launch_records(TsReplayGroup *g, TsError *err) {
  bool ready = true;
  int failed = 0;
  for (int i = 0; i < g->n; i++) {
    TsReplay *r = g->member[i];
    if (r->known) prepare(r, r->known);
    ready &= !r->now.n || (r->known && r->known->record);
  }
  if (!ready) return launch_group(g, err);
  ts_device_together(true);
  for (int i = 0; i < g->n && !failed; i++) {
    TsReplay *r = g->member[i];
    if (r->now.n) failed = r->d->run->record_launch(r->d, r->known->record, err);
    r->launched = r->now.n;
  }
  ts_device_together(false);
  if (failed) forsake();
  return failed;
}

int ts_replay_group_end(TsReplayGroup *g, bool *whole, TsError *err) {
  bool known = true, cut = false;
  for (int i = 0; i < g->n; i++) {
    TsReplay *r = g->member[i];
    r->known = known_of(r);
    known &= r->known || !r->now.n;
    cut |= r->cut;
  }
  int failed = known && !cut ? launch_records(g, err) : launch_group(g, err);
  for (int i = 0; i < g->n; i++) {
    TsReplay *r = g->member[i];
    if (!r->known && !r->cut && r->now.n >= LEAST) keep(r);
    hold(r, false);
  }
  *whole = !cut;
  return failed;
}

void ts_replay_group_free(TsReplayGroup *g) {
  for (int i = 0; g && i < g->n; i++) ts_replay_free(g->member[i]);
  free(g);
}

TsReplayGroup *ts_replay_group_new(int n, TsDevice *const *list) {
  TsReplayGroup *g = calloc(1, sizeof *g);
  for (int i = 0; g && i < n; i++) {
    if (!(g->member[i] = ts_replay_new(list[i]))) return ts_replay_group_free(g), NULL;
    g->member[i]->group = g;
    g->n++;
  }
  return g;
}

/* ---- life */
TsReplay *ts_replay_new(TsDevice *d) {
  TsReplay *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->d = d;
  ts_replay_areas_hold(d);
  return r;
}

void ts_replay_free(TsReplay *r) {
  if (!r) return;
  for (int k = 0; k < KEPT; k++) {
    clear(r, &r->kept[k]);
    free(r->kept[k].launch);
    free(r->kept[k].word);
    free(r->kept[k].access);
  }
  ts_replay_areas_drop(r->d);
  free(r->now.launch);
  free(r->now.word);
  free(r->now.access);
  free(r);
}
