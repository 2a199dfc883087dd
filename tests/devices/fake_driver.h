/* A driver without a GPU, over host memory: what fake_cuda.c and fake_hip.c have in common, the calls
 * of devices/driver.h. Streams do their work at once, but for uploads and downloads, which are done
 * when somebody waits, so that a missing wait shows. fake_fail() lets the n-th call of a function fail.
 * Handles are looked up: one that was destroyed, or is another device's, is an error, and said by
 * fake_complaint(). After fake_any() no code runs: for tests that count calls. After fake_hold(1)
 * loading code takes until fake_hold(0).
 *
 * Who includes it says before what its symbols are called, FAKE_SYMBOL(cuda, version, hip) and
 * FAKE_NAME(cuda, hip), and behind it what its devices are (fake_fact), what codes mean (fake_text)
 * and what launches do (fake_keep, fake_run). */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/driver.h"

enum { NDEVICE = 2, MOST = 4096, MOST_NODES = 256, MOST_ARGS = 192 };
enum { INVALID = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

/* ---- for tests */
void fake_fail(const char *call, int after, int code);
long fake_count(const char *call);
long fake_calls(void);
long fake_blocks(void);
long fake_used(void);
void fake_limit(long nbytes);
void fake_any(void);
void fake_hold(int on);
long fake_roots(void); /* of the record that was made last: launches that wait for none, */
long fake_edges(void); /* and how many pairs wait */
const char *fake_complaint(void); /* the first misuse since the last question, or "" */

/* Declared here for the library itself: the table holds pointers of the same types. */
#define CALL(member, cuda, version, hip, args)                                                 \
  int call_##member args __asm__(FAKE_SYMBOL(cuda, version, hip));
TS_DRIVER_CALLS(CALL)
#undef CALL

static const struct {
#define CALL(member, cuda, version, hip, args) const char *member;
  TS_DRIVER_CALLS(CALL)
#undef CALL
} call_name = {
#define CALL(member, cuda, version, hip, args) FAKE_NAME(cuda, hip),
    TS_DRIVER_CALLS(CALL)
#undef CALL
};

static char failing[64], complaint[200];
static int fail_after, fail_code;
static long used, limit = 256L << 20, nblocks;
static struct {
  char *at;
  size_t nbytes;
  int device;
} block[MOST];
static struct {
  const char *name;
  long n;
} counted[96];

void fake_fail(const char *call, int after, int code) {
  snprintf(failing, sizeof failing, "%s", call);
  fail_after = after, fail_code = code;
}
long fake_blocks(void) { return nblocks; }
long fake_used(void) { return used; }
void fake_limit(long nbytes) { limit = nbytes; }
const char *fake_complaint(void) {
  static char text[sizeof complaint];
  memcpy(text, complaint, sizeof text);
  complaint[0] = 0;
  return text;
}
static bool any;
void fake_any(void) { any = true; }
/* Code is loaded when it is let go. */
static atomic_int held;
void fake_hold(int on) { held = on; }

static long *counter(const char *call) {
  int i = 0;
  while (counted[i].name && strcmp(counted[i].name, call)) i++;
  if (!counted[i].name) counted[i].name = strdup(call);
  return &counted[i].n;
}
/* Threads that compile load code, and one fetches. */
static pthread_mutex_t entering = PTHREAD_MUTEX_INITIALIZER;
long fake_count(const char *call) {
  pthread_mutex_lock(&entering);
  long n = *counter(call);
  pthread_mutex_unlock(&entering);
  return n;
}
long fake_calls(void) {
  long n = 0;
  for (int i = 0; counted[i].name; i++) n += counted[i].n;
  return n;
}

static int count_call(const char *call) {
  pthread_mutex_lock(&entering);
  ++*counter(call);
  bool fails = fail_after > 0 && !strcmp(call, failing) && --fail_after == 0;
  pthread_mutex_unlock(&entering);
  return fails ? fail_code : 0;
}

static int wrong(int code, const char *call, const char *format, ...) {
  char text[120];
  va_list a;
  va_start(a, format);
  vsnprintf(text, sizeof text, format, a);
  va_end(a);
  if (!complaint[0]) snprintf(complaint, sizeof complaint, "%s: %s", call, text);
  return code;
}

/* One at a time in what follows; the lock is left with the block. */
static pthread_mutex_t inside = PTHREAD_MUTEX_INITIALIZER;
static int lock(void) { return pthread_mutex_lock(&inside); }
static void unlock(int *locked) {
  if (!*locked) pthread_mutex_unlock(&inside);
}
#define ENTER_AS(call)                                                                         \
  int bad_ = count_call(call);                                                                 \
  if (bad_) return bad_;                                                                       \
  __attribute__((cleanup(unlock), unused)) int locked_ = lock()
#define ENTER(member) ENTER_AS(call_name.member)

/* ---- devices: the thread's, by number and one; 0: none yet */
static _Thread_local int current = FAKE_FIRST;

static int is_current(const char *call, int device) {
  if (device == current) return 0;
  return wrong(INVALID, call, "of device %d, the thread's is %d", device - 1, current - 1);
}

/* ---- handles */
typedef struct Handle {
  struct Handle *next;
  const char *kind;
  int device;
} Handle;
static Handle *handles;

static void *handle_new(size_t size, const char *kind) {
  Handle *h = calloc(1, size);
  h->kind = kind, h->device = current;
  h->next = handles;
  return handles = h;
}

static Handle *handle_of(const void *of, const char *kind) {
  Handle *h = handles;
  while (h && (h != of || strcmp(h->kind, kind))) h = h->next;
  return h;
}

/* kind: of what it has to be, alive. */
static int check(const char *call, const void *of, const char *kind) {
  return handle_of(of, kind) ? 0 : wrong(INVALID, call, "no %s that lives", kind);
}

static int check_here(const char *call, const void *of, const char *kind) {
  Handle *h = handle_of(of, kind);
  return h ? is_current(call, h->device) : check(call, of, kind);
}

static int handle_free(const char *call, void *of, const char *kind) {
  Handle **at = &handles;
  if (check_here(call, of, kind)) return INVALID;
  while (*at != of) at = &(*at)->next;
  *at = (*at)->next;
  free(of);
  return 0;
}
#define MUST(x)                                                                                \
  do {                                                                                         \
    int code_ = (x);                                                                           \
    if (code_) return code_;                                                                   \
  } while (0)

/* ---- copies that wait to be done, in the order in which they were asked for */
static struct {
  void *to;
  const void *from;
  size_t nbytes;
} later[MOST];
static int nlater;

static void flush(void) {
  for (int i = 0; i < nlater; i++) memcpy(later[i].to, later[i].from, later[i].nbytes);
  nlater = 0;
}
static void put_off(void *to, const void *from, size_t nbytes) {
  if (nlater == MOST) flush();
  later[nlater].to = to, later[nlater].from = from, later[nlater++].nbytes = nbytes;
}

/* A copy beyond a block is what a GPU calls an illegal address. device 0: whosever it is. */
static int is_inside(const char *call, const void *at, size_t nbytes, int device) {
  const char *p = at;
  for (int i = 0; i < nblocks; i++)
    if (p >= block[i].at && p + nbytes <= block[i].at + block[i].nbytes)
      return !device || device == block[i].device
                 ? 0
                 : wrong(ILLEGAL_ADDRESS, call, "memory of another device");
  return wrong(ILLEGAL_ADDRESS, call, "%zu bytes that are of no block", nbytes);
}

/* ---- what a maker says */
static int fake_fact(int attribute, int device);
static void fake_model(char *name, size_t size, int device);
/* A launch as it is kept: the values of the arguments, eight bytes each. */
typedef struct FakeLaunch {
  void *kernel;
  uint32_t grid[3], block[3], shared;
  int nword;
  uint64_t word[MOST_ARGS];
  void *large; /* what has no room in words */
} FakeLaunch;
static int fake_run(const FakeLaunch *l);

int call_init(unsigned flags) {
  (void)flags;
  ENTER(init);
  const char *no = getenv("FAKE_INIT");
  return no ? atoi(no) : 0;
}
int call_version(int *version) {
  const char *old = getenv("FAKE_VERSION");
  *version = old ? atoi(old) : FAKE_VERSION;
  return 0;
}
int call_count(int *n) {
  ENTER(count);
  *n = NDEVICE;
  return 0;
}
int call_device(int *device, int ordinal) {
  *device = ordinal;
  return ordinal < NDEVICE ? 0 : INVALID;
}
int call_model(char *name, int size, int device) {
  fake_model(name, (size_t)size, device);
  return 0;
}
int call_total(size_t *nbytes, int device) {
  (void)device;
  *nbytes = (size_t)limit;
  return 0;
}
int call_attribute(int *value, int attribute, int device) {
  *value = fake_fact(attribute, device);
  return 0;
}
int call_can_reach(int *can, int device, int other) {
  ENTER(can_reach);
  *can = device != other;
  return 0;
}
int call_synchronize(void) {
  ENTER(synchronize);
  flush();
  return 0;
}

/* ---- memory */
int call_room(size_t *nfree, size_t *total) {
  *nfree = (size_t)(limit - used), *total = (size_t)limit;
  return 0;
}
int call_alloc(void **at, size_t nbytes) {
  ENTER(alloc);
  if (!current) return wrong(INVALID, call_name.alloc, "of no device");
  if (used + (long)nbytes > limit || nblocks == MOST) return OUT_OF_MEMORY;
  void *p = aligned_alloc(256, (nbytes + 255) / 256 * 256);
  if (!p) return OUT_OF_MEMORY;
  memset(p, 0xa5, nbytes < 4096 ? nbytes : 4096);
  *at = p;
  block[nblocks].at = p, block[nblocks].device = current, block[nblocks++].nbytes = nbytes;
  used += (long)nbytes;
  return 0;
}
int call_free(void *at) {
  ENTER(free);
  flush(); /* a real one waits for the device as well */
  for (int i = 0; i < nblocks; i++) {
    if (block[i].at != at) continue;
    used -= (long)block[i].nbytes;
    block[i] = block[--nblocks];
    free(at);
    return 0;
  }
  return wrong(INVALID, call_name.free, "no block begins there");
}
static struct {
  char *at;
  size_t nbytes;
} pinned[64];
int call_host_alloc(void **at, size_t nbytes, unsigned flags) {
  (void)flags;
  ENTER(host_alloc);
  if (!(*at = malloc(nbytes))) return OUT_OF_MEMORY;
  int i = 0;
  while (i < 63 && pinned[i].at) i++;
  pinned[i].at = *at, pinned[i].nbytes = nbytes;
  return 0;
}
static bool is_pinned(const char *at) {
  for (int i = 0; i < 64; i++)
    if (pinned[i].at && at >= pinned[i].at && at < pinned[i].at + pinned[i].nbytes) return true;
  return false;
}
int call_host_free(void *at) {
  ENTER(host_free);
  flush();
  if (!is_pinned(at)) return wrong(INVALID, call_name.host_free, "no such memory");
  for (int i = 0; i < 64; i++)
    if (pinned[i].at == at) pinned[i].at = NULL;
  free(at);
  return 0;
}
int call_copy_to(void *to, const void *from, size_t n, void *stream) {
  ENTER(copy_to);
  MUST(check_here(call_name.copy_to, stream, "stream"));
  MUST(is_inside(call_name.copy_to, to, n, current));
  put_off(to, from, n);
  if (!is_pinned(from)) flush(); /* it is read before the call returns */
  return 0;
}
int call_copy_from(void *to, const void *from, size_t n, void *stream) {
  ENTER(copy_from);
  MUST(check_here(call_name.copy_from, stream, "stream"));
  MUST(is_inside(call_name.copy_from, from, n, current));
  if (!is_pinned(to))
    return wrong(INVALID, call_name.copy_from, "to memory that is not pinned");
  put_off(to, from, n);
  return 0;
}
int call_copy_inside(void *to, const void *from, size_t n, void *stream) {
  ENTER(copy_inside);
  MUST(check_here(call_name.copy_inside, stream, "stream"));
  MUST(is_inside(call_name.copy_inside, from, n, current));
  MUST(is_inside(call_name.copy_inside, to, n, current));
  put_off(to, from, n);
  return 0;
}
/* Devices by number and one. */
static int copy_between(const char *call, void *to, int there, const void *from, int here,
                        size_t n, void *stream) {
  if (there == here) return wrong(INVALID, call, "between a device and itself");
  MUST(check_here(call, stream, "stream"));
  MUST(is_inside(call, from, n, here));
  MUST(is_inside(call, to, n, there));
  put_off(to, from, n);
  return 0;
}

/* ---- order */
int call_stream_new(void **stream, unsigned flags) {
  ENTER(stream_new);
  if (flags != TS_STREAM_NON_BLOCKING || !current)
    return wrong(INVALID, call_name.stream_new, "flags %u, device %d", flags, current - 1);
  *stream = handle_new(sizeof(Handle), "stream");
  return 0;
}
int call_stream_free(void *stream) {
  ENTER(stream_free);
  flush();
  return handle_free(call_name.stream_free, stream, "stream");
}
int call_stream_wait(void *stream) {
  ENTER(stream_wait);
  flush();
  return check(call_name.stream_wait, stream, "stream");
}
int call_stream_after(void *stream, void *event, unsigned flags) {
  ENTER(stream_after);
  MUST(check_here(call_name.stream_after, stream, "stream"));
  MUST(check(call_name.stream_after, event, "event"));
  return flags ? INVALID : 0;
}
typedef struct Event {
  Handle of;
  unsigned flags;
  bool recorded;
} Event;
int call_event_new(void **event, unsigned flags) {
  ENTER(event_new);
  if ((flags != TS_EVENT_TIMED && flags != TS_EVENT_UNTIMED) || !current)
    return wrong(INVALID, call_name.event_new, "flags %u, device %d", flags, current - 1);
  Event *e = handle_new(sizeof(Event), "event");
  e->flags = flags;
  *event = e;
  return 0;
}
int call_event_free(void *event) {
  ENTER(event_free);
  return handle_free(call_name.event_free, event, "event");
}
int call_event_record(void *event, void *stream) {
  ENTER(event_record);
  MUST(check_here(call_name.event_record, stream, "stream"));
  MUST(check_here(call_name.event_record, event, "event"));
  ((Event *)event)->recorded = true;
  return 0;
}
int call_event_wait(void *event) {
  ENTER(event_wait);
  flush();
  return check(call_name.event_wait, event, "event");
}
int call_event_msec(float *msec, void *from, void *to) {
  ENTER(event_msec);
  MUST(check(call_name.event_msec, from, "event"));
  MUST(check(call_name.event_msec, to, "event"));
  const Event *a = from, *b = to;
  if (a->flags | b->flags || !a->recorded || !b->recorded)
    return wrong(INVALID, call_name.event_msec, "of events without times");
  *msec = 0.5f;
  return 0;
}

/* ---- graphs */
typedef struct Graph {
  Handle of;
  int n;
  FakeLaunch node[MOST_NODES];
} Graph;
static long roots, edges;
long fake_roots(void) { return roots; }
long fake_edges(void) { return edges; }
int call_graph_new(void **graph, unsigned flags) {
  ENTER(graph_new);
  if (flags) return INVALID;
  *graph = handle_new(sizeof(Graph), "graph");
  return 0;
}
static void drop_nodes(Graph *g) {
  for (int i = 0; i < g->n; i++) free(g->node[i].large);
}
int call_graph_free(void *graph) {
  ENTER(graph_free);
  MUST(check(call_name.graph_free, graph, "graph"));
  drop_nodes(graph);
  return handle_free(call_name.graph_free, graph, "graph");
}
/* A launch of a graph with nothing in it yet, or NULL with the code. */
static FakeLaunch *node_behind(const char *call, void *graph, void *const *after, size_t nafter,
                               int *code) {
  Graph *g = graph;
  *code = check(call, graph, "graph");
  if (*code) return NULL;
  *code = g->n == MOST_NODES ? wrong(INVALID, call, "a graph of too many nodes") : 0;
  for (size_t i = 0; i < nafter && !*code; i++) { /* different launches of this graph */
    const FakeLaunch *a = after[i];
    if (a < g->node || a >= g->node + g->n)
      *code = wrong(INVALID, call, "behind no node of it");
    for (size_t k = 0; k < i; k++)
      if (after[k] == after[i]) *code = wrong(INVALID, call, "twice behind the same");
  }
  if (*code) return NULL;
  if (!g->n) roots = edges = 0;
  roots += !nafter, edges += (long)nafter;
  return &g->node[g->n++];
}
/* What is launched has nodes of its own: they are changed there, and found by those of the graph. */
typedef struct Exec {
  Handle of;
  const Graph *graph;
  int n;
  FakeLaunch node[MOST_NODES];
} Exec;
static FakeLaunch copy_of(const FakeLaunch *l) {
  FakeLaunch c = *l;
  if (l->large) memcpy(c.large = malloc(4096), l->large, 4096);
  return c;
}
static int instantiate(const char *call, void **exec, void *graph) {
  const Graph *g = graph;
  MUST(check(call, graph, "graph"));
  Exec *e = handle_new(sizeof(Exec), "exec");
  e->graph = g, e->n = g->n;
  for (int i = 0; i < g->n; i++) e->node[i] = copy_of(&g->node[i]);
  *exec = e;
  return 0;
}
static FakeLaunch *node_in(const char *call, void *exec, const void *node, int *code) {
  Exec *e = exec;
  *code = check(call, exec, "exec");
  if (*code) return NULL;
  int64_t i = (const FakeLaunch *)node - e->graph->node;
  if (i >= 0 && i < e->n) return &e->node[i];
  *code = wrong(INVALID, call, "no node of what it was made of");
  return NULL;
}
int call_exec_free(void *exec) {
  ENTER(exec_free);
  MUST(check(call_name.exec_free, exec, "exec"));
  for (int i = 0; i < ((Exec *)exec)->n; i++) free(((Exec *)exec)->node[i].large);
  return handle_free(call_name.exec_free, exec, "exec");
}
int call_graph_launch(void *exec, void *stream) {
  ENTER(graph_launch);
  MUST(check_here(call_name.graph_launch, stream, "stream"));
  MUST(check_here(call_name.graph_launch, exec, "exec"));
  flush();
  const Exec *e = exec;
  for (int k = 0; k < e->n; k++) MUST(any ? 0 : fake_run(&e->node[k]));
  return 0;
}
