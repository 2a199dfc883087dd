/* Intervals of a histogram, for whoever counts in them (vm/exec/histogram.c). */
#ifndef TS_VM_HISTOGRAM_H
#define TS_VM_HISTOGRAM_H

#include "vm/core/context.h"

/* bins + 1 edges as NumPy's linspace gives them, in the type d of a result at `at`; those that
 * decide, in f64, are rounded to it if `round`. */
void ts_histogram_edges(TsContext *c, int64_t bins, double low, double high, TsDtype d,
                        bool round, double *edge, void *at);

#endif
