/* Control instructions of bytecode: functions called by condition, in loops, over slices. */
#ifndef TS_VM_CONTROL_H
#define TS_VM_CONTROL_H

#include "vm/code/bytecode.h"

/* Runs one of those that are loops; sub are the frames of the code's functions. Outputs get
 * one reference each. What calls one function once, vm/code/frame.c runs itself. */
int ts_control_run(TsContext *c, const TsInstr *i, const TsCode *code, TsFrame *const *sub,
                   TsTensor *const *in, TsTensor **out);

/* Random calls from here on draw from the streams of this round, or this call of a function
 * by itself. Whoever calls it puts stream_base and stream_depth back. */
void ts_control_move_streams(TsContext *c, int64_t round);
/* How far that is, with so many loops around. */
uint64_t ts_control_distance(int depth, int64_t round);

/* A control operator with functions takes a block of streams, whatever its functions draw: which
 * of them run is not known beforehand. Those inside each other are smaller. */
static inline uint64_t ts_control_block(int level) {
  return level < 4 ? UINT64_C(1) << (24 - 6 * level) : 1;
}

/* Calls a function from outside; its results must have the given types. */
struct TsCustom;
const char *ts_control_custom_name(const struct TsCustom *f);
int ts_control_custom(TsContext *c, struct TsCustom *f, int nin, TsTensor *const *in, int nout,
                      const TsMeta *const *type, TsTensor **out, bool backward);

#endif
