/* See net/world.h: who is there, who carries bytes, and what has to lie elsewhere for that. */
#include "net/world.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "lib/clock.h"
#include "lib/digest.h"
#include "net/launch.h"
#include "net/watch.h"

static struct {
  bool tried, open, failed; /* a collective has failed: ranks may not be in step any more */
  TsLaunched launched;
  TsError why; /* it could not be opened */
  TsTransport *mpi, *nccl;
  TsWorldRank *ranks;
  TsWatch watch;
  uint64_t number;
} world;

int ts_world_rank(void) { return world.open ? world.launched.rank : 0; }
int ts_world_size(void) { return world.open ? world.launched.size : 1; }
const TsWorldRank *ts_world_at(int rank) { return &world.ranks[rank]; }

const char *ts_world_flight(void) {
  return world.watch.flight ? ts_flight_path(world.watch.flight) : NULL;
}

double ts_world_patience(double seconds) {
  double was = world.watch.patience;
  if (seconds > 0) world.watch.patience = seconds;
  return was;
}

void ts_world_text(TsText *t) {
  if (!world.open) return ts_text_str(t, "one process");
  ts_text_format(t, "%s, %d processes", world.launched.name, world.launched.size);
  if (world.mpi) ts_text_format(t, ", %s", world.mpi->name);
  if (world.nccl) ts_text_format(t, ", %s", world.nccl->name);
}

/* A list begins with cpu:0 and the null device (devices/registry.c); then come the CPU's others and
 * the GPUs. */
int ts_world_place(int rank, const char *name) {
  const TsWorldRank *r = &world.ranks[rank];
  int n = -1, more = 0;
  if (sscanf(name, "cpu:%d%n", &n, &more) == 1 && !name[more] && n >= 0 && n < r->ncpu)
    return n ? n + 1 : 0;
  if (!strcmp(name, "cpu")) return 0;
  size_t kind = strlen(r->kind);
  if (kind && !strncmp(name, r->kind, kind) && sscanf(name + kind, ":%d%n", &n, &more) == 1 &&
      !name[kind + (size_t)more] && n >= r->gpu && n < r->gpu + r->ngpu)
    return r->ncpu + 1 + n;
  if (strncmp(name, "sim:", 4)) return -1;
  TsError ignored = {
      0}; /* simulated ones stand in each list at the same place, once they are named */
  TsDevice *d = ts_device_find(name, &ignored);
  return d ? d->index : -1;
}

const char *ts_world_place_name(int rank, int place, char text[48]) {
  if (!world.open || rank < 0) return snprintf(text, 48, "%s", ts_device_at(place)->name), text;
  const TsWorldRank *r = &world.ranks[rank];
  const TsDevice *d = ts_device_at(place < TS_MAX_DEVICES ? place : 0);
  if (d->simulated)
    snprintf(text, 48, "%s@%d", d->name, rank);
  else if (place <= r->ncpu)
    snprintf(text, 48, "cpu:%d@%d", place ? place - 1 : 0, rank);
  else
    snprintf(text, 48, "%s:%d@%d", r->kind, place - r->ncpu - 1, rank);
  return text;
}

/* ---- who this is */
static int count_of(const char *kind, int *first) {
  int n = 0;
  *first = 0;
  for (int i = 0; i < ts_device_count(); i++) {
    const TsDevice *d = ts_device_at(i);
    if (!d->kind || strcmp(d->kind, kind)) continue;
    if (!n++) *first = i;
  }
  return n;
}

/* GPUs between which a library carries bytes. */
static const char *const carried[] = {"cuda", "hip"};

/* Which GPUs are this process's: an equal share of those that the host has; all, if it sees one
 * alone; the one in turn, where there are fewer than processes. */
static void share_gpus(TsWorldRank *r) {
  int first, n = 0, of = world.launched.local_size;
  for (size_t k = 0; k < sizeof carried / sizeof *carried && !n; k++)
    if ((n = count_of(carried[k], &first))) snprintf(r->kind, sizeof r->kind, "%s", carried[k]);
  int i = world.launched.local_rank;
  if (!n) return;
  if (i < 0) i = 0;
  if (of < 1) of = n; /* not told: one each */
  if (n == 1) return (void)(r->gpu = 0, r->ngpu = 1);
  if (n < of) return (void)(r->gpu = i % n, r->ngpu = 1);
  r->gpu = i * n / of, r->ngpu = (i + 1) * n / of - r->gpu;
  if (r->ngpu < 1) r->ngpu = 1, r->gpu = i % n;
}

