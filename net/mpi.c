/* MPI: nonblocking sends and receives of a batch, then tests until all are done. Its libraries are
 * opened with dlopen: the standard interface of MPI 5 first, then those of Open MPI and of MPICH
 * (which Intel's and others share). A library is asked for its name before it is initialised:
 * one that the launcher does not know would see one process.
 *
 * A message carries the digest of its collective as the tag. Ranks that come to different ones
 * wait for each other, and whoever waits asks who is missing (TsTransport.wait), so that nothing is
 * paid for that but where something is wrong. */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/clock.h"
#include "net/launch.h"
#include "net/mpi_api.h"
#include "net/transport.h"

static const TsMpiTable tables[] = {
    {.file = {"libmpi_abi.so.1", "libmpi_abi.so.0"},
     .handle = sizeof(void *),
     .world = 0x101,
     .byte = 0x247,
     .errors_return = 0x143,
     .no_request = 0x180,
     .funneled = 1024},
    {.file = {"libmpi.so.40"},
     .family = "Open MPI",
     .handle = sizeof(void *),
     .world_symbol = "ompi_mpi_comm_world",
     .byte_symbol = "ompi_mpi_byte",
     .errors_symbol = "ompi_mpi_errors_return",
     .request_symbol = "ompi_request_null",
     .funneled = 1},
    {.file = {"libmpi.so.12", "libmpich.so.12"},
     .handle = sizeof(int),
     .world = 0x44000000,
     .byte = 0x4c00010d,
     .errors_return = 0x54000001,
     .no_request = 0x2c000000,
     .no_status = 1,
     .funneled = 1},
};

enum { MOST_CHUNK = 1 << 30, TAGS = 32767 /* that any MPI has */ };

struct Word;

typedef struct TsMpi {
#define CALL(name, args) int(*name) args;
  TS_MPI_CALLS(CALL)
#undef CALL
  TsMpiTable table;
  void *library;
  TsMpiHandle data, records; /* communicators */
  bool *waits;
  struct Word *words; /* on their way */
  char *request;      /* of the batch under way, table.handle bytes each */
  int *peer;
  int nrequest, cap;
  bool stuck; /* something is sent that nobody takes: MPI would wait for it at its end */
} TsMpi;

/* ---- the library */
static const struct {
  const char *symbol;
  size_t at;
} symbols[] = {
#define CALL(name, args) {"MPI_" #name, offsetof(TsMpi, name)},
    TS_MPI_CALLS(CALL)
#undef CALL
};

static const char *find_symbols(TsMpi *m) {
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *f = dlsym(m->library, symbols[i].symbol);
    if (!f) return symbols[i].symbol;
    memcpy((char *)m + symbols[i].at, &f, sizeof f);
  }
  return NULL;
}

static void find_handle(TsMpi *m, const char *symbol, TsMpiHandle *to) {
  if (symbol) *to = (TsMpiHandle)(uintptr_t)dlsym(m->library, symbol);
}

/* "Open MPI v4.1.4", "MPICH Version: 4.0.2": its first line, cut where it gets long. */
static void say_version(TsMpi *m, char text[48]) {
  static char all[1 << 14]; /* the standard's most is 8192 */
  int n = 0;
  if (m->Get_library_version(all, &n)) all[0] = 0;
  char *end = all + strcspn(all, "\n,");
  *end = 0;
  for (char *c = all; *c; c++)
    if (*c == '\t') *c = ' ';
  snprintf(text, 48, "%s", all);
}

/* Whether processes of this launcher find each other by this library. */
static bool fits(const TsMpiTable *t, const char *version) {
  TsLauncherKind kind = ts_launched().kind;
  bool open = strstr(version, "Open MPI") != NULL;
  if (t->family && !strstr(version, t->family)) return false;
  return kind == TS_LAUNCHER_openmpi ? open : kind == TS_LAUNCHER_mpich ? !open : true;
}

