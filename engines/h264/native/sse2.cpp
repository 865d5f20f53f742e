// The encoder's busiest functions in SSE2, for builds without an assembler.
//
// OpenH264 has assembly for all of them, but needs nasm to build it; in plain C they take more than
// half of the encoder's time. These give the same numbers to the bit. Forward transforms do not
// round, so they may take columns before rows.

#include "faster.h"

#if defined(__SSE2__) || defined(_M_X64)

#include <emmintrin.h>

#include <string.h>

#include "wels_common_defs.h"

namespace {

inline __m128i LoadEight (const uint8_t* p) {
  return _mm_loadl_epi64 (reinterpret_cast<const __m128i*> (p));
}

inline __m128i LoadWide (const uint8_t* p) {
  return _mm_unpacklo_epi8 (LoadEight (p), _mm_setzero_si128());
}

// The sum of the first lanes of both 64-bit halves.
inline int32_t SumHalves (__m128i sum) {
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

// Half of the sums of transformed differences of two 4x4 blocks, from their rows of differences:
// |a + b| + |a - b| is twice the larger of |a| and |b|, which saves the last step of the transform.
inline __m128i SatdSums (__m128i* r) {
  Hadamard (r);
  Transpose (r);
  const __m128i a = _mm_add_epi16 (r[0], r[2]), b = _mm_add_epi16 (r[1], r[3]);
  const __m128i c = _mm_sub_epi16 (r[0], r[2]), d = _mm_sub_epi16 (r[1], r[3]);
  const __m128i sum = _mm_add_epi16 (_mm_max_epi16 (Absolute (a), Absolute (b)),
                                     _mm_max_epi16 (Absolute (c), Absolute (d)));
  return _mm_madd_epi16 (sum, _mm_set1_epi16 (1));
}

template<int kWidth, int kHeight>
int32_t Satd (uint8_t* a, int32_t strideA, uint8_t* b, int32_t strideB) {
  __m128i sum = _mm_setzero_si128();
  for (int y = 0; y < kHeight; y += 4) {
    for (int x = 0; x < kWidth; x += 8) {
      __m128i r[4];
      for (int i = 0; i < 4; ++i)
        r[i] = _mm_sub_epi16 (LoadWide (a + (y + i) * strideA + x), LoadWide (b + (y + i) * strideB + x));
      sum = _mm_add_epi32 (sum, SatdSums (r));
    }
  }
  return SumHalves (_mm_add_epi32 (sum, _mm_srli_si128 (sum, 4)));
}

template<int kWidth, int kHeight>
int32_t Sad (uint8_t* a, int32_t strideA, uint8_t* b, int32_t strideB) {
  __m128i sum = _mm_setzero_si128();
  for (int y = 0; y < kHeight; ++y, a += strideA, b += strideB) {
    const __m128i rowA = kWidth == 16 ? _mm_loadu_si128 (reinterpret_cast<__m128i*> (a)) : LoadEight (a);
    const __m128i rowB = kWidth == 16 ? _mm_loadu_si128 (reinterpret_cast<__m128i*> (b)) : LoadEight (b);
    sum = _mm_add_epi32 (sum, _mm_sad_epu8 (rowA, rowB));
  }
  return SumHalves (sum);
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
      r[i] = _mm_sub_epi16 (LoadWide (a + (y + i) * strideA), LoadWide (b + (y + i) * strideB));
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

// Quantises eight levels in place; returns them without their signs.
inline __m128i Quantise (int16_t* target, __m128i ff, __m128i mf) {
  const __m128i level = _mm_loadu_si128 (reinterpret_cast<__m128i*> (target));
  const __m128i sign = _mm_srai_epi16 (level, 15);
  const __m128i magnitude = _mm_sub_epi16 (_mm_xor_si128 (level, sign), sign);
  const __m128i coarse = _mm_mulhi_epu16 (_mm_add_epi16 (magnitude, ff), mf);
  _mm_storeu_si128 (reinterpret_cast<__m128i*> (target), _mm_sub_epi16 (_mm_xor_si128 (coarse, sign), sign));
  return coarse;
}

void QuantiseFourMax (int16_t* levels, const int16_t* ff, const int16_t* mf, int16_t* largest) {
  const __m128i add = _mm_loadu_si128 (reinterpret_cast<const __m128i*> (ff));
  const __m128i factor = _mm_loadu_si128 (reinterpret_cast<const __m128i*> (mf));
  for (int block = 0; block < 4; ++block, levels += 16) {
    __m128i maximum = _mm_max_epi16 (Quantise (levels, add, factor), Quantise (levels + 8, add, factor));
    maximum = _mm_max_epi16 (maximum, _mm_srli_si128 (maximum, 8));
    maximum = _mm_max_epi16 (maximum, _mm_srli_si128 (maximum, 4));
    maximum = _mm_max_epi16 (maximum, _mm_srli_si128 (maximum, 2));
    largest[block] = static_cast<int16_t> (_mm_cvtsi128_si32 (maximum));
  }
}

inline void InverseDct (__m128i* r) {
  const __m128i a = _mm_add_epi16 (r[0], r[2]), b = _mm_sub_epi16 (r[0], r[2]);
  const __m128i c = _mm_sub_epi16 (_mm_srai_epi16 (r[1], 1), r[3]);
  const __m128i d = _mm_add_epi16 (r[1], _mm_srai_epi16 (r[3], 1));
  r[0] = _mm_add_epi16 (a, d);
  r[1] = _mm_add_epi16 (b, c);
  r[2] = _mm_sub_epi16 (b, c);
  r[3] = _mm_sub_epi16 (a, d);
}

// The rows of two 4x4 blocks side by side, from their levels.
inline void Differences (__m128i* r, const int16_t* left, const int16_t* right) {
  for (int i = 0; i < 4; ++i)
    r[i] = _mm_unpacklo_epi64 (_mm_loadl_epi64 (reinterpret_cast<const __m128i*> (left + 4 * i)),
                               _mm_loadl_epi64 (reinterpret_cast<const __m128i*> (right + 4 * i)));
  Transpose (r);
  InverseDct (r);
  Transpose (r);
  InverseDct (r);
  for (int i = 0; i < 4; ++i)
    r[i] = _mm_srai_epi16 (_mm_add_epi16 (r[i], _mm_set1_epi16 (32)), 6);
}

void Restore (uint8_t* to, int32_t strideTo, uint8_t* from, int32_t strideFrom, int16_t* levels) {
  __m128i r[4];
  Differences (r, levels, levels);
  for (int i = 0; i < 4; ++i, to += strideTo, from += strideFrom) {
    int32_t pixels;
    memcpy (&pixels, from, sizeof (pixels));
    const __m128i prediction = _mm_unpacklo_epi8 (_mm_cvtsi32_si128 (pixels), _mm_setzero_si128());
    pixels = _mm_cvtsi128_si32 (_mm_packus_epi16 (_mm_add_epi16 (prediction, r[i]), prediction));
    memcpy (to, &pixels, sizeof (pixels));
  }
}

void RestoreFour (uint8_t* to, int32_t strideTo, uint8_t* from, int32_t strideFrom, int16_t* levels) {
  for (int half = 0; half < 2; ++half, levels += 32) {
    __m128i r[4];
    Differences (r, levels, levels + 16);
    for (int i = 0; i < 4; ++i, to += strideTo, from += strideFrom) {
      const __m128i sum = _mm_add_epi16 (LoadWide (from), r[i]);
      _mm_storel_epi64 (reinterpret_cast<__m128i*> (to), _mm_packus_epi16 (sum, sum));
    }
  }
}

// A block predicted from the slopes of the row above it and of the column before it.
void PlaneOf (uint8_t* to, uint8_t* block, const int32_t stride) {
  const uint8_t* above = block - stride;
  const uint8_t* before = block - 1;
  int32_t across = 0, down = 0;
  for (int i = 0; i < 8; ++i) {
    across += (i + 1) * (above[8 + i] - above[6 - i]);
    down += (i + 1) * (before[(8 + i) * stride] - before[(6 - i) * stride]);
  }
  across = (5 * across + 32) >> 6;
  down = (5 * down + 32) >> 6;
  const int32_t corner = ((before[15 * stride] + above[15]) << 4) + 16 - 7 * across - 7 * down;
  const __m128i slope = _mm_set1_epi16 (static_cast<int16_t> (across));
  const __m128i left = _mm_mullo_epi16 (slope, _mm_setr_epi16 (0, 1, 2, 3, 4, 5, 6, 7));
  const __m128i right = _mm_add_epi16 (left, _mm_slli_epi16 (slope, 3));
  for (int y = 0; y < 16; ++y, to += 16) {
    const __m128i start = _mm_set1_epi16 (static_cast<int16_t> (corner + y * down));
    const __m128i row = _mm_packus_epi16 (_mm_srai_epi16 (_mm_add_epi16 (start, left), 5),
                                          _mm_srai_epi16 (_mm_add_epi16 (start, right), 5));
    _mm_storeu_si128 (reinterpret_cast<__m128i*> (to), row);
  }
}

inline uint8_t Clipped (int32_t value) {
  return static_cast<uint8_t> (value < 0 ? 0 : value > 255 ? 255 : value);
}

// H.264's six taps over values `step` apart: 1, -5, 20, 20, -5, 1.
template<typename Value>
inline int32_t Taps (const Value* p, intptr_t step) {
  return p[-2 * step] + p[3 * step] - 5 * (p[-step] + p[2 * step]) + 20 * (p[0] + p[step]);
}

// The same for eight pixels at once.
inline __m128i EightTaps (const uint8_t* p, intptr_t step) {
  const __m128i outer = _mm_add_epi16 (LoadWide (p - 2 * step), LoadWide (p + 3 * step));
  const __m128i middle = _mm_add_epi16 (LoadWide (p - step), LoadWide (p + 2 * step));
  const __m128i inner = _mm_add_epi16 (LoadWide (p), LoadWide (p + step));
  // 20 * inner - 5 * middle is five times this.
  const __m128i fifth = _mm_sub_epi16 (_mm_slli_epi16 (inner, 2), middle);
  return _mm_add_epi16 (_mm_add_epi16 (outer, fifth), _mm_slli_epi16 (fifth, 2));
}

void HalfPixels (const uint8_t* from, int32_t strideFrom, uint8_t* to, int32_t strideTo, int32_t width,
                 int32_t height, intptr_t step) {
  for (; height > 0; --height, from += strideFrom, to += strideTo) {
    int32_t x = 0;
    for (; x + 8 <= width; x += 8) {
      const __m128i sum = _mm_srai_epi16 (_mm_add_epi16 (EightTaps (from + x, step), _mm_set1_epi16 (16)), 5);
      _mm_storel_epi64 (reinterpret_cast<__m128i*> (to + x), _mm_packus_epi16 (sum, sum));
    }
    for (; x < width; ++x)
      to[x] = Clipped ((Taps (from + x, step) + 16) >> 5);
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

inline __m128i LoadWords (const int16_t* p) {
  return _mm_loadu_si128 (reinterpret_cast<const __m128i*> (p));
}

// Half a pixel across and down: taps down, unrounded, then across. At most 17 wide.
void HalfBoth (const uint8_t* from, int32_t strideFrom, uint8_t* to, int32_t strideTo, int32_t width,
               int32_t height) {
  const __m128i ends = _mm_setr_epi16 (1, -5, 1, -5, 1, -5, 1, -5);
  const __m128i middle = _mm_setr_epi16 (20, 512, 20, 512, 20, 512, 20, 512), one = _mm_set1_epi16 (1);
  for (; height > 0; --height, from += strideFrom, to += strideTo) {
    int16_t down[24];
    int32_t x = 0;
    for (; x + 8 <= width + 5; x += 8)
      _mm_storeu_si128 (reinterpret_cast<__m128i*> (down + x), EightTaps (from - 2 + x, strideFrom));
    for (; x < width + 5; ++x)
      down[x] = static_cast<int16_t> (Taps (from - 2 + x, strideFrom));
    for (x = 0; x + 8 <= width; x += 8) {
      const int16_t* p = down + x;
      const __m128i a = _mm_add_epi16 (LoadWords (p), LoadWords (p + 5));
      const __m128i b = _mm_add_epi16 (LoadWords (p + 1), LoadWords (p + 4));
      const __m128i c = _mm_add_epi16 (LoadWords (p + 2), LoadWords (p + 3));
      const __m128i low = _mm_add_epi32 (_mm_madd_epi16 (_mm_unpacklo_epi16 (a, b), ends),
                                         _mm_madd_epi16 (_mm_unpacklo_epi16 (c, one), middle));
      const __m128i high = _mm_add_epi32 (_mm_madd_epi16 (_mm_unpackhi_epi16 (a, b), ends),
                                          _mm_madd_epi16 (_mm_unpackhi_epi16 (c, one), middle));
      const __m128i sum = _mm_packs_epi32 (_mm_srai_epi32 (low, 10), _mm_srai_epi32 (high, 10));
      _mm_storel_epi64 (reinterpret_cast<__m128i*> (to + x), _mm_packus_epi16 (sum, sum));
    }
    for (; x < width; ++x)
      to[x] = Clipped ((Taps (down + 2 + x, 1) + 512) >> 10);
  }
}

void Average (uint8_t* to, int32_t strideTo, const uint8_t* a, int32_t strideA, const uint8_t* b,
              int32_t strideB, int32_t width, int32_t height) {
  for (; height > 0; --height, to += strideTo, a += strideA, b += strideB) {
    int32_t x = 0;
    for (; x + 8 <= width; x += 8)
      _mm_storel_epi64 (reinterpret_cast<__m128i*> (to + x), _mm_avg_epu8 (LoadEight (a + x), LoadEight (b + x)));
    for (; x < width; ++x)
      to[x] = static_cast<uint8_t> ((a[x] + b[x] + 1) >> 1);
  }
}

// A block that moved by whole pixels and by quarters of them: each position is either one of the half
// pixels or the mean of two positions.
void MovedLuma (const uint8_t* from, int32_t strideFrom, uint8_t* to, int32_t strideTo, int16_t moveX,
                int16_t moveY, int32_t width, int32_t height) {
  const int32_t x = moveX & 3, y = moveY & 3;
  const uint8_t* right = from + (x == 3);
  const uint8_t* below = from + (y == 3) * strideFrom;
  uint8_t first[256], second[256];
  if (x == 0 && y == 0) {
    for (; height > 0; --height, from += strideFrom, to += strideTo)
      memcpy (to, from, width);
  } else if (x == 2 && y == 2) {
    HalfBoth (from, strideFrom, to, strideTo, width, height);
  } else if (x == 0 || y == 0) {
    const auto half = x == 0 ? HalfDown : HalfAcross;
    if (x == 2 || y == 2)
      return half (from, strideFrom, to, strideTo, width, height);
    half (from, strideFrom, first, 16, width, height);
    Average (to, strideTo, x == 0 ? below : right, strideFrom, first, 16, width, height);
  } else {
    if (y == 2)
      HalfDown (right, strideFrom, first, 16, width, height);
    else
      HalfAcross (below, strideFrom, first, 16, width, height);
    if (x == 2 || y == 2)
      HalfBoth (from, strideFrom, second, 16, width, height);
    else
      HalfDown (right, strideFrom, second, 16, width, height);
    Average (to, strideTo, first, 16, second, 16, width, height);
  }
}

// The same by eighths: each pixel is a mean of four, weighed by how near they are.
void MovedChroma (const uint8_t* from, int32_t strideFrom, uint8_t* to, int32_t strideTo, int16_t moveX,
                  int16_t moveY, int32_t width, int32_t height) {
  const int16_t x = moveX & 7, y = moveY & 7;
  const int16_t a = (8 - x) * (8 - y), b = x * (8 - y), c = (8 - x) * y, d = x * y;
  // Pixels with weight 0 are not read.
  const intptr_t right = x ? 1 : 0, down = y ? strideFrom : 0;
  const __m128i weights[] = {_mm_set1_epi16 (a), _mm_set1_epi16 (b), _mm_set1_epi16 (c), _mm_set1_epi16 (d)};
  for (; height > 0; --height, from += strideFrom, to += strideTo) {
    if (width == 8) {
      __m128i sum = _mm_add_epi16 (_mm_mullo_epi16 (LoadWide (from), weights[0]),
                                   _mm_mullo_epi16 (LoadWide (from + right), weights[1]));
      sum = _mm_add_epi16 (sum, _mm_mullo_epi16 (LoadWide (from + down), weights[2]));
      sum = _mm_add_epi16 (sum, _mm_mullo_epi16 (LoadWide (from + down + right), weights[3]));
      sum = _mm_srli_epi16 (_mm_add_epi16 (sum, _mm_set1_epi16 (32)), 6);
      _mm_storel_epi64 (reinterpret_cast<__m128i*> (to), _mm_packus_epi16 (sum, sum));
    } else {
      for (int32_t i = 0; i < width; ++i) {
        const uint8_t* p = from + i;
        to[i] = static_cast<uint8_t> ((a * p[0] + b * p[right] + c * p[down] + d * p[down + right] + 32) >> 6);
      }
    }
  }
}

}  // namespace

namespace WelsEnc {

void UseSse2 (SWelsFuncPtrList* list) {
  SSampleDealingFunc& samples = list->sSampleDealingFuncs;
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
  list->pfIDctT4 = Restore;
  list->pfIDctFourT4 = RestoreFour;
  list->pfQuantizationFour4x4Max = QuantiseFourMax;
  list->pfGetLumaI16x16Pred[I16_PRED_P] = PlaneOf;
  list->sMcFuncs.pfLumaHalfpelHor = HalfAcross;
  list->sMcFuncs.pfLumaHalfpelVer = HalfDown;
  list->sMcFuncs.pfLumaHalfpelCen = HalfBoth;
  list->sMcFuncs.pMcLumaFunc = MovedLuma;
  list->sMcFuncs.pMcChromaFunc = MovedChroma;
  list->sMcFuncs.pfSampleAveraging = Average;
}

}  // namespace WelsEnc

#else

namespace WelsEnc {

void UseSse2 (SWelsFuncPtrList*) {}

}  // namespace WelsEnc

#endif
