/* Which functions of the C library are wanted: included first by each file of jeprofctl. */
#pragma once
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
