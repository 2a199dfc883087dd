/* See net/watch.h. Of ranks on other hosts there is no flight to look into: those that wait tell each
 * other where they stand; who is late is named; and launchers end a job whose process dies. */
#include "net/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "devices/cpu_pool.h"
#include "lib/clock.h"
#include "lib/thread.h"

enum { LOOK_NS = 20000000, BEAT_NS = 250000000, SAY_NS = 500000000 };
static const int64_t TELL_NS = 3000000000; /* then it is said for whom is waited, */
static const int64_t LOST_NS = 4000000000; /* then a rank that stands still is given up, */
static const int64_t SENT_NS = 2000000000; /* and what one that is over has sent */

const char *ts_watch_name(const TsWatch *w, int rank, char text[100]) {
  snprintf(text, 100, "rank %d (%.63s)", rank, w->ranks[rank].host);
  return text;
}

static bool is_here(const TsWatch *w, int rank) {
  return w->flight && !strcmp(w->ranks[rank].host, w->ranks[w->rank].host);
}

/* "all_gather of reshard: f32[8@dp] -> f32[8] (a.lua:3)" */
static void say_record(const TsFlightRecord *r, char text[260]) {
  snprintf(text, 260, "%.163s%s%.71s%s", r->what, r->place[0] ? " (" : "", r->place,
           r->place[0] ? ")" : "");
}

static int mismatch(const TsWatch *w, int rank, const TsFlightRecord *theirs, TsError *err) {
  char a[100], b[100], mine[260], other[260];
  TsFlightRecord own = {0};
  snprintf(own.what, sizeof own.what, "%s", w->what.what);
  snprintf(own.place, sizeof own.place, "%s", w->what.place);
  say_record(&own, mine);
  say_record(theirs, other);
  ts_error_set(err, TS_ERR_layout, "%s is at %s, %s at %s", ts_watch_name(w, w->rank, a), mine,
               ts_watch_name(w, rank, b), other);
  return ts_error_hint(err,
                       "as collective %llu: all ranks come to the same ones in the same order",
                       (unsigned long long)theirs->number);
}

/* Where a rank was last. */
static void say_last(const TsWatch *w, int rank, char text[320]) {
  TsFlightRecord r;
  char last[260];
  uint64_t n = ts_flight_begun(w->flight, rank);
  text[0] = 0;
  if (!n || !ts_flight_record(w->flight, rank, n, &r)) return;
  say_record(&r, last);
  snprintf(text, 320, "; its last collective was %llu, %s", (unsigned long long)n, last);
}

static int lost(const TsWatch *w, int rank, const char *how, TsError *err) {
  char name[100], last[320], words[200];
  say_last(w, rank, last);
  ts_flight_words(w->flight, rank, ts_flight_begun(w->flight, rank), words, sizeof words);
  ts_error_set(err, TS_ERR_device, "%s: %s %s%s%s%s", w->what.what,
               ts_watch_name(w, rank, name), how, words[0] ? ": " : "", words, last);
  return ts_error_hint(err, "tessera --flight %s says what ranks did",
                       ts_flight_path(w->flight));
}

/* It has come to the same exchange of the same collective, and means another one. */
static bool differs(const TsBatch *b, const TsFlightRecord *r) {
  return b->round < TS_FLIGHT_ROUNDS && b->round < (int)r->rounds &&
         r->digest[b->round] != b->digest;
}

static int given_up(const TsWatch *w, int rank, uint64_t number, TsError *err) {
  char name[100], words[300];
  ts_flight_words(w->flight, rank, number, words, sizeof words);
  return ts_error_set(err, TS_ERR_device, "%s: %s gave it up%s%s", w->what.what,
                      ts_watch_name(w, rank, name), words[0] ? ": " : "", words);
}

