/* NVIDIA GPUs as devices, by the driver API alone (driver.h has what is no matter of the
 * maker's). Counting them and asking what they are needs no context. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/driver/cuda_api.h"

static char none[120];
static TsCuda gpu[TS_MAX_DEVICES];

int ts_cuda_count(const char **why) {
  *why = ts_cuda_load();
  if (*why) return 0;
  int n = 0, code = ts_cuda_driver.count(&n);
  if (!code && n > 0) return n;
  snprintf(none, sizeof none,
           "the NVIDIA driver works, but shows no GPU (cuDeviceGetCount: %d)", code);
  *why = none;
  return 0;
}

static int attribute(const TsDriven *s, int which) {
  int value = 0;
  ts_cuda_driver.attribute(&value, which, s->device);
  return value;
}

/* NULL: it is too old. */
static const TsTarget *target_of(int major, int minor) {
  if (major < 8) return NULL;
  if (major == 8) return ts_target(minor == 6 || minor == 9 ? "sm_86" : "sm_80");
  if (major == 9 && !minor) return ts_target("sm_90a");
  return ts_target(major == 12 ? "sm_120" : "sm_100");
}

void ts_cuda_device(TsDevice *d) {
  int number = atoi(strchr(d->name, ':') + 1);
  TsDriven *s = &gpu[number].of;
  d->state = s;
  s->driver = &ts_cuda_driver;
  ts_cuda_driver.device(&s->device, number);
  if (ts_cuda_driver.model(s->model, sizeof s->model, s->device))
    snprintf(s->model, sizeof s->model, "NVIDIA GPU");
  int major = attribute(s, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  int minor = attribute(s, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  snprintf(s->code, sizeof s->code, "sm_%d%d", major, minor);
  s->processors = attribute(s, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  s->khz = attribute(s, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  ts_cuda_driver.total(&s->total, s->device);
  ts_cuda_driver.version(&d->driver);
  d->target = target_of(major, minor);
  d->bandwidth = 2e3 * attribute(s, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                 attribute(s, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  ts_driver_device(d);
  d->run = &ts_cuda_run;
}
