/* What the files of replay share: sequences of launches, of one device and of a group. */
#ifndef TS_JIT_REPLAY_STATE_H
#define TS_JIT_REPLAY_STATE_H

#include "jit/launch/replay.h"
#include "jit/persistent/persistent.h"

enum {
  KEPT = 2,  /* sequences of a function, which may branch */
  LEAST = 4, /* launches that are worth it */
  OFTEN = 3, /* runs of a sequence before it is recorded */
  MOST_ARGS = 512,
};

typedef struct Launch {
  TsDeviceKernel *kernel;
  int at, nparam, ndim; /* words: addresses, sizes */
  int runs;             /* of a launch of many */
  bool meets;           /* it waits for other devices */
  int64_t order;        /* among those of all devices of a group */
  int access, naccess;  /* naccess < 0: it is not known what it touches */
  int front;            /* of a record: the launch before whose end it may begin, or -1 */
  void *room;           /* for its scratch, or NULL */
} Launch;

typedef struct Sequence {
  Launch *launch;
  int n, cap;
  int64_t *word;
  int nword, capword;
  TsAccess *access;
  int naccess, capaccess;
  int nscratch;   /* launches that have some */
  unsigned moved; /* areas, when it was recorded */
  void *record;   /* of the device; of a simulated one none is needed */
  bool ordered;   /* its launches wait for those alone that they need */
  TsPersistentRun *persistent; /* one launch of all of them, or NULL */
  bool alone;                  /* there is none, and there will be none */
  int changed;                 /* runs in a row with other addresses or sizes */
  int64_t runs;
  uint64_t used;
} Sequence;

struct TsReplay {
  TsDevice *d;
  Sequence now, kept[KEPT];
  bool alive[KEPT]; /* what came so far is its beginning */
  bool off;         /* nothing is put off in this run any more */
  bool cut;         /* and it is no sequence, since bytes moved in between */
  bool refused;     /* the device does not record */
  bool busy;        /* launches of it are being made, so that memory for them cannot wait for that */
  int launched;     /* of now */
  int touched;      /* accesses of now that belong to the next launch */
  uint64_t clock;
  unsigned freed; /* kernels when the sequences were made */
  unsigned moved; /* areas, when the run began */
  TsReplayGroup *group;
  char why[512];   /* there is no persistent launch, or "" */
  Sequence *known; /* at the end of a run of a group: what it was */
};

struct TsReplayGroup {
  int n;
  TsReplay *member[TS_MAX_DEVICES];
  int64_t order;         /* launches so far */
  bool meeting;          /* those that come wait for each other: none is launched before all are there, */
  bool due;              /* but then */
};

/* ---- jit/launch/replay.c */
/* Launch i of what came so far. */
int ts_replay_step(const TsReplay *r, int i, TsError *err);
/* For a launch of so many words of which nothing is known. */
bool ts_replay_has_room(TsReplay *r, int words);
/* The device's memory stays where launches that are put off may find it. */
void ts_replay_hold(TsReplay *r, bool on);
/* At the end of a run: the sequence that it was, or NULL; it gets its record, if it is to have
 * one; what came is kept. */
Sequence *ts_replay_known(TsReplay *r);
void ts_replay_prepare(TsReplay *r, Sequence *s);
void ts_replay_keep(TsReplay *r);

/* Launch i of s, now. */
int ts_replay_launch_in(const Sequence *s, int i, void *scratch, TsError *err);

/* ---- jit/launch/replay_persistent.c: s, which this run is once more, has a persistent launch,
 * which does what r->now does; before what is kept of s is what r->now is. */
bool ts_replay_persistent(TsReplay *r, Sequence *s);
void ts_replay_persistent_drop(Sequence *s);

/* ---- jit/launch/replay_group.c: what was put off on any device is launched */
int ts_replay_group_rest(TsReplayGroup *g, TsError *err);

#endif
