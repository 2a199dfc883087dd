/* See lib/inflate.h. */
#include "lib/inflate.h"

#ifndef TS_ZLIB
const char *ts_inflate(const char *from, size_t n, char *to, size_t size, uint32_t crc,
                       bool (*stop)(void)) {
  (void)from, (void)n, (void)to, (void)size, (void)crc, (void)stop;
  return "it is packed, and this program was built without zlib; np.savez does not pack";
}
#else
#include <zlib.h>

enum { PIECE = 16 << 20 /* between two questions whether to stop */ };

static const char stopped[] = "it was stopped";

static const char *unpack(z_stream *z, const char *from, size_t n, char *to, size_t size,
                          bool (*stop)(void)) {
  int code = Z_OK;
  z->next_in = (Bytef *)(uintptr_t)from, z->next_out = (Bytef *)to;
  while (code == Z_OK) {
    if (stop()) return stopped;
    if (!z->avail_in) z->avail_in = n < PIECE ? (uInt)n : PIECE, n -= z->avail_in;
    if (!z->avail_out) z->avail_out = size < PIECE ? (uInt)size : PIECE, size -= z->avail_out;
    code = inflate(z, Z_NO_FLUSH);
    if (code == Z_BUF_ERROR)
      return "its packed bytes end too soon, or unpack to more than they say";
  }
  if (code == Z_MEM_ERROR) return "out of memory";
  if (code != Z_STREAM_END) return "its packed bytes are damaged";
  return size || z->avail_out || n || z->avail_in ? "its packed bytes have another length"
                                                  : NULL;
}

const char *ts_inflate(const char *from, size_t n, char *to, size_t size, uint32_t crc,
                       bool (*stop)(void)) {
  z_stream z = {0};
  char nothing;
  if (inflateInit2(&z, -15) != Z_OK) return "out of memory";
  const char *why = unpack(&z, from, n, size ? to : &nothing, size, stop);
  inflateEnd(&z);
  if (why) return why;
  uLong is = crc32(0, NULL, 0);
  for (size_t at = 0; at < size; at += PIECE) {
    if (stop()) return stopped;
    is = crc32(is, (const Bytef *)to + at, size - at < PIECE ? (uInt)(size - at) : PIECE);
  }
  return is == crc ? NULL : "its bytes are damaged: their checksum is another one";
}
#endif
