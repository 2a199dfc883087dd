/* Clocks of devices that count ticks (jit/device/clock.c): their length by two launches some time
 * apart, and a counter of few bits that goes around. */
#include <stdio.h>

#include "jit/device/marks.h"

static int failures;

static void check(bool good, const char *what) {
  if (!good) failures++, printf("%s\n", what);
}

static void ticks(void) {
  static TsDevice one, two;
  enum { MSEC = 1000000 };
  TsGpuRecord r[2] = {{.ended_ns = 4000}, {.ended_ns = 5000}};
  check(ts_marks_tick_nsec(&one) == 0, "a length before any launch");
  ts_marks_clock(&one, 10 * MSEC, r, 2);
  check(ts_marks_tick_nsec(&one) == 0, "a length of one launch");
  r[1].ended_ns = 5000 + 100000;
  ts_marks_clock(&one, 11 * MSEC, r, 2);
  check(ts_marks_tick_nsec(&one) == 0, "a length of launches that are close");
  r[1].ended_ns = 5000 + 10000000;
  ts_marks_clock(&one, 110 * MSEC, r, 2);
  check(ts_marks_tick_nsec(&one) == 10, "100 ms of 10 million ticks");
  check(ts_marks_tick_nsec(&two) == 0, "another device has its own");
  r[0].ended_ns = 10, r[1].ended_ns = 20; /* it began again */
  ts_marks_clock(&one, 200 * MSEC, r, 2);
  check(ts_marks_tick_nsec(&one) == 0, "a length over a reset");
  r[0].ended_ns = r[1].ended_ns = 0; /* no warp ran */
  ts_marks_clock(&two, 300 * MSEC, r, 2);
  check(ts_marks_tick_nsec(&two) == 0, "a length of nothing");
}

static void rounds(void) {
  enum { BITS = 20, AROUND = 1 << BITS };
  TsGpuTurn list[4] = {{AROUND - 10, 0}, {5, 1}, {7, 0}, {3, 2}};
  TsGpuRecord r = {.begun = AROUND - 20, .ended = 100, .nturn = 4};
  ts_marks_unwrap(&r, list, 8, BITS);
  const uint32_t want[4] = {AROUND - 10, AROUND + 5, AROUND + 7, 2 * AROUND + 3};
  for (int i = 0; i < 4; i++) check(list[i].at == want[i], "a turn is elsewhere");
  check(r.ended == 2 * AROUND + 100, "the end is elsewhere");
  TsGpuTurn kept[2] = {{50, 0}, {60, 1}};
  TsGpuRecord full = {.begun = 40, .ended = 90, .nturn = 9}; /* of nine two had room */
  ts_marks_unwrap(&full, kept, 2, BITS);
  check(kept[1].at == 60 && full.ended == 90, "a list that is full");
  TsGpuRecord none = {.begun = 40, .ended = 30};
  ts_marks_unwrap(&none, NULL, 8, BITS);
  check(none.ended == none.begun, "an end that nobody knows");
}

int main(void) {
  ticks(), rounds();
  return failures > 0;
}
