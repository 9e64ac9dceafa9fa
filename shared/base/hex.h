/* Hexadecimal digits. */
#ifndef KODA_SHARED_BASE_HEX_H
#define KODA_SHARED_BASE_HEX_H

/* Returns 0 to 15, or -1 if c is not a hexadecimal digit. */
static inline int
hex_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
