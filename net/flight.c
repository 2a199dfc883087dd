/* See net/flight.h. Numbers are written and read with acquire and release, so a record that is
 * there is whole; one that is being written while the rank dies is cut off, and said to be. */
#include "net/flight.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/file.h"

#define MAGIC "tessera flight 1"

typedef struct Head {
  char magic[16];
  int32_t size, slot; /* ranks, bytes of a slot */
  uint64_t job;
  atomic_int here, gone,
      keep; /* ranks of this host that came, that went; somebody wants it read */
} Head;

enum { HERE, OVER, ENDING, WELL };

typedef struct Slot {
  atomic_int pid;
  int32_t rank;
  atomic_int over; /* HERE, .. */
  _Atomic int64_t heartbeat,
      seen; /* the same by the clock that only goes forward, and the world's */
  _Atomic uint64_t begun;
  uint64_t born; /* of the process, so that its number is not taken for another one's */
  char host[64];
  char words[400];
  uint64_t words_of; /* the collective of which they are; 0: of the end */
  TsFlightRecord ring[TS_FLIGHT_KEPT];
} Slot;

struct TsFlight {
  char path[300];
  Head *head;
  size_t nbytes;
  int rank;
};

enum { HEAD = 4096, SILENT_NS = 4000000000 };

static size_t slot_nbytes(void) { return (sizeof(Slot) + 4095) / 4096 * 4096; }

