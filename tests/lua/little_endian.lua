-- Whole numbers as the bytes of files, and back.
local little = require "tessera.little_endian"
little.bytes(0x0102, 4) == "\2\1\0\0" --> true
little.bytes(0x010203, 2) == "\3\2" --> true
little.number "" --> 0
little.number "\0\1" --> 256
little.number(little.bytes(2 ^ 53, 8)) == 2 ^ 53 --> true
