/* See jit/compile/compile.h. */
#include "jit/compile/compile.h"

#include <stdio.h>
#include <stdlib.h>

#include "jit/code/cache.h"
#include "jit/compile/llvm.h"

static bool from_disk(TsKernel *kernel, const uint8_t *key) {
  size_t n;
  TsError ignored;
  void *object = ts_cache_read(ts_cache_usual(), key, &n);
  if (!object) return false;
  kernel->cached = !ts_kernel_load(kernel, object, n, &ignored);
  free(object);
  return kernel->cached;
}

static int from_llvm(TsKernel *kernel, const TsTile *k, const TsTarget *t, const uint8_t *key,
                     TsError *err) {
  void *object = NULL;
  size_t n;
  if (ts_llvm_object(k, t, NULL, &object, &n, err)) return -1;
  int failed = ts_kernel_load(kernel, object, n, err);
  if (!failed) ts_cache_write(ts_cache_usual(), key, object, n);
  free(object);
  return failed;
}

/* From disk, or by LLVM if `compile`. */
static TsKernel *kernel_of(const TsTile *k, const TsTarget *t, bool compile, TsError *err) {
  uint8_t key[TS_CACHE_KEY];
  char salt[64];
  TsKernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return ts_error_set(err, TS_ERR_memory, "jit: out of memory"), NULL;
  snprintf(salt, sizeof salt, "code %s llvm %s", ts_code_version(), ts_llvm_version());
  ts_kernel_key(k, t, salt, key);
  bool outlined = !ts_kernel_outline(kernel, k, t, err);
  bool made = outlined && from_disk(kernel, key);
  if (!made && outlined && compile) made = !from_llvm(kernel, k, t, key, err);
  if (made) return kernel;
  ts_kernel_free(kernel);
  return NULL;
}

TsKernel *ts_kernel_compile(const TsTile *k, const TsTarget *t, TsError *err) {
  return kernel_of(k, t, true, err);
}

TsKernel *ts_kernel_find(const TsTile *k, const TsTarget *t) {
  TsError ignored = {0};
  return kernel_of(k, t, false, &ignored);
}
