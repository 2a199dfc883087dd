/* Code on NVIDIA's GPUs: libraries, kernels, launches, and launches in graphs. */
#include <stdio.h>
#include <string.h>

#include "devices/driver/cuda_api.h"
#include "devices/meet.h"

/* The driver's own compiler says what it dislikes in a buffer: its first lines belong to the
 * message. */
typedef struct Log {
  char text[4096];
  int option[2];
  void *value[2];
} Log;

static void log_begin(Log *l) {
  l->text[0] = 0;
  l->option[0] = CU_JIT_ERROR_LOG_BUFFER, l->value[0] = l->text;
  l->option[1] = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
  l->value[1] = (void *)(uintptr_t)sizeof l->text;
}

static int refused(TsDevice *d, Log *l, CUresult code, const char *call, TsError *err) {
  ts_driver_fail(d, code, call, err);
  size_t n = strlen(err->message);
  l->text[sizeof l->text - 1] = 0;
  if (l->text[0]) snprintf(err->message + n, sizeof err->message - n, "\n%s", l->text);
  return -1;
}

/* A library, not a module: the driver compiles a module's PTX under the lock of its context, so
 * that every copy, launch and compile of another thread waits (200 ms for an attention), and a
 * library's before it takes one, ten side by side in the time of the longest. */
static int module_new(TsDevice *d, const void *code, size_t nbytes, void **out, TsError *err) {
  (void)nbytes; /* PTX ends with a zero, and a cubin says its size */
  Log log;
  CUlibrary library = NULL;
  if (ts_driver_enter(d, err)) return -1;
  log_begin(&log);
  CUresult failed =
      ts_cuda.cuLibraryLoadData(&library, code, log.option, log.value, 2, NULL, NULL, 0);
  *out = library;
  return failed ? refused(d, &log, failed, "cuLibraryLoadData", err) : 0;
}

/* More than 48 KiB of shared memory have to be asked for once a kernel. */
static int kernel_find(TsDevice *d, void *module, const char *name, int shared, void **out,
                       TsError *err) {
  CUkernel k;
  CUfunction f;
  if (ts_driver_enter(d, err)) return -1;
  TS_CUDA(d, err, cuLibraryGetKernel, &k, module, name);
  ts_device_together(true);
  CUresult loaded = ts_cuda.cuKernelGetFunction(&f, k);
  ts_device_together(false);
  if (loaded) return ts_driver_fail(d, loaded, "cuKernelGetFunction", err);
  if (shared > 48 << 10)
    TS_CUDA(d, err, cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            shared);
  *out = f;
  return 0;
}

static int launch(TsDevice *d, const TsLaunch *l, TsError *err) {
  const TsDriven *s = d->state;
  if (ts_driver_records(s, l)) return ts_driver_record_add(d, l, err);
  CUlaunchAttribute list[3] = {{.id = 0}};
  CUlaunchConfig config = {.gridDimX = l->grid[0],
                           .gridDimY = l->grid[1],
                           .gridDimZ = l->grid[2],
                           .blockDimX = l->block[0],
                           .blockDimY = l->block[1],
                           .blockDimZ = l->block[2],
                           .sharedMemBytes = l->shared,
                           .hStream = l->stream ? l->stream : s->work,
                           .attrs = list};
  if (l->cluster[0]) {
    CUlaunchAttribute *a = &list[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a->value.cluster.x = l->cluster[0];
    a->value.cluster.y = l->cluster[1];
    a->value.cluster.z = l->cluster[2];
  }
  bool dependent = !l->stream && ts_driver_queue(d) && l->dependent;
  if ((l->early || dependent) && !l->small) {
    CUlaunchAttribute *a = &list[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.early = 1;
  }
  if (l->together) {
    CUlaunchAttribute *a = &list[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    a->value.together = 1;
  }
  if (ts_driver_enter(d, err)) return -1;
  TS_CUDA(d, err, cuLaunchKernelEx, &config, l->kernel, l->args, NULL);
  return 0;
}

/* ---- in graphs */
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

/* The edge leaves from where all blocks have said that the next launch may come, or have ended,
 * and code behind it waits for the rest. */
static int begin_early(TsDevice *d, void *graph, void *front, void *node, TsError *err) {
  CUgraphEdgeData edge = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                          .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
  CUresult code = ts_cuda_edges.cuGraphAddDependencies(graph, &front, &node, &edge, 1);
  return code ? ts_driver_fail(d, code, "cuGraphAddDependencies", err) : 0;
}

int ts_cuda_node_new(TsDevice *d, void **node, void *graph, void *const *after, size_t nafter,
                     const TsLaunch *l, TsError *err) {
  CUkernelNodeParams p = params_of(l);
  CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
  bool early = l->early && nafter == 1 && ts_cuda_edges.cuGraphAddDependencies;
  TS_CUDA(d, err, cuGraphAddKernelNode, node, graph, after, early ? 0 : nafter, &p);
  if (early && begin_early(d, graph, after[0], *node, err)) return -1;
  if (!l->cluster[0]) return 0;
  cluster.value.cluster.x = l->cluster[0];
  cluster.value.cluster.y = l->cluster[1];
  cluster.value.cluster.z = l->cluster[2];
  TS_CUDA(d, err, cuGraphKernelNodeSetAttribute, *node, cluster.id, &cluster.value);
  return 0;
}

int ts_cuda_node_set(TsDevice *d, void *exec, void *node, const TsLaunch *l, TsError *err) {
  CUkernelNodeParams p = params_of(l);
  TS_CUDA(d, err, cuGraphExecKernelNodeSetParams, exec, node, &p);
  return 0;
}

int ts_cuda_exec_new(TsDevice *d, void **exec, void *graph, TsError *err) {
  TS_CUDA(d, err, cuGraphInstantiateWithFlags, exec, graph, 0);
  return 0;
}

const TsDeviceRun ts_cuda_run = {TS_DRIVER_RUN,
                                 TS_DRIVER_RECORDS,
                                 .module_new = module_new,
                                 .kernel = kernel_find,
                                 .launch = launch,
                                 .variable = ts_driver_variable,
                                 .facts = ts_driver_facts,
                                 .tensor_map = ts_cuda_tensor_map};
