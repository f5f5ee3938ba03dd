// SLUICE_ADDRESS_SANITIZER is defined where AddressSanitizer watches: GCC and Clang say so in different ways.
#pragma once

#ifdef __SANITIZE_ADDRESS__
#define SLUICE_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZER
#endif
#endif