static TsWorldRank this_one(void) {
  TsWorldRank r = {.pid = (int)getpid()};
  int ignored;
  const char *named = getenv("TESSERA_HOST");
  if (named)
    snprintf(r.host, sizeof r.host, "%s", named);
  else if (gethostname(r.host, sizeof r.host - 1))
    snprintf(r.host, sizeof r.host, "unknown");
  r.ncpu = count_of("cpu", &ignored);
  share_gpus(&r);
  return r;
}

static TsDevice *own_gpu(const TsWorldRank *r) {
  int first;
  return r->ngpu && count_of(r->kind, &first) ? ts_device_at(first + r->gpu) : NULL;
}

/* ---- who carries */
static int wait_to_open(void *arg, const TsBatch *b, const bool *waits, TsError *err) {
  return ts_watch_wait(arg, b, waits, err);
}

static void attend(TsTransport *t) { t->wait = wait_to_open, t->wait_arg = &world.watch; }

static int tell_by_mpi(void *arg, void *id, int nbytes, TsError *err) {
  TsTransport *t = arg;
  char *all = malloc((size_t)nbytes * (size_t)t->size);
  if (!all) return ts_error_memory(err);
  int bad = t->gather(t, NULL, id, all, nbytes, err);
  if (!bad) memcpy(id, all, (size_t)nbytes);
  free(all);
  return bad;
}

/* What all ranks say yes to. */
static int all_agree(bool own, bool *all, TsError *err) {
  char mine = own, *said = malloc((size_t)world.launched.size);
  if (!said) return ts_error_memory(err);
  int bad = world.mpi->gather(world.mpi, NULL, &mine, said, 1, err);
  *all = !bad;
  for (int r = 0; r < world.launched.size && *all; r++) *all = said[r];
  free(said);
  return bad;
}

static bool wants(const char *name) {
  const char *wish = getenv("TESSERA_TRANSPORT");
  return !wish || !*wish || !strcmp(wish, name);
}

/* Bytes of GPUs go by NCCL where every rank has one of its own, and it is there; else MPI carries
 * them through the hosts. */
static int open_nccl_beside(const TsWorldRank *own, TsError *err) {
  TsDevice *gpu = own_gpu(own);
  bool all = false;
  TsError why = {0};
  bool can = wants("nccl") && gpu && gpu->run && ts_transport_nccl_is_there(gpu, &why);
  if (all_agree(can, &all, err)) return -1;
  if (!all) return 0;
  world.nccl = ts_transport_nccl(gpu, world.launched.rank, world.launched.size, tell_by_mpi,
                                 world.mpi, &why);
  bool mine = world.nccl != NULL;
  if (all_agree(mine, &all, err)) return -1;
  if (all) return attend(world.nccl), 0;
  if (mine) world.nccl->free(world.nccl, false);
  world.nccl = NULL;
  return 0;
}

static int open_transports(const TsWorldRank *own, TsError *err) {
  const TsLaunched *l = &world.launched;
  const char *wish = getenv("TESSERA_TRANSPORT");
  if (wish && *wish && strcmp(wish, "mpi") && strcmp(wish, "nccl"))
    return ts_error_set(err, TS_ERR_argument, "TESSERA_TRANSPORT is mpi or nccl, not '%.40s'",
                        wish);
  if (l->mpi) {
    world.mpi = ts_transport_mpi(l->size, err);
    if (world.mpi) {
      world.launched.rank = world.mpi->rank; /* it is MPI that knows */
      attend(world.mpi);
      return open_nccl_beside(own, err);
    }
    if (l->kind != TS_LAUNCHER_slurm || !own->ngpu) return -1;
    ts_error_clear(err);
  }
  if (!own->ngpu) {
    ts_error_set(err, TS_ERR_device,
                 "%s has started %d processes, and none has a GPU: NCCL carries bytes of GPUs",
                 l->name, l->size);
    return ts_error_hint(err, "mpirun -n %d tessera .. connects processes without GPUs",
                         l->size);
  }
  world.nccl = ts_transport_nccl(own_gpu(own), l->rank, l->size, NULL, NULL, err);
  if (world.nccl) attend(world.nccl);
  return world.nccl ? 0 : -1;
}

static TsTransport *records(void) { return world.mpi ? world.mpi : world.nccl; }

