/* The trace ring: what the VM executed last, for the profiler to find sequences
 * that repeat. Each record is a run of 64-bit words:
 *   word 0   operator, inputs, outputs, attributes, words of the record (packed)
 *   then for each input and output: its id; dtype, rank, flags; its sizes
 *   then for each attribute: type and count; its value, or its numbers
 * Records are contiguous: one that would cross the end starts again at 0, and the
 * rest of the ring is filled by a record with operator TS_TRACE_SKIP. */
#ifndef TS_VM_TRACE_H
#define TS_VM_TRACE_H

#include <stdint.h>

enum { TS_TRACE_WORDS = 1 << 14, TS_TRACE_SKIP = 0xffff };

typedef struct TsTrace {
  uint64_t *word;     /* TS_TRACE_WORDS of them */
  uint32_t at;        /* where the next record goes */
  uint32_t last;      /* where the last one stands */
  uint64_t count;     /* records ever made */
  uint64_t words;     /* ever written, without what was skipped */
  uint32_t countdown; /* records until somebody looks (vm/core/defer.h) */
} TsTrace;

typedef struct TsTraceHead {
  uint16_t op;
  uint8_t nin, nout, nattr;
  uint16_t nwords;
} TsTraceHead;

struct TsCall;
void ts_trace_record(TsTrace *t, const struct TsCall *call);
TsTraceHead ts_trace_head(const TsTrace *t, uint32_t at);

#endif
