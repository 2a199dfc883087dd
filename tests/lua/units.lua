-- Three digits with the unit that fits, also where rounding reaches the next one.
local units = require "tessera.units"
units.time(0), units.time(0.0123), units.time(0.9), units.time(1), units.time(12.345) --> 0 us, 12.3 ns, 900 ns, 1.00 us, 12.3 us
units.time(999.4), units.time(999.7), units.time(1234), units.time(99960), units.time(2.5e6) --> 999 us, 1.00 ms, 1.23 ms, 100 ms, 2.50 s
units.time(3.6e9), units.time(1e-5) --> 3600 s, 0.01 ns
units.size(0), units.size(1000), units.size(1023), units.size(1024), units.size(48 * 1024) --> 0 bytes, 1000 bytes, 1023 bytes, 1.00 KiB, 48.0 KiB
units.size(2 ^ 20), units.size(3.5 * 2 ^ 30), units.size(2 ^ 43) --> 1.00 MiB, 3.50 GiB, 8.00 TiB
units.rate(12, "B/s"), units.rate(3.35e12, "B/s"), units.rate(9.9e14, "FLOP/s") --> 12.0 B/s, 3.35 TB/s, 990 TFLOP/s
units.percent(0.126) --> 13%
