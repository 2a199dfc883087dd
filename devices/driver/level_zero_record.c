/* Launches that are made again and again, as one (record.c): a command list that is
 * closed, on a queue beside the immediate lists.
 *
 * The queue waits for an event that the device's own list signals, and that list for one which
 * the queue's signals, so that the launches stand in its order; both are reset on the way. One
 * launch comes behind another only where it was said that it does: there is a barrier in front
 * of it then, if there is none since that other one. A closed list has its kernels' arguments
 * in it, so one of which an argument changes is made anew with the next launch. */
#include <stdlib.h>
#include <string.h>

#include "devices/driver/level_zero_api.h"

typedef struct Node {
  TsLaunch launch;    /* with arguments of its own */
  int number, behind; /* the last launch that it comes behind, or -1 */
  uint64_t *word;
  void *args[];
} Node;

typedef struct Graph {
  Node **node;
  int n, cap;
} Graph;

typedef struct Exec {
  Graph *graph;
  void *list, *pool, *begin, *end;
  bool made, launched; /* the list has what the graph has; `end` is signalled, or will be */
} Exec;

/* ---- graphs */
ZeResult ts_ze_graph_new(void **graph, unsigned flags) {
  (void)flags; /* there is no other kind */
  *graph = calloc(1, sizeof(Graph));
  return *graph ? 0 : ts_ze_noted("malloc", ZE_OUT_OF_HOST_MEMORY);
}

ZeResult ts_ze_graph_free(void *graph) {
  Graph *g = graph;
  for (int i = 0; i < g->n; i++) free(g->node[i]);
  free(g->node), free(g);
  return 0;
}

static void say_launch(Node *node, const TsLaunch *l) {
  node->launch = *l;
  node->launch.args = node->args;
  for (int i = 0; i < l->pointers + l->words; i++)
    memcpy(&node->word[i], l->args[i], sizeof node->word[i]);
}

static Node *node_of(const TsLaunch *l) {
  size_t n = (size_t)(l->pointers + l->words);
  Node *node = calloc(1, sizeof *node + n * (sizeof *node->args + sizeof *node->word));
  if (!node) return NULL;
  node->behind = -1;
  node->word = (uint64_t *)(node->args + n);
  for (size_t i = 0; i < n; i++) node->args[i] = &node->word[i];
  say_launch(node, l);
  return node;
}

int ts_ze_node_new(TsDevice *d, void **out, void *graph, void *const *after, size_t nafter,
                   const TsLaunch *l, TsError *err) {
  Graph *g = graph;
  (void)d;
  if (g->n == g->cap) {
    int cap = g->cap ? 2 * g->cap : 32;
    Node **more = realloc(g->node, sizeof(Node *) * (size_t)cap);
    if (!more) return ts_error_memory(err), -1;
    g->node = more, g->cap = cap;
  }
  Node *node = node_of(l);
  if (!node) return ts_error_memory(err), -1;
  for (size_t i = 0; i < nafter; i++) {
    int number = ((const Node *)after[i])->number;
    if (number > node->behind) node->behind = number;
  }
  node->number = g->n;
  *out = g->node[g->n++] = node;
  return 0;
}

int ts_ze_node_set(TsDevice *d, void *exec, void *node, const TsLaunch *l, TsError *err) {
  Node *n = node;
  if (l->kernel != n->launch.kernel ||
      l->pointers + l->words != n->launch.pointers + n->launch.words)
    return ts_error_set(err, TS_ERR_device, "%s: a launch of a record is of another kernel",
                        d->name);
  say_launch(n, l);
  ((Exec *)exec)->made = false;
  return 0;
}

/* ---- lists */
static ZeResult fill(const Exec *e) {
  int met = 0; /* launches in front of the last barrier */
  ZeResult code = ZE_DO(zeCommandListAppendWaitOnEvents, e->list, 1, (void **)&e->begin);
  if (!code) code = ZE_DO(zeCommandListAppendEventReset, e->list, e->begin);
  for (int i = 0; i < e->graph->n && !code; i++) {
    const Node *n = e->graph->node[i];
    if (n->behind >= met) {
      code = ZE_DO(zeCommandListAppendBarrier, e->list, NULL, 0, NULL);
      met = i;
    }
    if (!code) code = ts_ze_kernel_append(e->list, &n->launch);
  }
  if (!code) code = ZE_DO(zeCommandListAppendBarrier, e->list, NULL, 0, NULL);
  if (!code) code = ZE_DO(zeCommandListAppendSignalEvent, e->list, e->end);
  return code ? code : ZE_DO(zeCommandListClose, e->list);
}

