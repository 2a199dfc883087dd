/* The simulated GPU's memory, for whoever runs its kernels. */
#ifndef TS_DEVICES_SIM_H
#define TS_DEVICES_SIM_H

#include "devices/device.h"

typedef enum TsSimCall {
  TS_SIM_launch,
  TS_SIM_upload,
  TS_SIM_download,
  TS_SIM_copy,
  TS_SIM_open, /* of a kernel: this one and all behind it, until there are to be none */
  TS_SIM_miss, /* of a launch that meets other devices: it never runs, and nobody says so */
} TsSimCall;

/* For tests: the n-th such call from now on fails on the device; 0: none does, and the device works
 * again. lost: and every call behind it, as on a GPU whose context is gone. Gives what was left of the
 * number set before. */
int64_t ts_sim_fail_after(TsDevice *d, TsSimCall call, int64_t n, bool lost);
/* Called before each call that comes behind what was launched on a device. */
void ts_sim_on_use(void (*call)(TsDevice *d));
void ts_sim_use(TsDevice *d);
/* Whether this one fails: -1 with the error. */
int ts_sim_fails(TsDevice *d, TsSimCall call, TsError *err);
/* Whether kernels reach the memory of other simulated GPUs: without it bytes go over the host. */
void ts_sim_link(bool there);

/* ---- devices/sim_aside.c: members of TsDeviceRun; and what is looked at */
int ts_sim_aside_begin(TsDevice *d, TsError *err);
int ts_sim_aside_end(TsDevice *d, uint64_t ticket, TsError *err);
int ts_sim_aside_rejoin(TsDevice *d, uint64_t ticket, TsError *err);
void ts_sim_aside_made(TsDevice *d, void *at, int64_t nbytes);
bool ts_sim_aside_keeps(TsDevice *d, void *at, int64_t nbytes); /* it is freed later */
void ts_sim_aside_touch(TsDevice *d, const void *at); /* a launch or copy uses the address */

/* The host's address of one of the device's, inside of a block as well. */
void *ts_sim_host(void *at);

#endif
