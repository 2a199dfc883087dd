/* What the files of jit/collective share. */
#ifndef TS_JIT_COLLECTIVE_STATE_H
#define TS_JIT_COLLECTIVE_STATE_H

#include "devices/flags.h"
#include "ir/tile/tile.h"

/* An operation of so many meetings was given to all devices of f: of those that are noted, that
 * with n - 1 - nth behind it (vm/mesh/collective.h). */
void ts_collective_queued(TsFlags *f, int64_t meetings, int nth, int n);
void ts_collective_apart(const char *why); /* for ts_collective_why; kept until plans go */
bool ts_collective_off(void);              /* by ts_collective_use */
extern int64_t ts_collectives;             /* that were queued */

/* ---- jit/collective/sum.c: device number `index`, if it is a GPU whose kernels meet; or NULL */
TsDevice *ts_collective_gpu(int index);

/* ---- jit/collective/kernel.c: symbolic size number `index`; how many meetings of n devices a
 * slot has had, by the own words; the next one */
TsTileVal ts_collective_size(TsTileBuild *b, int index);
TsTileVal ts_collective_met(TsTileBuild *b, int n, TsTileVal own_words, TsTileVal slot);
void ts_collective_meet(TsTileBuild *b, int n, const TsTileVal *words, TsTileVal rank,
                        TsTileVal slot, TsTileVal met);

/* ---- jit/collective/exchange.c */
void ts_exchange_close(void);

#endif
