/* Code on Intel's GPUs by Level Zero: modules of SPIR-V, kernels, launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/level_zero_api.h"
#include "devices/spirv.h"

/* Kernels end before their module, and hold the arguments of the next launch: one thread
 * launches. */
typedef struct Kernel {
  struct Kernel *next;
  void *at;
  uint32_t block[3];
} Kernel;

typedef struct Module {
  void *at;
  Kernel *kernels;
} Module;

static int refused(TsDevice *d, void *log, ZeResult code, TsError *err) {
  size_t n = 0;
  ts_driver_fail(d, code, "zeModuleCreate", err);
  size_t at = strlen(err->message);
  if (!log || ts_ze.zeModuleBuildLogGetString(log, &n, NULL) || n < 2) return -1;
  char *text = calloc(1, n + 1);
  if (text && !ts_ze.zeModuleBuildLogGetString(log, &n, text))
    snprintf(err->message + at, sizeof err->message - at, "\n%s", text);
  free(text);
  return -1;
}

static int module_new(TsDevice *d, const void *code, size_t nbytes, void **module,
                      TsError *err) {
  const TsZe *s = d->state;
  void *log = NULL;
  if (!s->f64 && ts_spirv_wants_f64(code, nbytes))
    return ts_error_set(err, TS_ERR_device, "%s has no f64", d->name);
  ZeModuleDesc desc = {.head = {ZE_TYPE_MODULE_DESC, NULL},
                       .format = ZE_MODULE_SPIRV,
                       .nbytes = nbytes,
                       .code = code,
                       .options = "-ze-opt-greater-than-4GB-buffer-required"};
  if (ts_driver_enter(d, err)) return -1;
  Module *m = calloc(1, sizeof *m);
  if (!m) return ts_error_memory(err);
  ZeResult failed = ZE_DO(zeModuleCreate, s->context, s->device, &desc, &m->at, &log);
  if (failed) refused(d, log, failed, err), free(m);
  if (log) ZE_DO(zeModuleBuildLogDestroy, log);
  *module = failed ? NULL : m;
  return failed ? -1 : 0;
}

ZeResult ts_ze_module_free(void *module) {
  Module *m = module;
  for (Kernel *k = m->kernels, *next; k; k = next) {
    next = k->next;
    ZE_DO(zeKernelDestroy, k->at);
    free(k);
  }
  ZeResult code = ZE_DO(zeModuleDestroy, m->at);
  free(m);
  return code;
}

ZeResult ts_ze_variable(void **at, size_t *nbytes, void *module, const char *name) {
  return ZE_DO(zeModuleGetGlobalPointer, ((Module *)module)->at, name, nbytes, at);
}

static int make_kernel(TsDevice *d, Module *m, Kernel *k, const char *name, TsError *err) {
  ZeKernelDesc desc = {{ZE_TYPE_KERNEL_DESC, NULL}, 0, name};
  ZeResult code = ZE_DO(zeKernelCreate, m->at, &desc, &k->at);
  return code ? ts_driver_fail(d, code, "zeKernelCreate", err) : 0;
}

static int kernel_find(TsDevice *d, void *module, const char *name, int shared, void **kernel,
                       TsError *err) {
  (void)shared; /* an argument of each launch */
  Module *m = module;
  if (ts_driver_enter(d, err)) return -1;
  Kernel *k = calloc(1, sizeof *k);
  if (!k) return ts_error_memory(err);
  if (make_kernel(d, m, k, name, err)) return free(k), -1;
  k->next = m->kernels;
  m->kernels = k;
  *kernel = k;
  return 0;
}

/* ---- launches */
#define ZE(d, err, call, ...)                                                                  \
  do {                                                                                         \
    ZeResult code_ = ZE_DO(call, __VA_ARGS__);                                                 \
    if (code_) return ts_driver_fail(d, code_, #call, err);                                    \
  } while (0)

/* Addresses, sizes, and behind them the memory of a block, of which only the size is said. */
static int set_args(TsDevice *d, const TsLaunch *l, const Kernel *k, TsError *err) {
  uint32_t i = 0, n = (uint32_t)(l->pointers + l->words);
  for (; i < n; i++)
    ZE(d, err, zeKernelSetArgumentValue, k->at, i, sizeof(uint64_t), l->args[i]);
  if (l->shared) ZE(d, err, zeKernelSetArgumentValue, k->at, i, l->shared, NULL);
  return 0;
}

static int launch(TsDevice *d, const TsLaunch *l, TsError *err) {
  const TsZe *s = d->state;
  Kernel *k = l->kernel;
  TsZeStream *stream = l->stream ? l->stream : s->of.work;
  ZeGroups groups = {l->grid[0], l->grid[1], l->grid[2]};
  if (ts_driver_enter(d, err) || set_args(d, l, k, err)) return -1;
  if (memcmp(k->block, l->block, sizeof k->block)) {
    ZE(d, err, zeKernelSetGroupSize, k->at, l->block[0], l->block[1], l->block[2]);
    memcpy(k->block, l->block, sizeof k->block);
  }
  if (!l->stream) ts_driver_queue(d);
  ZE(d, err, zeCommandListAppendLaunchKernel, stream->list, k->at, &groups, NULL, 0, NULL);
  ZeResult code = ts_ze_ordered(stream, 0);
  return code ? ts_driver_fail(d, code, "zeCommandListAppendBarrier", err) : 0;
}

/* Launches are made one by one: what could be recorded could not be changed. */
const TsDeviceRun ts_ze_run = {TS_DRIVER_RUN, .module_new = module_new, .kernel = kernel_find,
                               .launch = launch};
