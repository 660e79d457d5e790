/* Plain pages of JSON into the buffers of Arrow columns, without an object for each value.

   Plain is what a service sends on any day: members that are known, of the types they should have,
   amounts and UTC times as the interface writes them. Whatever is not plain is refused as a whole
   and without a reason; fundlab/tables/decode.py then reads the page and names what is wrong, or
   finds that all is well. So nothing here decides what an error is, and each check may be narrower
   than the interface, but never wider.

   The text must end in a NUL and be valid UTF-8; both are seen to by the caller. Every loop stops at
   a NUL, which may stand nowhere else. */

#include <stdint.h>
#include <string.h>

enum kind { TEXT, AMOUNT, INSTANT, FLAG, COUNT, JSON, KEPT, ID };
enum { NOT_PLAIN = -1, NO_ROOM = -2, DEEPEST = 64, MOST_COLUMNS = 256 };

typedef struct { const char *name; int32_t length, kind, required; } column;
typedef struct { uint32_t start; int32_t length; } span; /* of a value; a length of -1 is null */
typedef struct { int64_t valid, offsets, data, size, nulls; } place; /* of a column's buffers */
typedef struct { int64_t rows, start, end, size; } page; /* the list of records lies start..end */

#define ESCAPED 0x80000000u /* in the start of a text that has a backslash */
#ifndef DIGEST
#define DIGEST ""
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Arrow's buffers are written as little-endian machines hold numbers"
#endif

/* Of this text, as it was compiled. */
const char *source_digest(void) { return DIGEST; }

/* ------------------------------------------------------------------------------ JSON
   Each function takes where something begins and gives where it ends, or 0. */

static const char *blank(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') p++;
    return p;
}

static int digit(char c) { return (unsigned)(c - '0') <= 9; }

static int hex(const char *p) {
    int code = 0;
    for (int n = 0; n < 4; n++) {
        char c = p[n];
        int value = digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (value < 0) return -1;
        code = code << 4 | value;
    }
    return code;
}

