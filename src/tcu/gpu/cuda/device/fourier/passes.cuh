// What all passes of fast Fourier transforms have in common: butterflies, and how a pass is described.

#pragma once

#include "device/fourier/numbers.cuh"

namespace tcu::fourier {

template <int COUNT>
struct Butterfly;

#include "generated/fft_pass/BUTTERFLIES.inc"

#include "generated/fft_pass/SCALES.inc"

#include "generated/fft_step/FftPlaces.inc"

#include "generated/fft_pass/FftPass.inc"

// PAIRS: complex numbers; REALS: their real parts, the others are zero or not wanted; NEIGHBOURS: real numbers, two of which make
// a complex one; HERMITIAN: the first half of complex numbers, of whose conjugates the second half consists; HALVES: the first
// half and one more of the transform of real numbers, of which half as many complex ones are made, or which are made of them.
enum SourceKind { PAIRS, REALS, NEIGHBOURS, HERMITIAN, HALVES };

enum Turned { BY_PRODUCTS = 1, BY_TABLE };

}  // namespace tcu::fourier
