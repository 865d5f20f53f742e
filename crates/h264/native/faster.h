// Functions of ours that take the place of the encoder's.

#ifndef ANIMATIC_FASTER_H
#define ANIMATIC_FASTER_H

#include "wels_func_ptr_def.h"

namespace WelsEnc {

// In place of plain C. Does nothing where the processor is no x86.
void UseSse2 (SWelsFuncPtrList* list);

// In place of assembly, too. Only for a processor of which HasAvx2 says that it can.
void UseAvx2 (SWelsFuncPtrList* list);
bool HasAvx2();

}  // namespace WelsEnc

#endif
