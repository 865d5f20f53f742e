// The encoder's busiest functions in SSE2, for builds without an assembler.
//
// OpenH264 has assembly for all of them, but needs nasm to build it; in plain C they take half of
// the encoder's time. These give the same numbers to the bit. Forward transforms do not round, so
// they may take columns before rows.

#include "wels_func_ptr_def.h"

#if defined(__SSE2__) || defined(_M_X64)

#include <emmintrin.h>

#include "encode_mb_aux.h"
#include "mc.h"
#include "sad_common.h"
#include "sample.h"

namespace {

inline __m128i Eight (const uint8_t* p) {
  return _mm_loadl_epi64 (reinterpret_cast<const __m128i*> (p));
}

inline __m128i Wide (const uint8_t* p) {
  return _mm_unpacklo_epi8 (Eight (p), _mm_setzero_si128());
}

// The sum of the lanes of two 64-bit halves.
inline int32_t Both (__m128i sum) {
  return _mm_cvtsi128_si32 (sum) + _mm_cvtsi128_si32 (_mm_srli_si128 (sum, 8));
}

// Four rows of two 4x4 blocks, side by side: each block's columns become its rows.
inline void Transpose (__m128i* r) {
  const __m128i a = _mm_unpacklo_epi16 (r[0], r[1]), b = _mm_unpacklo_epi16 (r[2], r[3]);
  const __m128i c = _mm_unpackhi_epi16 (r[0], r[1]), d = _mm_unpackhi_epi16 (r[2], r[3]);
  const __m128i left = _mm_unpacklo_epi32 (a, b), leftEnd = _mm_unpackhi_epi32 (a, b);
  const __m128i right = _mm_unpacklo_epi32 (c, d), rightEnd = _mm_unpackhi_epi32 (c, d);
  r[0] = _mm_unpacklo_epi64 (left, right);
  r[1] = _mm_unpackhi_epi64 (left, right);
  r[2] = _mm_unpacklo_epi64 (leftEnd, rightEnd);
  r[3] = _mm_unpackhi_epi64 (leftEnd, rightEnd);
}

inline void Hadamard (__m128i* r) {
  const __m128i a = _mm_add_epi16 (r[0], r[2]), b = _mm_add_epi16 (r[1], r[3]);
  const __m128i c = _mm_sub_epi16 (r[0], r[2]), d = _mm_sub_epi16 (r[1], r[3]);
  r[0] = _mm_add_epi16 (a, b);
  r[1] = _mm_add_epi16 (c, d);
  r[2] = _mm_sub_epi16 (c, d);
  r[3] = _mm_sub_epi16 (a, b);
}

inline void Dct (__m128i* r) {
  const __m128i a = _mm_add_epi16 (r[0], r[3]), d = _mm_sub_epi16 (r[0], r[3]);
  const __m128i b = _mm_add_epi16 (r[1], r[2]), c = _mm_sub_epi16 (r[1], r[2]);
  r[0] = _mm_add_epi16 (a, b);
  r[1] = _mm_add_epi16 (_mm_add_epi16 (d, d), c);
  r[2] = _mm_sub_epi16 (a, b);
  r[3] = _mm_sub_epi16 (d, _mm_add_epi16 (c, c));
}

inline __m128i Absolute (__m128i v) {
  return _mm_max_epi16 (v, _mm_sub_epi16 (_mm_setzero_si128(), v));
}

// Of the two 4x4 blocks whose rows of differences these are.
inline __m128i SatdSums (__m128i* r) {
  Hadamard (r);
  Transpose (r);
  Hadamard (r);
  const __m128i sum = _mm_add_epi16 (_mm_add_epi16 (Absolute (r[0]), Absolute (r[1])),
                                     _mm_add_epi16 (Absolute (r[2]), Absolute (r[3])));
  return _mm_madd_epi16 (sum, _mm_set1_epi16 (1));
}

template<int kWidth, int kHeight>
int32_t Satd (uint8_t* a, int32_t strideA, uint8_t* b, int32_t strideB) {
  __m128i sum = _mm_setzero_si128();
  for (int y = 0; y < kHeight; y += 4) {
    for (int x = 0; x < kWidth; x += 8) {
      __m128i r[4];
      for (int i = 0; i < 4; ++i)
        r[i] = _mm_sub_epi16 (Wide (a + (y + i) * strideA + x), Wide (b + (y + i) * strideB + x));
      sum = _mm_add_epi32 (sum, SatdSums (r));
    }
  }
  sum = _mm_add_epi32 (sum, _mm_srli_si128 (sum, 8));
  sum = _mm_add_epi32 (sum, _mm_srli_si128 (sum, 4));
  // Each block's sum is even: halving the whole rounds nothing.
  return _mm_cvtsi128_si32 (sum) >> 1;
}

template<int kWidth, int kHeight>
int32_t Sad (uint8_t* a, int32_t strideA, uint8_t* b, int32_t strideB) {
  __m128i sum = _mm_setzero_si128();
  for (int y = 0; y < kHeight; ++y, a += strideA, b += strideB) {
    const __m128i one = kWidth == 16 ? _mm_loadu_si128 (reinterpret_cast<__m128i*> (a)) : Eight (a);
    const __m128i other = kWidth == 16 ? _mm_loadu_si128 (reinterpret_cast<__m128i*> (b)) : Eight (b);
    sum = _mm_add_epi32 (sum, _mm_sad_epu8 (one, other));
  }
  return Both (sum);
}

// Above, below, left and right.
template<int kWidth, int kHeight>
void SadFour (uint8_t* a, int32_t strideA, uint8_t* b, int32_t strideB, int32_t* sads) {
  sads[0] = Sad<kWidth, kHeight> (a, strideA, b - strideB, strideB);
  sads[1] = Sad<kWidth, kHeight> (a, strideA, b + strideB, strideB);
  sads[2] = Sad<kWidth, kHeight> (a, strideA, b - 1, strideB);
  sads[3] = Sad<kWidth, kHeight> (a, strideA, b + 1, strideB);
}

void DctFour (int16_t* out, uint8_t* a, int32_t strideA, uint8_t* b, int32_t strideB) {
  for (int y = 0; y < 8; y += 4, out += 32) {
    __m128i r[4];
    for (int i = 0; i < 4; ++i)
      r[i] = _mm_sub_epi16 (Wide (a + (y + i) * strideA), Wide (b + (y + i) * strideB));
    Dct (r);
    Transpose (r);
    Dct (r);
    Transpose (r);
    for (int i = 0; i < 4; i += 2) {
      __m128i* left = reinterpret_cast<__m128i*> (out + 4 * i);
      __m128i* right = reinterpret_cast<__m128i*> (out + 16 + 4 * i);
      _mm_storeu_si128 (left, _mm_unpacklo_epi64 (r[i], r[i + 1]));
      _mm_storeu_si128 (right, _mm_unpackhi_epi64 (r[i], r[i + 1]));
    }
  }
}

// Eight levels in place; gives them without their signs.
inline __m128i Quantise (int16_t* at, __m128i ff, __m128i mf) {
  const __m128i level = _mm_loadu_si128 (reinterpret_cast<__m128i*> (at));
  const __m128i sign = _mm_srai_epi16 (level, 15);
  const __m128i bare = _mm_sub_epi16 (_mm_xor_si128 (level, sign), sign);
  const __m128i coarse = _mm_mulhi_epu16 (_mm_add_epi16 (bare, ff), mf);
  _mm_storeu_si128 (reinterpret_cast<__m128i*> (at), _mm_sub_epi16 (_mm_xor_si128 (coarse, sign), sign));
  return coarse;
}

void QuantiseFourMax (int16_t* levels, const int16_t* ff, const int16_t* mf, int16_t* largest) {
  const __m128i add = _mm_loadu_si128 (reinterpret_cast<const __m128i*> (ff));
  const __m128i times = _mm_loadu_si128 (reinterpret_cast<const __m128i*> (mf));
  for (int block = 0; block < 4; ++block, levels += 16) {
    __m128i most = _mm_max_epi16 (Quantise (levels, add, times), Quantise (levels + 8, add, times));
    most = _mm_max_epi16 (most, _mm_srli_si128 (most, 8));
    most = _mm_max_epi16 (most, _mm_srli_si128 (most, 4));
    most = _mm_max_epi16 (most, _mm_srli_si128 (most, 2));
    largest[block] = static_cast<int16_t> (_mm_cvtsi128_si32 (most));
  }
}

// H.264's six taps over pixels `step` apart: 1, -5, 20, 20, -5, 1.
inline uint8_t Taps (const uint8_t* p, intptr_t step) {
  const int32_t sum = p[-2 * step] + p[3 * step] - 5 * (p[-step] + p[2 * step]) + 20 * (p[0] + p[step]);
  const int32_t value = (sum + 16) >> 5;
  return static_cast<uint8_t> (value < 0 ? 0 : value > 255 ? 255 : value);
}

void HalfPixels (const uint8_t* from, int32_t strideFrom, uint8_t* to, int32_t strideTo, int32_t width,
                 int32_t height, intptr_t step) {
  const __m128i five = _mm_set1_epi16 (5), twenty = _mm_set1_epi16 (20), half = _mm_set1_epi16 (16);
  for (; height > 0; --height, from += strideFrom, to += strideTo) {
    int32_t x = 0;
    for (; x + 8 <= width; x += 8) {
      const uint8_t* p = from + x;
      const __m128i outer = _mm_add_epi16 (Wide (p - 2 * step), Wide (p + 3 * step));
      const __m128i middle = _mm_add_epi16 (Wide (p - step), Wide (p + 2 * step));
      const __m128i inner = _mm_add_epi16 (Wide (p), Wide (p + step));
      __m128i sum = _mm_sub_epi16 (outer, _mm_mullo_epi16 (middle, five));
      sum = _mm_add_epi16 (_mm_add_epi16 (sum, half), _mm_mullo_epi16 (inner, twenty));
      sum = _mm_srai_epi16 (sum, 5);
      _mm_storel_epi64 (reinterpret_cast<__m128i*> (to + x), _mm_packus_epi16 (sum, sum));
    }
    for (; x < width; ++x)
      to[x] = Taps (from + x, step);
  }
}

void HalfAcross (const uint8_t* from, int32_t strideFrom, uint8_t* to, int32_t strideTo, int32_t width,
                 int32_t height) {
  HalfPixels (from, strideFrom, to, strideTo, width, height, 1);
}

void HalfDown (const uint8_t* from, int32_t strideFrom, uint8_t* to, int32_t strideTo, int32_t width,
               int32_t height) {
  HalfPixels (from, strideFrom, to, strideTo, width, height, strideFrom);
}

}  // namespace

