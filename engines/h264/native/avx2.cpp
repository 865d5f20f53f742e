// The encoder's busiest functions in AVX2, with 16 values at a time.
//
// OpenH264's own AVX2 assembly is left out of the crate's build. Each function does what the one of the
// same name in sse2.cpp does; the comments are there. This file is compiled for processors that have
// AVX2, so its functions must not be called on others.

#include "faster.h"

#if defined(__AVX2__) && defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

namespace {

inline __m128i LoadSixteen (const uint8_t* p) {
  return _mm_loadu_si128 (reinterpret_cast<const __m128i*> (p));
}

// The halves of a register from two places: eight pixels of each.
inline __m256i TwoEights (const uint8_t* low, const uint8_t* high) {
  const __m128i pixels = _mm_unpacklo_epi64 (_mm_loadl_epi64 (reinterpret_cast<const __m128i*> (low)),
                                             _mm_loadl_epi64 (reinterpret_cast<const __m128i*> (high)));
  return _mm256_cvtepu8_epi16 (pixels);
}

inline void Transpose (__m256i* r) {
  const __m256i a = _mm256_unpacklo_epi16 (r[0], r[1]), b = _mm256_unpacklo_epi16 (r[2], r[3]);
  const __m256i c = _mm256_unpackhi_epi16 (r[0], r[1]), d = _mm256_unpackhi_epi16 (r[2], r[3]);
  const __m256i left = _mm256_unpacklo_epi32 (a, b), leftEnd = _mm256_unpackhi_epi32 (a, b);
  const __m256i right = _mm256_unpacklo_epi32 (c, d), rightEnd = _mm256_unpackhi_epi32 (c, d);
  r[0] = _mm256_unpacklo_epi64 (left, right);
  r[1] = _mm256_unpackhi_epi64 (left, right);
  r[2] = _mm256_unpacklo_epi64 (leftEnd, rightEnd);
  r[3] = _mm256_unpackhi_epi64 (leftEnd, rightEnd);
}

inline void Dct (__m256i* r) {
  const __m256i a = _mm256_add_epi16 (r[0], r[3]), d = _mm256_sub_epi16 (r[0], r[3]);
  const __m256i b = _mm256_add_epi16 (r[1], r[2]), c = _mm256_sub_epi16 (r[1], r[2]);
  r[0] = _mm256_add_epi16 (a, b);
  r[1] = _mm256_add_epi16 (_mm256_add_epi16 (d, d), c);
  r[2] = _mm256_sub_epi16 (a, b);
  r[3] = _mm256_sub_epi16 (d, _mm256_add_epi16 (c, c));
}

inline __m256i LargerSize (__m256i a, __m256i b) {
  return _mm256_max_epi16 (_mm256_abs_epi16 (a), _mm256_abs_epi16 (b));
}

inline __m256i SatdSums (__m256i* r) {
  __m256i a = _mm256_add_epi16 (r[0], r[2]), b = _mm256_add_epi16 (r[1], r[3]);
  __m256i c = _mm256_sub_epi16 (r[0], r[2]), d = _mm256_sub_epi16 (r[1], r[3]);
  r[0] = _mm256_add_epi16 (a, b);
  r[1] = _mm256_add_epi16 (c, d);
  r[2] = _mm256_sub_epi16 (c, d);
  r[3] = _mm256_sub_epi16 (a, b);
  Transpose (r);
  a = _mm256_add_epi16 (r[0], r[2]), b = _mm256_add_epi16 (r[1], r[3]);
  c = _mm256_sub_epi16 (r[0], r[2]), d = _mm256_sub_epi16 (r[1], r[3]);
  return _mm256_add_epi16 (LargerSize (a, b), LargerSize (c, d));
}

template<int kWidth, int kHeight>
int32_t Satd (uint8_t* a, int32_t strideA, uint8_t* b, int32_t strideB) {
  // Each lane adds up to four times 4,080 at most, so sixteen unsigned bits are enough for 16 rows.
  __m256i sums = _mm256_setzero_si256();
  const int rows = kWidth == 16 ? 4 : 8;
  for (int y = 0; y < kHeight; y += rows, a += rows * strideA, b += rows * strideB) {
    __m256i r[4];
    for (int i = 0; i < 4; ++i) {
      uint8_t* p = a + i * strideA;
      uint8_t* q = b + i * strideB;
      if (kWidth == 16)
        r[i] = _mm256_sub_epi16 (_mm256_cvtepu8_epi16 (LoadSixteen (p)), _mm256_cvtepu8_epi16 (LoadSixteen (q)));
      else
        r[i] = _mm256_sub_epi16 (TwoEights (p, p + 4 * strideA), TwoEights (q, q + 4 * strideB));
    }
    sums = _mm256_add_epi16 (sums, SatdSums (r));
  }
  const __m256i even = _mm256_and_si256 (sums, _mm256_set1_epi32 (0xFFFF));
  const __m256i sums32 = _mm256_add_epi32 (even, _mm256_srli_epi32 (sums, 16));
  __m128i sum = _mm_add_epi32 (_mm256_castsi256_si128 (sums32), _mm256_extracti128_si256 (sums32, 1));
  sum = _mm_add_epi32 (sum, _mm_srli_si128 (sum, 8));
  return _mm_cvtsi128_si32 (sum) + _mm_extract_epi32 (sum, 1);
}

void DctFour (int16_t* out, uint8_t* a, int32_t strideA, uint8_t* b, int32_t strideB) {
  __m256i r[4];
  for (int i = 0; i < 4; ++i, a += strideA, b += strideB)
    r[i] = _mm256_sub_epi16 (TwoEights (a, a + 4 * strideA), TwoEights (b, b + 4 * strideB));
  Dct (r);
  Transpose (r);
  Dct (r);
  Transpose (r);
  for (int i = 0; i < 4; i += 2) {
    // The blocks on the left, upper and lower, and those on the right.
    const __m256i left = _mm256_unpacklo_epi64 (r[i], r[i + 1]);
    const __m256i right = _mm256_unpackhi_epi64 (r[i], r[i + 1]);
    __m128i* target = reinterpret_cast<__m128i*> (out + 4 * i);
    _mm_storeu_si128 (target, _mm256_castsi256_si128 (left));
    _mm_storeu_si128 (target + 2, _mm256_castsi256_si128 (right));
    _mm_storeu_si128 (target + 4, _mm256_extracti128_si256 (left, 1));
    _mm_storeu_si128 (target + 6, _mm256_extracti128_si256 (right, 1));
  }
}

void QuantiseFourMax (int16_t* levels, const int16_t* ff, const int16_t* mf, int16_t* largest) {
  const __m256i add = _mm256_broadcastsi128_si256 (_mm_loadu_si128 (reinterpret_cast<const __m128i*> (ff)));
  const __m256i factor = _mm256_broadcastsi128_si256 (_mm_loadu_si128 (reinterpret_cast<const __m128i*> (mf)));
  for (int block = 0; block < 4; ++block, levels += 16) {
    __m256i* target = reinterpret_cast<__m256i*> (levels);
    const __m256i level = _mm256_loadu_si256 (target);
    const __m256i coarse = _mm256_mulhi_epu16 (_mm256_add_epi16 (_mm256_abs_epi16 (level), add), factor);
    _mm256_storeu_si256 (target, _mm256_sign_epi16 (coarse, level));
    const __m128i maximum = _mm_max_epi16 (_mm256_castsi256_si128 (coarse), _mm256_extracti128_si256 (coarse, 1));
    // The processor has an instruction only for the minimum.
    const __m128i least = _mm_minpos_epu16 (_mm_sub_epi16 (_mm_set1_epi16 (-1), maximum));
    largest[block] = static_cast<int16_t> (~_mm_cvtsi128_si32 (least));
  }
}

}  // namespace

namespace WelsEnc {

bool HasAvx2() { return __builtin_cpu_supports ("avx2"); }

void UseAvx2 (SWelsFuncPtrList* list) {
  SSampleDealingFunc& samples = list->sSampleDealingFuncs;
  samples.pfSampleSatd[BLOCK_16x16] = Satd<16, 16>;
  samples.pfSampleSatd[BLOCK_16x8] = Satd<16, 8>;
  samples.pfSampleSatd[BLOCK_8x16] = Satd<8, 16>;
  samples.pfSampleSatd[BLOCK_8x8] = Satd<8, 8>;
  list->pfDctFourT4 = DctFour;
  list->pfQuantizationFour4x4Max = QuantiseFourMax;
}

}  // namespace WelsEnc

#else

namespace WelsEnc {

bool HasAvx2() { return false; }

void UseAvx2 (SWelsFuncPtrList*) {}

}  // namespace WelsEnc

#endif