/* 0: it may still come. What a rank has sent may be on its way when it is over. */
static int look_at(const TsWatch *w, const TsBatch *b, int rank, int64_t waited, TsError *err) {
  TsFlightRecord r;
  bool sent = false;
  if (!is_here(w, rank)) return 0;
  if (b && ts_flight_record(w->flight, rank, b->number, &r)) {
    if (differs(b, &r)) return mismatch(w, rank, &r, err);
    if (r.state == TS_FLIGHT_failed) return given_up(w, rank, r.number, err);
    bool over = r.state == TS_FLIGHT_done || (int)r.rounds > b->round + 1;
    /* It may be over just now: all have waited for another one before. */
    int64_t since = r.state == TS_FLIGHT_done ? ts_flight_ago(&r) : waited;
    sent = over && (waited < SENT_NS || since < SENT_NS);
  }
  switch (ts_flight_life(w->flight, rank)) {
  case TS_FLIGHT_dead: return sent ? 0 : lost(w, rank, "is dead", err);
  case TS_FLIGHT_ending:
  case TS_FLIGHT_over: return sent ? 0 : lost(w, rank, "has ended", err);
  case TS_FLIGHT_stopped:
    return waited > LOST_NS ? lost(w, rank, "was stopped by a signal", err) : 0;
  case TS_FLIGHT_silent:
    return waited > LOST_NS ? lost(w, rank, "gives no sign of life", err) : 0;
  default: return 0;
  }
}

/* ---- ranks of other hosts: who waits says where he stands, and hears the same */
static void say_to(const TsWatch *w, int rank, uint64_t number) {
  TsFlightRecord own;
  TsError ignored = {0};
  if (ts_flight_record(w->flight, w->rank, number, &own))
    w->talk->say(w->talk, rank, &own, sizeof own, &ignored);
}

static bool can_talk(const TsWatch *w) { return w->talk && w->talk->say && w->flight; }

/* What a rank says: of this collective, or of one that is over here, in which it still waits: it hears
 * what that was here, and goes on from there. */
static int take_word(const TsWatch *w, const TsBatch *b, int rank, const TsFlightRecord *r,
                     TsError *err) {
  TsFlightRecord own;
  if (r->number == b->number) {
    if (differs(b, r)) return mismatch(w, rank, r, err);
    if (r->state == TS_FLIGHT_failed) {
      char name[100];
      return ts_error_set(err, TS_ERR_device, "%s: %s gave it up", w->what.what,
                          ts_watch_name(w, rank, name));
    }
  } else if (r->number < b->number && r->state == TS_FLIGHT_begun &&
             ts_flight_record(w->flight, w->rank, r->number, &own) &&
             (own.digest[0] != r->digest[0] || own.state == TS_FLIGHT_failed)) {
    say_to(w, rank, r->number);
  }
  return 0;
}

static int talk(TsWatch *w, const TsBatch *b, const bool *waits, int64_t now, TsError *err) {
  TsFlightRecord r;
  bool says = now - w->since > SAY_NS && now - w->said > SAY_NS;
  for (int rank = 0; rank < w->size; rank++) {
    bool got = false;
    if (rank == w->rank || is_here(w, rank)) continue;
    if (says && (!waits || waits[rank])) say_to(w, rank, b->number);
    do {
      if (w->talk->hear(w->talk, rank, &r, sizeof r, &got, err)) return -1;
      r.what[sizeof r.what - 1] = r.place[sizeof r.place - 1] = 0;
      if (got && take_word(w, b, rank, &r, err)) return -1;
    } while (got);
  }
  if (says) w->said = now;
  return 0;
}

void ts_watch_give_up(TsWatch *w, const TsBatch *b) {
  for (int rank = 0; rank < w->size && can_talk(w); rank++) {
    bool in_it = false;
    for (int i = 0; i < b->n; i++)
      in_it |= (b->transfer[i].from == w->rank && b->transfer[i].to == rank) ||
               (b->transfer[i].to == w->rank && b->transfer[i].from == rank);
    if (in_it && rank != w->rank && !is_here(w, rank)) say_to(w, rank, b->number);
  }
}

/* "rank 1 (a), rank 3 (b) .." */
static void say_missing(const TsWatch *w, const bool *waits, char *text, int size) {
  int n = 0, shown = 0;
  char name[100];
  for (int r = 0; r < w->size && n < size; r++) {
    if (r == w->rank || (waits && !waits[r])) continue;
    if (shown == 4) n += snprintf(text + n, (size_t)(size - n), " ..");
    if (shown++ < 4)
      n += snprintf(text + n, (size_t)(size - n), "%s%s", n ? ", " : "",
                    ts_watch_name(w, r, name));
  }
  if (!n) snprintf(text, (size_t)size, "others");
}

