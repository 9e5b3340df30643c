// Short names of the widths, and what every kernel knows about a warp.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr int WARP = 32;
constexpr u32 ALL = 0xffffffff;  // lanes