/* ---- opening */
static void on_loss(void) {
  if (world.nccl && world.nccl->abort_waiting) world.nccl->abort_waiting(world.nccl);
}

typedef struct Hello {
  TsWorldRank rank;
  uint64_t job; /* that of rank 0 counts */
} Hello;

static int meet(Hello *own, TsError *err) {
  int n = world.launched.size;
  Hello *all = calloc((size_t)n, sizeof *all);
  world.ranks = calloc((size_t)n, sizeof *world.ranks);
  if (!all || !world.ranks) return free(all), ts_error_memory(err);
  if (getrandom(&own->job, sizeof own->job, 0) != sizeof own->job)
    own->job = (uint64_t)getpid();
  int bad = records()->gather(records(), NULL, own, all, sizeof *own, err);
  for (int r = 0; r < n && !bad; r++) world.ranks[r] = all[r].rank;
  if (!bad) own->job = all[0].job;
  free(all);
  return bad;
}

/* Where a launcher has given each process all processors of the host, they share them: threads of the
 * CPU are as many as there are, unless the program has said how many. Results do not depend on it. */
static void share_threads(void) {
  cpu_set_t set;
  int all = (int)sysconf(_SC_NPROCESSORS_ONLN), here = 0;
  for (int r = 0; r < world.launched.size; r++)
    here += !strcmp(world.ranks[r].host, world.ranks[world.launched.rank].host);
  bool bound = !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) < all;
  if (bound || here < 2 || ts_cpu_threads() != all) return;
  ts_cpu_set_threads(all / here > 1 ? all / here : 1);
}

/* Without a flight ranks are in step as well; who is missing is then said with less. */
static void open_flight(const Hello *own) {
  TsError why = {0};
  TsWatch *w = &world.watch;
  w->flight =
      ts_flight_open(own->job, world.launched.rank, world.launched.size, own->rank.host, &why);
  if (!w->flight) fprintf(stderr, "tessera: no flight recorder: %s\n", why.message);
  ts_watch_start(w, world.nccl ? on_loss : NULL);
}

static void begin_watch(const char *what) {
  TsWatch *w = &world.watch;
  memset(&w->what, 0, sizeof w->what);
  snprintf(w->what.what, sizeof w->what.what, "%s", what);
  w->since = ts_clock_nsec(), w->looked = w->told = w->said = 0;
}

static int open_world(TsError *err) {
  Hello own = {.rank = this_one()};
  const char *patience = getenv("TESSERA_PATIENCE");
  static TsWorldRank unknown[1 << 10];
  TsWatch *w = &world.watch;
  w->patience = patience && atof(patience) > 0 ? atof(patience) : 600;
  w->size = world.launched.size < 1 << 10 ? world.launched.size : 1 << 10;
  w->rank = world.launched.rank, w->ranks = unknown; /* nobody has told his name yet */
  if (w->rank < w->size) unknown[w->rank] = own.rank;
  begin_watch("the start of the job");
  if (open_transports(&own.rank, err) || meet(&own, err)) return -1;
  w->rank = world.launched.rank, w->size = world.launched.size, w->ranks = world.ranks;
  share_threads();
  open_flight(&own);
  w->talk = world.mpi;
  world.open = true;
  return 0;
}

int ts_world_open(TsError *err) {
  if (!world.tried) {
    world.tried = true;
    world.launched = ts_launched();
    if (world.launched.size > 1 && open_world(&world.why)) {
      if (!world.why.code) ts_error_set(&world.why, TS_ERR_device, "the job cannot be joined");
    }
  }
  if (world.open || world.launched.size < 2) return 0;
  *err = world.why;
  return -1;
}

/* ---- exchanges */
static int64_t own_bytes(int n, const TsTransfer *list) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++) {
    bool own = list[i].from == world.launched.rank || list[i].to == world.launched.rank;
    if (own && list[i].from != list[i].to) sum += list[i].nbytes;
  }
  return sum;
}

/* Of what it is for, and of who sends how much to whom. */
static uint64_t digest(const TsWorldWhat *w, int n, const TsTransfer *list) {
  uint64_t d = ts_digest64(w->what, strlen(w->what));
  for (int i = 0; i < n; i++) {
    int64_t row[4] = {(int64_t)d, list[i].from, list[i].to, list[i].nbytes};
    d = ts_digest64(row, sizeof row);
  }
  return d;
}

