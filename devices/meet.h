/* Several devices of one kind, working together. */
#ifndef TS_DEVICES_MEET_H
#define TS_DEVICES_MEET_H

#include "devices/device.h"

/* Kernels of d may read and write the memory of `other`. The first question opens the way. */
bool ts_device_reaches(TsDevice *d, TsDevice *other);
/* What is queued on any of them from now on comes behind what all have been given so far. */
int ts_device_meet(int n, TsDevice *const *list, TsError *err);

/* Around launches of kernels that wait for each other: meanwhile no thread loads code, which waits for
 * what runs, and holds up launches. */
void ts_device_together(bool on);

#endif
