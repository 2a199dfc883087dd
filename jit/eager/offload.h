/* Eager calls on devices with kernels of their own.
 *
 * A call becomes a graph of one node, that a schedule, its group a kernel in block form, and
 * that code of the device: a plan. Plans are found again by what they depend on: operator,
 * dtypes, attributes, and where the operands lie. Pointwise calls are brought to the fewest
 * axes first, whose outermost is a size of the kernel, and so are numbers: x * 2 and y * 3 of
 * any sizes share a plan. What cannot be lowered has a plan as well, which says why, and the VM
 * runs it. */
#ifndef TS_JIT_OFFLOAD_H
#define TS_JIT_OFFLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/tile/tile.h"
#include "vm/core/context.h"

struct TsDevice;
typedef struct TsOffloader TsOffloader;
struct TsTuner;

/* tuner: whose mode says whether what was measured counts; it outlives the offloader. NULL:
 * out of memory. */
TsOffloader *ts_offload_open(TsContext *c, const struct TsTuner *tuner);
void ts_offload_close(TsOffloader *o);
/* A line to stderr for each new kernel and, once, each operator that the CPU runs. */
void ts_offload_verbose(TsOffloader *o, bool on);
/* Without, the CPU runs everything, over fetched bytes. */
void ts_offload_enable(TsOffloader *o, bool on);
/* Whether the CPU runs small calls while their kernels are compiled in the background; on at
 * first. The bits are the same. */
void ts_offload_later(TsOffloader *o, bool on);
void ts_offload_eager(TsOffloader *o, bool on); /* each kernel is waited for */
/* Calls on devices only ask for their kernels; what they give has no values. For filling the
 * disk cache. */
void ts_offload_prepare(TsOffloader *o, bool on);
/* Calls on devices say the kernels that they launch, at a level of ts_build_kernel_text, in
 * a text that begins anew. NULL: they no longer do. */
void ts_offload_shows(TsOffloader *o, const char *level);
struct TsText *ts_offload_shown(TsOffloader *o); /* what they said */
/* Whether calls run on devices at all. */
bool ts_offload_runs(const TsContext *c);
/* A kernel that the program brought along, @k for d, is called: counted, and said where
 * calls say their kernels. why: the CPU runs it; or NULL. */
int ts_offload_own(TsContext *c, const struct TsDevice *d, const TsTile *k, const char *why);
void ts_offload_wait(TsOffloader *o);  /* until all are compiled */
void ts_offload_stop(TsOffloader *o);  /* no kernel is compiled in the background any more */
void ts_offload_flush(TsOffloader *o); /* forgets all plans */

typedef struct TsOffloadStats {
  int64_t calls;     /* that ran on a device */
  int64_t fallback;  /* that the CPU ran for one */
  int64_t meanwhile; /* that the CPU ran until there was a kernel */
  int64_t kernels, cached,
      refused; /* plans made; of them with code from disk; without kernel */
  double compile_msec;
} TsOffloadStats;
TsOffloadStats ts_offload_stats(const TsOffloader *o);

#endif
