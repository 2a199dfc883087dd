/* A second order of a device, beside its own one: what is put there runs while the device's own work
 * goes on. Whoever begins it gets it behind all that the device has been given so far; until the end
 * all launches and copies that name no stream go there. The end gives a ticket, and the device's own
 * order comes behind that section when it is rejoined. Sections of a device follow each other.
 *
 * Memory: what a section frees is handed out again only behind its rejoin. What a section reads or
 * writes may not be freed by others before that. Launches that were put off are the caller's to flush,
 * before the begin and before the end. */
#ifndef TS_DEVICES_ASIDE_H
#define TS_DEVICES_ASIDE_H

#include "devices/device.h"

/* All of them can, and see each other's memory where they are several. */
bool ts_device_can_aside(int n, TsDevice *const *list);
/* All or none. 0, or -1 with the error. */
int ts_device_aside_begin(int n, TsDevice *const *list, TsError *err);
/* Whatever happens the devices' own orders are back. The ticket is larger than those before; after an
 * error it has to be rejoined all the same. */
int ts_device_aside_end(int n, TsDevice *const *list, uint64_t *ticket, TsError *err);
/* What the devices are given from now on comes behind that section, and behind those before it: of a device
 * that took no part in it, behind its last one before. After an error they were waited
 * for, as far as they still can be. */
int ts_device_aside_rejoin(int n, TsDevice *const *list, uint64_t ticket, TsError *err);

/* A section of it is not rejoined. */
bool ts_device_aside_flying(const TsDevice *d);
bool ts_device_aside_on(const TsDevice *d); /* it is within a section */
uint64_t ts_device_aside_count(void);       /* sections so far */

#endif