static void begin(const TsWorldWhat *what, TsBatch *b) {
  TsFlight *f = world.watch.flight;
  begin_watch(what->what);
  world.watch.what = *what;
  if (!b->round) world.number++;
  b->number = world.number;
  b->digest = digest(what, b->n, b->transfer);
  if (!f) return;
  int64_t bytes = own_bytes(b->n, b->transfer);
  if (b->round) return ts_flight_round(f, b->number, b->digest, bytes);
  TsFlightRecord r = {.number = b->number, .digest = {b->digest}, .bytes = bytes};
  memcpy(r.what, what->what, sizeof r.what);
  memcpy(r.place, what->place, sizeof r.place);
  ts_flight_begin(f, &r);
}

static int end(const TsBatch *b, int failed, const TsError *err) {
  if (!failed) return 0;
  world.failed = true;
  if (world.watch.flight) ts_flight_end(world.watch.flight, b->number, true, err->message);
  ts_watch_give_up(&world.watch, b);
  return -1;
}

void ts_world_done(void) {
  if (world.watch.flight) ts_flight_end(world.watch.flight, world.number, false, NULL);
}

/* What lies where the transport does not reach goes by memory of its own. */
typedef struct Stage {
  TsTransport *by;
  TsTransfer *list;
  int n;
  const TsTransfer *given;
} Stage;

static bool reaches(const TsTransport *t, const TsTransfer *x) {
  const TsDevice *d = ts_device_at(x->device);
  return t->device ? d == t->device : d->host_memory;
}

static bool is_own(const TsTransport *t, const TsTransfer *x) {
  return x->from != x->to && (x->from == t->rank || x->to == t->rank) && x->nbytes > 0;
}

static void *stage_alloc(const TsTransport *t, int64_t nbytes, TsError *err) {
  if (t->device) return t->device->alloc(t->device, nbytes, err);
  void *at = malloc((size_t)nbytes);
  if (!at) ts_error_memory(err);
  return at;
}

static void stage_free(Stage *s) {
  for (int i = 0; i < s->n && s->list; i++) {
    if (s->list[i].at == s->given[i].at || !s->list[i].at) continue;
    TsDevice *d = s->by->device;
    if (d)
      d->free(d, s->list[i].at, s->list[i].nbytes);
    else
      free(s->list[i].at);
  }
  free(s->list);
}

static int stage_copy(const TsTransport *t, const TsTransfer *x, void *stage, bool back,
                      TsError *err) {
  TsDevice *d = ts_device_at(x->device), *own = t->device;
  if (!own)
    return back ? d->upload(d, x->at, stage, x->nbytes, err)
                : d->download(d, stage, x->at, x->nbytes, err);
  if (d->host_memory)
    return back ? own->download(own, x->at, stage, x->nbytes, err)
                : own->upload(own, stage, x->at, x->nbytes, err);
  return back ? d->copy(d, x->at, own, stage, x->nbytes, err)
              : own->copy(own, stage, d, x->at, x->nbytes, err);
}

static int stage_begin(Stage *s, TsError *err) {
  s->list = malloc(sizeof *s->list * (size_t)(s->n + 1));
  if (!s->list) return ts_error_memory(err);
  memcpy(s->list, s->given, sizeof *s->list * (size_t)s->n);
  for (int i = 0; i < s->n; i++) {
    TsTransfer *x = &s->list[i];
    if (!is_own(s->by, x) || reaches(s->by, x)) continue;
    void *at = stage_alloc(s->by, x->nbytes, err);
    if (!at) {
      s->n = i;
      return -1;
    }
    x->at = at;
    if (x->from == s->by->rank && stage_copy(s->by, &s->given[i], at, false, err)) {
      s->n = i + 1;
      return -1;
    }
  }
  return 0;
}

static int stage_end(Stage *s, TsError *err) {
  for (int i = 0; i < s->n; i++)
    if (s->list[i].at != s->given[i].at && s->given[i].to == s->by->rank &&
        stage_copy(s->by, &s->given[i], s->list[i].at, true, err))
      return -1;
  return 0;
}

