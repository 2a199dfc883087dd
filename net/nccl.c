/* NCCL: one group of sends and receives for a batch, on a stream of its own between what the GPU has
 * queued before and what comes behind. RCCL has the same functions under the same names.
 *
 * The communicator is nonblocking: whatever NCCL waits for, the program is asked meanwhile whether
 * it still wants to (TsTransport.wait). What is queued on the GPU is not waited for here; if a
 * rank dies while the GPU waits for its bytes, another thread calls abort_waiting, and the GPU
 * goes on. */
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/transport.h"

typedef int NcclResult;
typedef struct NcclId {
  char byte[128];
} NcclId;
typedef struct NcclComm NcclComm;
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UINT8 = 1, NCCL_VERSION_MIN = 21800 };

/* As of NCCL 2.18; newer ones read as much of it as `version` says. */
typedef struct NcclConfig {
  size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char *net_name;
  int split_share;
} NcclConfig;

#define NCCL_CALLS(CALL)                                                                       \
  CALL(GetVersion, NcclResult, (int *))                                                        \
  CALL(GetUniqueId, NcclResult, (NcclId *))                                                    \
  CALL(CommInitRankConfig, NcclResult, (NcclComm **, int, NcclId, int, NcclConfig *))          \
  CALL(CommGetAsyncError, NcclResult, (NcclComm *, NcclResult *))                              \
  CALL(CommFinalize, NcclResult, (NcclComm *))                                                 \
  CALL(CommDestroy, NcclResult, (NcclComm *))                                                  \
  CALL(CommAbort, NcclResult, (NcclComm *))                                                    \
  CALL(GetErrorString, const char *, (NcclResult))                                             \
  CALL(GetLastError, const char *, (NcclComm *))                                               \
  CALL(GroupStart, NcclResult, (void))                                                         \
  CALL(GroupEnd, NcclResult, (void))                                                           \
  CALL(Send, NcclResult, (const void *, size_t, int, int, NcclComm *, void *))                 \
  CALL(Recv, NcclResult, (void *, size_t, int, int, NcclComm *, void *))

typedef struct Nccl {
#define CALL(name, result, args) result(*name) args;
  NCCL_CALLS(CALL)
#undef CALL
  void *library;
  NcclComm *comm;
  void *stream, *before, *behind; /* NULL: the device has no order of its own */
  char *records;                  /* on the device, for gather: all ranks', then the own one */
  int64_t nrecords;
} Nccl;

static const struct {
  const char *symbol;
  size_t at;
} symbols[] = {
#define CALL(name, result, args) {"nccl" #name, offsetof(Nccl, name)},
    NCCL_CALLS(CALL)
#undef CALL
};

/* ---- the library */
static bool of_amd(const TsDevice *d) { return !strcmp(d->kind, "hip"); }

static int open_library(Nccl *n, const TsDevice *d, TsError *err) {
  const char *named = getenv("TESSERA_NCCL"), *library = of_amd(d) ? "RCCL" : "NCCL";
  if (!named) named = of_amd(d) ? "librccl.so.1" : "libnccl.so.2";
  n->library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
  if (!n->library) {
    ts_error_set(err, TS_ERR_device, "no %s: %.200s cannot be opened", library, named);
    return ts_error_hint(err, "TESSERA_NCCL=path names the library");
  }
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *f = dlsym(n->library, symbols[i].symbol);
    if (!f) return ts_error_set(err, TS_ERR_device, "%s has no %s", library, symbols[i].symbol);
    memcpy((char *)n + symbols[i].at, &f, sizeof f);
  }
  int version = 0;
  n->GetVersion(&version);
  if (version < NCCL_VERSION_MIN)
    return ts_error_set(err, TS_ERR_device, "%s is version %d; %d or newer is needed", library,
                        version, NCCL_VERSION_MIN);
  return 0;
}

bool ts_transport_nccl_is_there(const TsDevice *d, TsError *err) {
  Nccl n = {0};
  return !open_library(&n, d, err);
}

static void say_version(const Nccl *n, const TsDevice *d, char *text, int size) {
  int v = 0;
  n->GetVersion(&v);
  snprintf(text, (size_t)size, "%s %d.%d.%d", of_amd(d) ? "RCCL" : "NCCL", v / 10000,
           v / 100 % 100, v % 100);
}

