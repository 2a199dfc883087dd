/* Kernels of GPUs, and of the simulated one, whose kernels the interpreter runs. */
#include "jit/device_kernel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "devices/sim.h"
#include "ir/tile_copy.h"
#include "jit/device_parts.h"
#include "jit/gpu.h"
#include "jit/gpu_explicit.h"
#include "jit/llvm.h"

struct TsDeviceKernel {
  TsDevice *device;
  TsTile *tile;  /* of a simulated device: expanded once, for the interpreter */
  bool emulated; /* or as it is, for the emulator of GPU code */
  TsGpuKernel *gpu;
  TsGpuExplicit *roles; /* of a kernel with roles */
  TsDeviceParts *parts; /* of one that is several */
};

/* Kernels with roles are the device's own explicit form. */
static bool has_roles(const TsTile *k) { return k->form == TS_FORM_explicit && k->threads; }

static bool is_sim(const TsDevice *d) { return !strcmp(d->kind, "sim"); }

/* TESSERA_SIM=emulate: the simulated GPU runs the code of a real one, thread by thread. For
 * tests of that code; a thousand times slower than the interpreter. */
static bool emulates(void) {
  const char *how = getenv("TESSERA_SIM");
  return how && !strcmp(how, "emulate");
}

/* What schedules ask for: that products have fused multiply-adds, and the room of a block. */
static const TsTarget simulated = {.name = "sim",
                                   .vector_bytes = 16,
                                   .registers = 255,
                                   .fma = true,
                                   .cache = {128 << 10, 32 << 20, 32 << 20},
                                   .shared_bytes = 227 << 10,
                                   .bare_products = true};

const TsTarget *ts_device_target(TsDevice *d, const char **why) {
  *why = NULL;
  if (is_sim(d)) return &simulated;
  const TsGpuTarget *t = !strcmp(d->kind, "cuda") ? ts_gpu_target(d->major, d->minor) : NULL;
  if (!ts_llvm_present())
    *why = "the program was built without LLVM";
  else if (!t)
    *why = "there is no code generator for this device";
  return *why ? NULL : &t->tile;
}

static int simulate(TsDeviceKernel *made, const TsTile *k, TsError *err) {
  TsGpuCode code = {0};
  if (ts_tile_check(k, NULL, err)) return -1;
  made->emulated = emulates() && !has_roles(k);
  if (made->emulated && ts_gpu_code(k, ts_gpu_target(9, 0), true, &code, err)) return -1;
  ts_gpu_code_free(&code);
  made->tile = made->emulated ? ts_tile_copy(k, NULL, NULL, err) : ts_tile_expand(k, err);
  return made->tile ? 0 : -1;
}

TsDeviceKernel *ts_device_kernel_open(TsDevice *d, const TsTile *k, TsError *err) {
  TsDeviceKernel *made = calloc(1, sizeof *made);
  if (!made) return ts_error_set(err, TS_ERR_memory, "out of memory"), NULL;
  made->device = d;
  bool well;
  if (k->parts) well = (made->parts = ts_device_parts_open(d, k->parts, err)) != NULL;
  else if (is_sim(d)) well = !simulate(made, k, err);
  else if (has_roles(k)) well = (made->roles = ts_gpu_explicit_open(d, k, err)) != NULL;
  else well = (made->gpu = ts_gpu_kernel_open(d, k, err)) != NULL;
  if (well) return made;
  free(made);
  return NULL;
}

static int run_simulated(const TsDeviceKernel *d, void *const *arg, const int64_t *dim,
                         TsError *err) {
  enum { FEW = 64 };
  void *at[FEW];
  uintptr_t low = 0;
  const TsTile *k = d->tile;
  if (k->nparam > FEW)
    return ts_error_set(err, TS_ERR_value, "%s: more than %d parameters", k->name, FEW);
  for (int i = 0; i < k->nparam; i++) {
    at[i] = ts_sim_host(arg[i]);
    low |= (uintptr_t)at[i];
  }
  return d->emulated ? ts_gpu_emulate(k, low % 16 == 0, at, dim, err)
                     : ts_tile_run(k, at, dim, err);
}

int ts_device_kernel_run(TsDeviceKernel *k, void *const *arg, const int64_t *dim,
                         TsError *err) {
  if (k->parts) return ts_device_parts_run(k->parts, arg, err);
  if (k->tile) return run_simulated(k, arg, dim, err);
  return k->roles ? ts_gpu_explicit_run(k->roles, arg, dim, err)
                  : ts_gpu_kernel_run(k->gpu, arg, dim, err);
}

static atomic_uint freed;

unsigned ts_device_kernel_freed(void) { return atomic_load(&freed); }

void ts_device_kernel_free(TsDeviceKernel *k) {
  if (!k) return;
  atomic_fetch_add(&freed, 1);
  ts_tile_free(k->tile);
  if (k->gpu) ts_gpu_kernel_free(k->gpu);
  ts_gpu_explicit_free(k->roles);
  ts_device_parts_free(k->parts);
  free(k);
}

bool ts_device_kernel_scratch(const TsDeviceKernel *k) {
  if (k->parts) return ts_device_parts_scratch(k->parts);
  return k->gpu && ts_gpu_kernel_code(k->gpu)->nscratch > 0;
}

bool ts_device_kernel_simple(const TsDeviceKernel *k) {
  return !k->roles && !ts_device_kernel_scratch(k) && ts_device_kernel_launches(k) == 1;
}

int ts_device_kernel_launches(const TsDeviceKernel *k) {
  if (k->parts) return ts_device_parts_launches(k->parts);
  return k->gpu ? ts_gpu_kernel_code(k->gpu)->nphase : 1;
}

bool ts_device_kernel_cached(const TsDeviceKernel *k) {
  if (k->parts) return ts_device_parts_cached(k->parts);
  return k->roles ? ts_gpu_explicit_cached(k->roles)
                  : k->gpu && ts_gpu_kernel_cached(k->gpu);
}

void ts_device_kernel_times(const TsDeviceKernel *k, double *llvm_usec, double *driver_usec) {
  *llvm_usec = *driver_usec = 0;
  if (k->gpu) ts_gpu_kernel_times(k->gpu, llvm_usec, driver_usec);
  if (k->roles) ts_gpu_explicit_times(k->roles, llvm_usec, driver_usec);
}

TsDevice *ts_device_kernel_device(const TsDeviceKernel *k) { return k->device; }

bool ts_device_kernel_records(const TsDeviceKernel *k, void *const *arg) {
  if (k->parts) return ts_device_parts_record(k->parts, arg);
  return !k->roles || ts_gpu_explicit_plain(k->roles, arg);
}
