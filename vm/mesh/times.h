/* When devices of a mesh computed, sent each other something, and stood waiting. Recorded only while
 * TsContext.times is there; else it costs a look at that pointer.
 *
 * Each device has marks of its own: events of its stream, where it works while the host goes on, else
 * the clock when the host has done its work. A collective has three on each device: it has come there
 * (all that was queued before is done), all have come, and it has what it needs. So a device waits from
 * the first to the second, and what is sent takes from the second to the third. A device whose work the
 * host does has come when its last work was done. */
#ifndef TS_VM_MESH_TIMES_H
#define TS_VM_MESH_TIMES_H

#include "devices/device.h"
#include "vm/mesh/collective.h"

/* Of one device in one collective: nanoseconds since the recording began. */
typedef struct TsTimesDevice {
  int device;
  int64_t arrived, there, end;
  int64_t waited; /* from `arrived` on, for who came last */
  int64_t worked; /* of `there` to `end`: while a kernel of this device ran as well */
} TsTimesDevice;

/* One collective, or several that were done at once. */
typedef struct TsTimesSent {
  const char *kind; /* "all_reduce", or "collectives" of several kinds */
  const char *asks; /* NULL: several operators */
  const TsMesh *mesh;
  uint8_t axes;
  int n;         /* at once */
  int64_t bytes; /* that all devices receive from others */
  int share;     /* of these, what goes over one link at least, is bytes / share */
  bool away;     /* devices of other processes take part, whose times are not known here */
  int last;      /* in `of`: who came last; -1: all came at once */
  int ndevice;
  char place[64];
  TsTimesDevice of[TS_MAX_DEVICES];
} TsTimesSent;

/* All of those that are alike. */
typedef struct TsTimesRow {
  TsTimesSent first;                            /* whose times are not meant */
  int64_t count, nsec, worked, busy;            /* busy: of all devices, from there to end */
  int64_t wait[TS_MAX_DEVICES][TS_MAX_DEVICES]; /* device, for whom: nanoseconds */
} TsTimesRow;

/* What a device computed. */
typedef struct TsTimesWork {
  int device;
  int64_t start, end;
} TsTimesWork;

enum { TS_TIMES_KEPT = 1 << 12 };

typedef struct TsTimes TsTimes;
struct TsTimes {
  int64_t began;     /* of the clock */
  int nsent, nwork;  /* the first ones, at most TS_TIMES_KEPT each; */
  int64_t more;      /* of collectives that are in rows alone; */
  int64_t more_work; /* of what was computed, that is in no list */
  int64_t lost;      /* marks that a device did not give, or for which there was no room */
  char reason[160];  /* why the last one was lost */
  TsTimesSent *sent; /* in their order */
  TsTimesWork *work;
  TsTimesRow *row; /* of all */
  int nrow;
};

/* NULL: no memory. One that begins while another one goes on is a part of it. */
TsTimes *ts_times_start(TsContext *c);
/* What was recorded, until ts_times_free. */
void ts_times_stop(TsContext *c, TsTimes *t);
void ts_times_free(TsTimes *t);

/* What is sent next is this, too. */
void ts_times_note(TsContext *c, const TsCollective *k);
/* Around what sends it, which may have more of these inside. m: whose devices, NULL: those of what was
 * noted, if anything was. -1 with the error: what was put off before failed. Close gives `failed`, or -1 so. */
int ts_times_open(TsContext *c, const TsMesh *m, const char *what);
int ts_times_close(TsContext *c, int failed);
/* Around what a device computes. */
int ts_times_work_begin(TsContext *c, int device);
int ts_times_work_end(TsContext *c, int device, int failed);

#endif