static int failed(Nccl *n, NcclResult code, const char *call, TsError *err) {
  const char *more = n->comm ? n->GetLastError(n->comm) : NULL;
  return ts_error_set(err, TS_ERR_device, "nccl%s: %s%s%.200s", call, n->GetErrorString(code),
                      more && *more ? ": " : "", more ? more : "");
}

/* What was begun is done, or the wait for it is over. */
static int settled(TsTransport *t, const TsBatch *b, NcclResult code, const char *call,
                   TsError *err) {
  static const struct timespec some = {.tv_nsec = 100000};
  Nccl *n = t->state;
  for (int round = 0; code == NCCL_IN_PROGRESS; round++) {
    NcclResult now = NCCL_SUCCESS;
    code = n->CommGetAsyncError(n->comm, &now);
    if (!code) code = now;
    if (code != NCCL_IN_PROGRESS) break;
    if (round % 10 == 9 && t->wait && t->wait(t->wait_arg, b, NULL, err)) return -1;
    nanosleep(&some, NULL);
  }
  return code ? failed(n, code, call, err) : 0;
}

#define NCCL(t, b, err, call, ...)                                                             \
  do {                                                                                         \
    Nccl *n_ = (t)->state;                                                                     \
    NcclResult code_ = n_->call(__VA_ARGS__);                                                  \
    if (code_ && settled(t, b, code_, #call, err)) return -1;                                  \
  } while (0)

/* ---- a batch */
static int in_order(TsTransport *t, bool behind, TsError *err) {
  Nccl *n = t->state;
  const TsDeviceRun *run = t->device->run;
  if (!n->stream) return 0;
  if (behind)
    return run->event_record(t->device, n->behind, n->stream, err) ||
           run->stream_wait(t->device, NULL, n->behind, err);
  return run->event_record(t->device, n->before, NULL, err) ||
         run->stream_wait(t->device, n->stream, n->before, err);
}

/* Within a group calls only note what is wanted. */
static int group(TsTransport *t, const TsBatch *b, TsError *err) {
  Nccl *n = t->state;
  NcclResult code = n->GroupStart();
  for (int i = 0; i < b->n && !code; i++) {
    const TsTransfer *x = &b->transfer[i];
    if (x->from == x->to || !x->nbytes) continue;
    if (x->from == t->rank)
      code = n->Send(x->at, (size_t)x->nbytes, NCCL_UINT8, x->to, n->comm, n->stream);
    else if (x->to == t->rank)
      code = n->Recv(x->at, (size_t)x->nbytes, NCCL_UINT8, x->from, n->comm, n->stream);
    if (code == NCCL_IN_PROGRESS) code = NCCL_SUCCESS;
  }
  NcclResult ended = n->GroupEnd();
  if (!code) code = ended;
  return code ? settled(t, b, code, "GroupEnd", err) : 0;
}

static int exchange(TsTransport *t, const TsBatch *b, TsError *err) {
  bool any = false;
  for (int i = 0; i < b->n; i++) {
    const TsTransfer *x = &b->transfer[i];
    any |= x->from != x->to && (x->from == t->rank || x->to == t->rank) && x->nbytes;
  }
  if (!any) return 0;
  Nccl *n = t->state;
  if (!n->comm) return ts_error_set(err, TS_ERR_device, "%s: a rank was lost before", t->name);
  return in_order(t, false, err) || group(t, b, err) || in_order(t, true, err) ? -1 : 0;
}

static int gather(TsTransport *t, const TsBatch *of, const void *own, void *all, int nbytes,
                  TsError *err) {
  Nccl *n = t->state;
  TsDevice *d = t->device;
  int64_t need = (int64_t)nbytes * (t->size + 1);
  if (n->nrecords < need) {
    if (n->records) d->free(d, n->records, n->nrecords);
    n->nrecords = 0;
    if (!(n->records = d->alloc(d, need, err))) return -1;
    n->nrecords = need;
  }
  char *mine = n->records + (size_t)nbytes * (size_t)t->size;
  TsTransfer *list = malloc(sizeof *list * 2 * (size_t)t->size);
  if (!list) return ts_error_memory(err);
  int k = 0;
  for (int r = 0; r < t->size; r++) {
    if (r == t->rank) continue;
    list[k++] =
        (TsTransfer){r, t->rank, d->index, n->records + (size_t)nbytes * (size_t)r, nbytes};
    list[k++] = (TsTransfer){t->rank, r, d->index, mine, nbytes};
  }
  TsBatch b = {.n = k, .transfer = list};
  if (of) b.number = of->number, b.round = of->round, b.digest = of->digest;
  int bad = d->upload(d, mine, own, nbytes, err) || exchange(t, &b, err) ||
            d->download(d, all, n->records, (int64_t)nbytes * t->size, err);
  free(list);
  if (!bad) memcpy((char *)all + (size_t)nbytes * (size_t)t->rank, own, (size_t)nbytes);
  return bad ? -1 : 0;
}

/* ---- life */
static void abort_waiting(TsTransport *t) {
  Nccl *n = t->state;
  NcclComm *comm = n->comm;
  n->comm = NULL;
  if (comm) n->CommAbort(comm);
}

static void release(TsTransport *t, bool good) {
  Nccl *n = t->state;
  TsError ignored = {0};
  if (n->comm && good) {
    NcclResult code = n->CommFinalize(n->comm);
    settled(t, NULL, code, "CommFinalize", &ignored);
    n->CommDestroy(n->comm);
  } else {
    abort_waiting(t);
  }
  const TsDeviceRun *run = t->device ? t->device->run : NULL;
  if (n->before) run->event_free(t->device, n->before);
  if (n->behind) run->event_free(t->device, n->behind);
  if (n->stream) run->stream_free(t->device, n->stream);
  if (n->records) t->device->free(t->device, n->records, n->nrecords);
  free(n); /* the library stays: its threads may run */
  free(t);
}

/* Of torchrun, and of srun with MASTER_ADDR: rank 0 listens at an address that all know. MASTER_PORT is the
 * launcher's own, so it is the next one; NCCL_COMM_ID by the user counts before. */
static int agree_by_address(TsError *err) {
  const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
  char address[300];
  if (getenv("NCCL_COMM_ID")) return 0;
  if (!host || !*host) {
    ts_error_set(err, TS_ERR_device, "NCCL: nothing says where rank 0 is");
    return ts_error_hint(err, "NCCL_COMM_ID=host:port, or MASTER_ADDR and MASTER_PORT");
  }
  int n = port ? atoi(port) : 29500;
  snprintf(address, sizeof address, strchr(host, ':') ? "[%.256s]:%d" : "%.256s:%d", host,
           n < 65535 ? n + 1 : n - 1);
  setenv("NCCL_COMM_ID", address, 0);
  return 0;
}

static int begin(TsTransport *t, Nccl *n, TsTellId *tell, void *arg, TsError *err) {
  NcclConfig config = {sizeof config, 0xcafebeef, NCCL_VERSION_MIN, 0, INT_MIN, INT_MIN,
                       INT_MIN,       NULL,       INT_MIN};
  NcclId id;
  memset(&id, 0, sizeof id);
  const TsDeviceRun *run = t->device->run;
  if (!tell && agree_by_address(err)) return -1;
  setenv("NCCL_NVLS_ENABLE", "0", 0); /* nothing here is reduced on the way */
  if (!tell || t->rank == 0) NCCL(t, NULL, err, GetUniqueId, &id);
  if (tell && tell(arg, &id, sizeof id, err)) return -1;
  if (run && (run->stream_new(t->device, &n->stream, err) ||
              run->event_new(t->device, &n->before, err) ||
              run->event_new(t->device, &n->behind, err)))
    return -1;
  NCCL(t, NULL, err, CommInitRankConfig, &n->comm, t->size, id, t->rank, &config);
  return 0;
}

TsTransport *ts_transport_nccl(TsDevice *d, int rank, int size, TsTellId *tell, void *arg,
                               TsError *err) {
  TsTransport *t = calloc(1, sizeof *t);
  Nccl *n = calloc(1, sizeof *n);
  if (!t || !n) {
    free(t);
    free(n);
    return ts_error_memory(err), NULL;
  }
  *t = (TsTransport){.rank = rank,
                     .size = size,
                     .device = d,
                     .state = n,
                     .exchange = exchange,
                     .gather = gather,
                     .abort_waiting = abort_waiting,
                     .free = release};
  int bad = open_library(n, d, err) || ts_device_use(d, err);
  if (!bad) say_version(n, d, t->name, sizeof t->name);
  if (!bad && !begin(t, n, tell, arg, err)) return t;
  release(t, false);
  return NULL;
}
