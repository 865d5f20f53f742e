// Checks that our functions give what plain C gives, on blocks made from a seed.
//
// Only a test calls this, so no program links it.

#include <string.h>

#include <initializer_list>

#include "encode_mb_aux.h"
#include "decode_mb_aux.h"
#include "faster.h"
#include "get_intra_predictor.h"
#include "mc.h"
#include "sample.h"

namespace WelsEnc {

namespace {

const int32_t kSide = 64;
const int32_t kRounds = 400;

class TestRandom {
 public:
  explicit TestRandom (uint32_t seed) : state_ (seed) {}

  // A number below `end`.
  int32_t Below (int32_t end) {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<int32_t> ((static_cast<uint64_t> (state_) * end) >> 32);
  }

 private:
  uint32_t state_;
};

// Pixels with room around the blocks in their middle.
struct Pixels {
  uint8_t at[kSide * kSide];

  // Noise, extremes, or small deviations from one value, in turn.
  Pixels (TestRandom& random, int32_t round) {
    const int32_t middle = random.Below (256);
    for (uint8_t& pixel : at) {
      switch (round % 3) {
      case 0: pixel = random.Below (256); break;
      case 1: pixel = random.Below (2) * 255; break;
      default: pixel = WELS_CLIP3 (middle + random.Below (7) - 3, 0, 255);
      }
    }
  }

  uint8_t* Place (int32_t x, int32_t y, int32_t stride) { return at + y * stride + x; }
};

struct Lists {
  SWelsFuncPtrList plain, ours;

