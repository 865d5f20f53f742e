// Whether our functions give what plain C gives, over blocks made from a seed.
//
// A test asks; nothing else does, so that no program links this.

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

class Chance {
 public:
  explicit Chance (uint32_t seed) : state_ (seed) {}

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

  // Noise, extremes, or a little about one value, by turns.
  Pixels (Chance& chance, int32_t round) {
    const int32_t middle = chance.Below (256);
    for (uint8_t& pixel : at) {
      switch (round % 3) {
      case 0: pixel = chance.Below (256); break;
      case 1: pixel = chance.Below (2) * 255; break;
      default: pixel = WELS_CLIP3 (middle + chance.Below (7) - 3, 0, 255);
      }
    }
  }

  uint8_t* Place (int32_t x, int32_t y, int32_t stride) { return at + y * stride + x; }
};

struct Lists {
  SWelsFuncPtrList plain, ours;

  // Of a processor without extensions, which has plain C for everything.
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

const char* Sums (const Lists& lists, Chance& chance, int32_t round) {
  const SSampleDealingFunc& plain = lists.plain.sSampleDealingFuncs;
  const SSampleDealingFunc& ours = lists.ours.sSampleDealingFuncs;
  Pixels one (chance, round), other (chance, round / 3);
  const int32_t stride = 40 + chance.Below (kSide - 40);
  uint8_t* a = one.Place (8 + chance.Below (8), 8, stride);
  uint8_t* b = other.Place (8 + chance.Below (8), 8, kSide);
  for (int32_t size : {BLOCK_16x16, BLOCK_16x8, BLOCK_8x16, BLOCK_8x8}) {
    if (plain.pfSampleSad[size] (a, stride, b, kSide) != ours.pfSampleSad[size] (a, stride, b, kSide))
      return "sums of differences";
    if (plain.pfSampleSatd[size] (a, stride, b, kSide) != ours.pfSampleSatd[size] (a, stride, b, kSide))
      return "sums of transformed differences";
    int32_t these[4], those[4];
    plain.pfSample4Sad[size] (a, stride, b, kSide, these);
    ours.pfSample4Sad[size] (a, stride, b, kSide, those);
    if (memcmp (these, those, sizeof (these)))
      return "four sums of differences";
  }
  return nullptr;
}

const char* Transforms (const Lists& lists, Chance& chance, int32_t round) {
  Pixels one (chance, round), other (chance, round / 3);
  uint8_t* a = one.Place (chance.Below (16), 8, kSide);
  uint8_t* b = other.Place (chance.Below (16), 8, 32);
  ALIGNED_DECLARE (int16_t, these[64], 16);
  ALIGNED_DECLARE (int16_t, those[64], 16);
  lists.plain.pfDctFourT4 (these, a, kSide, b, 32);
  lists.ours.pfDctFourT4 (those, a, kSide, b, 32);
  if (memcmp (these, those, sizeof (these)))
    return "the transform";
  const int32_t quantiser = chance.Below (52);
  const int16_t* add = chance.Below (2) ? g_kiQuantInterFF[quantiser] : g_iQuantIntraFF[quantiser];
  int16_t most[4], greatest[4];
  lists.plain.pfQuantizationFour4x4Max (these, add, g_kiQuantMF[quantiser], most);
  lists.ours.pfQuantizationFour4x4Max (those, add, g_kiQuantMF[quantiser], greatest);
  if (memcmp (these, those, sizeof (these)) || memcmp (most, greatest, sizeof (most)))
    return "the quantiser";
  return nullptr;
}

const char* Restored (const Lists& lists, Chance& chance, int32_t round) {
  Pixels from (chance, round), these (chance, 0), those = these;
  uint8_t* before = from.Place (chance.Below (16), 8, kSide);
  ALIGNED_DECLARE (int16_t, levels[64], 16);
  for (int16_t& level : levels)
    level = round % 2 ? chance.Below (4000) - 2000 : (chance.Below (8) ? 0 : chance.Below (200) - 100);
  lists.plain.pfIDctFourT4 (these.Place (8, 8, kSide), kSide, before, 24, levels);
  lists.ours.pfIDctFourT4 (those.Place (8, 8, kSide), kSide, before, 24, levels);
  lists.plain.pfIDctT4 (these.Place (32, 8, kSide), kSide, before, 24, levels);
  lists.ours.pfIDctT4 (those.Place (32, 8, kSide), kSide, before, 24, levels);
  if (memcmp (these.at, those.at, sizeof (these.at)))
    return "the transform back";
  lists.plain.pfGetLumaI16x16Pred[I16_PRED_P] (these.at, from.Place (8, 8, kSide), kSide);
  lists.ours.pfGetLumaI16x16Pred[I16_PRED_P] (those.at, from.Place (8, 8, kSide), kSide);
  if (memcmp (these.at, those.at, sizeof (these.at)))
    return "the plane";
  return nullptr;
}

const char* Moved (const Lists& lists, Chance& chance, int32_t round) {
  const SMcFunc& plain = lists.plain.sMcFuncs;
  const SMcFunc& ours = lists.ours.sMcFuncs;
  Pixels from (chance, round), other (chance, round / 3), these (chance, 0), those = these;
  const uint8_t* start = from.Place (8 + chance.Below (8), 8, kSide);
  const int32_t width = 4 << chance.Below (3), height = 4 << chance.Below (3);
  const int16_t x = chance.Below (64) - 32, y = chance.Below (64) - 32;
  plain.pMcLumaFunc (start, kSide, these.Place (8, 8, kSide), kSide, x, y, width, height);
  ours.pMcLumaFunc (start, kSide, those.Place (8, 8, kSide), kSide, x, y, width, height);
  if (memcmp (these.at, those.at, sizeof (these.at)))
    return "moved luma";
  plain.pMcChromaFunc (start, kSide, these.Place (8, 8, kSide), kSide, x, y, width / 2, height / 2);
  ours.pMcChromaFunc (start, kSide, those.Place (8, 8, kSide), kSide, x, y, width / 2, height / 2);
  if (memcmp (these.at, those.at, sizeof (these.at)))
    return "moved chroma";
  plain.pfSampleAveraging (these.at, kSide, start, kSide, other.at, kSide, width, height);
  ours.pfSampleAveraging (those.at, kSide, start, kSide, other.at, kSide, width, height);
  return memcmp (these.at, those.at, sizeof (these.at)) ? "the average" : nullptr;
}

const char* HalfPixels (const Lists& lists, Chance& chance, int32_t round) {
  const SMcFunc& plain = lists.plain.sMcFuncs;
  const SMcFunc& ours = lists.ours.sMcFuncs;
  Pixels from (chance, round), these (chance, 0), those = these;
  // What the encoder asks for: a block, and a column or a row more.
  const int32_t width = (4 << chance.Below (3)) + chance.Below (2);
  const int32_t height = (4 << chance.Below (3)) + chance.Below (2);
  const uint8_t* start = from.Place (8 + chance.Below (8), 8, kSide);
  plain.pfLumaHalfpelHor (start, kSide, these.Place (8, 8, kSide), kSide, width, height);
  ours.pfLumaHalfpelHor (start, kSide, those.Place (8, 8, kSide), kSide, width, height);
  if (memcmp (these.at, those.at, sizeof (these.at)))
    return "half pixels across";
  plain.pfLumaHalfpelVer (start, kSide, these.Place (8, 8, kSide), kSide, width, height);
  ours.pfLumaHalfpelVer (start, kSide, those.Place (8, 8, kSide), kSide, width, height);
  if (memcmp (these.at, those.at, sizeof (these.at)))
    return "half pixels down";
  plain.pfLumaHalfpelCen (start, kSide, these.Place (8, 8, kSide), kSide, width, height);
  ours.pfLumaHalfpelCen (start, kSide, those.Place (8, 8, kSide), kSide, width, height);
  if (memcmp (these.at, those.at, sizeof (these.at)))
    return "half pixels across and down";
  return nullptr;
}

const char* Differing (const Lists& lists, uint32_t seed) {
  if (lists.plain.pfDctFourT4 == lists.ours.pfDctFourT4)
    return "nothing is replaced";
  Chance chance (seed);
  for (int32_t round = 0; round < kRounds; ++round) {
    for (auto compare : {Sums, Transforms, Restored, Moved, HalfPixels}) {
      if (const char* name = compare (lists, chance, round))
        return name;
    }
  }
  return nullptr;
}

}  // namespace

// The name of a function that differs; null when all agree.
extern "C" const char* h264_sse2_differs (uint32_t seed) { return Differing (Lists (UseSse2), seed); }

// The same for those in AVX2; nothing differs where the processor has not it.
extern "C" const char* h264_avx2_differs (uint32_t seed) {
  return HasAvx2() ? Differing (Lists (UseAvx2), seed) : nullptr;
}

}  // namespace WelsEnc
