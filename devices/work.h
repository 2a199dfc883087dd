/* Work memory of the CPU: what a call needs beside its tensors. Blocks that are given back are kept
 * for the next call, up to a bound: pages that the system must clear first cost more than many an
 * operator (a convolution of 6 MB ran at 0.7 of its speed). Safe from all threads. */
#ifndef TS_DEVICES_WORK_H
#define TS_DEVICES_WORK_H

#include <stdint.h>

/* At least nbytes, contents unspecified; NULL when there is no more, or when a test lets it fail
 * (devices/memory.h). Begins with a line, a page or more with a page: vectors that cross
 * lines cost twice. */
void *ts_work_take(int64_t nbytes);
void ts_work_give(void *at); /* or NULL */

/* Gives the blocks that are kept back to the system. */
void ts_work_trim(void);

/* Bytes in blocks that are kept. */
int64_t ts_work_kept(void);

#endif
