/* The tuner on a device. What is measured there is known by its name, which says operators,
 * sizes, types and how operands lie: a schedule that was good stays so when the compiler
 * changes. Of three tables the first that has the name counts: this process, the disk, and what
 * comes with the program (jit/tune/tuned.def), which a script makes of a run on the device. */
#ifndef TS_JIT_TUNE_DEVICE_H
#define TS_JIT_TUNE_DEVICE_H

#include "devices/device.h"
#include "jit/tune/tune.h"

/* Whether something is known for the group, and what. Any thread. Whether it is wanted is of
 * the tuner's mode, which who asks looks at. */
bool ts_tune_device_known(const TsDevice *d, const TsSched *s, const TsGroup *g,
                          TsLayoutFn *layout, void *arg, TsTuneEntry *e);
void ts_tune_device_forget(void); /* what this process knows */
void ts_tune_device_remember(const TsDevice *d, const char *name, const TsTuneEntry *e);
/* The group's name; nothing for kinds that have no choices. */
void ts_tune_device_name(const TsGroup *g, TsLayoutFn *layout, void *arg, TsText *name);
/* What stands for the device in the program's table: "sm_90a 132". */
void ts_tune_device_kind(const TsDevice *d, TsText *kind);

/* Microseconds of the usual kernel on made-up arguments; 0: not known. */
double ts_tune_device_usual(const TsBuildJob *b, const TsFusion *f, TsGroup *g);
/* Measures a group on the program's thread, in the device's order: fills r and sets the group's
 * choice. */
void ts_tune_device_group(const TsBuildJob *b, const TsFusion *f, TsGroup *g,
                          const TsTuneBudget *budget, double msec, TsTuneRecord *r);

#endif
