/* What the files of jit/eager share. */
#ifndef TS_JIT_OFFLOAD_STATE_H
#define TS_JIT_OFFLOAD_STATE_H

#include "ir/sched/sched.h"
#include "jit/device/kernel.h"
#include "jit/eager/offload.h"
#include "jit/launch/launch.h"
#include "vm/drive/guard.h"
#include "vm/core/vm.h"

enum { OFFLOAD_IN = 8, OFFLOAD_OUT = 8, OFFLOAD_WORDS = 160, OFFLOAD_BUCKETS = 1024 };

typedef enum OperandKind { OPERAND_none, OPERAND_number, OPERAND_tensor } OperandKind;

/* An operand as a plan sees it: in the call's own axes, or in the fewest. */
typedef struct Operand {
  uint8_t kind;
  bool strided; /* stride[] holds; else row-major */
  TsTensor *t;
  TsMeta meta;
  int64_t stride[TS_MAX_RANK]; /* in elements */
  double number;
} Operand;

/* A call in the form that plans are made of. */
typedef struct Form {
  int op, device;
  const TsAttr *attr;
  const char *choice; /* what the program chose for the kernel, or NULL */
  bool collapsed;     /* meta.dim[0] of all operands is a size of the kernel */
  TsProfile profile;
  int nin, nout;
  Operand in[OFFLOAD_IN], out[OFFLOAD_OUT];
  TsAttr own[TS_MAX_ATTR]; /* attr of calls whose axes were put in another order */
  int64_t axis[TS_MAX_RANK];
  uint64_t hash;
  int nword;
  int64_t word[OFFLOAD_WORDS]; /* the key */
} Form;

/* Kernels of plans, by what they do: plans for other shapes often share one. */
typedef struct Shared {
  struct Shared *next;
  int device;
  uint8_t key[32];
  TsDeviceKernel *kernel;
} Shared;

typedef struct Plan {
  struct Plan *next; /* in its bucket */
  uint64_t hash;
  TsDeviceKernel *kernel; /* of the table of kernels; NULL: the VM runs it */
  int nparam, ndim;
  int8_t arg[TS_SCHED_PARAMS]; /* by parameter: input, or -1 - output */
  int8_t number[TS_TILE_DIMS]; /* by size: the input whose number it is; -1: a size */
  int8_t attr[TS_TILE_DIMS];   /* by size: the attribute that it is; -1: none */
  int elements;                /* the size that is how many the result has; -1: none */
  int draw;                    /* the size that is the seed, before the stream; -1: none */
  int64_t dim[TS_TILE_DIMS];
  bool sized;                 /* size 0 is dim[0] of the form */
  uint64_t over[OFFLOAD_OUT]; /* by output: the inputs over which it may be written */
  int nguard;                 /* inputs that are indices, which are looked at before */
  int8_t guarded[TS_SCHED_GUARDS];
  TsGuard guard[TS_SCHED_GUARDS];
  struct Plan *quick; /* of the same bits, while the kernel is compiled; NULL: none so far */
  bool twin;          /* there may be one */
  int nquick;         /* how often it ran */
  int nword;
  int64_t word[];
} Plan;

enum { OFFLOAD_OPTIM = 32 };

/* A kernel of an optimiser's step. */
typedef struct OptimPlan {
  uint64_t key;
  TsDeviceKernel *kernel; /* NULL: the VM runs it */
} OptimPlan;

/* A launch before it is made, of a call that is one of many (jit/eager/group.c). */
typedef struct TsOffloadLaunch {
  TsDeviceKernel *kernel; /* NULL: there is nothing to do */
  int nparam, ndim;
  void *arg[OFFLOAD_IN + OFFLOAD_OUT];
  int64_t dim[TS_TILE_DIMS];
  int nread; /* parameters that are read, before those that are written; -1: not said */
  int64_t size[OFFLOAD_IN + OFFLOAD_OUT]; /* of each, in bytes from its address on */
  double nbytes;
} TsOffloadLaunch;

/* The call, or the copy into dst, for which kernels are wanted; outermost. */
typedef struct Meanwhile {
  const TsCall *call;
  const TsTensor *dst;
} Meanwhile;

