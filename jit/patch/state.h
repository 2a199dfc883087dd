/* What the files of jit/patch share. */
#ifndef TS_JIT_PATCH_STATE_H
#define TS_JIT_PATCH_STATE_H

#include "jit/build/device.h"
#include "jit/build/patched.h"
#include "jit/device/kernel.h"
#include "jit/jit_state.h"
#include "jit/patch/patch.h"

/* Kernels of one group: of the passes, what runs, what was edited; of products one with small
 * tiles, whose rounds the interpreter is through with soon. */
enum {
  PATCH_usual,
  PATCH_now,
  PATCH_made,
  PATCH_CODE,
  PATCH_small = PATCH_CODE,
  PATCH_KERNELS
};

struct TsPatch {
  TsPatchSeen seen;
  TsCatch catch;
  TsBuildJob *b; /* while it is opened */
  const TsFusion *u;
  const TsGroup *g;
  TsDevice *device; /* NULL: the CPU */
  const TsTarget *target;
  TsProfile profile;
  uint8_t key[32];
  TsText entry; /* what is kept: a choice, or the text of the kernel */
  TsText what, remarks, number;
  TsSchedKernel k[PATCH_KERNELS];
  int64_t dim[PATCH_KERNELS][TS_TILE_DIMS]; /* sizes of the run, for each */
  TsTile *lines; /* the edited text with its lines as places; NULL of a schedule */
  int oracle;    /* which the interpreter runs */
  TsKernel *code[PATCH_CODE];
  TsDeviceKernel *there[PATCH_CODE];
};

void ts_patch_remarks(TsPatch *p, const char *lines);
void ts_patch_remark(TsPatch *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* jit/patch/find.c: finds p's group in its build by number or name; NULL: as the text says, or the
 * only one there is. */
int ts_patch_find(TsPatch *p, const char *kernel, const char *text, TsError *err);

/* jit/patch/schedule.c */
/* A schedule of the group alone, with all that is chosen for it in words. */
void ts_patch_schedule_text(const TsFusion *u, const TsGroup *g, const TsTile *now,
                            TsText *text);
/* The choice that an edited schedule says, into p->entry and *c. */
int ts_patch_schedule_read(TsPatch *p, const char *text, TsSchedChoice *c, TsError *err);
/* It becomes what the kernel has; the remarks say what of it could not be had. */
void ts_patch_schedule_settle(TsPatch *p, TsSchedChoice *c);

/* jit/patch/run.c: all that is done with what the kernel is given. */
int ts_patch_look(void *patch, TsDevice *d, void *const *arg, const int64_t *dim, TsError *err);
/* jit/patch/safe.c: the edited kernel touches nothing that is not its own, on these arguments of the
 * CPU's; -1 with the error. */
int ts_patch_safe(TsPatch *p, void *const *at, const int64_t *dim, TsError *err);
/* A budget of time, as TsTileRunAs has it. */
bool ts_patch_late(void *until_msec);

#endif
