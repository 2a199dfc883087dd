/* Who waits looks around: at Ctrl-C, and at whether those that he waits for live, and come to the
 * same collective. A thread of this process says that it lives itself. */
#ifndef TS_NET_WATCH_H
#define TS_NET_WATCH_H

#include "net/flight.h"
#include "net/world.h"

typedef struct TsWatch {
  TsFlight *flight; /* of this host; NULL: there is none */
  int rank, size;
  const TsWorldRank *ranks;
  double patience;
  /* The exchange under way: */
  TsWorldWhat what;
  TsTransport *talk; /* says to ranks of other hosts where this one stands; NULL: nobody does */
  int64_t said;
  int64_t since, looked, told; /* nanoseconds; 0: not yet */
} TsWatch;

/* TsTransport.wait of a watch. */
int ts_watch_wait(void *watch, const TsBatch *b, const bool *waits, TsError *err);
/* Behind an exchange: whether those of this host with whom it was done meant the same one,
 * and have not given it up. */
int ts_watch_check(TsWatch *w, const TsBatch *b, TsError *err);
/* It was given up here: ranks of other hosts that are in it hear so. */
void ts_watch_give_up(TsWatch *w, const TsBatch *b);
/* "rank 2 (node7)". */
const char *ts_watch_name(const TsWatch *w, int rank, char text[100]);

/* Starts the thread. lost: called when a rank of this host is dead. */
bool ts_watch_start(TsWatch *w, void (*lost)(void));
void ts_watch_stop(void);

#endif