/* Which interface a library has that the user names: the one whose symbols it has. */
static bool speaks(void *library, const TsMpiTable *t, const char *path) {
  if (t->world_symbol) return dlsym(library, t->world_symbol) != NULL;
  bool abi = strstr(path, "mpi_abi") != NULL;
  return (t->handle == sizeof(void *)) == abi;
}

static bool try_library(TsMpi *m, const TsMpiTable *t, const char *path, bool named,
                        char version[48]) {
  if (!(m->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL))) return false;
  m->table = *t;
  find_handle(m, t->world_symbol, &m->table.world);
  find_handle(m, t->byte_symbol, &m->table.byte);
  find_handle(m, t->errors_symbol, &m->table.errors_return);
  find_handle(m, t->request_symbol, &m->table.no_request);
  if (!find_symbols(m) && (!named || speaks(m->library, t, path))) {
    say_version(m, version);
    if (named || fits(t, version)) return true;
  }
  dlclose(m->library);
  m->library = NULL;
  return false;
}

static bool open_library(TsMpi *m, char version[48]) {
  const char *named = getenv("TESSERA_MPI");
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    if (named && try_library(m, &tables[i], named, true, version)) return true;
    for (int k = 0; k < 3 && tables[i].file[k] && !named; k++)
      if (try_library(m, &tables[i], tables[i].file[k], false, version)) return true;
  }
  return false;
}

static int failed(TsMpi *m, int code, const char *call, TsError *err) {
  char text[1024] = "";
  int n = 0;
  if (m->Error_string(code, text, &n)) snprintf(text, sizeof text, "error %d", code);
  return ts_error_set(err, TS_ERR_device, "MPI_%s: %.300s", call, text);
}