static const char *text(const char *p, const char *end, int *escaped) {
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    p++;
    for (;;) {
        while (end - p >= 8) { /* eight characters at once, unless one of them is special */
            uint64_t word, quote, slash;
            memcpy(&word, p, 8);
            quote = word ^ ones * '"', slash = word ^ ones * '\\';
            if ((((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote)
                 | ((slash - ones) & ~slash)) & highs) break;
            p += 8;
        }
        while ((unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') p++;
        if (*p == '"') return p + 1;
        if (*p != '\\') return 0;
        *escaped = 1;
        if (p[1] && strchr("\"\\/bfnrt", p[1])) { p += 2; continue; }
        if (p[1] != 'u') return 0;
        int code = hex(p + 2);
        if (code <= 0 || (code >= 0xDC00 && code <= 0xDFFF)) return 0;
        p += 6;
        if (code >= 0xD800 && code <= 0xDBFF) { /* the first half of a pair */
            if (p[0] != '\\' || p[1] != 'u') return 0;
            code = hex(p + 2);
            if (code < 0xDC00 || code > 0xDFFF) return 0;
            p += 6;
        }
    }
}

static const char *number(const char *p) {
    if (*p == '-') p++;
    if (*p == '0') p++;
    else if (digit(*p)) while (digit(*p)) p++;
    else return 0;
    if (*p == '.') {
        if (!digit(*++p)) return 0;
        while (digit(*p)) p++;
    }
    return *p == 'e' || *p == 'E' ? 0 : p;
}

static const char *value(const char *p, const char *end, int depth) {
    int escaped = 0;
    char close = *p == '{' ? '}' : ']';
    switch (*p) {
    case '"': return text(p, end, &escaped);
    case 't': return strncmp(p, "true", 4) ? 0 : p + 4;
    case 'f': return strncmp(p, "false", 5) ? 0 : p + 5;
    case 'n': return strncmp(p, "null", 4) ? 0 : p + 4;
    case '{': case '[': break;
    default: return number(p);
    }
    if (depth == DEEPEST) return 0;
    p = blank(p + 1);
    if (*p == close) return p + 1;
    for (;;) {
        if (close == '}') {
            if (*p != '"' || !(p = text(p, end, &escaped))) return 0;
            p = blank(p);
            if (*p != ':') return 0;
            p = blank(p + 1);
        }
        if (!(p = value(p, end, depth + 1))) return 0;
        p = blank(p);
        if (*p == close) return p + 1;
        if (*p != ',') return 0;
        p = blank(p + 1);
    }
}

/* ------------------------------------------------------------------------------ where values are */

static const char *record(const char *body, const char *p, const char *end, const column *columns,
                          int32_t count, span *row, int32_t *follows) {
    int32_t before = count, escaped;
    for (int32_t n = 0; n < count; n++) row[n] = (span){0, -1};
    if (*p != '{') return 0;
    p = blank(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        escaped = 0;
        if (*p != '"') return 0;
        const char *name = p + 1;
        if (!(p = text(p, end, &escaped)) || escaped) return 0;
        int32_t length = (int32_t)(p - 1 - name), n = follows[before];
        /* Members come in the same order in most records. */
        if (columns[n].length != length || memcmp(columns[n].name, name, length)) {
            for (n = 0; n < count; n++)
                if (columns[n].length == length && !memcmp(columns[n].name, name, length)) break;
            if (n == count) return 0;
            follows[before] = n;
        }
        before = n;
        p = blank(p);
        if (*p != ':') return 0;
        p = blank(p + 1);
        const char *start = p;
        int32_t kind = columns[n].kind;
        if (*p == 'n' && kind != KEPT) {
            if (strncmp(p, "null", 4)) return 0;
            p += 4;
            row[n] = (span){0, -1};
        } else {
            switch (kind) {
            case TEXT: case ID: case AMOUNT: case INSTANT:
                if (*p != '"' || !(p = text(p, end, &escaped))) return 0;
                start++;
                row[n] = (span){(uint32_t)(start - body), (int32_t)(p - 1 - start)};
                if (escaped) row[n].start |= ESCAPED;
                break;
            case FLAG:
                if (*p != 't' && *p != 'f') return 0;
                /* fall through */
            case COUNT: case JSON: case KEPT:
                if (!(p = value(p, end, 0))) return 0;
                row[n] = (span){(uint32_t)(start - body), (int32_t)(p - start)};
            }
        }
        p = blank(p);
        if (*p == '}') return p + 1;
        if (*p != ',') return 0;
        p = blank(p + 1);
    }
}

/* The spans of all values of a page, a row of them for each record, and where the buffers of the
   columns go in one piece of memory of found->size bytes. */
int32_t read_page(const char *body, int64_t length, const char *items, const column *columns,
                  int32_t count, span *spans, int64_t room, place *places, page *found) {
    const char *end = body + length, *p = blank(body);
    int32_t follows[MOST_COLUMNS + 1], escaped;
    size_t items_length = strlen(items);
    *found = (page){0, -1, -1, 0};
    if (count < 1 || count > MOST_COLUMNS || length >= INT32_MAX || *p != '{') return NOT_PLAIN;
    for (int32_t n = 0; n <= count; n++) follows[n] = n + 1 < count ? n + 1 : 0;
    follows[count] = 0;
    p = blank(p + 1);
    for (;;) {
        escaped = 0;
        if (*p != '"') return NOT_PLAIN;
        const char *name = p + 1;
        if (!(p = text(p, end, &escaped)) || escaped) return NOT_PLAIN;
        int is_items = (size_t)(p - 1 - name) == items_length && !memcmp(name, items, items_length);
        p = blank(p);
        if (*p != ':') return NOT_PLAIN;
        p = blank(p + 1);
        if (!is_items) {
            if (!(p = value(p, end, 0))) return NOT_PLAIN;
        } else {
            if (found->start >= 0 || *p != '[') return NOT_PLAIN;
            found->start = p - body;
            p = blank(p + 1);
            if (*p == ']') p++;
            else for (;;) {
                if (found->rows == room) return NO_ROOM;
                if (!(p = record(body, p, end, columns, count, spans + found->rows * count,
                                 follows))) return NOT_PLAIN;
                found->rows++;
                p = blank(p);
                if (*p == ']') { p++; break; }
                if (*p != ',') return NOT_PLAIN;
                p = blank(p + 1);
            }
            found->end = p - body;
        }
        p = blank(p);
        if (*p == '}') break;
        if (*p != ',') return NOT_PLAIN;
        p = blank(p + 1);
    }
    if (blank(p + 1) != end || found->start < 0) return NOT_PLAIN;
    for (int32_t n = 0; n < count; n++) {
        int32_t kind = columns[n].kind;
        int64_t rows = found->rows, size = 0, nulls = 0;
        for (int64_t at = 0; at < rows; at++) {
            int32_t long_ = spans[at * count + n].length;
            if (long_ < 0) nulls++;
            else size += long_;
            if (columns[n].required && long_ < 1) return NOT_PLAIN;
        }
        if (size > INT32_MAX) return NOT_PLAIN;
        if (kind == AMOUNT) size = 16 * rows;
        if (kind == INSTANT || kind == COUNT) size = 8 * rows;
        if (kind == FLAG) size = (rows + 7) / 8;
        places[n] = (place){found->size, 0, 0, size, nulls};
        found->size += ((rows + 7) / 8 + 63) / 64 * 64;
        places[n].offsets = found->size;
        if (kind == TEXT || kind == ID || kind == JSON || kind == KEPT)
            found->size += (4 * (rows + 1) + 63) / 64 * 64;
        places[n].data = found->size;
        found->size += (size + 63) / 64 * 64;
    }
    return 0;
}

/* ------------------------------------------------------------------------------ what values say */

static char *unescaped(char *to, const char *p, const char *end) {
    while (p < end) {
        if (*p != '\\') { *to++ = *p++; continue; }
        const char *plain = "\"\\/\b\f\n\r\t", *found = strchr("\"\\/bfnrt", p[1]);
        if (found) { *to++ = plain[found - "\"\\/bfnrt"]; p += 2; continue; }
        uint32_t code = (uint32_t)hex(p + 2);
        p += 6;
        if (code >= 0xD800 && code <= 0xDBFF) {
            code = 0x10000 + ((code - 0xD800) << 10) + ((uint32_t)hex(p + 2) - 0xDC00);
            p += 6;
        }
        if (code < 0x80) *to++ = (char)code;
        else if (code < 0x800) {
            *to++ = (char)(0xC0 | code >> 6);
            *to++ = (char)(0x80 | (code & 0x3F));
        } else {
            if (code < 0x10000) *to++ = (char)(0xE0 | code >> 12);
            else {
                *to++ = (char)(0xF0 | code >> 18);
                *to++ = (char)(0x80 | (code >> 12 & 0x3F));
            }
            *to++ = (char)(0x80 | (code >> 6 & 0x3F));
            *to++ = (char)(0x80 | (code & 0x3F));
        }
    }
    return to;
}

/* Digits, a point and digits, at most 20 and 18 of them, in units of 10^-18. */
static int amount(const char *p, int32_t length, unsigned __int128 *found) {
    const char *end = p + length, *whole = p, *fraction;
    unsigned __int128 units = 0;
    for (; p < end && digit(*p); p++) units = units * 10 + (unsigned)(*p - '0');
    if (p - whole > 20) return 0;
    fraction = p;
    if (p < end) {
        if (*p++ != '.') return 0;
        fraction = p;
        for (; p < end && digit(*p); p++) units = units * 10 + (unsigned)(*p - '0');
        if (p - fraction > 18) return 0;
    }
    if (p < end || (p == fraction && (p == whole || p[-1] == '.'))) return 0;
    for (int64_t digits = p - fraction; digits < 18; digits++) units *= 10;
    *found = units;
    return 1;
}

static int two(const char *p) {
    return digit(p[0]) && digit(p[1]) ? (p[0] - '0') * 10 + p[1] - '0' : -1;
}

/* YYYY-MM-DDTHH:MM:SSZ of 1678 to 2261, up to nine digits of a second; nanoseconds since 1970. */
static int instant(const char *p, int32_t length, int64_t *found) {
    static const int days_of[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (length < 20 || length > 30 || p[4] != '-' || p[7] != '-' || p[10] != 'T' || p[13] != ':'
        || p[16] != ':' || p[length - 1] != 'Z') return 0;
    int century = two(p), years = two(p + 2), month = two(p + 5), day = two(p + 8);
    int hour = two(p + 11), minute = two(p + 14), second = two(p + 17);
    if (century < 0 || years < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23
        || minute < 0 || minute > 59 || second < 0 || second > 59) return 0;
    int year = century * 100 + years;
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (year < 1678 || year > 2261 || day > days_of[month - 1] + (leap && month == 2)) return 0;
    int64_t nanoseconds = 0;
    if (length > 20) {
        int32_t digits = length - 21;
        if (p[19] != '.' || digits < 1) return 0;
        for (int32_t n = 0; n < 9; n++) {
            if (n < digits && !digit(p[20 + n])) return 0;
            nanoseconds = nanoseconds * 10 + (n < digits ? p[20 + n] - '0' : 0);
        }
    }
    /* Days since 1970, with years that begin in March. */
    int shifted = year - (month <= 2), era = shifted / 400, of_era = shifted % 400;
    int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t days = era * 146097LL + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
    *found = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000000000LL + nanoseconds;
    return 1;
}

static int count_of(const char *p, int32_t length, int64_t *found) {
    int negative = *p == '-';
    int64_t whole = 0;
    if (length > 18) return 0;
    for (int32_t n = negative; n < length; n++) {
        if (!digit(p[n])) return 0;
        whole = whole * 10 + (p[n] - '0');
    }
    *found = negative ? -whole : whole;
    return 1;
}

/* What is written from `at` to `end`, if it is a UUID. */
static void uuid_in_small_letters(char *at, const char *end) {
    static const int words[] = {0, 8, 16, 24, 28};
    uint64_t capitals = 0, eight;
    if (end - at != 36) return;
    for (int n = 0; n < 5; n++) { /* of letters, only they lack this bit */
        memcpy(&eight, at + words[n], 8);
        capitals |= eight >> 1 & ~eight & 0x2020202020202020u;
    }
    if (!capitals) return; /* nearly always */
    for (int n = 0; n < 36; n++) {
        int dash = n == 8 || n == 13 || n == 18 || n == 23;
        char small = (char)(at[n] | 0x20);
        if (dash ? at[n] != '-' : !digit(at[n]) && (small < 'a' || small > 'f')) return;
    }
    for (; at < end; at++)
        if (*at >= 'A') *at = (char)(*at | 0x20);
}

/* Fill the buffers of all columns, each where its place in memory is. */
int32_t write_columns(const char *body, const column *columns, int32_t count, const span *spans,
                      int64_t rows, const place *places, char *memory) {
    for (int32_t n = 0; n < count; n++) {
        uint8_t *valid = (uint8_t *)memory + places[n].valid;
        int32_t *offsets = (int32_t *)(void *)(memory + places[n].offsets);
        char *data = memory + places[n].data, *to = data;
        int32_t kind = columns[n].kind;
        memset(valid, 0, (size_t)((rows + 7) / 8));
        if (kind == FLAG) memset(data, 0, (size_t)((rows + 7) / 8));
        for (int64_t at = 0; at < rows; at++) {
            span one = spans[at * count + n];
            const char *p = body + (one.start & ~ESCAPED);
            int there = one.length >= 0, escaped = (one.start & ESCAPED) != 0;
            unsigned __int128 units = 0;
            int64_t whole = 0;
            valid[at / 8] |= (uint8_t)(there << at % 8);
            switch (kind) {
            case TEXT: case ID: case JSON: case KEPT:
                offsets[at] = (int32_t)(to - data);
                if (!there) break;
                if (escaped) to = unescaped(to, p, p + one.length);
                else { memcpy(to, p, (size_t)one.length); to += one.length; }
                if (kind == ID) uuid_in_small_letters(data + offsets[at], to);
                break;
            case AMOUNT:
                if (there && (escaped || !amount(p, one.length, &units))) return NOT_PLAIN;
                memcpy(data + 16 * at, &units, 16);
                break;
            case INSTANT: case COUNT:
                if (there && (escaped || !(kind == INSTANT ? instant(p, one.length, &whole)
                                                           : count_of(p, one.length, &whole))))
                    return NOT_PLAIN;
                memcpy(data + 8 * at, &whole, 8);
                break;
            case FLAG:
                data[at / 8] |= (char)((there && *p == 't') << at % 8);
            }
        }
        if (kind == TEXT || kind == ID || kind == JSON || kind == KEPT) offsets[rows] = (int32_t)(to - data);
    }
    return 0;
}
