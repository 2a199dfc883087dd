/* The tiers: hot functions get compiled kernels while the program runs.
 *
 * A captured function has one TsJitFunction beside its bytecode. Each call goes through _enter
 * and _leave, which count and time it. When the time spent pays for a compilation, a job goes to
 * the background thread: it schedules the graph, compiles the groups that are worth it and is
 * done; the next _enter lowers the graph once more with the kernels in it and runs that from then
 * on. Nothing waits. A function that does not get faster goes back to its bytecode.
 *
 * All of this but the job itself happens on the context's thread. */
#ifndef TS_JIT_JIT_H
#define TS_JIT_JIT_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/target.h"
#include "ir/graph/graph.h"
#include "lib/text.h"
#include "vm/code/bytecode.h"

typedef struct TsJit TsJit;
typedef struct TsJitFunction TsJitFunction;

/* NULL: out of memory. A TsJit without a code generator for this machine compiles nothing. */
TsJit *ts_jit_open(TsContext *c);
/* Ends the threads in the background, for good: what they run uses data that exit() destroys. */
void ts_jit_stop(TsJit *j);
void ts_jit_close(TsJit *j);

void ts_jit_enable(TsJit *j, bool on);
bool ts_jit_enabled(const TsJit *j);
/* Why nothing is compiled, or NULL: "built without LLVM". */
const char *ts_jit_absent(const TsJit *j);
/* A line to stderr for each promotion, refusal, return to bytecode (jit/log.c). */
void ts_jit_verbose(TsJit *j, bool on);
void ts_jit_shows(TsJit *j); /* somebody will look at kernels: their texts are made ahead */
bool ts_jit_is_verbose(const TsJit *j);
/* Such a line of somebody else, where one listens; whether so. at: "model.lua:12" or "". */
bool ts_jit_tell(const TsJit *j, const char *what, const char *name, const char *at,
                 const char *text);
/* Everything hot is compiled at its first call, and waited for: for tests. */
bool ts_jit_eager(TsJit *j, bool on); /* what it was */
/* The interpreter of Tile IR runs kernels instead of compiled code, in "block" or "explicit" form;
 * NULL: compiled code again. Forgets all kernels. For tests. -1: there is no such form. */
int ts_jit_interpret(TsJit *j, const char *form);
struct TsTracer *ts_jit_tracer(TsJit *j); /* hot loops (jit/trace/trace.h) */
/* Calls on other devices (jit/eager/offload.h). */
struct TsOffloader *ts_jit_offloader(TsJit *j);
struct TsTuner *ts_jit_tuner(TsJit *j); /* jit/tune/tune.h */
/* Until no job is under way. */
void ts_jit_wait(TsJit *j);
/* Forgets all compiled code; counting begins anew, for the instruction set of now. */
void ts_jit_flush(TsJit *j);
/* What must be spent without compiled code before the next attempt, after one in vain that
 * needed nsec. A failure is never for good: an hour is always enough. */
int64_t ts_jit_need_longer(int64_t nsec);

typedef struct TsJitStats {
  int functions, promoted, jobs; /* functions known, running kernels, jobs waiting or running */
  int64_t kernels, cached, failed; /* compiled or loaded so far, of them from disk; refused */
  double compile_msec;             /* of the background thread */
  double install_msec_max;         /* the longest that a call was held up */
} TsJitStats;
TsJitStats ts_jit_stats(const TsJit *j);

/* g and donated must outlive it. where: of the log, "model.lua:12" or "". */
TsJitFunction *ts_jit_function(TsJit *j, const TsGraph *g, const bool *donated);
void ts_jit_function_free(TsJitFunction *f);
/* The frame that runs this call: own, or one with kernels. device: where (ts_frame_place); what
 * runs there is counted and compiled by itself. */
TsFrame *ts_jit_enter(TsJitFunction *f, TsFrame *own, int device);
void ts_jit_leave(TsJitFunction *f, TsFrame *ran, int device, bool failed);
/* The call that has just been left was one of so many: the others are not timed. */
void ts_jit_stands_for(TsJitFunction *f, int calls);

/* The text of a level, of the code that runs now or would run: "schedule", "tile" (block
 * form), "explicit", "llvm", "asm"; "bytecode": at tier 1 the code and what is in it; at
 * tier 0 nothing, the code is the caller's. -1 with the error. target: what that one would run,
 * compiled or not; NULL: here. */
int ts_jit_text(TsJitFunction *f, const char *level, const struct TsTarget *target,
                TsText *text);
/* The same as facts, one JSON object: "why", what was decided; "tiles", what each kernel is; "tile",
 * "explicit", "llvm", "asm", the kernels. docs/commands.md has the fields. */
int ts_jit_facts(TsJitFunction *f, const char *level, const struct TsTarget *target,
                 TsText *text);
/* Measures the candidates of f's kernels now, in this thread, and runs the best from then on. */
int ts_jit_tune(TsJitFunction *f);
struct TsSchedChoice;
/* The groups of f, as they run or would run: kernel NULL where there is none. -1 with the error. */
typedef struct TsJitGroup {
  const struct TsSched *sched;
  const struct TsGroup *group;
  const struct TsSchedKernel *kernel;
  bool runs;   /* by a kernel, */
  bool edited; /* which its user wrote */
} TsJitGroup;
typedef void TsJitGroupFn(void *arg, const TsJitGroup *g);
int ts_jit_groups(TsJitFunction *f, TsJitGroupFn *each, void *arg);
/* What the program chooses for the kernel of a group; NULL: as by default. The function's kernels
 * are made with it before this returns. -1 with the error. */
int ts_jit_choose(TsJitFunction *f, int group, const struct TsSchedChoice *want);
/* f's kernels are compiled now and stay, slower or not; off: as usual. 1: they run, 0: there are
 * none, -1 with the error. */
int ts_jit_pin(TsJitFunction *f, bool on);
/* Kernels with profile marks run in place of f's (off: its own again); 1: so they do, 0: f has none
 * on the CPU, -1 with the error. */
int ts_jit_marks(TsJitFunction *f, bool on);
/* For tests: functions of the CPU move to this device at once, whatever it costs; NULL: no more. */
void ts_jit_move_to(TsJit *j, const char *device);
/* For tests: the first kernel of a function, and every n-th behind it, go back to operators at
 * once; 0: no more. */
void ts_jit_returns(TsJit *j, int n);
bool ts_jit_live(const TsJitFunction *f); /* kernels run */

#endif
