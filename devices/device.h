/* What a device promises. One struct of functions and numbers a device; a new
 * backend fills one in and adds its row to devices/registry.c. Optional members
 * are NULL. Addresses are of the device's own kind: only it looks behind them. */
#ifndef TS_DEVICES_DEVICE_H
#define TS_DEVICES_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"

enum { TS_MAX_DEVICES = 16 };

typedef struct TsDevice TsDevice;
struct TsDevice {
  char name[24];      /* "cpu:0", "cuda:1", "null:0" */
  const char *kind;   /* "cpu", "cuda", ... */
  int index;          /* place in the registry, TsMeta.device */
  bool host_memory;   /* addresses are plain pointers that CPU kernels may use */
  bool runs_kernels;  /* has an execution path of its own */
  void *state;        /* the backend's */
  int64_t live, peak; /* bytes allocated now, and at most */

  /* Makes the device usable; called once, before its first allocation. A missing
   * driver is an error with one sentence. */
  int (*open)(TsDevice *d, TsError *err);
  void *(*alloc)(TsDevice *d, int64_t nbytes); /* NULL: out of memory */
  void (*free)(TsDevice *d, void *at, int64_t nbytes);
  int (*upload)(TsDevice *d, void *to, const void *from_host, int64_t nbytes, TsError *err);
  int (*download)(TsDevice *d, void *to_host, const void *from, int64_t nbytes, TsError *err);
  /* One sentence for :devices: model, memory, state. */
  void (*describe)(TsDevice *d, char *text, int size);
};

/* The devices of this process. Index 0 is cpu:0 and always there. */
int ts_device_count(void);
TsDevice *ts_device_at(int index);
/* By name; "cpu" is "cpu:0". NULL with an error that lists the known ones. */
TsDevice *ts_device_find(const char *name, TsError *err);
/* Makes n virtual CPU devices: "cpu:8" in --devices, a mesh for tests. */
int ts_device_configure(const char *spec, TsError *err);

#endif
