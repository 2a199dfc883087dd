/* Functions that have been promoted on a device, in this process or an earlier one: their
 * kernels are on disk, most likely, and are loaded before the first call instead of after
 * some. */
#ifndef TS_JIT_KNOWN_H
#define TS_JIT_KNOWN_H

#include "devices/device.h"
#include "ir/graph/graph.h"

bool ts_known_has(const TsDevice *d, const TsGraph *g);
void ts_known_add(const TsDevice *d, const TsGraph *g);

#endif
