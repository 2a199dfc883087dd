/* A tokenizer's parts, for the two files that know them all. */
#ifndef TS_TEXT_WHOLE_H
#define TS_TEXT_WHOLE_H

#include "text/added.h"
#include "text/decode.h"
#include "text/finish.h"
#include "text/model.h"
#include "text/split.h"
#include "text/tokenizer.h"

struct TsTokenizer {
  TsArena arena;
  TsAdded added;
  TsNormals normals;
  TsSplits splits;
  TsModel model;
  TsFinishes finishes;
  TsDecodes decodes;
  TsTruncation truncation;
  TsPadding padding;
  bool exact; /* what is made of text depends on where it comes from */
  /* While it works: */
  TsLine given, normal_line;
  TsPieces first, pieces;
  TsTokens tokens;
  TsEncoding encoding, other;
  TsEncoding uncut; /* before a truncation */
  struct TsPieceOf {
    uint32_t keep;  /* tokens of a text that a piece may have */
    uint32_t count; /* of pieces */
    uint32_t at;    /* the one that comes next */
  } piece[2];
  uint32_t *place;
  size_t nplace;
};

#endif
