/* Where the time of a program goes: a tree of what it does, each with its time, how often, and what
 * it moved; and the first and the last things of all in their order.
 *
 *   TsActivity *w = ts_activity_begin(TS_ACTIVITY_copy, "copy to cuda:0", NULL);
 *   ...
 *   ts_activity_end(w, nbytes, 0);
 *
 * Recorded on the thread that started it alone, and only between start and stop; else both are a
 * look at a variable. What is begun and never ended, since something jumped out of it, ends with
 * what is around it. Other threads add up what they compile. */
#ifndef TS_LIB_ACTIVITY_H
#define TS_LIB_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum TsActivityKind {
  TS_ACTIVITY_program,
  TS_ACTIVITY_line,        /* of the program: place, where its calls stand in */
  TS_ACTIVITY_operator,    /* called at once */
  TS_ACTIVITY_function,    /* a captured one */
  TS_ACTIVITY_loop,        /* a hot loop's calls, together */
  TS_ACTIVITY_instruction, /* of a function: an operator or a fused kernel */
  TS_ACTIVITY_kernel,      /* on a device: the time there */
  TS_ACTIVITY_capture,
  TS_ACTIVITY_compile,
  TS_ACTIVITY_copy, /* between devices */
  TS_ACTIVITY_collective, /* what devices of a mesh send each other */
  TS_ACTIVITY_open, /* of a device */
  TS_ACTIVITY_wait, /* for a device, or for what is compiled */
  TS_ACTIVITY_KINDS
} TsActivityKind;

typedef struct TsActivity {
  struct TsActivity *parent, *child, *next; /* child: the newest one */
  struct TsActivity *same;                  /* in its bucket (lib/activity.c) */
  uint32_t hash;
  const char *what, *place; /* place: "model.lua:12", or NULL */
  TsActivityKind kind;
  bool open;
  int64_t start; /* of the call that runs */
  int64_t nsec, count, nbytes;
  double flops;
} TsActivity;

/* One of the things in their order. */
typedef struct TsActivityEvent {
  const TsActivity *of;
  int64_t start, nsec; /* start: from that of all */
} TsActivityEvent;

enum { TS_ACTIVITY_FIRST = 1 << 15, TS_ACTIVITY_LAST = 1 << 15 };

typedef struct TsActivities {
  TsActivity program;
  TsActivity *at;
  int64_t began, lost; /* lost: nodes that memory had no room for */
  int64_t nevent;      /* of all; kept are the first and the last so many */
  TsActivityEvent *first, *last;
  int64_t compiled, ncompiled; /* nanoseconds and kernels of other threads */
} TsActivities;

extern _Thread_local TsActivities *ts_activities;

bool ts_activity_start(void); /* false: no memory, or it runs */
/* Until ts_activity_free, what was recorded; program.nsec is the whole. NULL: nothing was. */
TsActivities *ts_activity_stop(void);
void ts_activity_free(TsActivities *t);

TsActivity *ts_activity_enter(TsActivityKind kind, const char *what, const char *place);
void ts_activity_leave(TsActivity *w, int64_t nsec, int64_t nbytes, double flops);
/* A thread other than the recording one compiled something so long. */
void ts_activity_compiled_aside(int64_t nsec);
bool ts_activity_anywhere(void); /* recorded by some thread */

static inline TsActivity *ts_activity_begin(TsActivityKind kind, const char *what,
                                            const char *place) {
  return ts_activities ? ts_activity_enter(kind, what, place) : NULL;
}
static inline void ts_activity_end(TsActivity *w, int64_t nbytes, double flops) {
  if (w) ts_activity_leave(w, -1, nbytes, flops);
}

const char *ts_activity_name(TsActivityKind kind);

#endif
