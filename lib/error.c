/* The error slot. */
#include "lib/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ts_error_set(TsError *e, TsErrorCode code, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  e->code = code;
  e->hint[0] = 0;
  vsnprintf(e->message, sizeof e->message, format, ap);
  va_end(ap);
  return -1;
}

int ts_error_memory(TsError *e) { return ts_error_set(e, TS_ERR_memory, "out of memory"); }

int ts_error_hint(TsError *e, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(e->hint, sizeof e->hint, format, ap);
  va_end(ap);
  return -1;
}

int ts_error_where(TsError *e, const char *function, const char *place) {
  char was[sizeof e->message];
  if (strstr(e->message, " (in ") || !(*function || *place)) return -1;
  snprintf(was, sizeof was, "%s", e->message);
  if (!*function)
    return snprintf(e->message, sizeof e->message, "%.420s (at %.50s)", was, place), -1;
  snprintf(e->message, sizeof e->message, "%.380s (in %.40s, %.50s)", was, function, place);
  return -1;
}

void ts_error_clear(TsError *e) {
  e->code = TS_OK;
  e->message[0] = e->hint[0] = 0;
}

void ts_bug(const char *file, int line, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  fprintf(stderr, "tessera: internal error at %s:%d: ", file, line);
  vfprintf(stderr, format, ap);
  fputc('\n', stderr);
  va_end(ap);
  abort();
}
