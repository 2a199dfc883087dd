/* The clock that measures: it only goes forward. */
#ifndef TS_LIB_CLOCK_H
#define TS_LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t ts_clock_nsec(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
static inline double ts_clock_usec(void) { return (double)ts_clock_nsec() * 1e-3; }
static inline double ts_clock_msec(void) { return (double)ts_clock_nsec() * 1e-6; }

#endif
