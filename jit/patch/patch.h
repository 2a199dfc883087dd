/* A kernel of a captured function as its user edits it: the text of one kernel; an edited text,
 * checked, built, run beside the usual kernel on what the function gives it, compared and timed; and
 * what is kept of it (jit/code/patches.h).
 *
 *   TsPatch *p = ts_patch_open(f, "schedule", NULL, text, &err);
 *   .. a call of f, with ts_patch_catch(p) set ..
 *   if (!ts_patch_seen(p)->differing) ts_patch_keep(p, false, &err), ts_patch_renew(f);
 *   ts_patch_free(p);
 *
 * All of it on the context's thread. */
#ifndef TS_JIT_PATCH_H
#define TS_JIT_PATCH_H

#include "jit/code/catch.h"
#include "jit/code/patches.h"
#include "jit/jit.h"

/* The text of one kernel, by its number in :tiles, "2", of a function inside "body/2", or its name;
 * NULL: the only one. level: "schedule" as it is edited, or a level of its code. usual: as the passes
 * make it, whatever was tuned, chosen or kept. target: NULL: here. */
int ts_patch_text(TsJitFunction *f, const char *level, const char *kernel, bool usual,
                  const TsTarget *target, TsText *text);

typedef struct TsPatch TsPatch;

/* What came of it. */
typedef struct TsPatchSeen {
  bool came;      /* the kernel ran, and was looked at */
  bool unchanged; /* the text says what runs */
  bool schedule;
  const char *name, *what, *target; /* of the kernel, for people */
  const char *number;               /* as :tiles has it, of a function inside "body/2" */
  int alike;                        /* how many kernels of the function it is */
  double was_usec, usec;            /* of what runs now, and of the edited one */
  int64_t elements, differing;      /* of results */
  char first[240];                  /* where the bits differ, or "" */
  const char *remarks;              /* a line each: what was rounded, what was not looked at */
  TsError failed;                   /* code 0: none */
} TsPatchSeen;

/* text: of f:ir at this level, edited. NULL with the error. */
TsPatch *ts_patch_open(TsJitFunction *f, const char *level, const char *kernel,
                       const char *text, TsError *err);
/* Looks at the first run of the kernel. On the CPU the call ends there with an error. */
const TsCatch *ts_patch_catch(TsPatch *p);
const TsPatchSeen *ts_patch_seen(const TsPatch *p);
/* The edited kernel takes the place of its own wherever that is, from when a function is built on;
 * -1 with the error, after which it may be kept for this process. */
int ts_patch_keep(const TsPatch *p, bool on_disk, TsError *err);
void ts_patch_free(TsPatch *p);

/* What was kept of a kernel is taken back; 1: it was, and what it was, without its text, is in *was; 0:
 * there was nothing, -1 with the error. */
int ts_patch_without(TsJitFunction *f, const char *kernel, TsPatchEntry *was);
/* f's kernels are made again, now; -1 with the error. */
int ts_patch_renew(TsJitFunction *f);

#endif
