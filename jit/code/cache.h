/* The disk cache of compiled kernels: bytes under a key of 32. An entry is a file of its own,
 * written under another name and renamed, so that several processes may use one folder, and
 * several threads one TsCache. A folder that is missing and cannot be made, or is not writable,
 * is no error: nothing is found, nothing is kept.
 *
 * What is read is run. So folder and entries must belong to the user as whom the process acts,
 * and nobody else may be able to write to them; else there is no cache, or no such entry, and the
 * log says why. An entry says under which key it was written. */
#ifndef TS_JIT_CACHE_H
#define TS_JIT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TS_CACHE_KEY = 32 };

typedef struct TsCache {
  char folder[512]; /* "": there is none */
  int64_t limit;    /* bytes of all entries; the least recently used go first */
  int64_t unseen;   /* bytes written since the entries were last counted */
  bool verbose;     /* the log gets a line for what is refused */
  bool told;        /* it has it for the folder */
} TsCache;

/* The folder of $TESSERA_CACHE ("off": none), $XDG_CACHE_HOME/tessera or ~/.cache/tessera. */
void ts_cache_open(TsCache *c);
TsCache *ts_cache_usual(void); /* that one, opened once for all of the process */
void ts_cache_verbose(TsCache *c, bool on);
void ts_cache_open_at(TsCache *c, const char *folder, int64_t limit);

/* The bytes of an entry, for free(), aligned to 16; NULL if there is none. One whose bytes are
 * not those that were written is none, and the next write replaces it. */
void *ts_cache_read(TsCache *c, const uint8_t key[TS_CACHE_KEY], size_t *nbytes);
bool ts_cache_has(TsCache *c, const uint8_t key[TS_CACHE_KEY]); /* its head is whole */
void ts_cache_write(TsCache *c, const uint8_t key[TS_CACHE_KEY], const void *data,
                    size_t nbytes);

/* Entries of text, whose own reader must tell what is damaged, and of which key it is; ending in a
 * NUL. */
char *ts_cache_read_text(TsCache *c, const uint8_t key[TS_CACHE_KEY], size_t *nbytes);
/* NULL, or why it is not there now. */
const char *ts_cache_write_text(TsCache *c, const uint8_t key[TS_CACHE_KEY], const char *text,
                                size_t nbytes);
void ts_cache_clear_texts(TsCache *c);

/* Brings the entries down to the limit; a write does so every now and then. */
void ts_cache_trim(TsCache *c);

#endif
