/* The driver's library, and what its failures say. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cuda_api.h"

TsCudaApi ts_cuda;
static char missing[240];

static const struct {
  const char *symbol;
  size_t at;
} symbols[] = {
#define CALL(name, version, args) {#name version, offsetof(TsCudaApi, name)},
    TS_CUDA_CALLS(CALL)
#undef CALL
};

/* Tests name a library that stands for the driver: a path, or "self" for the program. */
static void *open_library(void) {
  const char *path = getenv("TESSERA_LIBCUDA");
  if (path && !strcmp(path, "self")) return dlopen(NULL, RTLD_NOW);
  return dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

static const char *find_symbols(void *library) {
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *f = dlsym(library, symbols[i].symbol);
    if (!f) return symbols[i].symbol;
    memcpy((char *)&ts_cuda + symbols[i].at, &f, sizeof f);
  }
  return NULL;
}

static void say_code(const char *call, CUresult code) {
  const char *name = NULL, *text = NULL;
  ts_cuda.cuGetErrorName(code, &name);
  ts_cuda.cuGetErrorString(code, &text);
  snprintf(missing, sizeof missing, "no NVIDIA GPU: %s: %s (%d): %s", call,
           name ? name : "unknown error", code, text ? text : "no text");
}

static void load(void) {
  void *library = open_library();
  if (!library) {
    snprintf(missing, sizeof missing, "no NVIDIA driver: libcuda.so.1 cannot be opened");
    return;
  }
  int version = 0;
  int (*ask)(int *) = NULL;
  void *f = dlsym(library, "cuDriverGetVersion");
  memcpy(&ask, &f, sizeof f);
  if (ask && !ask(&version) && version < TS_CUDA_VERSION_MIN) {
    snprintf(missing, sizeof missing,
             "the NVIDIA driver is one for CUDA %d.%d; %d.%d or newer is needed",
             version / 1000, version % 1000 / 10, TS_CUDA_VERSION_MIN / 1000,
             TS_CUDA_VERSION_MIN % 1000 / 10);
    return;
  }
  const char *symbol = find_symbols(library);
  if (symbol) {
    snprintf(missing, sizeof missing, "the NVIDIA driver has no %s", symbol);
    return;
  }
  CUresult code = ts_cuda.cuInit(0);
  if (code) say_code("cuInit", code);
}

const char *ts_cuda_load(void) {
  static bool done;
  if (!done) load();
  done = true;
  return missing[0] ? missing : NULL;
}

/* Codes after which a context is of no more use. */
static bool is_fatal(CUresult code) { return code == 214 || (code >= 700 && code <= 720); }

int ts_cuda_fail(TsDevice *d, CUresult code, const char *call, TsError *err) {
  const char *name = NULL, *text = NULL;
  ts_cuda.cuGetErrorName(code, &name);
  ts_cuda.cuGetErrorString(code, &text);
  ts_error_set(err, code == CUDA_ERROR_OUT_OF_MEMORY ? TS_ERR_memory : TS_ERR_device,
               "%s%s: %s: %s (%d): %s",
               code == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory: " : "", d->name, call,
               name ? name : "unknown error", code, text ? text : "no text");
  if (is_fatal(code))
    ts_error_hint(err, "%s works again after a restart of the program", d->name);
  return -1;
}