struct TsOffloader {
  TsLaunches launches; /* first */
  TsContext *c;
  const struct TsTuner *tuner; /* NULL: nothing that was measured counts */
  bool on, verbose;
  Plan *bucket[OFFLOAD_BUCKETS];
  int nplan;
  Shared *shared[OFFLOAD_BUCKETS];
  OptimPlan optim[OFFLOAD_OPTIM];
  int noptim;
  /* Operators of which it was said that the CPU runs them. */
  uint64_t told[TS_OP_COUNT / 64 + 1];
  struct TsGuards *guards[TS_MAX_DEVICES]; /* jit/eager/guard.c */
  TsOffloadStats stats;
  TsQueue *queue; /* that compiles kernels while the CPU runs their calls */
  bool later;     /* whether it may */
  bool grouping;  /* launches are made ready, whose kernels stay */
  bool eager;     /* as of ts_jit_eager: it may not */
  bool shows;     /* calls say their kernels in `shown` */
  char level[16];
  TsText shown;
  Meanwhile at; /* the call at hand */
};

/* jit/eager/form.c. False: of a kind that is not for plans (too many operands). */
bool ts_offload_form(const TsCall *call, int device, Form *f);
/* jit/eager/permute.c: rows of kernels lie along the last axes, so others are moved there. */
void ts_offload_permute(Form *f);
bool ts_offload_form_assign(TsTensor *dst, TsTensor *src, Form *f);

/* jit/eager/make.c: fills in all but the key; kernel NULL with the reason in err. */
void ts_offload_make(TsOffloader *o, const Form *f, Plan *p, TsError *err);
/* A plan with less code and the same bits, for as long as that of p is not ready, or NULL. */
Plan *ts_offload_quick(TsOffloader *o, const Form *f, Plan *p);

/* jit/eager/kernel.c: the kernel of k, which stays the caller's, opened or found. Of a brief
 * call it need not be ready. */
TsDeviceKernel *ts_offload_kernel(TsOffloader *o, TsDevice *d, const TsTile *k, TsError *err);
/* It need not be ready, whatever the call. */
TsDeviceKernel *ts_offload_kernel_later(TsOffloader *o, TsDevice *d, const TsTile *k,
                                        TsError *err);
/* Whether *k can be launched now, as itself or stood in for; waits for it where none of that is.
 * False: the CPU runs the call, meanwhile or, where it could not be
 * compiled, always, and then *k is NULL. */
bool ts_offload_can(TsOffloader *o, int op, int device, TsDeviceKernel **k);
/* jit/eager/later.c: whether the CPU may run the call at hand while kernels are compiled. The
 * outermost call is at hand from begin to end. */
bool ts_offload_defers(const TsOffloader *o);
bool ts_offload_brief(const TsOffloader *o);
/* Whether its kernels may be stood in for (jit/device/stand_in.h): products of 16 bits, and few. */
bool ts_offload_unhurried(const TsOffloader *o);
bool ts_offload_begin(TsOffloader *o, Meanwhile call); /* whether it is the outermost */
void ts_offload_end(TsOffloader *o, bool outermost);
void ts_offload_drop_kernels(TsOffloader *o);

/* jit/eager/offload.c, jit/eager/optim.c: what a call would launch; as call of
 * vm/core/offload.h. */
int ts_offload_ready(TsOffloader *o, TsCall *call, int device, TsOffloadLaunch *l);
int ts_offload_optim_ready(TsOffloader *o, TsCall *call, int device, TsOffloadLaunch *l);
/* jit/eager/group.c: as group of vm/core/offload.h. */
int ts_offload_group(TsContext *c, int n, TsCall *const *call, int device);
/* jit/eager/optim.c: sgd_step, adam_step, lion_step; as call of vm/core/offload.h. */
int ts_offload_optim(TsOffloader *o, TsCall *call, int device);

/* jit/eager/offload.c: copies into a tensor, as of vm/core/offload.h. */
int ts_offload_assign(TsContext *c, TsTensor *dst, TsTensor *src);
int ts_offload_assign_number(TsContext *c, TsTensor *dst, double value);
/* jit/eager/several.c: 1, 0: it is none of these, or the VM's; -1 with the error. */
int ts_offload_several(const TsCall *call);

/* jit/eager/make.c: the kernel of f at o->level, or why there is none, into o->shown. */
int ts_offload_show(TsOffloader *o, const Form *f);

/* jit/eager/guard.c: indices that a device looks at. guard: as of vm/core/offload.h;
 * what is wrong with one of them, if it is. */
int ts_offload_guard(TsContext *c, const TsGuard *g, TsTensor *index);
int ts_offload_guards_tell(TsOffloader *o);
void ts_offload_guards_drop(TsOffloader *o);

/* Lines about what was chosen for a call's kernel, NULL: none. */
void ts_offload_remarks(const TsOffloader *o, const Form *f, const char *remarks);
/* Says once that the CPU runs an operator. */
void ts_offload_refused(TsOffloader *o, TsOp op, int device, const char *why);

#endif
