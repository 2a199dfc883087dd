/* The functions that fill in one device each. */
#ifndef TS_DEVICES_BACKENDS_H
#define TS_DEVICES_BACKENDS_H

#include "devices/device.h"

void ts_cpu_device(TsDevice *d);
void ts_null_device(TsDevice *d);
void ts_sim_device(TsDevice *d);
void ts_cuda_device(TsDevice *d); /* the name holds which */
/* How many GPUs of NVIDIA there are; 0 with the sentence that says why. */
int ts_cuda_count(const char **why);
void ts_opencl_device(TsDevice *d); /* the name holds which */
/* How many of OpenCL's devices take SPIR-V; 0 with the sentence that says why. */
int ts_opencl_count(const char **why);

#endif