static Slot *slot_of(const Head *h, int rank) {
  return (Slot *)(void *)((char *)(uintptr_t)h + HEAD + (size_t)h->slot * (size_t)rank);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The state of a process, and when it was born; 0: there is none of this number. */
static char process(int pid, uint64_t *born) {
  char name[40], text[1024], state = 0;
  snprintf(name, sizeof name, "/proc/%d/stat", pid);
  FILE *f = fopen(name, "re");
  *born = 0;
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  char *s = strrchr(text, ')'); /* behind the name, which may have spaces */
  unsigned long long ticks = 0;
  if (s && sscanf(s + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                  "%*d %llu",
                  &state, &ticks) == 2)
    *born = ticks;
  return state;
}

/* ---- life */
static const char *folder(void) {
  const char *named = getenv("TESSERA_FLIGHT"), *tmp = getenv("TMPDIR");
  return named && *named ? named : tmp && *tmp ? tmp : "/tmp";
}

/* Files of jobs that ended badly a week ago nobody reads any more. */
static void remove_old(const char *where) {
  DIR *d = opendir(where);
  for (struct dirent *e; d && (e = readdir(d));) {
    struct stat st;
    size_t n = strlen(e->d_name);
    bool ours =
        n == 31 && !strncmp(e->d_name, "tessera-", 8) && !strcmp(e->d_name + 24, ".flight");
    if (!ours || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue;
    if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && time(NULL) - st.st_mtime > 7 * 86400)
      unlinkat(dirfd(d), e->d_name, 0);
  }
  if (d) closedir(d);
}

static int failed(const char *path, TsError *err) {
  return ts_error_set(err, TS_ERR_io, "%.200s: %s", path, strerror(errno));
}

static int map(TsFlight *f, int size, TsError *err) {
  f->nbytes = HEAD + slot_nbytes() * (size_t)size;
  int fd = open(f->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return failed(f->path, err);
  const char *foreign = ts_file_foreign(fd, false);
  if (foreign) {
    close(fd);
    return ts_error_set(err, TS_ERR_io, "%.200s %s", f->path, foreign);
  }
  void *at = ftruncate(fd, (off_t)f->nbytes)
                 ? MAP_FAILED
                 : mmap(NULL, f->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return failed(f->path, err);
  f->head = at;
  return 0;
}

TsFlight *ts_flight_open(uint64_t job, int rank, int size, const char *host, TsError *err) {
  TsFlight *f = calloc(1, sizeof *f);
  if (!f) return ts_error_memory(err), NULL;
  f->rank = rank;
  snprintf(f->path, sizeof f->path, "%.200s/tessera-%016llx.flight", folder(),
           (unsigned long long)job);
  if (rank == 0) remove_old(folder());
  if (map(f, size, err)) {
    free(f);
    return NULL;
  }
  Head *h = f->head; /* all ranks write the same */
  h->size = size, h->slot = (int32_t)slot_nbytes(), h->job = job;
  memcpy(h->magic, MAGIC, sizeof h->magic);
  Slot *s = slot_of(h, rank);
  s->rank = rank;
  snprintf(s->host, sizeof s->host, "%s", host);
  (void)process((int)getpid(), &s->born);
  ts_flight_beat(f);
  atomic_store(&s->pid, (int)getpid());
  atomic_fetch_add(&h->here, 1);
  return f;
}

const char *ts_flight_path(const TsFlight *f) { return f->path; }

void ts_flight_over(TsFlight *f, const char *words) {
  Slot *s = slot_of(f->head, f->rank);
  if (words && *words) snprintf(s->words, sizeof s->words, "%s", words), s->words_of = 0;
  atomic_store(&s->over, OVER);
}

void ts_flight_ending(TsFlight *f) { atomic_store(&slot_of(f->head, f->rank)->over, ENDING); }

void ts_flight_close(TsFlight *f, bool keep) {
  if (!f) return;
  Head *h = f->head;
  if (keep) atomic_store(&h->keep, 1);
  atomic_int *over = &slot_of(h, f->rank)->over;
  atomic_store(over, atomic_load(over) == ENDING && !keep ? WELL : OVER);
  int gone = atomic_fetch_add(&h->gone, 1) + 1;
  if (gone == atomic_load(&h->here) && !atomic_load(&h->keep)) unlink(f->path);
  munmap(h, f->nbytes);
  free(f);
}

void ts_flight_beat(TsFlight *f) {
  Slot *s = slot_of(f->head, f->rank);
  atomic_store(&s->heartbeat, ts_clock_nsec());
  atomic_store(&s->seen, now_ns());
}

/* ---- the own collectives */
void ts_flight_begin(TsFlight *f, const TsFlightRecord *r) {
  Slot *s = slot_of(f->head, f->rank);
  TsFlightRecord *own = &s->ring[r->number % TS_FLIGHT_KEPT];
  *own = *r;
  own->began = now_ns(), own->ended = 0, own->state = TS_FLIGHT_begun, own->rounds = 1;
  atomic_store_explicit(&s->begun, r->number, memory_order_release);
}

void ts_flight_round(TsFlight *f, uint64_t number, uint64_t digest, int64_t bytes) {
  TsFlightRecord *own = &slot_of(f->head, f->rank)->ring[number % TS_FLIGHT_KEPT];
  if (own->rounds < TS_FLIGHT_ROUNDS) own->digest[own->rounds] = digest;
  own->bytes += bytes;
  __atomic_store_n(&own->rounds, own->rounds + 1, __ATOMIC_RELEASE);
}

void ts_flight_end(TsFlight *f, uint64_t number, bool bad, const char *words) {
  Slot *s = slot_of(f->head, f->rank);
  TsFlightRecord *own = &s->ring[number % TS_FLIGHT_KEPT];
  own->ended = now_ns();
  if (bad) snprintf(s->words, sizeof s->words, "%s", words ? words : ""), s->words_of = number;
  __atomic_store_n(&own->state, bad ? TS_FLIGHT_failed : TS_FLIGHT_done, __ATOMIC_RELEASE);
}

/* ---- those of others */
static TsFlightLife life(const Slot *s) {
  int pid = atomic_load(&s->pid);
  uint64_t born;
  if (!pid) return TS_FLIGHT_unknown;
  int over = atomic_load(&s->over);
  if (over == OVER) return TS_FLIGHT_over;
  if (over == WELL) return TS_FLIGHT_ending;
  char state = process(pid, &born);
  if (!state || state == 'Z' || state == 'X' || (s->born && born != s->born))
    return TS_FLIGHT_dead;
  if (state == 'T' || state == 't') return TS_FLIGHT_stopped;
  if (over == ENDING) return TS_FLIGHT_ending;
  return ts_clock_nsec() - atomic_load(&s->heartbeat) > SILENT_NS ? TS_FLIGHT_silent
                                                                  : TS_FLIGHT_alive;
}

TsFlightLife ts_flight_life(const TsFlight *f, int rank) {
  return life(slot_of(f->head, rank));
}

static bool record(const Slot *s, uint64_t number, TsFlightRecord *out) {
  uint64_t begun = atomic_load_explicit(&s->begun, memory_order_acquire);
  if (!number || number > begun || begun - number >= TS_FLIGHT_KEPT - 1) return false;
  const TsFlightRecord *r = &s->ring[number % TS_FLIGHT_KEPT];
  uint32_t state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
  uint32_t rounds = __atomic_load_n(&r->rounds, __ATOMIC_ACQUIRE);
  *out = *r;
  out->state = state, out->rounds = rounds;
  out->what[sizeof out->what - 1] = out->place[sizeof out->place - 1] = 0;
  return out->number == number;
}

int64_t ts_flight_ago(const TsFlightRecord *r) { return now_ns() - r->ended; }

bool ts_flight_record(const TsFlight *f, int rank, uint64_t number, TsFlightRecord *out) {
  return record(slot_of(f->head, rank), number, out);
}

uint64_t ts_flight_begun(const TsFlight *f, int rank) {
  return atomic_load_explicit(&slot_of(f->head, rank)->begun, memory_order_acquire);
}

bool ts_flight_reached(const TsFlight *f, int rank, uint64_t number, int round) {
  TsFlightRecord r;
  uint64_t begun = ts_flight_begun(f, rank);
  return begun > number || (ts_flight_record(f, rank, number, &r) && (int)r.rounds > round);
}

void ts_flight_words(const TsFlight *f, int rank, uint64_t number, char *text, int size) {
  const Slot *s = slot_of(f->head, rank);
  bool fits = !s->words_of || s->words_of == number;
  snprintf(text, (size_t)size, "%.*s", size - 1, fits ? s->words : "");
}

int ts_flight_pid(const TsFlight *f, int rank) {
  return atomic_load(&slot_of(f->head, rank)->pid);
}

/* ---- for people */
static void time_text(int64_t ns, char text[40]) {
  time_t sec = (time_t)(ns / 1000000000);
  struct tm at;
  localtime_r(&sec, &at);
  size_t n = strftime(text, 32, "%H:%M:%S", &at);
  snprintf(text + n, 40 - n, ".%03d", (int)(ns / 1000000 % 1000));
}

static void say_rank(const Slot *s, int rank, TsText *t) {
  static const char *const lives[] = {"not on this host", "alive", "stopped by a signal",
                                      "silent",           "ended", "dead",
                                      "at its end"};
  static const char *const states[] = {"?", "not done", "done", "failed"};
  TsFlightLife l = life(s);
  char at[40], word[512];
  if (l == TS_FLIGHT_unknown) return;
  uint64_t last = atomic_load(&s->begun);
  time_text(atomic_load(&s->seen), at);
  ts_text_format(t, "rank %d  %.63s  process %d  %s, last sign of life %s", rank, s->host,
                 atomic_load(&s->pid), lives[l], at);
  if (s->words[0])
    ts_text_format(t, "\n  last words: %s", ts_text_shown(s->words, word, sizeof word));
  ts_text_char(t, '\n');
  uint64_t first = last >= TS_FLIGHT_KEPT - 1 ? last - (TS_FLIGHT_KEPT - 2) : 1;
  for (uint64_t i = first; i <= last; i++) {
    TsFlightRecord r;
    char what[256], place[128];
    if (!record(s, i, &r)) continue;
    time_text(r.began, at);
    ts_text_format(t, "  %6llu  %s  ", (unsigned long long)i, at);
    if (r.ended && r.state != TS_FLIGHT_begun)
      ts_text_format(t, "%9.3f ms", (double)(r.ended - r.began) * 1e-6);
    else
      ts_text_format(t, "%9s   ", "-");
    ts_text_format(t, "  %-8s  %10lld bytes  %s  %s\n", states[r.state < 4 ? r.state : 0],
                   (long long)r.bytes, ts_text_shown(r.what, what, sizeof what),
                   ts_text_shown(r.place, place, sizeof place));
  }
}

/* The first collective at which ranks of this host differ, and who is behind. */
static void say_differences(const Head *h, TsText *t) {
  uint64_t most = 0;
  for (int r = 0; r < h->size; r++) {
    uint64_t n = atomic_load(&slot_of(h, r)->begun);
    if (atomic_load(&slot_of(h, r)->pid) && n > most) most = n;
  }
  for (int r = 0; r < h->size; r++) {
    const Slot *s = slot_of(h, r);
    uint64_t n = atomic_load(&s->begun);
    if (atomic_load(&s->pid) && n < most)
      ts_text_format(t, "rank %d has come to collective %llu, others to %llu\n", r,
                     (unsigned long long)n, (unsigned long long)most);
  }
  for (uint64_t i = most >= TS_FLIGHT_KEPT ? most - TS_FLIGHT_KEPT + 1 : 1; i <= most; i++) {
    TsFlightRecord a = {0}, b;
    int first = -1;
    for (int r = 0; r < h->size; r++) {
      if (!record(slot_of(h, r), i, &b)) continue;
      if (first >= 0 && a.digest[0] != b.digest[0]) {
        ts_text_format(t, "collective %llu is not the same: rank %d %s (%s), rank %d %s (%s)\n",
                       (unsigned long long)i, first, a.what, a.place, r, b.what, b.place);
        return;
      }
      if (first < 0) first = r, a = b;
    }
  }
}

int ts_flight_text(const char *path, TsText *t, TsError *err) {
  struct stat st;
  size_t size;
  const char *why;
  int fd = ts_file_open(path, &size, &why);
  if (fd < 0 && why) return ts_error_set(err, TS_ERR_io, "%.200s: %s", path, why);
  if (fd < 0 || fstat(fd, &st)) {
    if (fd >= 0) close(fd);
    return failed(path, err);
  }
  Head *h = st.st_size >= HEAD ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0)
                               : MAP_FAILED;
  close(fd);
  bool good = h != MAP_FAILED && !memcmp(h->magic, MAGIC, sizeof h->magic) && h->size > 0 &&
              h->slot == (int32_t)slot_nbytes() &&
              (int64_t)h->slot * h->size + HEAD <= (int64_t)st.st_size;
  if (good) {
    ts_text_format(t, "job %016llx, %d ranks\n", (unsigned long long)h->job, h->size);
    for (int r = 0; r < h->size; r++) say_rank(slot_of(h, r), r, t);
    say_differences(h, t);
  }
  if (h != MAP_FAILED) munmap(h, (size_t)st.st_size);
  return good ? 0
              : ts_error_set(err, TS_ERR_format, "%.200s is no flight of this version", path);
}
