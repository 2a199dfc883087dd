/* Scratch of launches that are put off and recorded. What a launch takes and gives back at once
 * may be anybody's when it runs; so these have areas of their own, which all of a device share,
 * as one runs behind the other. A launch that writes an area comes behind those that wrote it
 * before: several of them let neighbours run side by side. */
#ifndef TS_JIT_REPLAY_AREAS_H
#define TS_JIT_REPLAY_AREAS_H

#include "devices/device.h"

enum { TS_REPLAY_AREAS = 4 };

/* Whoever has records holds the areas; the last to drop them gives them back. */
void ts_replay_areas_hold(TsDevice *d);
void ts_replay_areas_drop(TsDevice *d);
/* Area i, of at least so many bytes, or NULL with the error. What grows is another one. */
void *ts_replay_area(TsDevice *d, int i, int64_t nbytes, TsError *err);
/* How often one became another: records from before have addresses that are somebody else's. */
unsigned ts_replay_areas_moved(const TsDevice *d);

#endif
