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
void ts_hip_device(TsDevice *d);
int ts_hip_count(const char **why); /* of AMD */
void ts_level_zero_device(TsDevice *d);
int ts_level_zero_count(const char **why); /* of Intel */
void ts_opencl_device(TsDevice *d);
/* How many of OpenCL's devices take SPIR-V. */
int ts_opencl_count(const char **why);

#endif
