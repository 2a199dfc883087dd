/* A driver without a GPU (fake_base.h) that works like CUDA's: what fake_cuda.c and fake_hip.c
 * have in common, the calls of devices/driver/driver.h.
 *
 * Who includes it says before what its symbols are called, FAKE_SYMBOL(cuda, version, hip) and
 * FAKE_NAME(cuda, hip), FAKE_VERSION and FAKE_FIRST; and behind it what its devices are
 * (fake_fact, fake_model) and what launches do (fake_run). */
enum { INVALID = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };
#include "tests/devices/driver/fake_base.h"

enum { MOST_NODES = 256, MOST_ARGS = 192 };
long fake_roots(void); /* of the record that was made last: launches that wait for none, */
long fake_edges(void); /* and how many pairs wait */

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

#define ENTER(member) ENTER_AS(call_name.member)

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
  const char *many = getenv("FAKE_COUNT"); /* more are on the list, and cannot be opened */
  *n = many ? atoi(many) : NDEVICE;
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
  return block_new(call_name.alloc, at, nbytes);
}
int call_free(void *at) {
  ENTER(free);
  return block_free(call_name.free, at);
}
int call_host_alloc(void **at, size_t nbytes, unsigned flags) {
  ENTER(host_alloc);
  return flags ? INVALID : pinned_new(at, nbytes);
}
int call_host_free(void *at) {
  ENTER(host_free);
  return pinned_free(call_name.host_free, at);
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
int call_stream_first(void **stream, unsigned flags, int priority) {
  return priority < 0 ? call_stream_new(stream, flags) : INVALID;
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
/* What is launched has nodes of its own: they are changed there, and found by those of the
 * graph. */
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
