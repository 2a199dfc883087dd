/* Unpacking what .npz files hold: deflate, by zlib, which comes with LLVM; built without it, the
 * function says so. */
#ifndef TS_LIB_INFLATE_H
#define TS_LIB_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The n bytes become exactly `size` at `to`, whose CRC-32 is crc. NULL, or what is wrong. stop(),
 * asked now and then, ends it. */
const char *ts_inflate(const char *from, size_t n, char *to, size_t size, uint32_t crc,
                       bool (*stop)(void));

#endif
