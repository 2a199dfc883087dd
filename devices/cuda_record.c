/* Launches that are made again and again, as one: CUDA's graphs. They are built node by node,
 * each after the one before, which needs no capture of a stream and no rules about what may
 * happen meanwhile; and a node's arguments can be changed. */
#include <stdlib.h>
#include <string.h>

#include "devices/cuda_api.h"

typedef struct TsCudaRecord {
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode *node;
  int n, cap;
  CUgraphNode *after; /* of the next launch, if that was said */
  int nafter;
  bool said;
} TsCudaRecord;

static CUkernelNodeParams params_of(const TsLaunch *l) {
  return (CUkernelNodeParams){.func = l->kernel,
                              .gridDimX = l->grid[0],
                              .gridDimY = l->grid[1],
                              .gridDimZ = l->grid[2],
                              .blockDimX = l->block[0],
                              .blockDimY = l->block[1],
                              .blockDimZ = l->block[2],
                              .sharedMemBytes = l->shared,
                              .kernelParams = l->args};
}

static void drop(TsCudaRecord *r) {
  if (!r) return;
  if (r->exec) ts_cuda.cuGraphExecDestroy(r->exec);
  if (r->graph) ts_cuda.cuGraphDestroy(r->graph);
  free(r->node);
  free(r->after);
  free(r);
}

int ts_cuda_record_begin(TsDevice *d, TsError *err) {
  TsCuda *s = d->state;
  TsCudaRecord *r = calloc(1, sizeof *r);
  if (!r) return ts_error_memory(err);
  CUresult failed = ts_cuda_enter(d, err) ? -1 : ts_cuda.cuGraphCreate(&r->graph, 0);
  if (!failed) {
    s->recording = r;
    return 0;
  }
  drop(r);
  return failed < 0 ? -1 : ts_cuda_fail(d, failed, "cuGraphCreate", err);
}

static int add(TsDevice *d, TsCudaRecord *r, const TsLaunch *l, TsError *err) {
  CUkernelNodeParams p = params_of(l);
  CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
  if (r->n == r->cap) {
    int cap = r->cap ? 2 * r->cap : 32;
    CUgraphNode *more = realloc(r->node, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(err);
    r->node = more, r->cap = cap;
  }
  const CUgraphNode *after = r->said ? r->after : r->n ? &r->node[r->n - 1] : NULL;
  size_t nafter = r->said ? (size_t)r->nafter : r->n > 0;
  r->said = false;
  TS_CUDA(d, err, cuGraphAddKernelNode, &r->node[r->n], r->graph, after, nafter, &p);
  CUgraphNode node = r->node[r->n++];
  if (!l->cluster[0]) return 0;
  cluster.value.cluster.x = l->cluster[0];
  cluster.value.cluster.y = l->cluster[1];
  cluster.value.cluster.z = l->cluster[2];
  TS_CUDA(d, err, cuGraphKernelNodeSetAttribute, node, cluster.id, &cluster.value);
  return 0;
}

int ts_cuda_record_add(TsDevice *d, const TsLaunch *l, TsError *err) {
  TsCuda *s = d->state;
  if (ts_cuda_enter(d, err)) return -1;
  if (s->recording) return add(d, s->recording, l, err);
  CUkernelNodeParams p = params_of(l);
  if (s->patch_at >= s->patching->n)
    return ts_error_set(err, TS_ERR_device, "%s: a record has no launch %d", d->name,
                        s->patch_at);
  CUgraphNode node = s->patching->node[s->patch_at++];
  TS_CUDA(d, err, cuGraphExecKernelNodeSetParams, s->patching->exec, node, &p);
  return 0;
}

int ts_cuda_record_after(TsDevice *d, int n, const int *launch, TsError *err) {
  TsCudaRecord *r = ((TsCuda *)d->state)->recording;
  CUgraphNode *list = realloc(r->after, sizeof *list * ((size_t)n + 1));
  if (!list) return ts_error_memory(err);
  for (int i = 0; i < n; i++) list[i] = r->node[launch[i]];
  r->after = list, r->nafter = n, r->said = true;
  return 0;
}

int ts_cuda_record_end(TsDevice *d, void **out, TsError *err) {
  TsCuda *s = d->state;
  TsCudaRecord *r = s->recording;
  s->recording = NULL;
  *out = NULL;
  CUresult failed =
      ts_cuda_enter(d, err) ? -1 : ts_cuda.cuGraphInstantiateWithFlags(&r->exec, r->graph, 0);
  if (!failed) {
    *out = r;
    return 0;
  }
  drop(r);
  return failed < 0 ? -1 : ts_cuda_fail(d, failed, "cuGraphInstantiateWithFlags", err);
}

int ts_cuda_record_patch(TsDevice *d, void *record, int first, TsError *err) {
  TsCuda *s = d->state;
  (void)err;
  s->patching = record;
  s->patch_at = first;
  return 0;
}

int ts_cuda_record_launch(TsDevice *d, void *record, TsError *err) {
  if (ts_cuda_enter(d, err)) return -1;
  ts_cuda_queue(d);
  TS_CUDA(d, err, cuGraphLaunch, ((TsCudaRecord *)record)->exec, ((TsCuda *)d->state)->work);
  return 0;
}

void ts_cuda_record_free(TsDevice *d, void *record) {
  TsError ignored;
  if (record && !ts_cuda_enter(d, &ignored)) drop(record);
}
