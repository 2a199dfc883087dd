/* Code on Intel's GPUs by Level Zero: modules of SPIR-V, kernels, launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/driver/level_zero_api.h"
#include "devices/driver/spirv.h"

typedef struct Module {
  void *at;
  TsZeKernel *kernels;
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
  if (ts_spirv_wants_large(code, nbytes))
    desc.options = "-ze-opt-greater-than-4GB-buffer-required -ze-opt-large-register-file";
  if (ts_driver_enter(d, err)) return -1;
  Module *m = calloc(1, sizeof *m);
  if (!m) return ts_error_memory(err);
  ZeResult failed = ZE_DO(zeModuleCreate, s->context, s->device, &desc, &m->at, &log);
  if (failed) refused(d, log, failed, err), free(m);
  if (log) ts_ze.zeModuleBuildLogDestroy(log);
  *module = failed ? NULL : m;
  return failed ? -1 : 0;
}

ZeResult ts_ze_module_free(void *module) {
  Module *m = module;
  for (TsZeKernel *k = m->kernels, *next; k; k = next) {
    next = k->next;
    ts_ze.zeKernelDestroy(k->at);
    free(k);
  }
  ZeResult code = ZE_DO(zeModuleDestroy, m->at);
  free(m);
  return code;
}

static int make_kernel(TsDevice *d, Module *m, TsZeKernel *k, const char *name, TsError *err) {
  ZeKernelDesc desc = {{ZE_TYPE_KERNEL_DESC, NULL}, 0, name};
  ZeResult code = ZE_DO(zeKernelCreate, m->at, &desc, &k->at);
  return code ? ts_driver_fail(d, code, "zeKernelCreate", err) : 0;
}

static int kernel_find(TsDevice *d, void *module, const char *name, int shared, void **kernel,
                       TsError *err) {
  (void)shared; /* an argument of each launch */
  Module *m = module;
  if (ts_driver_enter(d, err)) return -1;
  TsZeKernel *k = calloc(1, sizeof *k);
  if (!k) return ts_error_memory(err);
  if (make_kernel(d, m, k, name, err)) return free(k), -1;
  k->next = m->kernels;
  m->kernels = k;
  *kernel = k;
  return 0;
}

/* ---- launches */
ZeResult ts_ze_kernel_append(void *list, const TsLaunch *l) {
  TsZeKernel *k = l->kernel;
  ZeGroups groups = {l->grid[0], l->grid[1], l->grid[2]};
  ZeResult code = 0;
  for (uint32_t i = 0; i < (uint32_t)(l->pointers + l->words) && !code; i++)
    code = ZE_DO(zeKernelSetArgumentValue, k->at, i, sizeof(uint64_t), l->args[i]);
  if (!code && memcmp(k->block, l->block, sizeof k->block)) {
    code = ZE_DO(zeKernelSetGroupSize, k->at, l->block[0], l->block[1], l->block[2]);
    if (!code) memcpy(k->block, l->block, sizeof k->block);
  }
  return code ? code
              : ZE_DO(zeCommandListAppendLaunchKernel, list, k->at, &groups, NULL, 0, NULL);
}

static int launch(TsDevice *d, const TsLaunch *l, TsError *err) {
  const TsZe *s = d->state;
  if (ts_driver_records(&s->of, l)) return ts_driver_record_add(d, l, err);
  TsZeStream *stream = l->stream ? l->stream : s->of.work;
  if (ts_driver_enter(d, err)) return -1;
  if (!l->stream) ts_driver_queue(d);
  void *list = ts_ze_append(stream);
  ZeResult code = ts_ze_appended(stream, ts_ze_kernel_append(list, l));
  return code ? ts_driver_fail(d, code, "zeCommandListAppendLaunchKernel", err) : 0;
}

const TsDeviceRun ts_ze_run = {TS_DRIVER_RUN, TS_DRIVER_RECORDS, .module_new = module_new,
                               .kernel = kernel_find, .launch = launch};