  // `plain` is for a processor without extensions: plain C for everything.
  explicit Lists (void use (SWelsFuncPtrList*)) {
    memset (&plain, 0, sizeof (plain));
    WelsInitSampleSadFunc (&plain, 0);
    WelsInitEncodingFuncs (&plain, 0);
    WelsInitReconstructionFuncs (&plain, 0);
    WelsInitIntraPredFuncs (&plain, 0);
    WelsCommon::InitMcFunc (&plain.sMcFuncs, 0);
    ours = plain;
    use (&ours);
  }
};

const char* CompareSums (const Lists& lists, TestRandom& random, int32_t round) {
  const SSampleDealingFunc& plain = lists.plain.sSampleDealingFuncs;
  const SSampleDealingFunc& ours = lists.ours.sSampleDealingFuncs;
  Pixels first (random, round), second (random, round / 3);
  const int32_t stride = 40 + random.Below (kSide - 40);
  uint8_t* a = first.Place (8 + random.Below (8), 8, stride);
  uint8_t* b = second.Place (8 + random.Below (8), 8, kSide);
  for (int32_t size : {BLOCK_16x16, BLOCK_16x8, BLOCK_8x16, BLOCK_8x8}) {
    if (plain.pfSampleSad[size] (a, stride, b, kSide) != ours.pfSampleSad[size] (a, stride, b, kSide))
      return "sums of differences";
    if (plain.pfSampleSatd[size] (a, stride, b, kSide) != ours.pfSampleSatd[size] (a, stride, b, kSide))
      return "sums of transformed differences";
    int32_t expected[4], actual[4];
    plain.pfSample4Sad[size] (a, stride, b, kSide, expected);
    ours.pfSample4Sad[size] (a, stride, b, kSide, actual);
    if (memcmp (expected, actual, sizeof (expected)))
      return "four sums of differences";
  }
  return nullptr;
}

const char* CompareTransforms (const Lists& lists, TestRandom& random, int32_t round) {
  Pixels first (random, round), second (random, round / 3);
  uint8_t* a = first.Place (random.Below (16), 8, kSide);
  uint8_t* b = second.Place (random.Below (16), 8, 32);
  ALIGNED_DECLARE (int16_t, expected[64], 16);
  ALIGNED_DECLARE (int16_t, actual[64], 16);
  lists.plain.pfDctFourT4 (expected, a, kSide, b, 32);
  lists.ours.pfDctFourT4 (actual, a, kSide, b, 32);
  if (memcmp (expected, actual, sizeof (expected)))
    return "the transform";
  const int32_t quantiser = random.Below (52);
  const int16_t* add = random.Below (2) ? g_kiQuantInterFF[quantiser] : g_iQuantIntraFF[quantiser];
  int16_t expectedMax[4], actualMax[4];
  lists.plain.pfQuantizationFour4x4Max (expected, add, g_kiQuantMF[quantiser], expectedMax);
  lists.ours.pfQuantizationFour4x4Max (actual, add, g_kiQuantMF[quantiser], actualMax);
  if (memcmp (expected, actual, sizeof (expected)) || memcmp (expectedMax, actualMax, sizeof (expectedMax)))
    return "the quantiser";
  return nullptr;
}

const char* CompareInverseTransforms (const Lists& lists, TestRandom& random, int32_t round) {
  Pixels source (random, round), expected (random, 0), actual = expected;
  uint8_t* prediction = source.Place (random.Below (16), 8, kSide);
  ALIGNED_DECLARE (int16_t, levels[64], 16);
  for (int16_t& level : levels)
    level = round % 2 ? random.Below (4000) - 2000 : (random.Below (8) ? 0 : random.Below (200) - 100);
  lists.plain.pfIDctFourT4 (expected.Place (8, 8, kSide), kSide, prediction, 24, levels);
  lists.ours.pfIDctFourT4 (actual.Place (8, 8, kSide), kSide, prediction, 24, levels);
  lists.plain.pfIDctT4 (expected.Place (32, 8, kSide), kSide, prediction, 24, levels);
  lists.ours.pfIDctT4 (actual.Place (32, 8, kSide), kSide, prediction, 24, levels);
  if (memcmp (expected.at, actual.at, sizeof (expected.at)))
    return "the inverse transform";
  lists.plain.pfGetLumaI16x16Pred[I16_PRED_P] (expected.at, source.Place (8, 8, kSide), kSide);
  lists.ours.pfGetLumaI16x16Pred[I16_PRED_P] (actual.at, source.Place (8, 8, kSide), kSide);
  if (memcmp (expected.at, actual.at, sizeof (expected.at)))
    return "the plane";
  return nullptr;
}

const char* CompareMovedBlocks (const Lists& lists, TestRandom& random, int32_t round) {
  const SMcFunc& plain = lists.plain.sMcFuncs;
  const SMcFunc& ours = lists.ours.sMcFuncs;
  Pixels source (random, round), second (random, round / 3), expected (random, 0), actual = expected;
  const uint8_t* start = source.Place (8 + random.Below (8), 8, kSide);
  const int32_t width = 4 << random.Below (3), height = 4 << random.Below (3);
  const int16_t x = random.Below (64) - 32, y = random.Below (64) - 32;
  plain.pMcLumaFunc (start, kSide, expected.Place (8, 8, kSide), kSide, x, y, width, height);
  ours.pMcLumaFunc (start, kSide, actual.Place (8, 8, kSide), kSide, x, y, width, height);
  if (memcmp (expected.at, actual.at, sizeof (expected.at)))
    return "moved luma";
  plain.pMcChromaFunc (start, kSide, expected.Place (8, 8, kSide), kSide, x, y, width / 2, height / 2);
  ours.pMcChromaFunc (start, kSide, actual.Place (8, 8, kSide), kSide, x, y, width / 2, height / 2);
  if (memcmp (expected.at, actual.at, sizeof (expected.at)))
    return "moved chroma";
  plain.pfSampleAveraging (expected.at, kSide, start, kSide, second.at, kSide, width, height);
  ours.pfSampleAveraging (actual.at, kSide, start, kSide, second.at, kSide, width, height);
  return memcmp (expected.at, actual.at, sizeof (expected.at)) ? "the average" : nullptr;
}

const char* CompareHalfPixels (const Lists& lists, TestRandom& random, int32_t round) {
  const SMcFunc& plain = lists.plain.sMcFuncs;
  const SMcFunc& ours = lists.ours.sMcFuncs;
  Pixels source (random, round), expected (random, 0), actual = expected;
  // What the encoder asks for: a block, and a column or a row more.
  const int32_t width = (4 << random.Below (3)) + random.Below (2);
  const int32_t height = (4 << random.Below (3)) + random.Below (2);
  const uint8_t* start = source.Place (8 + random.Below (8), 8, kSide);
  plain.pfLumaHalfpelHor (start, kSide, expected.Place (8, 8, kSide), kSide, width, height);
  ours.pfLumaHalfpelHor (start, kSide, actual.Place (8, 8, kSide), kSide, width, height);
  if (memcmp (expected.at, actual.at, sizeof (expected.at)))
    return "half pixels across";
  plain.pfLumaHalfpelVer (start, kSide, expected.Place (8, 8, kSide), kSide, width, height);
  ours.pfLumaHalfpelVer (start, kSide, actual.Place (8, 8, kSide), kSide, width, height);
  if (memcmp (expected.at, actual.at, sizeof (expected.at)))
    return "half pixels down";
  plain.pfLumaHalfpelCen (start, kSide, expected.Place (8, 8, kSide), kSide, width, height);
  ours.pfLumaHalfpelCen (start, kSide, actual.Place (8, 8, kSide), kSide, width, height);
  if (memcmp (expected.at, actual.at, sizeof (expected.at)))
    return "half pixels across and down";
  return nullptr;
}

const char* FirstDifference (const Lists& lists, uint32_t seed) {
  if (lists.plain.pfDctFourT4 == lists.ours.pfDctFourT4)
    return "nothing is replaced";
  TestRandom random (seed);
  for (int32_t round = 0; round < kRounds; ++round) {
    for (auto compare : {CompareSums, CompareTransforms, CompareInverseTransforms, CompareMovedBlocks,
                         CompareHalfPixels}) {
      if (const char* name = compare (lists, random, round))
        return name;
    }
  }
  return nullptr;
}

}  // namespace

// The name of a function that differs; null when all agree.
extern "C" const char* h264_sse2_differs (uint32_t seed) { return FirstDifference (Lists (UseSse2), seed); }

// The same for those in AVX2; nothing differs where the processor lacks it.
extern "C" const char* h264_avx2_differs (uint32_t seed) {
  return HasAvx2() ? FirstDifference (Lists (UseAvx2), seed) : nullptr;
}

}  // namespace WelsEnc
