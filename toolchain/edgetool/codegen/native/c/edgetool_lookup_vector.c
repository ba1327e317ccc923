/* SPDX-License-Identifier: 0BSD */
#include "edgetool_lookup_vector.h"

#include "edgetool_helium.h"

static void one_row(const uint8_t *table, const uint8_t *source, uint8_t *out, uint32_t count)
{
#if defined(EDGETOOL_HELIUM)
    __asm__ volatile("dlstp.8 lr, %[count]\n"
                     "1:\n\t"
                     "vldrb.u8 q0, [%[source]], #16\n\t"
                     "vldrb.u8 q1, [%[table], q0]\n\t"
                     "vstrb.8 q1, [%[out]], #16\n\t"
                     "letp lr, 1b"
                     : [source] "+l"(source), [out] "+l"(out)
                     : [count] "r"(count), [table] "r"(table)
                     : "lr", "memory", "q0", "q1");
#else
    for (uint32_t i = 0; i < count; i++) {
        out[i] = table[source[i]];
    }
#endif
}

void edgetool_lookup_vector(const void *descriptor, const edgetool_band *band)
{
    const edgetool_lookup_vector_op *op = (const edgetool_lookup_vector_op *)descriptor;
    for (uint32_t y = 0; y < band->count; y++) {
        uint8_t *out = (uint8_t *)band->out + (size_t)y * op->count;
        one_row(op->table, (const uint8_t *)band->rows[y], out, op->count);
    }
}
