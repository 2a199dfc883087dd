/* Simulated kernels that meet those of other devices (`meet` of ir/tile/tile.def). A launch returns
 * before it has run, as on a GPU: it waits until all devices of its group have one, and then they run
 * together, a thread each. So what CI runs is the protocol itself, words and all. Whatever else a
 * device is asked for comes behind its launch: if that waits still, the others will not come any
 * more, and the kernels that there are run to their time-out, without waiting for it. */
#ifndef TS_JIT_DEVICE_SIM_MEET_H
#define TS_JIT_DEVICE_SIM_MEET_H

#include "devices/device.h"
#include "ir/tile/tile.h"

/* The first meeting of k, or NULL. */
const TsTileStmt *ts_sim_meeting(const TsTile *k);
/* k, which has `meeting`, is expanded and stays; arg: addresses of the host. A failure of a kernel
 * that waited is the error of whoever makes it run. */
int ts_sim_meet_launch(TsDevice *d, const TsTile *k, const TsTileStmt *meeting,
                       void *const *arg, const int64_t *dim, TsError *err);
/* What waits on d runs now; of all devices if d is NULL. */
void ts_sim_meet_end(TsDevice *d);

#endif
