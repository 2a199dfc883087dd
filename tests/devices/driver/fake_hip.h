/* Tests and the driver of AMD's that has no GPU (fake_hip.c). */
#ifndef TESTS_DEVICES_FAKE_HIP_H
#define TESTS_DEVICES_FAKE_HIP_H

#include <stdint.h>

/* A launch that the driver found nothing wrong with. code: what the module was loaded from;
 * arg: the values, as their addresses. Gives a code of the driver's. */
typedef struct FakeHipLaunch {
  const void *code;
  const char *kernel;
  const uint32_t *grid, *block;
  uint32_t shared;
  int narg;
  void *const *arg;
} FakeHipLaunch;
typedef int FakeHipRun(const FakeHipLaunch *l);
/* Who runs them; NULL, as in the beginning: nobody, and no kernel is found but after
 * fake_any(). */
void fake_hip_run(FakeHipRun *run);

#endif
