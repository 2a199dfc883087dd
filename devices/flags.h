/* Words by which kernels of several devices find each other while they run: the memory of
 * `meet` (ir/tile/tile.def), one owner for all who launch such kernels.
 *
 * A group is devices in an order, rank by rank. Each has words of its own, which the others
 * write. Meetings are counted by the words themselves, slot by slot, and all devices of a group
 * do the same operations in the same order: so no number is an argument of a launch, operations
 * of any number of blocks may follow each other, and a launch that was recorded may be replayed
 * as often as one likes. What runs at the same time, on different streams of the devices, needs
 * words of its own: `lane` tells them apart. */
#ifndef TS_DEVICES_FLAGS_H
#define TS_DEVICES_FLAGS_H

#include "devices/device.h"

/* Blocks of a launch, at most. */
enum { TS_FLAGS_SLOTS = 160, TS_FLAGS_RECENT = 64 };
/* Memory beside the words into which the others write what a device is to work with: bytes of
 * each slot, in two halves, and slots that have some. A half is written by meeting number k of
 * its slot, where k is odd or even, and read behind it: who has come to the next one is done
 * with it. */
enum { TS_FLAGS_ROOM = 256 << 10, TS_FLAGS_ROOMS = 128 };

typedef struct TsFlags {
  int n, lane;
  TsDevice *device[TS_MAX_DEVICES]; /* by rank */
  int32_t *words[TS_MAX_DEVICES];   /* on it */
  void *room[TS_MAX_DEVICES];       /* on it, or NULL: nobody has asked for it */
  bool used;                        /* since it was looked at last */
  uint64_t done;                    /* meetings in slot 0 of what all have been given */
  uint64_t asked;                   /* when ts_flags_of last gave it, as a number */
} TsFlags;

static inline int64_t ts_flags_words(int n) { return 1 + (int64_t)TS_FLAGS_SLOTS * (n + 1); }
/* Those of a group, made by its first operation; all devices reach each other (devices/meet.h),
 * and none is there twice. Another group may lose its words for them, one that nobody has asked
 * for lately: who asks for a group without words has nothing put off that uses others. NULL
 * with the error. */
TsFlags *ts_flags_of(int n, TsDevice *const *list, int lane, TsError *err);
/* They get their room, where they have none: -1 with the error. */
int ts_flags_make_room(TsFlags *f, TsError *err);
/* Waits for the group. 0: all went well; 1: a rank did not come to meeting number *which, from
 * 1: words begin anew, and *who waited for *missing; -1: a device failed, as err says. */
int ts_flags_look(TsFlags *f, int *who, int *missing, uint64_t *which, TsError *err);
/* The group begins anew, as an operation was not given to all of them. */
void ts_flags_drop(TsFlags *f);
/* All groups end, behind all work, with their memory; nothing that holds one is used again. */
void ts_flags_close(void);
/* What is launched from now on is in this lane: who gives devices a second order, beside the
 * first one, says so, and 0 at its end. */
void ts_flags_turn(int lane);
int ts_flags_lane(void);
/* Milliseconds until a device that waits for another one gives up; ms > 0: of kernels that are
 * made from now on. */
int64_t ts_flags_patience(int64_t ms);
/* Group number i of those that there are; NULL: no more. */
TsFlags *ts_flags_at(int i);

#endif
