/* The launches of a function as one launch of a persistent kernel (ir/persistent/program.h),
 * above their replay as a record.
 *
 * Whoever puts launches off gives them here once more; each kernel of them becomes tasks, or
 * the reason why there is no such launch is told. Everything is on the context's thread. */
#ifndef TS_JIT_PERSISTENT_H
#define TS_JIT_PERSISTENT_H

#include "ir/persistent/program.h"
#include "jit/device/kernel.h"

typedef struct TsPersistentRun TsPersistentRun;

/* Runs the launches once more, each by ts_device_kernel_run_in. */
typedef int TsPersistentEach(void *with, TsError *err);

/* NULL with the reason. Memory that kernels touch stays where it is while this is there. */
TsPersistentRun *ts_persistent_open(TsDevice *d, TsPersistentEach *each, void *with,
                                    TsError *err);
/* The same launches with other addresses or sizes. -1: they are none of this launch any more.
 */
int ts_persistent_again(TsPersistentRun *r, TsPersistentEach *each, void *with, TsError *err);
int ts_persistent_launch(TsPersistentRun *r, TsError *err);
bool ts_persistent_asks(
    void); /* there are launches of which nobody knows yet whether they went well */
/* Of all launches since it was asked last: -1 with the error, as what was made is wrong. */
int ts_persistent_tell(TsError *err);
const TsPersistent *ts_persistent_of(const TsPersistentRun *r);
void ts_persistent_close(TsPersistentRun *r);

/* Whether functions are to have such launches, and with how many blocks, 0: as many as the
 * device holds; a simulated one 4. Off at first. */
typedef struct TsPersistentWanted {
  bool on;
  int64_t blocks;
} TsPersistentWanted;
TsPersistentWanted *ts_persistent_wanted(void);
/* Launches so far. */
int64_t ts_persistent_count(void);

/* What kinds of devices do: code for a program, its start. */
typedef struct TsPersistentKind {
  /* Blocks that run at the same time, and what opened; NULL with the reason. */
  void *(*open)(TsDevice *d, const TsPersistent *p, int64_t *resident, TsError *err);
  /* Another program of the same codes. */
  int (*load)(void *of, const TsPersistent *p, TsError *err);
  int (*launch)(void *of, const TsPersistent *p, TsError *err);
  /* Whether all that was waited for came; -1 with the error. NULL: a launch says so itself. */
  int (*look)(void *of, const TsPersistent *p, TsError *err);
  void (*close)(void *of);
} TsPersistentKind;

extern const TsPersistentKind ts_persistent_simulated, ts_persistent_nvidia;

#endif
