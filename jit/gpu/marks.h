/* Records of profile marks in memory of a device: between what emits them and what reads them. */
#ifndef TS_JIT_GPU_MARKS_H
#define TS_JIT_GPU_MARKS_H

#include <stdint.h>

/* The variable of a module that says where records are, and which blocks make some: each
 * every-th one, while there is room. Each apart-th also has lists of turns, while there are some;
 * the other blocks run code that has none. apart is a multiple of every. */
#define TS_GPU_MARKS_NAME "tessera_marks"
typedef struct TsGpuMarksRoom {
  uint64_t records, lists; /* addresses of the device, or 0: nothing is recorded */
  uint32_t room, every;    /* records; blocks */
  uint32_t nlist, apart;   /* lists; blocks */
  uint32_t turns;          /* of a list; later ones are counted only */
} TsGpuMarksRoom;

/* Of a warp; zeros where it did not run. nturn: 0 where it has no list; the first turn is when the
 * warp began. Who reads finds its turns behind it, as many as had room. */
typedef struct TsGpuRecord {
  uint64_t begun_ns, ended_ns; /* the device's clock */
  uint64_t begun, ended;       /* cycles of the processor */
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
