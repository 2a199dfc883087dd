/* What drivers that take SPIR-V, Level Zero's and OpenCL's, are given: which code a device
 * runs, by what it says of itself, and what a module wants. */
#ifndef TS_DEVICES_DRIVER_SPIRV_H
#define TS_DEVICES_DRIVER_SPIRV_H

#include <stddef.h>

#include "devices/target.h"

typedef struct TsSpirvDevice {
  bool f64, half;
  bool cpu;
  bool warps;              /* sub-groups of 32 may be asked for */
  bool cooperative;        /* and of 16, which multiply cooperative matrices of bf16, f16, i8 */
  bool no_dpas;            /* its driver says that it has no such unit */
  int64_t shared, threads; /* of a block, at most: bytes of memory, threads */
} TsSpirvDevice;

/* The best row whose needs it has, so that a GPU that nobody listed runs as well; NULL:
 * none. */
const TsTarget *ts_spirv_target(const TsSpirvDevice *d);
bool ts_spirv_wants_f64(const void *module, size_t nbytes);
/* Whether it has TS_TARGET_LARGE. */
bool ts_spirv_wants_large(const void *module, size_t nbytes);

/* spirv_probe.c. A module that a driver makes code of if it has the cooperative matrices of the
 * row "cooperative": fills words, gives bytes. */
enum { TS_SPIRV_PROBE_WORDS = 512 };
size_t ts_spirv_probe(uint32_t word[TS_SPIRV_PROBE_WORDS]);

#endif
