/* Code on AMD's GPUs: modules, kernels, launches, and launches in graphs. */
#include <stdio.h>
#include <string.h>

#include "devices/driver/hip_api.h"

/* An object of one processor, which says for which: the driver refuses another's. */
static int module_new(TsDevice *d, const void *code, size_t nbytes, void **module,
                      TsError *err) {
  (void)nbytes; /* an object says its size */
  if (ts_driver_enter(d, err)) return -1;
  int failed = ts_hip.hipModuleLoadData(module, code);
  if (!failed) return 0;
  ts_driver_fail(d, failed, "hipModuleLoadData", err);
  return failed == HIP_ERROR_NO_BINARY_FOR_GPU && d->target
             ? ts_error_hint(err, "the code is for %s, the GPU is a %s", ts_target_of(d)->cpu,
                             ((TsDriven *)d->state)->code)
             : -1;
}

/* All of a block's memory may be asked for as it is. */
static int kernel_find(TsDevice *d, void *module, const char *name, int shared, void **kernel,
                       TsError *err) {
  (void)shared;
  if (ts_driver_enter(d, err)) return -1;
  TS_HIP(d, err, hipModuleGetFunction, kernel, module, name);
  return 0;
}

/* A launch comes behind the one before: none begins early, and blocks share no memory. */
static int launch(TsDevice *d, const TsLaunch *l, TsError *err) {
  const TsDriven *s = d->state;
  if (ts_driver_records(s, l)) return ts_driver_record_add(d, l, err);
  if (l->cluster[0])
    return ts_error_set(err, TS_ERR_device, "%s has no clusters of blocks", d->name);
  if (!l->stream) ts_driver_queue(d);
  if (ts_driver_enter(d, err)) return -1;
  TS_HIP(d, err, hipModuleLaunchKernel, l->kernel, l->grid[0], l->grid[1], l->grid[2],
         l->block[0], l->block[1], l->block[2], l->shared, l->stream ? l->stream : s->work,
         l->args, NULL);
  return 0;
}

/* ---- in graphs */
static HipKernelNodeParams params_of(const TsLaunch *l) {
  return (HipKernelNodeParams){.block = {l->block[0], l->block[1], l->block[2]},
                               .function = l->kernel,
                               .grid = {l->grid[0], l->grid[1], l->grid[2]},
                               .params = l->args,
                               .shared = l->shared};
}

int ts_hip_node_new(TsDevice *d, void **node, void *graph, void *const *after, size_t nafter,
                    const TsLaunch *l, TsError *err) {
  HipKernelNodeParams p = params_of(l);
  TS_HIP(d, err, hipGraphAddKernelNode, node, graph, after, nafter, &p);
  return 0;
}

int ts_hip_node_set(TsDevice *d, void *exec, void *node, const TsLaunch *l, TsError *err) {
  HipKernelNodeParams p = params_of(l);
  TS_HIP(d, err, hipGraphExecKernelNodeSetParams, exec, node, &p);
  return 0;
}

int ts_hip_exec_new(TsDevice *d, void **exec, void *graph, TsError *err) {
  TS_HIP(d, err, hipGraphInstantiate, exec, graph, NULL, NULL, 0);
  return 0;
}

const TsDeviceRun ts_hip_run = {
    TS_DRIVER_RUN,           TS_DRIVER_RECORDS, .module_new = module_new,
    .kernel = kernel_find,   .launch = launch,  .variable = ts_driver_variable,
    .facts = ts_driver_facts};
