// The values of the macros that a kernel is compiled with.

#pragma once

// ELEMENT: the format of the numbers.
#define BINARY16 0
#define BFLOAT16 1
#define BINARY32 2
#define BINARY64 3

// LAYOUT: how they lie in memory (device/load/array.cuh).
#define ALIGNED 0
#define SHIFTED 1
#define STRIDED 2

// TERM: what is summed, the numbers, products of two arrays, squares, or deviations from the first number and their squares.
#define VALUE 0
#define PRODUCT 1
#define SQUARE 2
#define MOMENTS 3

// MMAS: 1: 16-bit numbers are added up by MMAs, as the plan short-chain says; 0: by binary64 additions, as the plan
// binary64 and numbers of other formats are.
