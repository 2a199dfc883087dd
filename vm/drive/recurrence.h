/* Steps of a recurrence over the rows of a batch: in each a product with the same matrix, and what
 * its rows do by themselves. */
#ifndef TS_VM_DRIVE_RECURRENCE_H
#define TS_VM_DRIVE_RECURRENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/gemm/panels.h"

typedef struct TsRecurrence {
  int64_t steps, batch;
  TsPanels w;
  /* Of step i, rows lo .. hi - 1: the product for panels from .. to - 1, and the rest. */
  void (*product)(void *arg, int64_t i, int64_t lo, int64_t hi, int64_t from, int64_t to);
  void (*rows)(void *arg, int64_t i, int64_t lo, int64_t hi);
  void *arg;
  bool behind; /* the product comes behind the rest */
} TsRecurrence;

/* All steps, or as many as there are before an interrupt. */
void ts_recurrence_run(const TsRecurrence *r);

#endif
