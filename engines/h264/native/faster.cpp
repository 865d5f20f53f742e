// Chooses the functions that the encoder uses.

#include "faster.h"

#include "sample.h"

namespace WelsEnc {

// OpenH264's assembly is kept, except where AVX2 is faster: that assembly was built without AVX2.
void H264PickFunctions (SWelsFuncPtrList* list) {
  if (list->sSampleDealingFuncs.pfSampleSatd[BLOCK_4x4] == WelsSampleSatd4x4_c)
    UseSse2 (list);
  if (HasAvx2())
    UseAvx2 (list);
}

}  // namespace WelsEnc