/* Ranks of this host that are in the batch have come to it before a GPU is made to wait for them. */
static int rendezvous(const TsBatch *b, TsError *err) {
  TsWatch *w = &world.watch;
  bool *waits = w->flight ? calloc((size_t)w->size, sizeof *waits) : NULL;
  int failed = 0;
  if (!waits) return 0;
  for (bool all = false; !all && !failed;) {
    all = true;
    for (int i = 0; i < b->n; i++) {
      const TsTransfer *x = &b->transfer[i];
      int other = x->from == w->rank ? x->to : x->to == w->rank ? x->from : w->rank;
      if (other == w->rank || strcmp(w->ranks[other].host, w->ranks[w->rank].host)) continue;
      waits[other] = !ts_flight_reached(w->flight, other, b->number, b->round);
      all &= !waits[other];
    }
    if (!all) {
      failed = ts_watch_wait(w, b, waits, err);
      usleep(20);
    }
  }
  free(waits);
  return failed ? -1 : ts_watch_check(w, b, err);
}

int ts_world_exchange(const TsWorldWhat *w, int round, int n, const TsTransfer *list, bool gpu,
                      TsError *err) {
  TsTransport *t = gpu && world.nccl ? world.nccl : records();
  Stage s = {.by = t, .n = n, .given = list};
  TsBatch b = {.round = round, .n = n, .transfer = list};
  begin(w, &b);
  int failed = stage_begin(&s, err);
  b.transfer = s.list;
  if (!failed && t->device) failed = rendezvous(&b, err);
  if (!failed) failed = t->exchange(t, &b, err);
  if (!failed && !t->device) failed = ts_watch_check(&world.watch, &b, err);
  if (!failed) failed = stage_end(&s, err);
  stage_free(&s);
  b.transfer = list;
  return end(&b, failed, err);
}

int ts_world_gather(const TsWorldWhat *w, const void *own, void *all, int nbytes,
                    TsError *err) {
  TsBatch b = {0};
  begin(w, &b);
  int failed = end(&b, records()->gather(records(), &b, own, all, nbytes, err), err);
  if (!failed) ts_world_done();
  return failed;
}

/* ---- the end */
/* MPI waits for all at its end. */
static bool somebody_is_lost(void) {
  const TsWatch *w = &world.watch;
  for (int r = 0; w->flight && r < w->size; r++) {
    TsFlightLife l = r == w->rank ? TS_FLIGHT_alive : ts_flight_life(w->flight, r);
    if (l == TS_FLIGHT_dead || l == TS_FLIGHT_stopped) return true;
  }
  return false;
}

/* A launcher ends the others as soon as one has failed; they should have time to say so themselves. */
static void wait_for_others(void) {
  const TsWatch *w = &world.watch;
  for (int round = 0; w->flight && round < 200; round++) {
    bool any = false;
    for (int r = 0; r < w->size && !any; r++) {
      TsFlightLife l = r == w->rank ? TS_FLIGHT_over : ts_flight_life(w->flight, r);
      any = l == TS_FLIGHT_alive || l == TS_FLIGHT_silent;
    }
    if (!any) return;
    usleep(10000);
  }
}

/* MPI's end waits for all, and some never come to it: where somebody of this host has ended otherwise
 * nobody goes there. */
static bool all_end_well(void) {
  const TsWatch *w = &world.watch;
  if (!w->flight) return true;
  ts_flight_ending(w->flight);
  for (bool wait = true; wait;) {
    wait = false;
    for (int r = 0; r < w->size; r++) {
      TsFlightLife l = r == w->rank ? TS_FLIGHT_ending : ts_flight_life(w->flight, r);
      if (l == TS_FLIGHT_over || l == TS_FLIGHT_dead || l == TS_FLIGHT_stopped) return false;
      wait |= l == TS_FLIGHT_alive || l == TS_FLIGHT_silent;
    }
    if (wait && ts_cpu_interrupted()) return false;
    if (wait) usleep(2000);
  }
  return true;
}

void ts_world_close(bool good, const char *words) {
  if (!world.open) return;
  world.open = false;
  good = good && !(world.failed && somebody_is_lost());
  if (good && world.mpi) good = all_end_well();
  ts_watch_stop();
  if (!good && world.watch.flight) ts_flight_over(world.watch.flight, words);
  if (!good) wait_for_others();
  if (world.nccl) world.nccl->free(world.nccl, good);
  if (world.mpi) world.mpi->free(world.mpi, good);
  ts_flight_close(world.watch.flight, !good);
  world.watch.flight = NULL;
  world.mpi = world.nccl = world.watch.talk = NULL;
  free(world.ranks);
  world.ranks = NULL;
}