#define MPI(m, err, call, ...)                                                                 \
  do {                                                                                         \
    int code_ = (m)->call(__VA_ARGS__);                                                        \
    if (code_) return failed(m, code_, #call, err);                                            \
  } while (0)

/* ---- a batch under way */
static void *request(TsMpi *m, int i) {
  return m->request + (size_t)i * (size_t)m->table.handle;
}

static bool is_open(TsMpi *m, int i) {
  TsMpiHandle h = 0;
  memcpy(&h, request(m, i), (size_t)m->table.handle);
  return h != m->table.no_request;
}

static int more_requests(TsMpi *m, TsError *err) {
  if (m->nrequest < m->cap) return 0;
  int cap = m->cap ? m->cap * 2 : 64;
  char *request = realloc(m->request, (size_t)cap * sizeof(TsMpiHandle));
  if (request) m->request = request;
  int *peer = request ? realloc(m->peer, (size_t)cap * sizeof *peer) : NULL;
  if (!peer) return ts_error_memory(err);
  m->peer = peer, m->cap = cap;
  return 0;
}

/* Starts to send, or to receive, nbytes in messages that an int can count. */
static int start(TsMpi *m, TsMpiHandle comm, bool send, char *at, int64_t nbytes, int peer,
                 int tag, TsError *err) {
  for (int64_t done = 0; done < nbytes; done += MOST_CHUNK) {
    int n = (int)(nbytes - done < MOST_CHUNK ? nbytes - done : MOST_CHUNK);
    if (more_requests(m, err)) return -1;
    int i = m->nrequest;
    if (send)
      MPI(m, err, Isend, at + done, n, m->table.byte, peer, tag, comm, request(m, i));
    else
      MPI(m, err, Irecv, at + done, n, m->table.byte, peer, tag, comm, request(m, i));
    m->peer[m->nrequest++] = peer;
  }
  return 0;
}

/* After a failure nothing may be written to, or read from, memory that its owner lets go of. What
 * cannot be cancelled any more is let run out. */
static void drop(TsMpi *m) {
  for (int i = 0; i < m->nrequest; i++) {
    if (!is_open(m, i)) continue;
    int done = 0;
    m->Cancel(request(m, i));
    for (int k = 0; k < 1000 && !done; k++)
      if (m->Test(request(m, i), &done, (void *)m->table.no_status)) break;
    if (!done) m->Request_free(request(m, i)), m->stuck = true;
  }
  m->nrequest = 0;
}

static int test_all(TsTransport *t, int *left, TsError *err) {
  TsMpi *m = t->state;
  *left = 0;
  memset(m->waits, 0, (size_t)t->size);
  for (int i = 0; i < m->nrequest; i++) {
    int done = 0;
    if (!is_open(m, i)) continue;
    MPI(m, err, Test, request(m, i), &done, (void *)m->table.no_status);
    if (!done) m->waits[m->peer[i]] = true, ++*left;
  }
  return 0;
}

/* Who waits little gives others the processor, who waits long sleeps. */
static void pause_after(int64_t waited_ns) {
  static const struct timespec some = {.tv_nsec = 50000}, more = {.tv_nsec = 500000};
  if (waited_ns < 2000000)
    sched_yield();
  else
    nanosleep(waited_ns < 200000000 ? &some : &more, NULL);
}

static int finish(TsTransport *t, const TsBatch *b, TsError *err) {
  TsMpi *m = t->state;
  int64_t since = ts_clock_nsec(), told = since;
  for (int left = 1;;) {
    if (test_all(t, &left, err)) return -1;
    if (!left) break;
    int64_t now = ts_clock_nsec();
    if (now - told > 1000000) {
      if (t->wait && t->wait(t->wait_arg, b, m->waits, err)) return -1;
      told = now;
    }
    pause_after(now - since);
  }
  m->nrequest = 0;
  return 0;
}

static int ended(TsMpi *m, int failed) {
  if (failed) drop(m);
  return failed;
}

static int tag_of(const TsBatch *b) {
  return 1 + (int)((b->digest ^
                    (b->number * 8 + (uint64_t)b->round) * UINT64_C(0x9e3779b97f4a7c15)) %
                   (TAGS - 1));
}

static int exchange(TsTransport *t, const TsBatch *b, TsError *err) {
  TsMpi *m = t->state;
  int tag = tag_of(b), bad = 0;
  for (int i = 0; i < b->n && !bad; i++) {
    const TsTransfer *x = &b->transfer[i];
    if (x->from == x->to || (x->from != t->rank && x->to != t->rank)) continue;
    bool send = x->from == t->rank;
    bad = start(m, m->data, send, x->at, x->nbytes, send ? x->to : x->from, tag, err);
  }
  return ended(m, bad ? bad : finish(t, b, err));
}

static int gather(TsTransport *t, const TsBatch *b, const void *own, void *all, int nbytes,
                  TsError *err) {
  TsMpi *m = t->state;
  int tag = b ? tag_of(b) : 0, bad = 0;
  memcpy((char *)all + (size_t)t->rank * (size_t)nbytes, own, (size_t)nbytes);
  for (int r = 0; r < t->size && !bad; r++) {
    if (r == t->rank) continue;
    bad = start(m, m->records, false, (char *)all + (size_t)r * (size_t)nbytes, nbytes, r, tag,
                err) ||
          start(m, m->records, true, (char *)(uintptr_t)own, nbytes, r, tag, err);
  }
  return ended(m, bad ? -1 : finish(t, b, err));
}

/* ---- words beside the batches */
typedef struct Word {
  struct Word *next;
  TsMpiHandle request;
  char bytes[];
} Word;

/* Those that have gone are let go. */
static void drop_words(TsMpi *m) {
  for (Word **p = &m->words; *p;) {
    int done = 0;
    Word *w = *p;
    if (m->Test(&w->request, &done, (void *)m->table.no_status) || !done) {
      p = &w->next;
      continue;
    }
    *p = w->next;
    free(w);
  }
}

static int say(TsTransport *t, int to, const void *at, int nbytes, TsError *err) {
  TsMpi *m = t->state;
  drop_words(m);
  Word *w = calloc(1, sizeof *w + (size_t)nbytes);
  if (!w) return ts_error_memory(err);
  memcpy(w->bytes, at, (size_t)nbytes);
  int code = m->Isend(w->bytes, nbytes, m->table.byte, to, TAGS, m->records, &w->request);
  if (code) {
    free(w);
    return failed(m, code, "Isend", err);
  }
  w->next = m->words;
  m->words = w;
  return 0;
}

static int hear(TsTransport *t, int from, void *at, int nbytes, bool *got, TsError *err) {
  TsMpi *m = t->state;
  int flag = 0;
  MPI(m, err, Iprobe, from, TAGS, m->records, &flag, (void *)m->table.no_status);
  *got = flag;
  if (flag)
    MPI(m, err, Recv, at, nbytes, m->table.byte, from, TAGS, m->records,
        (void *)m->table.no_status);
  return 0;
}

/* ---- life */
static void abort_job(TsTransport *t, int code) {
  TsMpi *m = t->state;
  m->Abort(m->table.world, code);
}

static void release(TsTransport *t, bool good) {
  TsMpi *m = t->state;
  drop_words(m);
  if (good && !m->stuck && !m->words) m->Finalize();
  free(m->request);
  free(m->peer);
  free(m->waits);
  free(m); /* the library stays: its threads may run */
  free(t);
}

static int begin(TsTransport *t, TsMpi *m, int size, TsError *err) {
  int is = 0, level = 0;
  MPI(m, err, Initialized, &is);
  if (!is) MPI(m, err, Init_thread, NULL, NULL, m->table.funneled, &level);
  MPI(m, err, Comm_set_errhandler, m->table.world, m->table.errors_return);
  MPI(m, err, Comm_rank, m->table.world, &t->rank);
  MPI(m, err, Comm_size, m->table.world, &t->size);
  if (t->size != size) {
    ts_error_set(err, TS_ERR_device, "%s sees %d of the %d processes", t->name, t->size, size);
    return ts_error_hint(err, "TESSERA_MPI=path names the library of the launcher's MPI");
  }
  MPI(m, err, Comm_dup, m->table.world, &m->data);
  MPI(m, err, Comm_dup, m->table.world, &m->records);
  MPI(m, err, Comm_set_errhandler, m->data, m->table.errors_return);
  MPI(m, err, Comm_set_errhandler, m->records, m->table.errors_return);
  m->waits = calloc((size_t)t->size, sizeof *m->waits);
  return m->waits ? 0 : ts_error_memory(err);
}

static int no_library(TsError *err) {
  const char *named = getenv("TESSERA_MPI");
  if (named)
    return ts_error_set(err, TS_ERR_device, "no MPI: %.200s is none that can be used", named);
  ts_error_set(
      err, TS_ERR_device,
      "no MPI for %s: libmpi_abi.so.1, libmpi.so.40, libmpi.so.12 and libmpich.so.12 are "
      "not there, or not of its kind",
      ts_launched().name);
  return ts_error_hint(err, "TESSERA_MPI=path names the library");
}

TsTransport *ts_transport_mpi(int size, TsError *err) {
  TsTransport *t = calloc(1, sizeof *t);
  TsMpi *m = calloc(1, sizeof *m);
  char version[48];
  int bad = t && m ? 0 : ts_error_memory(err);
  if (!bad && !open_library(m, version)) bad = no_library(err);
  if (!bad) {
    *t = (TsTransport){.state = m,
                       .exchange = exchange,
                       .gather = gather,
                       .say = say,
                       .hear = hear,
                       .abort = abort_job,
                       .free = release};
    snprintf(t->name, sizeof t->name, "MPI (%s)", version);
    bad = begin(t, m, size, err);
  }
  if (!bad) return t;
  free(m);
  free(t);
  return NULL;
}
