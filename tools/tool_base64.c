/*
 * tool_base64.c - RFC 4648's base64, with padding.
 *
 * Pure: any thread.
 */
#include "tools/tool.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tool_base64_encode(struct ps_slice bytes, char *out)
{
    const uint8_t *at = bytes.data;
    size_t i = 0;
    for (; i + 2 < bytes.len; i += 3) {
        uint32_t v = (uint32_t)at[i] << 16 | (uint32_t)at[i + 1] << 8 | at[i + 2];
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = digits[v >> 6 & 63];
        *out++ = digits[v & 63];
    }
    if (i < bytes.len) {
        bool two = i + 1 < bytes.len;
        uint32_t v = (uint32_t)at[i] << 16 | (two ? (uint32_t)at[i + 1] << 8 : 0);
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = two ? digits[v >> 6 & 63] : '=';
        *out++ = '=';
    }
}

static int digit(char c)
{
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

bool tool_base64_decode(const char *text, size_t len, uint8_t *out, size_t *out_len)
{
    *out_len = 0;
    if (len % 4 != 0) {
        return false;
    }
    for (size_t i = 0; i < len; i += 4) {
        unsigned pad = 0;
        if (i + 4 == len) {
            pad = text[i + 3] == '=' ? text[i + 2] == '=' ? 2 : 1 : 0;
        }
        uint32_t v = 0;
        for (unsigned k = 0; k < 4; k++) {
            int d = k >= 4 - pad ? 0 : digit(text[i + k]);
            if (d < 0) {
                return false;
            }
            v = v << 6 | (uint32_t)d;
        }
        if ((pad == 1 && (v & 0xff) != 0) || (pad == 2 && (v & 0xffff) != 0)) {
            return false; /* bits that no byte has: not what an encoder writes */
        }
        for (unsigned k = 0; k < 3 - pad; k++) {
            out[(*out_len)++] = (uint8_t)(v >> (16 - 8 * k));
        }
    }
    return true;
}