static int64_t waited_for(const TsWatch *w) { return ts_clock_nsec() - w->since; }

static void tell(TsWatch *w, const bool *waits) {
  char missing[440], name[100], last[320] = "";
  say_missing(w, waits, missing, sizeof missing);
  for (int r = 0; r < w->size && !last[0]; r++)
    if (r != w->rank && (!waits || waits[r]) && is_here(w, r)) say_last(w, r, last);
  fprintf(stderr, "tessera: %s waits since %d s for %s at %s%s%s%s%s\n",
          ts_watch_name(w, w->rank, name), (int)(waited_for(w) / 1000000000), missing,
          w->what.what, w->what.place[0] ? " (" : "", w->what.place,
          w->what.place[0] ? ")" : "", last);
  fflush(stderr);
}

int ts_watch_wait(void *arg, const TsBatch *b, const bool *waits, TsError *err) {
  TsWatch *w = arg;
  char missing[440];
  int64_t now = ts_clock_nsec();
  if (ts_cpu_interrupted()) {
    say_missing(w, waits, missing, sizeof missing);
    return ts_error_set(err, TS_ERR_interrupt, "%s: interrupted while waiting for %s",
                        w->what.what, missing);
  }
  if (now - w->looked < LOOK_NS) return 0;
  w->looked = now;
  int64_t waited = waited_for(w);
  for (int r = 0; r < w->size; r++)
    if (r != w->rank && (!waits || waits[r]) && look_at(w, b, r, waited, err)) return -1;
  if (b && b->number && can_talk(w) && talk(w, b, waits, now, err)) return -1;
  if (waited > TELL_NS && (!w->told || (double)(now - w->told) > 6e10)) {
    tell(w, waits);
    w->told = now;
  }
  if ((double)waited < w->patience * 1e9) return 0;
  say_missing(w, waits, missing, sizeof missing);
  ts_error_set(err, TS_ERR_device, "%s: waited %.0f s for %s", w->what.what, w->patience,
               missing);
  return ts_error_hint(err, "dist.patience(seconds) sets for how long");
}

int ts_watch_check(TsWatch *w, const TsBatch *b, TsError *err) {
  TsFlightRecord r;
  for (int i = 0; i < b->n; i++) {
    const TsTransfer *x = &b->transfer[i];
    int other = x->from == w->rank ? x->to : x->to == w->rank ? x->from : w->rank;
    if (other == w->rank || !is_here(w, other)) continue;
    if (!ts_flight_record(w->flight, other, b->number, &r)) continue;
    if (differs(b, &r)) return mismatch(w, other, &r, err);
    if (r.state == TS_FLIGHT_failed) return given_up(w, other, r.number, err);
  }
  return 0;
}

/* ---- the thread */
static struct {
  TsWatch *watch;
  void (*lost)(void);
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool runs, stop;
} beat = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static bool somebody_is_dead(const TsWatch *w) {
  for (int r = 0; r < w->size; r++)
    if (r != w->rank && is_here(w, r) && ts_flight_life(w->flight, r) == TS_FLIGHT_dead)
      return true;
  return false;
}

static void *run(void *arg) {
  (void)arg;
  bool told = false;
  pthread_mutex_lock(&beat.lock);
  while (!beat.stop) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += BEAT_NS;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&beat.wake, &beat.lock, &until);
    if (beat.stop) break;
    ts_flight_beat(beat.watch->flight);
    if (!told && beat.lost && somebody_is_dead(beat.watch)) told = true, beat.lost();
  }
  pthread_mutex_unlock(&beat.lock);
  return NULL;
}

bool ts_watch_start(TsWatch *w, void (*on_loss)(void)) {
  beat.watch = w, beat.lost = on_loss, beat.stop = false;
  return beat.runs = w->flight && ts_thread_start(&beat.thread, 0, run, NULL);
}

void ts_watch_stop(void) {
  if (!beat.runs) return;
  pthread_mutex_lock(&beat.lock);
  beat.stop = true;
  pthread_cond_signal(&beat.wake);
  pthread_mutex_unlock(&beat.lock);
  pthread_join(beat.thread, NULL);
  beat.runs = false;
}
