/* Records of profile marks in memory of a device: between what emits them and what reads them. */
#ifndef TS_JIT_GPU_MARKS_H
#define TS_JIT_GPU_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/target.h"

/* Of all blocks each n-th one, n odd, while there are some: the block's number times n's inverse, of
 * which the low 32 bits count, is its number among those. No other one's product is below theirs. */
typedef struct TsGpuSome {
  uint32_t inverse, blocks;
} TsGpuSome;

/* The constant of a module that says where records are, and which blocks make some. Some of those
 * also have lists of turns; the other blocks run code that has none. */
#define TS_GPU_MARKS_NAME "tessera_marks"
typedef struct TsGpuMarksRoom {
  uint64_t records, lists; /* addresses of the device */
  TsGpuSome recorded, listed;
  uint32_t turns; /* room of a list; later ones are counted only */
} TsGpuMarksRoom;

/* Makers without variables of modules take them as arguments of each launch, of kernels with marks
 * alone: records behind all other pointers, and behind all other numbers the rest of it, each of 8
 * bytes. `lists` is how far behind the records these are. Zeros: nothing is recorded. */
enum { TS_GPU_MARKS_WORDS = (sizeof(TsGpuMarksRoom) - sizeof(uint64_t)) / sizeof(uint64_t) };

static inline bool ts_gpu_marks_by_launch(const TsTarget *t) {
  return t->maker != TS_MAKER_nvidia;
}

/* Of a warp; zeros where it did not run. nturn: 0 where it has no list; the first turn is when the
 * warp began. Who reads finds its turns behind it, as many as had room. */
typedef struct TsGpuRecord {
  uint64_t begun_ns,
      ended_ns; /* the device's clock; its ticks, until the host knows how long they are */
  uint64_t begun, ended; /* cycles of the processor */
  uint32_t processor, block, warp, nturn;
} TsGpuRecord;

/* From here on the warp's time is of a stage: 0 between marks, else 1 + the number of the mark. */
typedef struct TsGpuTurn {
  uint32_t at, stage; /* at: the low bits of the cycles */
} TsGpuTurn;

/* Turns of a record that had room. */
static inline uint32_t ts_gpu_record_turns(const TsGpuRecord *r, uint32_t room) {
  return r->nturn < room ? r->nturn : room;
}

#endif
