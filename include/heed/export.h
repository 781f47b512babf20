// What a shared libheed shows to programs: the declarations between these two, in every public header. All else in the
// library is compiled with -fvisibility=hidden.
#pragma once

#define HEED_EXPORT_BEGIN _Pragma("GCC visibility push(default)")
#define HEED_EXPORT_END _Pragma("GCC visibility pop")