namespace WelsEnc {

// Takes the place of plain C; an assembler's functions stay.
void AnimaticUseSse2 (SWelsFuncPtrList* list) {
  SSampleDealingFunc& samples = list->sSampleDealingFuncs;
  if (samples.pfSampleSatd[BLOCK_4x4] != WelsSampleSatd4x4_c)
    return;
  samples.pfSampleSatd[BLOCK_16x16] = Satd<16, 16>;
  samples.pfSampleSatd[BLOCK_16x8] = Satd<16, 8>;
  samples.pfSampleSatd[BLOCK_8x16] = Satd<8, 16>;
  samples.pfSampleSatd[BLOCK_8x8] = Satd<8, 8>;
  samples.pfSampleSad[BLOCK_16x16] = Sad<16, 16>;
  samples.pfSampleSad[BLOCK_16x8] = Sad<16, 8>;
  samples.pfSampleSad[BLOCK_8x16] = Sad<8, 16>;
  samples.pfSampleSad[BLOCK_8x8] = Sad<8, 8>;
  samples.pfSample4Sad[BLOCK_16x16] = SadFour<16, 16>;
  samples.pfSample4Sad[BLOCK_16x8] = SadFour<16, 8>;
  samples.pfSample4Sad[BLOCK_8x16] = SadFour<8, 16>;
  samples.pfSample4Sad[BLOCK_8x8] = SadFour<8, 8>;
  list->pfDctFourT4 = DctFour;
  list->pfQuantizationFour4x4Max = QuantiseFourMax;
  list->sMcFuncs.pfLumaHalfpelHor = HalfAcross;
  list->sMcFuncs.pfLumaHalfpelVer = HalfDown;
}

}  // namespace WelsEnc

#else

namespace WelsEnc {

void AnimaticUseSse2 (SWelsFuncPtrList*) {}

}  // namespace WelsEnc

#endif
