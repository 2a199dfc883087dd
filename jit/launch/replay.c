/* See jit/launch/replay.h. */
#include "jit/launch/replay_state.h"

#include "devices/cpu_pool.h"
#include "jit/launch/dependent.h"
#include "jit/launch/replay_areas.h"

#include <stdlib.h>
#include <string.h>

static TsReplayStats stats;
static bool overlaps, shuffled, ahead = true;

void ts_replay_overlap(bool on) { overlaps = on; }
bool ts_replay_ahead(int on) {
  bool was = ahead;
  if (on >= 0) ahead = on;
  return was;
}
void ts_replay_shuffle(bool on) { shuffled = on; }

TsReplayStats ts_replay_stats(void) { return stats; }

/* ---- sequences */
static void clear(TsReplay *r, Sequence *s) {
  if (s->record) r->d->run->record_free(r->d, s->record);
  s->record = NULL;
  ts_replay_persistent_drop(s);
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
bool ts_replay_has_room(TsReplay *r, int words) {
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

static void arguments(const Sequence *s, int i, void **arg) {
  const Launch *l = &s->launch[i];
  for (int k = 0; k < l->nparam; k++) arg[k] = (void *)(intptr_t)s->word[l->at + k];
}

/* Done whole, by a simulated GPU too: the program may have the result since long. */
int ts_replay_launch_in(const Sequence *s, int i, void *scratch, TsError *err) {
  const Launch *l = &s->launch[i];
  void *arg[MOST_ARGS];
  int before = ts_cpu_hold_interrupts();
  arguments(s, i, arg);
  int failed = run_kernel(l->kernel, l->runs, scratch, arg, s->word + l->at + l->nparam, err);
  ts_cpu_let_interrupts(before);
  return failed;
}

static TsAccesses accesses_of(const Sequence *s, int i) {
  const Launch *l = &s->launch[i];
  return (TsAccesses){.of = s->access + l->access, .n = l->naccess};
}

int ts_replay_step(const TsReplay *r, int i, TsError *err) {
  const Launch *l = &r->now.launch[i];
  TsAccesses a = accesses_of(&r->now, i);
  void *arg[MOST_ARGS];
  arguments(&r->now, i, arg);
  ts_dependent_begin(r->d, &a,
                     &(TsDependentRun){l->kernel, arg, r->now.word + l->at + l->nparam});
  int failed = ts_replay_launch_in(&r->now, i, r->now.launch[i].room, err);
  ts_dependent_end(r->d, &a, failed);
  return failed;
}

static int launch_rest(TsReplay *r, TsError *err) {
  int failed = 0;
  if (r->group && r->group->meeting) return r->group->due = true, 0;
  if (r->group) return ts_replay_group_rest(r->group, err);
  r->busy = true;
  for (; r->launched < r->now.n && !failed; r->launched++)
    failed = ts_replay_step(r, r->launched, err);
  r->launched = r->now.n;
  r->busy = false;
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
/* Nothing is put off any more, so memory that is free may go. Not where a launch asks for it, or between
 * launches that wait for each other. */
static int let_go(void *holder, TsError *err) {
  TsReplay *r = holder;
  TsReplayGroup *g = r->group;
  if (r->busy || (g && g->meeting)) return 0;
  int failed = g ? ts_replay_group_flush(g, err) : ts_replay_flush(r, err);
  for (int i = 0; g && i < g->n; i++) ts_replay_hold(g->member[i], false);
  if (!g) ts_replay_hold(r, false);
  return failed;
}

void ts_replay_hold(TsReplay *r, bool on) {
  if (!r->d->run || !r->d->run->hold) return;
  r->d->run->hold(r->d, on);
  r->d->let_go = on ? let_go : NULL, r->d->holder = on ? r : NULL;
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
  ts_replay_hold(r, true);
}

static bool records(const TsReplay *r, const Sequence *s) {
  return !r->refused && r->moved == ts_replay_areas_moved(r->d) && s->n >= LEAST &&
         s->runs >= OFTEN && r->d->run && r->d->run->record_begin;
}

static int launches_of(const Sequence *s, int i) {
  void *arg[MOST_ARGS];
  arguments(s, i, arg);
  return ts_device_kernel_launches(s->launch[i].kernel, arg);
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

/* The one launch behind which i comes, or -1: there is none, or there are several. */
static int front_of(const TsReplayOrder *o, bool ordered, int i) {
  if (!ordered) return i - 1;
  return o->first[i + 1] - o->first[i] == 1 ? o->wait[o->first[i]] : -1;
}

/* Whether launch i of a record may begin before the one in front of it ends. */
static bool may_begin(const Sequence *s, int front, int i) {
  const Launch *l = &s->launch[i];
  void *arg[MOST_ARGS];
  if (front < 0 || l->runs > 1 || l->meets || s->launch[front].meets) return false;
  TsAccesses before = accesses_of(s, front), a = accesses_of(s, i);
  arguments(s, i, arg);
  return ts_dependent_may(&before, &a,
                          &(TsDependentRun){l->kernel, arg, s->word + l->at + l->nparam});
}

static int launch_ordered(TsReplay *r, TsError *err) {
  TsReplayOrder o = {.n = 0};
  bool ordered = overlaps && r->d->run->record_after && order_of(&r->now, &o);
  int *last = malloc(sizeof *last * ((size_t)r->now.n + 1)), failed = !last, node = 0;
  uint64_t skipped = r->d->skipped;
  for (int i = 0; i < r->now.n && !failed; i++) {
    Launch *l = &r->now.launch[i];
    l->front = ahead && r->d->skipped == skipped ? front_of(&o, ordered, i) : -1;
    if (!may_begin(&r->now, l->front, i)) l->front = -1;
    if (ordered) failed = put_after(r, &o, last, i, err);
    r->d->dependent = l->front >= 0;
    if (!failed) failed = ts_replay_launch_in(&r->now, i, l->room, err);
    r->d->dependent = false;
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

/* What began early in the record may do so with these arguments as well. */
static bool same_fronts(const Sequence *was, const Sequence *now) {
  for (int i = 0; i < now->n; i++) {
    int front = was->launch[i].front;
    if (front < 0 || (same_arguments(was, now, i) && same_arguments(was, now, front))) continue;
    if (!may_begin(now, front, i)) return false;
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
  if (run->record_end(r->d, &s->record, &end) || failed) return refuse(r, s);
  for (int i = 0; i < s->n; i++) s->launch[i].front = r->now.launch[i].front;
}

/* Launches that differ take the place of the record's. */
static void patch(TsReplay *r, Sequence *s) {
  const TsDeviceRun *run = r->d->run;
  TsError err = {0};
  int failed = 0;
  for (int i = 0, at = 0; i < s->n && !failed; at += launches_of(s, i), i++) {
    if (same_arguments(s, &r->now, i)) continue;
    failed = run->record_patch(r->d, s->record, at, &err) ||
             ts_replay_launch_in(&r->now, i, r->now.launch[i].room, &err);
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
    failed = ts_replay_step(r, i, err);
    done[i] = true;
  }
  free(done);
  ts_replay_order_free(&o);
  r->launched = n;
  return failed;
}

/* What came is what s is from now on. */
static void settle(TsReplay *r, Sequence *s) {
  if (!keep_accesses(s, &r->now)) refuse(r, s);
  for (int i = 0; i < s->n; i++) s->launch[i].room = r->now.launch[i].room;
  memcpy(s->word, r->now.word, sizeof *s->word * (size_t)s->nword);
}

/* It gets its record, if it is to have one. */
void ts_replay_prepare(TsReplay *r, Sequence *s) {
  s->used = ++r->clock;
  s->runs++;
  bool often = s->runs >= OFTEN && !r->refused;
  if (s->runs >= OFTEN && ts_replay_persistent(r, s)) {
    settle(r, s);
    return;
  }
  bool fits =
      !s->record || ((!s->ordered || same_order(s, &r->now)) && same_fronts(s, &r->now));
  if (s->record && (!fits || s->moved != ts_replay_areas_moved(r->d))) {
    r->d->run->record_free(r->d, s->record);
    s->record = NULL;
  }
  if (s->record)
    patch(r, s);
  else if (records(r, s))
    record(r, s);
  settle(r, s);
  if (often) {
    stats.runs++;
    stats.launches += s->n;
    for (int i = 0; i < s->n && s->record; i++) stats.early += s->launch[i].front >= 0;
  }
}

static int run_sequence(TsReplay *r, Sequence *s, TsError *err) {
  r->busy = true;
  ts_replay_prepare(r, s);
  bool whole = s->persistent || s->record, mixed = !whole && shuffled && !r->launched;
  int failed = 0;
  if (whole) r->launched = r->now.n;
  if (s->persistent)
    failed = ts_persistent_launch(s->persistent, err);
  else if (s->record)
    failed = r->d->run->record_launch(r->d, s->record, err);
  else if (mixed)
    failed = launch_shuffled(r, err);
  r->busy = false;
  return whole || mixed ? failed : launch_rest(r, err);
}

void ts_replay_keep(TsReplay *r) {
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

Sequence *ts_replay_known(TsReplay *r) {
  Sequence *known = NULL;
  for (int k = 0; k < KEPT && !r->off; k++)
    if (r->alive[k] && r->kept[k].n == r->now.n) known = &r->kept[k];
  return known;
}

int ts_replay_end(TsReplay *r, TsError *err) {
  int failed = 0;
  Sequence *known = ts_replay_known(r);
  failed = known ? run_sequence(r, known, err) : launch_rest(r, err);
  if (!known && !r->cut && r->now.n >= LEAST) ts_replay_keep(r);
  ts_replay_hold(r, false);
  return failed;
}

bool ts_replay_matches(const TsReplay *r) { return !r->off; }

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
  if (r->d->holder == r) ts_replay_hold(r, false);
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
