/* All that a lean processor needs of its own: two atomics, acquire, release and a full fence. */
#ifndef HELIOSTAT_LEAN_ATOMICS_H
#define HELIOSTAT_LEAN_ATOMICS_H

#include <stdint.h>

#if defined(__CUDA_ARCH__)
#define HL_PTX(result, text, ...) asm volatile(text : result : __VA_ARGS__ : "memory")
HL_FN uint64_t hl_load64(const void *at) { uint64_t v; HL_PTX("=l"(v), "ld.acquire.sys.u64 %0, [%1];", "l"(at)); return v; }
HL_FN uint32_t hl_load32(const void *at) { uint32_t v; HL_PTX("=r"(v), "ld.acquire.sys.u32 %0, [%1];", "l"(at)); return v; }
HL_FN void hl_store64(void *at, uint64_t value) { HL_PTX(, "st.release.sys.u64 [%0], %1;", "l"(at), "l"(value)); }
HL_FN void hl_store32(void *at, uint32_t value) { HL_PTX(, "st.release.sys.u32 [%0], %1;", "l"(at), "r"(value)); }
HL_FN uint32_t hl_swap32(uint32_t *at, uint32_t value)
{
    uint32_t v;
    HL_PTX("=r"(v), "atom.acq_rel.sys.exch.b32 %0, [%1], %2;", "l"(at), "r"(value));
    return v;
}
HL_FN uint32_t hl_cas32(uint32_t *at, uint32_t expected, uint32_t value)
{
    uint32_t v;
    HL_PTX("=r"(v), "atom.acq_rel.sys.cas.b32 %0, [%1], %2, %3;", "l"(at), "r"(expected), "r"(value));
    return v;
}
HL_FN void hl_fence(void) { __threadfence_system(); }
#else
HL_FN uint64_t hl_load64(const void *at) { return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE); }
HL_FN uint32_t hl_load32(const void *at) { return __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE); }
HL_FN void hl_store64(void *at, uint64_t value) { __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE); }
HL_FN void hl_store32(void *at, uint32_t value) { __atomic_store_n((uint32_t *)at, value, __ATOMIC_RELEASE); }
HL_FN uint32_t hl_swap32(uint32_t *at, uint32_t value) { return __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL); }
HL_FN uint32_t hl_cas32(uint32_t *at, uint32_t expected, uint32_t value)
{
    __atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
}
HL_FN void hl_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif

#endif
