/* A library that stands for NCCL, for GPUs of tests/devices/driver/fake_cuda.c, or for RCCL and fake_hip.c, whose memory is the host's.
 * Messages are files in a folder that the id names: rank a's k-th to b is "a-b-k", and b takes it
 * away. What is called at a wrong time is an error, and all calls stand in a log beside it. */
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Id {
  char byte[128];
} Id;

typedef struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
} Config;

enum { SUCCESS = 0, INTERNAL = 3, INVALID_USAGE = 5, IN_PROGRESS = 7, MOST = 256 };

typedef struct Comm {
  int rank, size, busy; /* busy: how often it still says so */
  int failed;
  char folder[200];
  long sent[16], got[16];
} Comm;

static struct {
  int depth, n;
  struct {
    Comm *comm;
    int send, peer;
    void *at;
    size_t nbytes;
  } call[MOST];
} group;

static void note(const Comm *c, const char *format, ...) {
  char path[300];
  snprintf(path, sizeof path, "%s/log-%d", c->folder, c->rank);
  FILE *f = fopen(path, "a");
  va_list a;
  va_start(a, format);
  if (f) vfprintf(f, format, a), fclose(f);
  va_end(a);
}

int ncclGetVersion(int *v) { return *v = 22800, SUCCESS; }
const char *ncclGetErrorString(int code) {
  return code == INVALID_USAGE ? "invalid usage" : "failed";
}
const char *ncclGetLastError(Comm *c) { return c->failed ? "of the fake" : ""; }

int ncclGetUniqueId(Id *id) {
  const char *address = getenv("NCCL_COMM_ID");
  memset(id, 0, sizeof *id);
  if (address)
    snprintf(id->byte, sizeof id->byte, "at-%s", address);
  else
    snprintf(id->byte, sizeof id->byte, "id-%d", (int)getpid());
  return SUCCESS;
}

int ncclCommInitRankConfig(Comm **out, int size, Id id, int rank, Config *config) {
  if (config->magic != 0xcafebeef || config->blocking != 0 || size > 16) return INVALID_USAGE;
  Comm *c = calloc(1, sizeof *c);
  c->rank = rank, c->size = size, c->busy = 3;
  snprintf(c->folder, sizeof c->folder, "%s/nccl-%.100s", getenv("FAKE_NCCL"), id.byte);
  mkdir(c->folder, 0700);
  note(c, "init %d of %d\n", rank, size);
  *out = c;
  return IN_PROGRESS;
}

int ncclCommGetAsyncError(Comm *c, int *state) {
  *state = c->failed ? c->failed : c->busy > 0 ? IN_PROGRESS : SUCCESS;
  if (c->busy > 0) c->busy--;
  return SUCCESS;
}

int ncclGroupStart(void) { return group.depth++, SUCCESS; }

static int add(Comm *c, int send, void *at, size_t nbytes, int type, int peer) {
  if (c->busy || !group.depth || group.n == MOST || type != 1) return INVALID_USAGE;
  group.call[group.n].comm = c, group.call[group.n].send = send,
  group.call[group.n].peer = peer;
  group.call[group.n].at = at, group.call[group.n++].nbytes = nbytes;
  return SUCCESS;
}

int ncclSend(const void *at, size_t n, int type, int peer, Comm *c, void *stream) {
  return stream ? add(c, 1, (void *)at, n, type, peer) : INVALID_USAGE;
}

int ncclRecv(void *at, size_t n, int type, int peer, Comm *c, void *stream) {
  return stream ? add(c, 0, at, n, type, peer) : INVALID_USAGE;
}

static void name_of(const Comm *c, int from, int to, long k, const char *more, char path[300]) {
  snprintf(path, 300, "%s/%d-%d-%ld%s", c->folder, from, to, k, more);
}

static int run(int i) {
  Comm *c = group.call[i].comm;
  int peer = group.call[i].peer;
  size_t n = group.call[i].nbytes;
  char path[300], half[300];
  note(c, "%s %zu %d\n", group.call[i].send ? "send" : "recv", n, peer);
  if (group.call[i].send) {
    name_of(c, c->rank, peer, c->sent[peer]++, "", path);
    name_of(c, c->rank, peer, c->sent[peer], ".half", half);
    FILE *f = fopen(half, "w");
    if (!f || fwrite(group.call[i].at, 1, n, f) != n || fclose(f)) return INTERNAL;
    return rename(half, path) ? INTERNAL : SUCCESS;
  }
  name_of(c, peer, c->rank, c->got[peer]++, "", path);
  FILE *f = NULL;
  for (int k = 0; k < 200000 && !f; k++)
    if (!(f = fopen(path, "r"))) usleep(100);
  if (!f || fread(group.call[i].at, 1, n, f) != n || fgetc(f) != EOF) return INTERNAL;
  fclose(f);
  unlink(path);
  return SUCCESS;
}

/* Copies of the driver that stands beside it are done when somebody waits. */
static void wait_for_copies(void) {
  int (*wait)(void *) = NULL;
  const char *amd = getenv("TESSERA_LIBHIP");
  void *f = amd ? dlsym(dlopen(amd, RTLD_NOW | RTLD_NOLOAD), "hipStreamSynchronize")
                : dlsym(RTLD_DEFAULT, "cuStreamSynchronize");
  memcpy(&wait, &f, sizeof f);
  if (wait) wait(NULL);
}

/* All that is sent goes first, as in a group nothing waits for what stands behind it. */
int ncclGroupEnd(void) {
  int code = SUCCESS;
  if (--group.depth) return SUCCESS;
  wait_for_copies();
  for (int send = 1; send >= 0; send--)
    for (int i = 0; i < group.n && !code; i++)
      if (group.call[i].send == send) code = run(i);
  if (group.n) group.call[0].comm->busy = 2, group.call[0].comm->failed = code;
  note(group.call[0].comm, "group %d\n", group.n);
  int n = group.n;
  group.n = 0;
  return n ? IN_PROGRESS : code;
}

int ncclCommFinalize(Comm *c) { return note(c, "finalize\n"), c->busy = 1, IN_PROGRESS; }
int ncclCommDestroy(Comm *c) { return note(c, "destroy\n"), free(c), SUCCESS; }
int ncclCommAbort(Comm *c) { return note(c, "abort\n"), free(c), SUCCESS; }
