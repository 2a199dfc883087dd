/* What the ranks of a job on this host are doing: a file that all of them have mapped. Each writes
 * that it lives, and its last collectives, into a slot of its own; the others read there who is
 * missing and at what he stands. It outlives them: `tessera --flight FILE` reads it when they
 * are dead. */
#ifndef TS_NET_FLIGHT_H
#define TS_NET_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"
#include "lib/text.h"

enum { TS_FLIGHT_KEPT = 128, TS_FLIGHT_ROUNDS = 4 };

typedef enum TsFlightState {
  TS_FLIGHT_none,
  TS_FLIGHT_begun,
  TS_FLIGHT_done,
  TS_FLIGHT_failed,
} TsFlightState;

/* One collective of one rank. */
typedef struct TsFlightRecord {
  uint64_t number, digest[TS_FLIGHT_ROUNDS]; /* of each exchange that it has begun */
  int64_t began, ended;                      /* nanoseconds of the world's clock */
  int64_t bytes;                             /* that this rank sends and receives */
  uint32_t state;                            /* TsFlightState */
  uint32_t rounds;
  char what[164]; /* "all_reduce of matmul: f32[8,4] -> f32[8,4]" */
  char place[72]; /* "train.lua:12" */
} TsFlightRecord;

typedef enum TsFlightLife {
  TS_FLIGHT_unknown, /* it is not on this host, or has not come yet */
  TS_FLIGHT_alive,
  TS_FLIGHT_stopped, /* by a signal: it stands still */
  TS_FLIGHT_silent,  /* its process is there, and gives no sign */
  TS_FLIGHT_over,    /* the program has ended */
  TS_FLIGHT_dead,
  TS_FLIGHT_ending, /* the program has ended well, and waits for the others (ts_flight_ending) */
} TsFlightLife;

typedef struct TsFlight TsFlight;

/* The file of a job, by a number that all ranks agree on. NULL with the error. */
TsFlight *ts_flight_open(uint64_t job, int rank, int size, const char *host, TsError *err);
const char *ts_flight_path(const TsFlight *f);
/* This rank comes to no more collectives; its last words. */
void ts_flight_over(TsFlight *f, const char *words);
void ts_flight_ending(TsFlight *f); /* it has ended well, and leaves with the others */
/* keep: something went wrong, and somebody will want to read it; else it goes with the last rank. */
void ts_flight_close(TsFlight *f, bool keep);

void ts_flight_beat(TsFlight *f); /* this rank lives: from any thread */
void ts_flight_begin(TsFlight *f, const TsFlightRecord *r);
/* The next exchange of the collective that was begun. */
void ts_flight_round(TsFlight *f, uint64_t number, uint64_t digest, int64_t bytes);
void ts_flight_end(TsFlight *f, uint64_t number, bool failed, const char *words);

/* Of other ranks. */
TsFlightLife ts_flight_life(const TsFlight *f, int rank);
bool ts_flight_record(const TsFlight *f, int rank, uint64_t number, TsFlightRecord *out);
/* Nanoseconds since it ended, on this host. */
int64_t ts_flight_ago(const TsFlightRecord *r);
/* Whether it has come to that exchange. */
bool ts_flight_reached(const TsFlight *f, int rank, uint64_t number, int round);
uint64_t ts_flight_begun(const TsFlight *f, int rank); /* the number of its last one; 0: none */
/* Its error at a collective, or with which it has ended. */
void ts_flight_words(const TsFlight *f, int rank, uint64_t number, char *text, int size);
int ts_flight_pid(const TsFlight *f, int rank);

/* A file as text, for people. 0, or -1 with the error. */
int ts_flight_text(const char *path, TsText *t, TsError *err);

#endif
