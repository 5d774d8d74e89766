/* banned.h - included last in every .c file of src/: calls that must not be made. */
#ifndef HR_BASE_BANNED_H
#define HR_BASE_BANNED_H

#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol gets
#ifndef HR_BASE_SYS_C
#pragma GCC poison malloc calloc realloc free mmap munmap pthread_create pread fstat
#endif
#endif

#endif
