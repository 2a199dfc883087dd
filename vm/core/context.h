/* What one user of the VM owns: the error slot, the trace ring, the random
 * generator, the numerics profile. A context and its tensors belong to one thread. */
#ifndef TS_VM_CONTEXT_H
#define TS_VM_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/mesh/overlap.h"
#include "lib/error.h"
#include "lib/profile.h"
#include "vm/core/kernels.h"
#include "vm/core/trace.h"

struct TsTensor;
struct TsDefer;
struct TsOffload;
struct TsSpread;
struct TsSpans;
struct TsTimes;

typedef struct TsContext {
  TsError err;
  const TsKernels *k; /* the CPU's kernels for the chosen instruction set */
  TsTrace trace;
  uint64_t next_id;                    /* of the next tensor */
  int64_t live_bytes;                  /* of all copies of all storages, on any device */
  int64_t downloaded;                  /* bytes fetched from devices */
  int64_t allocated;                   /* bytes of such copies made since the start */
  int64_t live_there, allocated_there; /* of both, what is on devices */
  uint64_t seed, stream;               /* the generator: stream counts random operators */
  uint64_t stream_base; /* of the function that runs: where its random calls count from */
  struct TsMemo *memo;  /* of the recursion that runs (vm/code/memo.h), or NULL */
  int runs;             /* of functions inside each other on the C stack */
  int stream_depth;     /* loops around what runs, in that function */
  TsProfile profile;
  uint64_t commits; /* how often something that the program has was changed as a whole */
  uint64_t assigned, exchanged; /* tensors, or parts, whose elements were copied into; given */
  int no_grad;      /* > 0: calls are not recorded (vm/core/tape.h) */
  uint8_t autocast; /* TS_DT_f16 or bf16: operands of calls are cast (vm/autocast.c); 0 */
  bool trap;        /* stop at the first NaN or infinity (vm/core/trap.h) */
  int device;       /* where new tensors are made */
  int leaves;       /* into how many axes that are summed over are cut (lib/mesh.h); 0: none */
  TsOverlapAsked overlap;  /* what devices of a mesh do at a time, by the program; and how often it has */
  unsigned overlap_said;   /* said so */
  int64_t engines; /* while sums are on their way beside kernels: from so many bytes on copy engines
                    * bring summands; 0: never */
  bool planning; /* calls on a mesh compute nothing: results are planned (vm/mesh/planned.h) */
  const struct TsMesh *abstract; /* what the program makes is planned, for this mesh; or NULL */
  bool hidden_is_error; /* moves between devices that the program did not ask for are errors */
  /* How the result of the next call of this row lies; or NULL (vm/mesh/call.h). */
  const struct TsLayout *want;
  int want_op;
  int mixes; /* > 0: what is on the CPU follows to virtual devices, too (frame_spread.c) */
  const char *step_place; /* of the instruction that runs on a mesh; or NULL */
  int64_t step_times;     /* while that is planned: for so many rounds of a loop; 0: one */
  int step_told;          /* > 0: what is sent has been told */
  const char *step_if;    /* and on what it depends whether, or how often, it runs; or NULL */
  const struct TsRandomBox *box; /* what is drawn is this part of a larger tensor; or NULL */
  bool device_auto; /* and what gets hot may move elsewhere by itself */
  bool sizes_read;  /* by the program while a function is captured: it may branch on them */
  /* Of functions that run for an operator (vm/core/region.h), or NULL. */
  struct TsRegion *region;
  struct TsRegion *regions;   /* room for the outermost one, or NULL */
  struct TsSteps *steps;      /* steps of optimisers wait to be run together, or NULL */
  struct TsTapedTable *taped; /* what storages hold, as far as the tape knows, or NULL */
  struct TsCapture *capture;  /* calls become nodes of its graph; NULL: they run */
  struct TsJit *jit;          /* of the tiers above, or NULL */
  /* Who runs calls on other devices (vm/core/offload.h), or NULL. */
  const struct TsOffload *offload;
  void *offloader;
  const struct TsSpread *spread; /* who runs functions over a mesh in pieces (vm/core/spread.h), or NULL */
  bool replaying; /* it may put launches of a function off, */
  bool waiting;   /* or has put off eager ones */
  int on_host; /* > 0: what runs and what it makes is on the CPU, whatever device its inputs have */
  /* For ts_context_once_more; or NULL. */
  void (*collect)(void *where_arg, bool all); /* all: also what only compiled Lua code holds */
  const struct TsDefer *defer; /* who puts calls off (vm/core/defer.h), or NULL */
  void *deferrer;
  struct TsSpans *spans; /* where what runs is recorded (vm/core/profile.h), or NULL */
  struct TsTimes *times; /* and when devices of a mesh send what (vm/mesh/times.h), or NULL */
  bool watched;          /* calls are shown to it */
  int settles;           /* > 0: calls are not as the program wrote them (lib/shard/shard.h) */
  int inside;            /* > 0: a handler or a compiler runs, whose calls are its own matter */
  int64_t npending;      /* tensors without bytes */
  const char *choice; /* what the program chooses for the kernel of the call at hand, or NULL */
  const char *(*where)(void *arg); /* the program's place, "file.lua:12", or NULL */
  void *where_arg;
} TsContext;

/* What a compiler or a tier above computes for itself is no call of the program's: nobody is
 * shown it, and it is neither recorded, captured, trapped, put off nor moved. */
typedef struct TsAside {
  struct TsCapture *capture;
  bool trap, watched;
  int device;
} TsAside;

TsAside ts_context_aside(TsContext *c);
void ts_context_resume(TsContext *c, TsAside was);

/* Memory ran out, as err says: lets go of what nobody refers to any more, which waits for a
 * collector that does not see how full memory or a device is, and forgets the error. Whoever gets
 * true asks once more, and not again; what is cached, allocators give back by themselves. False:
 * the error is another one and stays, or nobody collects. */
bool ts_context_once_more(TsContext *c);

TsContext *ts_context_open(void); /* NULL: out of memory */
void ts_context_close(TsContext *c);

#endif
