/* Lua modules inside the program (made by scripts/embed.sh). */
#ifndef TS_REPL_EMBED_H
#define TS_REPL_EMBED_H

typedef struct TsEmbedded {
  const char *module, *begin, *end;
} TsEmbedded;

extern const TsEmbedded ts_embedded[]; /* ends with a NULL module */

#endif
