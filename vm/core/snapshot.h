/* What tensors hold at one moment, kept for a thread that writes it down while the program goes
 * on and changes them.
 *
 * Taking one copies nothing: it marks storages, and whoever is about to write into a marked one
 * asks here first (vm/core/defer.h). The writing thread copies all of it to memory of the
 * snapshot at once, in order; the program's thread copies what is not copied yet of a storage
 * that it changes, beside it. So a program is held up by what it changes before the copying has
 * come there, which is little, or nothing, where a step computes before it updates. What lies on
 * a GPU is copied there, in the order of its work, and the other thread fetches the copy.
 * *Rejected:* copying all at the start (a third of a second a gigabyte, which the program would
 * wait for); fork() (it copies tables of pages, faults page by page afterwards, and drivers of
 * GPUs do not outlive it); writing files from the tensors themselves (a busy disk would hold the
 * next step up for seconds).
 *
 * A context's thread takes, touches and frees; one other thread copies and reads. */
#ifndef TS_VM_SNAPSHOT_H
#define TS_VM_SNAPSHOT_H

#include "vm/core/tensor.h"

typedef struct TsSnapshot TsSnapshot;

/* Of n tensors, row-major. aside: another thread reads it; else nothing is copied, and the program
 * must not go on before it is freed. NULL with the error; without one where there is no memory
 * for copies. */
TsSnapshot *ts_snapshot_take(TsContext *c, int n, TsTensor *const *t, bool aside);
/* Copies what is left; by the other thread, before it reads. -1 with the error. */
int ts_snapshot_copy(TsSnapshot *s, TsError *err);
/* Lets go of the tensors of those that are copied, whose memory is asked for. */
void ts_snapshot_tidy(void);
/* Bytes of tensor i. */
const void *ts_snapshot_bytes(const TsSnapshot *s, int i, int64_t *nbytes);
/* Nanoseconds that writing into its storages has waited for. */
int64_t ts_snapshot_held_up(const TsSnapshot *s);
/* Once the other thread has ended. */
void ts_snapshot_free(TsSnapshot *s);

/* Somebody writes into a storage that is marked. */
void ts_snapshot_touch(TsStorage *s);

#endif
