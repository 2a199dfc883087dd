/* Kinds of kernels on devices: what a kernel of Tile IR becomes there, and what can be done
 * with it. */
#ifndef TS_JIT_DEVICE_KIND_H
#define TS_JIT_DEVICE_KIND_H

#include "jit/device/kernel.h"
#include "jit/gpu/gpu.h"

/* of: what open gave. Functions that may be NULL say what is so then. */
typedef struct TsDeviceKind {
  const char *name;
  bool instant; /* opening is over in a moment: no compiler, no driver */
  /* NULL with the error. Any thread. key: of ts_device_kernel_key. */
  void *(*open)(TsDevice *d, const TsTile *k, const uint8_t *key, TsError *err);
  void (*free)(void *of);
  /* Its code is on disk, before it is opened; it came from there. NULL: always, never. */
  bool (*known)(const TsDevice *d, const TsTile *k, const uint8_t *key);
  bool (*cached)(const void *of);
  void (*times)(const void *of, double *llvm_usec, double *driver_usec); /* NULL: none */
  int (*run)(void *of, void *scratch, void *const *arg, const int64_t *dim, TsError *err);
  /* Bytes that a run takes. NULL: none. */
  int64_t (*scratch)(const void *of, const int64_t *dim);
  /* As ts_device_kernel_ahead. NULL: all. */
  uint64_t (*ahead)(const void *of, void *const *arg, const int64_t *dim);
  /* Memory that its runs share. NULL: none. */
  const void *(*memory)(const void *of);
  /* Its own memory for scratch, on the device. NULL: the caller's. */
  void *(*room)(const void *of);
  bool (*simple)(const void *of);                    /* as ts_device_kernel_simple. NULL: yes */
  int (*launches)(const void *of);                   /* of a run, at most. NULL: 1 */
  bool (*records)(const void *of, void *const *arg); /* a run is launches alone. NULL: yes */
  int (*most)(const void *of);                       /* runs in one launch. NULL: 1 */
  int (*run_many)(void *of, int n, void *const *arg, const int64_t *dim, TsError *err);
  /* What it was made of; NULL, also as a result: it cannot have marks. */
  const TsTile *(*tile)(const void *of);
} TsDeviceKind;

/* Code of threads, which the driver compiles; kernels with roles; the simulated device's, which the
 * interpreter or the emulator runs. */
extern const TsDeviceKind ts_device_threads, ts_device_roles, ts_device_simulated;
/* Of what ts_device_threads opened. */
const TsGpuCode *ts_device_threads_code(const void *of);

const TsDeviceKind *ts_device_kind(const TsDevice *d, const TsTile *k);

#endif
