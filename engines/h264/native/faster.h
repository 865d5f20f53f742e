// Our replacements for functions of the encoder.

#ifndef ANIMATIC_FASTER_H
#define ANIMATIC_FASTER_H

#include "wels_func_ptr_def.h"

namespace WelsEnc {

// Replaces plain C. Does nothing unless the processor is x86.
void UseSse2 (SWelsFuncPtrList* list);

// Replaces assembly, too. Only for processors for which HasAvx2 is true.
void UseAvx2 (SWelsFuncPtrList* list);
bool HasAvx2();

}  // namespace WelsEnc

#endif
