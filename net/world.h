/* The processes of a job, of which this is one: who they are, what devices they have, and bytes
 * between them. All run the same program and come to the same collectives in the same order; each
 * exchange has a number, and a digest of what it is for, by which those that come to different ones
 * are told apart, with both of their lines, instead of waiting for each other.
 *
 * Without a launcher there is one process, and nothing here does anything. */
#ifndef TS_NET_WORLD_H
#define TS_NET_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"
#include "lib/text.h"
#include "net/transport.h"

typedef struct TsWorldRank {
  char host[64];
  int32_t pid;
  int32_t ncpu;      /* devices cpu:0 .. of its process */
  char kind[16];     /* of its GPUs, "cuda" or "hip": of one maker */
  int32_t ngpu, gpu; /* those that are its own: cuda:gpu .., ngpu of them */
} TsWorldRank;

/* Opens it, once. 0, or -1 with the error: the same each time. */
int ts_world_open(TsError *err);
/* 0 and 1 before it is open, and without a launcher. */
int ts_world_rank(void);
int ts_world_size(void);
const TsWorldRank *ts_world_at(int rank);
/* The place of a device in the list of a rank, "cpu:0" or "cuda:1" there; -1: it has none of that
 * name. And its name, with the rank where there are several: "cpu:0@2". */
int ts_world_place(int rank, const char *name);
const char *ts_world_place_name(int rank, int place, char text[48]);
/* "mpirun (Open MPI), 4 processes, MPI (Open MPI v4.1.4)". */
void ts_world_text(TsText *t);
/* The file of the flight recorder; NULL: there is none. */
const char *ts_world_flight(void);
/* For how many seconds a rank that is alive is waited for. Gives what it was. */
double ts_world_patience(double seconds);

/* What an exchange is for: the same for all ranks, but for the place, which is said alone. */
typedef struct TsWorldWhat {
  char what[164]; /* "all_reduce of matmul: f32[8,4] -> f32[8,4]" */
  char place[72];
} TsWorldWhat;

/* Does the transfers in which this rank takes part; the list is the same for all ranks, but for
 * `at` and `device`. gpu: all of them are between GPUs. 0, or -1 with the error; what was to be received is
 * unspecified then. round: 0 begins a collective, 1 and so on go on with it, until it is done; so
 * that all ranks are in step again, where they go on after one that failed. */
int ts_world_exchange(const TsWorldWhat *w, int round, int n, const TsTransfer *list, bool gpu,
                      TsError *err);
void ts_world_done(void);
/* Records of nbytes of each rank, for all. It is numbered as well. */
int ts_world_gather(const TsWorldWhat *w, const void *own, void *all, int nbytes, TsError *err);

/* The program ends: good, if all went well. words: its last ones, for others. */
void ts_world_close(bool good, const char *words);

#endif