/* What is launched of it is over. */
static ZeResult await(Exec *e) {
  return e->launched ? ZE_DO(zeEventHostSynchronize, e->end, UINT64_MAX) : 0;
}

static ZeResult make(Exec *e) {
  ZeResult code = await(e);
  if (!code) code = ZE_DO(zeCommandListReset, e->list);
  if (!code) code = fill(e);
  e->made = !code;
  return code;
}

ZeResult ts_ze_exec_free(void *exec) {
  Exec *e = exec;
  ZeResult code = await(e);
  if (e->list) ts_ze.zeCommandListDestroy(e->list);
  if (e->begin) ts_ze.zeEventDestroy(e->begin);
  if (e->end) ts_ze.zeEventDestroy(e->end);
  if (e->pool) ts_ze.zeEventPoolDestroy(e->pool);
  free(e);
  return code;
}

/* Of all lists that are closed: one comes behind another. */
static ZeResult need_queue(TsZe *s) {
  ZeQueueDesc desc = {
      .head = {ZE_TYPE_QUEUE_DESC, NULL}, .ordinal = s->compute, .mode = ZE_MODE_ASYNCHRONOUS};
  return s->queue ? 0 : ZE_DO(zeCommandQueueCreate, s->context, s->device, &desc, &s->queue);
}

static ZeResult exec_new(TsZe *s, Exec *e) {
  ZeListDesc desc = {{ZE_TYPE_LIST_DESC, NULL}, s->compute, 0};
  ZeResult code = need_queue(s);
  if (!code) code = ZE_DO(zeCommandListCreate, s->context, s->device, &desc, &e->list);
  if (!code) code = ts_ze_pool_new(0, 2, &e->pool);
  if (!code) code = ts_ze_place_new(e->pool, 0, &e->begin);
  if (!code) code = ts_ze_place_new(e->pool, 1, &e->end);
  if (!code) code = fill(e);
  e->made = !code;
  return code;
}

int ts_ze_exec_new(TsDevice *d, void **exec, void *graph, TsError *err) {
  Exec *e = calloc(1, sizeof *e);
  if (!e) return ts_error_memory(err), -1;
  e->graph = graph;
  ZeResult code = exec_new(d->state, e);
  *exec = code ? NULL : e;
  if (!code) return 0;
  ts_driver_fail(d, code, "zeCommandListCreate", err);
  ts_ze_exec_free(e);
  return -1;
}

/* ---- launches. What fails leaves both events as they were before. */
static ZeResult launch(Exec *e, TsZeStream *s) {
  ZeResult code = 0;
  if (e->launched) code = ZE_APPEND(s, zeCommandListAppendEventReset, e->end);
  if (!code) code = ts_ze_signal(s, e->begin);
  if (!code) {
    e->launched = false; /* `end` was reset and nobody signals it */
    code = ZE_DO(zeCommandQueueExecuteCommandLists, ts_ze_here()->queue, 1, &e->list, NULL);
    if (code) ts_ze_unsignal(s, e->begin);
  }
  if (code) return code;
  e->launched = true;
  code = ZE_APPEND(s, zeCommandListAppendWaitOnEvents, 1, &e->end);
  if (code) ts_ze.zeEventHostSynchronize(e->end, UINT64_MAX);
  return code;
}

ZeResult ts_ze_graph_launch(void *exec, void *stream) {
  Exec *e = exec;
  TsZeStream *s = stream;
  ZeResult code = e->made ? 0 : make(e);
  if (code) return code;
  ts_ze_append(s); /* nothing comes between */
  code = launch(e, s);
  pthread_mutex_unlock(&s->lock);
  return code;
}
