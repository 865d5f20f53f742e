// Which functions the encoder works with.

#include "faster.h"

#include "sample.h"

namespace WelsEnc {

// What an assembler made is left alone but where AVX2 is faster: it was assembled without.
void H264PickFunctions (SWelsFuncPtrList* list) {
  if (list->sSampleDealingFuncs.pfSampleSatd[BLOCK_4x4] == WelsSampleSatd4x4_c)
    UseSse2 (list);
  if (HasAvx2())
    UseAvx2 (list);
}

}  // namespace WelsEnc
